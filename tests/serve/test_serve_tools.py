"""If these fail, a tool call reaches a client that its tool does not take, or an answer that was to be JSON of a schema is not."""
import json
import os

import jsonschema
import pytest

from glimtest import DATA
from servetest import joined, smollm2, user

CHAT = "/v1/chat/completions"
PERSON = {"type": "object", "properties": {"name": {"type": "string", "minLength": 1, "maxLength": 16}, "age": {"type": "integer", "minimum": 0, "maximum": 120},
                                           "tags": {"type": "array", "items": {"enum": ["a", "b"]}, "maxItems": 2}},
          "required": ["name", "age", "tags"], "additionalProperties": False}
WEATHER = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"], "additionalProperties": False}}}
CLOCK = {"type": "function", "function": {"name": "get_time", "parameters": {
    "type": "object", "properties": {"zone": {"enum": ["UTC", "CET"]}}, "required": ["zone"], "additionalProperties": False}}}
PARAMETERS = {t["function"]["name"]: t["function"]["parameters"] for t in (WEATHER, CLOCK)}
ASK = {"messages": user("What is the weather in Paris, and the time?"), "tools": [WEATHER, CLOCK], "max_tokens": 200}


@pytest.fixture(scope="module", params=["Qwen-Qwen3-0.6B", "GLM-4.6", "Qwen3-Coder"])
def tool_server(request):
    s = smollm2("chat-template", os.path.join(DATA, "templates", request.param + ".jinja"))
    s.template = request.param
    yield s
    s.end()


def check_calls(calls):
    ids = set()
    for call in calls:
        assert call["type"] == "function"
        jsonschema.validate(json.loads(call["function"]["arguments"]), PARAMETERS[call["function"]["name"]])
        ids.add(call["id"])
    assert len(ids) == len(calls)


def from_events(events):
    """The calls that a client puts together from a stream."""
    calls = []
    for e in events:
        for c in e["choices"]:
            for d in c["delta"].get("tool_calls", []):
                if d["index"] == len(calls):
                    calls.append({"id": d["id"], "type": d["type"], "function": {"name": d["function"]["name"], "arguments": ""}})
                else:
                    assert d["index"] == len(calls) - 1 and "id" not in d
                calls[-1]["function"]["arguments"] += d["function"].get("arguments", "")
    return calls


def bare(calls):
    return [c["function"] for c in calls]


@pytest.mark.parametrize("seed", range(6))
def test_required_calls_are_calls_of_the_tools(tool_server, seed):
    body = {**ASK, "tool_choice": "required", "temperature": 1, "seed": seed}
    whole = tool_server.ok(CHAT, body)["choices"][0]
    events = tool_server.stream(CHAT, body)
    assert bare(from_events(events)) == bare(whole["message"].get("tool_calls", []))
    assert joined(events) == (whole["message"]["content"] or "")
    if whole["finish_reason"] == "tool_calls":
        check_calls(whole["message"]["tool_calls"])
        assert whole["message"]["content"] is None
    else:
        assert whole["finish_reason"] == "length"


def test_named_and_single_calls(tool_server):
    done = 0
    for seed in range(5):
        named = {**ASK, "tool_choice": {"type": "function", "function": {"name": "get_time"}}, "parallel_tool_calls": False, "seed": seed}
        choice = tool_server.ok(CHAT, named)["choices"][0]
        if choice["finish_reason"] != "length":
            calls = choice["message"]["tool_calls"]
            assert [c["function"]["name"] for c in calls] == ["get_time"]
            check_calls(calls)
            done += 1
    assert done


def test_auto_calls_are_calls_of_the_tools(tool_server):
    seen = 0
    for seed in range(8):
        body = {**ASK, "messages": user("What is the weather in Paris? Use the tool: answer with <tool_call>"), "seed": seed, "temperature": 0.7, "max_tokens": 200}
        whole = tool_server.ok(CHAT, body)["choices"][0]
        events = tool_server.stream(CHAT, body)
        assert joined(events) == (whole["message"]["content"] or "")
        assert joined(events, member="reasoning_content") == whole["message"].get("reasoning_content", "")
        calls = whole["message"].get("tool_calls", [])
        assert bare(from_events(events)) == bare(calls)
        if whole["finish_reason"] == "tool_calls":
            check_calls(calls)
        seen += bool(calls)
    assert seen or tool_server.template != "GLM-4.6"


