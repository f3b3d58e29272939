"""If these fail, a real model does not keep to a schema it was given, or a real conversation is read again at each turn."""
import json
import os
import re
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from glimtest import DATA, GLIM, glim, real_model  # noqa: E402

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 24},
        "age": {"type": "integer", "minimum": 0, "maximum": 120},
        "email": {"type": "string", "format": "email", "maxLength": 40},
        "tags": {"type": "array", "items": {"enum": ["friend", "family", "work"]}, "maxItems": 3},
        "address": {"anyOf": [{"type": "null"}, {"type": "object", "properties": {"city": {"type": "string", "maxLength": 20}},
                                                 "required": ["city"], "additionalProperties": False}]},
    },
    "required": ["name", "age", "tags"],
    "additionalProperties": False,
}


def test_json_is_valid_in_a_hundred_of_a_hundred_runs(tmp_path):
    jsonschema = pytest.importorskip("jsonschema")
    model, path = real_model("smollm2-135m"), tmp_path / "person.json"
    path.write_text(json.dumps(PERSON))
    texts = set()
    for seed in range(100):
        r = json.loads(glim("run", "-m", model, "--chat", "Invent a person, as JSON.", "--json-schema", path, "--temp", "1.2",
                            "--seed", seed, "-n", "400", "--json").stdout)
        assert r["finish_reason"] == "end"
        jsonschema.validate(json.loads(r["message"]["content"]), PERSON)
        texts.add(r["message"]["content"])
    assert len(texts) > 50  # seeds matter


def test_ten_turns_read_only_what_is_new():
    lines = ["My name is Ada.", "I like horses.", "What is my name?", "Tell me about the sea.", "Shorter, please.", "And the sky?",
             "Why?", "What did I say that I like?", "Count to five.", "Goodbye!"]
    r = subprocess.run([GLIM, "chat", "-m", real_model("smollm2-135m"), "-v", "-n", "60"], input="\n".join(lines) + "\n",
                       capture_output=True, text=True)
    assert r.returncode == 0, r.stderr
    turns = [tuple(map(int, m)) for m in re.findall(r"\[read (\d+) of (\d+) tokens at \S+ tok/s, wrote (\d+) at", r.stderr)]
    assert len(turns) == 10
    for (_, before, wrote), (read, prompt, _) in zip(turns, turns[1:]):
        assert read == prompt - (before + wrote - 1)
    assert sum(t[0] for t in turns) < turns[-1][1]


TOOLS = [{"type": "function", "function": {
    "name": "get_weather", "description": "The weather of a city",
    "parameters": {"type": "object", "properties": {"city": {"type": "string", "maxLength": 30}, "unit": {"enum": ["celsius", "fahrenheit"]},
                                                    "days": {"type": "integer", "minimum": 1, "maximum": 9}},
                   "required": ["city", "unit"], "additionalProperties": False}}}]


def test_a_call_that_begins_is_a_call_of_a_tool(tmp_path):
    """A model far too small for tools begins calls now and then; each that begins is one that the tool takes."""
    jsonschema = pytest.importorskip("jsonschema")
    model, tools = real_model("smollm2-135m"), tmp_path / "tools.json"
    tools.write_text(json.dumps(TOOLS))
    n_call = 0
    for seed in range(20):
        r = glim("run", "-m", model, "--chat", "What is the weather in Paris? Use the tool: answer with <tool_call>", "--chat-template",
                 os.path.join(DATA, "templates", "GLM-4.6.jinja"), "--tools", tools, "-n", "200", "--temp", "0.7", "--seed", seed, "--json")
        answer = json.loads(r.stdout)
        for call in answer["message"].get("tool_calls", []):
            assert call["function"]["name"] == "get_weather"
            jsonschema.validate(call["function"]["arguments"], TOOLS[0]["function"]["parameters"])
            n_call += 1
        assert "cannot be read" not in r.stderr or answer["finish_reason"] == "length", r.stderr
    assert n_call >= 5
