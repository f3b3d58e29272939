#!/usr/bin/env python3
"""Write more_shapes.json: what Jinja2 makes of the templates here with conversations that expected.json does not have.

    pip install jinja2==3.1.6 && python3.11 gen_shapes.py > more_shapes.json

`expected[file][shape]` is {"text": ...} or {} where rendering fails. The environment is that of gen_snippets.py.
"""
import copy
import datetime
import json
import sys
from pathlib import Path

import gen_snippets

HERE = Path(__file__).parent
TOKENS = {"bos_token": "<s>", "eos_token": "</s>", "pad_token": "<pad>", "unk_token": "<unk>"}


def text_of(role, content, **more):
    return {"role": role, "content": content, **more}


def call(i, name, arguments):
    return {"id": i, "type": "function", "function": {"name": name, "arguments": arguments}}


def function(name, description, parameters, **more):
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters, **more}}


def part(text):
    return {"type": "text", "text": text}


def user(t):
    return text_of("user", t)


def said(t, **more):
    return text_of("assistant", t, **more)


WEATHER = function("get_weather", "Weather of a city", {"type": "object", "properties": {
    "city": {"type": "string", "description": "City name, e.g. Zürich"}, "unit": {"type": "string", "enum": ["celsius", "fahrenheit"]}}, "required": ["city"]})
COMPLEX = function("q", 'Multi\nline "desc"', {"type": "object", "properties": {
    "l": {"type": "array", "items": {"type": "object", "properties": {"x": {"type": ["string", "null"], "default": None}, "y": {"type": "integer", "minimum": 0}}},
          "description": "list"},
    "e": {"enum": ["a", 1, None, True]}, "n": {"anyOf": [{"type": "number"}, {"type": "string"}]}, "o": {"type": "object", "additionalProperties": False},
    "r": {"$ref": "#/$defs/k"}}, "required": ["l"], "$defs": {"k": {"type": "boolean"}}, "additionalProperties": False}, strict=True,
    **{"return": {"type": "string", "description": "r"}})
NOARGS = function("noargs", "", {"type": "object", "properties": {}})
ARGS = {"city": "a", "n": 1, "f": 1.5, "t": True, "z": None, "l": [1, "x"], "d": {"k": "v"}}
SHAPES = {
    "str_args": {"messages": [user("w?"), said(None, tool_calls=[call("c1", "get_weather", '{"city": "Zürich", "unit": "celsius"}')]),
                              text_of("tool", "7", tool_call_id="c1")], "tools": [WEATHER], "add_generation_prompt": True},
    "none_content_call": {"messages": [user("w?"), said(None, tool_calls=[call("abcdef012", "get_weather", ARGS)]),
                                       text_of("tool", [part("res")], tool_call_id="abcdef012", name="get_weather"), said("done")],
                          "tools": [WEATHER, COMPLEX, NOARGS], "add_generation_prompt": False},
    "complex_tools": {"messages": [text_of("system", "Sys"), user("hi")], "tools": [COMPLEX, NOARGS, WEATHER], "add_generation_prompt": True},
    "thinking_on": {"messages": [text_of("system", "Sys"), user("hi"), said("<think>\nhmm\n</think>\n\nanswer"), user("next")], "add_generation_prompt": True,
                    "enable_thinking": True, "thinking": True, "reasoning_effort": "high"},
    "thinking_low": {"messages": [user("hi"), said("answer", reasoning_content="r1"), user("next"),
                                  said("", reasoning_content="r2", tool_calls=[call("aaaaaaaa1", "get_weather", {"city": "q"})]),
                                  text_of("tool", "r", tool_call_id="aaaaaaaa1")], "tools": [WEATHER], "add_generation_prompt": True, "thinking": False,
                     "reasoning_effort": "low"},
    "developer": {"messages": [text_of("developer", "Dev"), user("hi")], "add_generation_prompt": True},
    "sys_parts": {"messages": [text_of("system", [part("A"), part("B")]), user([{"type": "image"}, part("what?")]), said([part("ans")]), user("k")],
                  "add_generation_prompt": True},
    "unknown_role": {"messages": [text_of("narrator", "x"), user("hi")], "add_generation_prompt": True},
    "two_users": {"messages": [user("a"), user("b"), said("c"), said("d"), text_of("system", "late")], "add_generation_prompt": True},
    "empty_list": {"messages": [], "add_generation_prompt": True},
    "no_content": {"messages": [{"role": "user"}, {"role": "assistant"}], "add_generation_prompt": True},
    "docs": {"messages": [user("hi")], "documents": [{"title": "T1", "text": "text one"}, {"title": "T2", "text": "b", "contents": "c"}],
             "add_generation_prompt": True},
    "continue": {"messages": [user("hi"), said("partial")], "add_generation_prompt": False, "continue_final_message": True},
    "thinking_field": {"messages": [user("hi"), said("c", thinking="t1", reasoning="t2"), user("more")], "add_generation_prompt": True,
                       "enable_thinking": False, "reasoning_effort": "none"},
    "builtin": {"messages": [text_of("system", ""), user("x  "), said(" y\n"), user("\n")], "tools": [], "add_generation_prompt": True,
                "builtin_tools": ["brave_search"], "custom_tools": None, "date_string": "01 Jan 2025", "tools_in_user_message": False,
                "model_identity": "I am", "xml_tools": None},
}


def main():
    env = gen_snippets.environment()
    env.globals["strftime_now"] = datetime.datetime(2026, 11, 29, 12, 34, 56).strftime
    expected = {}
    for f in sorted(HERE.glob("*.jinja")):
        expected[f.name] = {}
        for name, shape in SHAPES.items():
            x = {"tools": None, "documents": None, **copy.deepcopy(shape), **TOKENS}
            try:
                expected[f.name][name] = {"text": env.from_string(f.read_bytes().decode()).render(**x)}
            except Exception:
                expected[f.name][name] = {}
    json.dump({"tokens": TOKENS, "shapes": SHAPES, "expected": expected}, sys.stdout, ensure_ascii=False, separators=(",", ":"))


if __name__ == "__main__":
    main()