def test_none_means_no_tools(tool_server):
    none = tool_server.ok(CHAT, {**ASK, "tool_choice": "none", "max_tokens": 20, "temperature": 0})
    without = tool_server.ok(CHAT, {"messages": ASK["messages"], "max_tokens": 20, "temperature": 0})
    assert none["choices"] == without["choices"]
    assert none["usage"]["prompt_tokens"] == without["usage"]["prompt_tokens"] < tool_server.ok(CHAT, {**ASK, "max_tokens": 1})["usage"]["prompt_tokens"]


def test_a_conversation_with_calls(tool_server):
    messages = [*ASK["messages"], {"role": "assistant", "content": None, "tool_calls": [
        {"id": "call_1", "type": "function", "function": {"name": "get_time", "arguments": '{"zone":"UTC"}'}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "12:00"}]
    assert tool_server.ok(CHAT, {**ASK, "messages": messages, "max_tokens": 8})["usage"]["prompt_tokens"] > 20
    messages[1]["tool_calls"][0]["function"]["arguments"] = "{zone"
    tool_server.refused(CHAT, {**ASK, "messages": messages}, param="messages")


def test_tools_that_cannot_be(tool_server):
    tool_server.refused(CHAT, {**ASK, "tool_choice": {"type": "function", "function": {"name": "other"}}}, param="tool_choice")
    tool_server.refused(CHAT, {"messages": ASK["messages"], "tool_choice": "required"}, param="tool_choice")
    tool_server.refused(CHAT, {**ASK, "response_format": {"type": "json_object"}}, param="response_format")
    bad = {"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {"a": {"not": {"contains": {}}}}}}}
    tool_server.refused(CHAT, {**ASK, "tools": [bad]}, param="tools")
    tool_server.refused(CHAT, {**ASK, "tools": [{"type": "custom", "custom": {"name": "x"}}]}, param="tools[0].type")


def test_models_without_tools_refuse_them(server):
    server.refused(CHAT, ASK, param="messages")


# ---- structured output ----


@pytest.mark.parametrize("n", range(4))
def test_schemas_are_kept_to(server, n):
    for seed in range(n * 5, n * 5 + 5):
        body = {"messages": user("Invent a person, as JSON."), "temperature": 1.2, "seed": seed, "max_tokens": 400,
                "response_format": {"type": "json_schema", "json_schema": {"name": "person", "strict": True, "schema": PERSON}}}
        whole = server.ok(CHAT, body)["choices"][0]
        assert whole["finish_reason"] == "stop"
        jsonschema.validate(json.loads(whole["message"]["content"]), PERSON)
        if seed % 5 == 0:
            assert joined(server.stream(CHAT, body)) == whole["message"]["content"]


def test_json_objects(server):
    for seed in range(4):
        r = server.ok(CHAT, {"messages": user("Write JSON."), "seed": seed, "response_format": {"type": "json_object"}, "max_tokens": 300})["choices"][0]
        if r["finish_reason"] == "stop":
            assert isinstance(json.loads(r["message"]["content"]), dict)


def test_schemas_that_cannot_be(server):
    body = {"messages": user("x")}
    bad = {"type": "json_schema", "json_schema": {"name": "n", "schema": {"type": "object", "unevaluatedProperties": 5}}}
    server.refused(CHAT, {**body, "response_format": bad}, param="response_format")
    server.refused(CHAT, {**body, "response_format": {"type": "json_schema"}}, param="response_format.json_schema")
    server.refused(CHAT, {**body, "response_format": {"type": "yaml"}}, param="response_format.type")


def test_text_format_is_no_rule(server):
    body = {"messages": user("Say hi."), "temperature": 0, "max_tokens": 8}
    assert server.ok(CHAT, body)["choices"] == server.ok(CHAT, {**body, "response_format": {"type": "text"}, "n": 1})["choices"]


def test_other_rules(server):
    r = server.ok(CHAT, {"messages": user("Yes or no?"), "grammar": 'root ::= "yes" | "no"'})
    assert r["choices"][0]["message"]["content"] in ("yes", "no")
    r = server.ok(CHAT, {"messages": user("A number?"), "json_schema": {"type": "integer", "minimum": 3, "maximum": 5}})
    assert r["choices"][0]["message"]["content"] in ("3", "4", "5")
