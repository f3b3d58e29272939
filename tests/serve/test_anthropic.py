"""If these fail, programs written for Anthropic's API do not work with glim, or read another answer than the model gave."""
import json
import os
import sys
import time

import jsonschema
import pytest

from glimtest import DATA, ROOT
from servetest import named_events, send, smollm2, user, wait_running

sys.path.insert(0, os.path.join(ROOT, "build", "python"))

MESSAGES, COUNT, MODEL = "/v1/messages", "/v1/messages/count_tokens", "smollm2-135m"
WEATHER = {"name": "get_weather", "description": "The weather of a city", "input_schema": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"], "additionalProperties": False}}
CLOCK = {"name": "get_time", "input_schema": {"type": "object", "properties": {"zone": {"enum": ["UTC", "CET"]}}, "required": ["zone"],
                                              "additionalProperties": False}}
SCHEMAS = {t["name"]: t["input_schema"] for t in (WEATHER, CLOCK)}
ASK = {"messages": user("What is the weather in Paris, and the time?"), "tools": [WEATHER, CLOCK], "max_tokens": 200}


def turn(question, thought, answer):
    return [{"role": "user", "content": question}, {"role": "assistant", "content": f"<think>\n{thought}\n</think>\n\n{answer}"}]


# SmolLM2 does not think by itself, but it goes on with a pattern.
THINK = {"messages": [*turn("Colour of grass?", "Grass is green.", "Green."), *turn("Colour of snow?", "Snow is white.", "White."),
                      *turn("Colour of coal?", "Coal is black.", "Black."), *user("Colour of the sky?")], "max_tokens": 60, "temperature": 0}


@pytest.fixture(scope="module", params=["Qwen-Qwen3-0.6B", "GLM-4.6"])
def tool_server(request):
    s = smollm2("chat-template", os.path.join(DATA, "templates", request.param + ".jinja"))
    yield s
    s.end()


@pytest.fixture(scope="module")
def qwen():
    s = smollm2("chat-template", os.path.join(DATA, "templates", "Qwen-Qwen3-0.6B.jinja"))
    yield s
    s.end()


@pytest.fixture(scope="module")
def thinker():
    s = smollm2("dialect", "hermes", "ctx", "320")
    yield s
    s.end()


def put_together(events):
    """The message that a client makes of a stream whose order is the documented one; inputs of tools stay text."""
    names = [n for n, _ in events]
    assert names[:2] == ["message_start", "ping"] and names[-2:] == ["message_delta", "message_stop"]
    message, text, open_block = events[0][1]["message"], None, False
    assert message["content"] == [] and message["stop_reason"] is None and message["usage"]["output_tokens"] == 0
    for name, e in events[2:-2]:
        if name == "content_block_start":
            assert not open_block and e["index"] == len(message["content"])
            message["content"].append(dict(e["content_block"]))
            open_block, text = True, ""
        elif name == "content_block_delta":
            block, delta = message["content"][-1], e["delta"]
            assert open_block and e["index"] == len(message["content"]) - 1
            member = {"text_delta": "text", "thinking_delta": "thinking", "signature_delta": "signature", "input_json_delta": "partial_json"}[delta["type"]]
            assert {"text": "text", "thinking": "thinking", "signature": "thinking", "partial_json": "tool_use"}[member] == block["type"]
            if member == "partial_json":
                text += delta[member]
            else:
                block[member] += delta[member]
        elif name == "content_block_stop":
            assert open_block and e["index"] == len(message["content"]) - 1
            open_block = False
            if message["content"][-1]["type"] == "tool_use":
                message["content"][-1]["input"] = text
        else:
            assert name == "ping"
    assert not open_block
    message.update(events[-2][1]["delta"], usage=events[-2][1]["usage"])
    return message


def streamed(server, body):
    return put_together(named_events(server, MESSAGES, body))


def same(whole, stream):
    """Equal but for ids, and where a prompt's tokens came from. A call that was cut is in the stream alone."""
    calls = [b for b in stream["content"] if b["type"] == "tool_use"]
    for b in calls[:-1]:
        b["input"] = json.loads(b["input"])
    if calls:
        try:
            calls[-1]["input"] = json.loads(calls[-1]["input"])
        except ValueError:
            assert stream["stop_reason"] in ("max_tokens", "model_context_window_exceeded") and stream["content"][-1] is calls[-1]
            stream["content"].pop()
    for m in (whole, stream):
        m.pop("id")
        for b in m["content"]:
            b.pop("id", None)
        u = m["usage"]
        u["input_tokens"] += u.pop("cache_read_input_tokens")
    assert whole == stream


def text_of(message):
    return "".join(b["text"] for b in message["content"] if b["type"] == "text")


# ---- text ----


@pytest.mark.parametrize("seed", range(4))
def test_a_stream_says_the_same(server, seed):
    body = {"messages": user("Tell me of the sea."), "max_tokens": 40, "seed": seed, "top_k": 40, "top_p": 0.95, "temperature": 0.9}
    whole = server.ok(MESSAGES, body)
    assert len(whole["content"]) == 1 and whole["content"][0]["type"] == "text"
    assert whole["usage"]["output_tokens"] == 40 and whole["stop_reason"] == "max_tokens"
    same(whole, streamed(server, body))


def test_it_is_the_answer_of_the_chat_api(server):
    chat = server.ok("/v1/chat/completions", {"messages": user("What is the capital of France?"), "max_tokens": 20, "temperature": 0})
    message = server.ok(MESSAGES, {"messages": user("What is the capital of France?"), "max_tokens": 20, "temperature": 0})
    assert text_of(message) == chat["choices"][0]["message"]["content"]
    assert message["stop_reason"] == "end_turn" and message["stop_sequence"] is None
    assert message["model"] == MODEL and message["role"] == "assistant"


def test_usage(server):
    body = {"messages": user("Count the words of this sentence, and then the letters, please."), "max_tokens": 4, "temperature": 0}
    n = server.ok(COUNT, {"messages": body["messages"]})["input_tokens"]
    for cache in (False, True, True):
        u = server.ok(MESSAGES, {**body, "cache_prompt": cache})["usage"]
        assert u["input_tokens"] + u["cache_read_input_tokens"] == n
    assert u["cache_read_input_tokens"] > 16
    assert u["output_tokens_details"] == {"thinking_tokens": 0}
    events = named_events(server, MESSAGES, body)
    assert events[0][1]["message"]["usage"]["input_tokens"] == n


def test_stop_sequences(server):
    body = {"messages": user("Count to ten."), "max_tokens": 60, "temperature": 0}
    text = text_of(server.ok(MESSAGES, body))
    word = text.split()[4]
    for more in ({"stop_sequences": ["@@@", word]}, {"stop": ["@@@", word]}, {"stop": word}):
        whole = server.ok(MESSAGES, {**body, **more})
        assert (whole["stop_reason"], whole["stop_sequence"]) == ("stop_sequence", word)
        assert text_of(whole) == text[:text.index(word)]
        same(whole, streamed(server, {**body, **more}))
    server.refused(MESSAGES, {**body, "stop_sequences": ["a"], "stop": "b"})
    server.refused(MESSAGES, {**body, "stop_sequences": [""]})


def test_the_context_can_be_full(thinker):
    message = thinker.ok(MESSAGES, {"messages": user("Tell me a very long story."), "max_tokens": 5000, "ignore_eos": True, "temperature": 0})
    assert message["stop_reason"] == "model_context_window_exceeded"
    assert message["usage"]["input_tokens"] + message["usage"]["output_tokens"] == 320


def test_conversations(server):
    def n(**body):
        return server.ok(COUNT, body)["input_tokens"]
    plain = n(messages=user("Hello there"))
    assert n(messages=[{"role": "user", "content": [{"type": "text", "text": "Hello"}, {"type": "text", "text": " there"}]}]) == plain
    text = n(messages=user("Hi"), system="Be brief. Be kind.")
    blocks = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}, {"type": "text", "text": " Be kind."}]
    assert n(messages=user("Hi"), system=blocks) == text != n(messages=user("Hi"))
    assert n(messages=user("Hi"), system="") == n(messages=user("Hi"), system=[]) == n(messages=user("Hi"))
    merged = [*user("One"), *user("Two"), {"role": "assistant", "content": "Three"}, *user("Four")]
    split = [*user("One\n\nTwo"), {"role": "assistant", "content": [{"type": "text", "text": "Three"}]}, *user("Four")]
    ask = {"max_tokens": 20, "temperature": 0}
    assert n(messages=merged) == n(messages=split)
    assert text_of(server.ok(MESSAGES, {**ask, "messages": merged})) == text_of(server.ok(MESSAGES, {**ask, "messages": split}))


# ---- thinking ----


def test_thinking(thinker):
    whole = thinker.ok(MESSAGES, THINK)
    assert [b["type"] for b in whole["content"]] == ["thinking", "text"]
    assert "<think>" not in json.dumps(whole) and whole["content"][0]["thinking"] and whole["content"][1]["text"]
    assert whole["content"][0]["signature"].startswith("fp_")
    assert 0 < whole["usage"]["output_tokens_details"]["thinking_tokens"] < whole["usage"]["output_tokens"]
    same(whole, streamed(thinker, THINK))
    cut = {**THINK, "max_tokens": 8}
    whole = thinker.ok(MESSAGES, cut)
    assert [b["type"] for b in whole["content"]] == ["thinking"]
    assert whole["usage"]["output_tokens_details"]["thinking_tokens"] == whole["usage"]["output_tokens"] == 8
    same(whole, streamed(thinker, cut))


def test_thinking_can_be_switched_where_the_template_can(server, qwen):
    def n(s, thinking):
        return s.ok(COUNT, {"messages": user("Hi"), "thinking": thinking})["input_tokens"]
    on = {"type": "enabled", "budget_tokens": 1024}
    assert n(qwen, on) == n(qwen, {"type": "adaptive"}) < n(qwen, {"type": "disabled"})
    assert n(server, {"type": "disabled"}) == n(server, {"type": "adaptive"}) == server.ok(COUNT, {"messages": user("Hi")})["input_tokens"]
    assert "reasoning" in server.refused(COUNT, {"messages": user("Hi"), "thinking": on})["message"]
    error = qwen.refused(MESSAGES, {"messages": user("Hi"), "thinking": on, "max_tokens": 1024})
    assert "thinking.budget_tokens: have 1024, need less than max_tokens, 1024" == error["message"]
    qwen.ok(MESSAGES, {"messages": user("Hi"), "thinking": on, "max_tokens": 1025, "stop_sequences": ["e"], "temperature": 0})


def test_thinking_goes_back_to_the_model(qwen):
    """Qwen3's template keeps what was thought since the last question."""
    call = {"type": "tool_use", "id": "c1", "name": "get_weather", "input": {"city": "Rome", "days": 1}}
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "Sunny"}]}
    thought = {"type": "thinking", "thinking": "I have to look that up, I think.", "signature": "x"}

    def n(*blocks):
        return qwen.ok(COUNT, {"messages": [*user("Weather?"), {"role": "assistant", "content": list(blocks)}, result], "tools": [WEATHER]})["input_tokens"]
    assert n(thought, call) > n(call) + 5
    assert n({**thought, "thinking": "I have to "}, {**thought, "thinking": "look that up, I think."}, call) == n(thought, call)


# ---- tools ----


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("choice", [{"type": "any"}, {"type": "tool", "name": "get_time"}, {"type": "any", "disable_parallel_tool_use": True}, {"type": "auto"}])
def test_calls_are_calls_of_the_tools(tool_server, choice, seed):
    body = {**ASK, "tool_choice": choice, "seed": seed}
    whole = tool_server.ok(MESSAGES, body)
    calls = [b for b in whole["content"] if b["type"] == "tool_use"]
    for b in calls:
        jsonschema.validate(b["input"], SCHEMAS[b["name"]])
    if whole["stop_reason"] == "end_turn":
        assert choice["type"] == "auto" and not calls
    if whole["stop_reason"] == "tool_use":
        assert calls and len({b["id"] for b in calls}) == len(calls)
    if choice["type"] == "tool":
        assert all(b["name"] == "get_time" for b in calls)
    if "disable_parallel_tool_use" in choice:
        assert whole["stop_reason"] == "tool_use" and len(calls) == 1
    same(whole, streamed(tool_server, body))


def test_results_go_back(tool_server):
    call = {"type": "tool_use", "id": "c1", "name": "get_weather", "input": {"city": "Rome", "days": 1}}

    def talk(result, *more):
        return {"messages": [*user("Weather?"), {"role": "assistant", "content": [{"type": "text", "text": "Let me look."}, call]},
                             {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", **result}, *more]}], "tools": [WEATHER]}

    def n(result, *more):
        return tool_server.ok(COUNT, talk(result, *more))["input_tokens"]
    sunny = n({"content": "Sunny, and warm"})
    assert n({"content": [{"type": "text", "text": "Sunny,"}, {"type": "text", "text": " and warm"}]}) == sunny
    assert n({}) < sunny < n({"content": "Sunny, and warm", "is_error": True}) < sunny + 5
    assert n({"content": "Sunny, and warm"}, {"type": "text", "text": "So?"}) > sunny
    assert tool_server.ok(MESSAGES, {**talk({"content": "Sunny"}), "max_tokens": 5})["usage"]["output_tokens"] == 5
    wrong = talk({"content": "x"})
    wrong["messages"][2]["content"][0]["tool_use_id"] = "c2"
    assert tool_server.refused(COUNT, wrong)["message"].startswith("messages[2].content[0].tool_use_id: have 'c2'")


def test_no_tools(tool_server):
    a = tool_server.ok(COUNT, {"messages": user("Hi"), "tools": [WEATHER], "tool_choice": {"type": "none"}})
    assert a == tool_server.ok(COUNT, {"messages": user("Hi")})
    tool_server.refused(MESSAGES, {**ASK, "tools": [], "tool_choice": {"type": "any"}})
    tool_server.refused(MESSAGES, {**ASK, "tool_choice": {"type": "tool", "name": "other"}})


def test_answers_of_a_schema(server):
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
              "required": ["name", "age"], "additionalProperties": False}
    body = {"messages": user("Invent a pet."), "max_tokens": 200, "output_config": {"format": {"type": "json_schema", "schema": schema}}}
    for seed in range(3):
        whole = server.ok(MESSAGES, {**body, "seed": seed})
        jsonschema.validate(json.loads(text_of(whole)), schema)
        same(whole, streamed(server, {**body, "seed": seed}))
    body["output_config"]["format"]["schema"] = {"type": "strong"}
    assert server.refused(MESSAGES, body)["type"] == "invalid_request_error"


# ---- what cannot be ----


def test_errors_look_like_anthropics(server):
    r = server.post(MESSAGES, {"messages": user("x"), "max_tokens": 1, "model": "claude-9"})
    assert r.status == 404 and r.json["type"] == "error" and r.json["error"]["type"] == "not_found_error"
    r = server.post(MESSAGES, {"messages": user("x"), "max_tokens": 1, "surprise": {"a": 1}})
    assert r.json["error"] == {"type": "invalid_request_error", "message": "surprise: have an unknown member, need none"}
    assert server.post(MESSAGES, b'{"messages": [').json["type"] == "error"
    assert server.post(MESSAGES, {"messages": user("x")}).json["error"]["message"].startswith("max_tokens: have no such member")
    assert server.get(MESSAGES).status == 405
    r = server.post(MESSAGES + "/batches", {})
    assert r.status == 501 and r.json["type"] == "error"
    assert server.get(MESSAGES + "/batches/x/results").status == 501
    long = server.post(MESSAGES, {"messages": user("word " * 5000), "max_tokens": 1})
    assert long.status == 400 and "tokens, need fewer than the context's 4096" in long.json["error"]["message"]


@pytest.mark.parametrize("more, at, why", [
    ({"messages": [{"role": "user", "content": [{"type": "image", "source": {}}]}]}, "messages[0].content[0].type", "images"),
    ({"messages": [{"role": "user", "content": [{"type": "document", "source": {}}]}]}, "messages[0].content[0].type", "files"),
    ({"messages": [{"role": "system", "content": "x"}]}, "messages[0].role", "system"),
    ({"messages": [{"role": "user", "content": []}]}, "messages[0].content", "at least 1"),
    ({"messages": []}, "messages", "at least 1"),
    ({"messages": [*user("x"), {"role": "assistant", "content": "And so"}]}, "messages[1]", "need a user's"),
    ({"messages": [{"role": "assistant", "content": [{"type": "redacted_thinking", "data": "x"}]}]}, "messages[0].content[0].type", "key"),
    ({"tools": [{"type": "web_search_20250305", "name": "web_search"}]}, "tools[0].type", "web"),
    ({"tools": [{"type": "bash_20250124", "name": "bash"}]}, "tools[0].type", "runs no tools"),
    ({"tools": [{"type": "bash_20990101", "name": "bash"}]}, "tools[0].type", "custom"),
    ({"tools": [{**WEATHER, "defer_loading": True}]}, "tools[0].defer_loading", "need none"),
    ({"tools": [WEATHER]}, "chat", "tools"),
    ({"thinking": {"type": "sometimes"}}, "thinking.type", "adaptive"),
    ({"mcp_servers": []}, "mcp_servers", "need none"),
    ({"container": "c"}, "container", "code"),
    ({"max_tokens": 0}, "max_tokens", "from 1"),
    ({"temperature": 2.5}, "temperature", "0 to 2"),
])
def test_what_cannot_be_is_refused_by_name(server, more, at, why):
    message = server.refused(MESSAGES, {"messages": user("x"), "max_tokens": 1, **more})["message"]
    assert message.startswith(at + ":") and why in message


def test_headers_are_taken(server):
    r = server.post(MESSAGES, {"messages": user("x"), "max_tokens": 1, "metadata": {"user_id": "u"}, "service_tier": "auto"},
                    headers={"x-api-key": "k", "anthropic-version": "2023-06-01", "anthropic-beta": "a,b"})
    assert r.status == 200 and r.headers["x-request-id"].startswith("req_")


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_stops_its_answer(server, stream):
    s = send(server, MESSAGES, {"messages": user("Write a long story."), "max_tokens": 3500, "ignore_eos": True, "stream": stream})
    wait_running(server, 1)
    s.close()
    server.wait_idle(1)


def test_pings_while_waiting():
    s = smollm2("n-seq", "1")
    try:
        busy = send(s, MESSAGES, {"messages": user("Write a long story."), "max_tokens": 4000, "ignore_eos": True})
        wait_running(s, 1)
        waiting = send(s, MESSAGES, {"messages": user("Hi"), "max_tokens": 4, "stream": True})
        time.sleep(11)
        waiting.settimeout(5)
        text = waiting.recv(65536).decode()
        assert text.count('{"type":"ping"}') == 2 and "content_block_start" not in text
        busy.close()
        while "message_stop" not in text:
            text += waiting.recv(65536).decode()
    finally:
        s.end()


# ---- Anthropic's own client ----


@pytest.fixture(scope="module")
def anthropic():
    return pytest.importorskip("anthropic", reason="tests/run.py --only py/serve/test_anthropic installs it")


def client_of(anthropic, s):
    return anthropic.Anthropic(base_url=f"http://127.0.0.1:{s.port}", api_key="none", max_retries=0)


def test_sdk_messages(anthropic, server):
    client = client_of(anthropic, server)
    ask = dict(model=MODEL, max_tokens=30, messages=user("Tell me of the sea."), system="Be brief.", extra_body={"temperature": 0})
    whole = client.messages.create(**ask)
    with client.messages.stream(**ask) as stream:
        text = "".join(stream.text_stream)
        final = stream.get_final_message()
    assert text == whole.content[0].text == final.content[0].text
    assert (final.stop_reason, final.usage.output_tokens) == (whole.stop_reason, whole.usage.output_tokens)
    assert [e.type for e in client.messages.create(**ask, stream=True)][-2:] == ["message_delta", "message_stop"]
    n = client.messages.count_tokens(model=MODEL, messages=user("Tell me of the sea."), system="Be brief.").input_tokens
    assert n == whole.usage.input_tokens + whole.usage.cache_read_input_tokens


def test_sdk_thinking(anthropic, thinker):
    client = client_of(anthropic, thinker)
    with client.messages.stream(model=MODEL, max_tokens=60, messages=THINK["messages"], extra_body={"temperature": 0}) as stream:
        thought = "".join(e.thinking for e in stream if e.type == "thinking")
        final = stream.get_final_message()
    assert [b.type for b in final.content] == ["thinking", "text"]
    assert thought == final.content[0].thinking and final.content[0].signature


def test_sdk_tools(anthropic, qwen):
    client = client_of(anthropic, qwen)
    ask = dict(model=MODEL, max_tokens=200, messages=user("Weather in Rome?"), tools=[WEATHER],
               tool_choice={"type": "any", "disable_parallel_tool_use": True})
    for seed in range(3):
        with client.messages.stream(**ask, extra_body={"seed": seed}) as stream:
            pieces = [e for e in stream if e.type == "input_json"]
            message = stream.get_final_message()
        call, = [b for b in message.content if b.type == "tool_use"]
        assert message.stop_reason == "tool_use" and pieces[-1].snapshot == call.input
        jsonschema.validate(call.input, WEATHER["input_schema"])
        assert client.messages.create(**ask, extra_body={"seed": seed}).content[-1].input == call.input
        again = [*ask["messages"], {"role": "assistant", "content": message.content},
                 {"role": "user", "content": [{"type": "tool_result", "tool_use_id": call.id, "content": "Sunny."}]}]
        end = client.messages.create(model=MODEL, max_tokens=8, messages=again, tools=[WEATHER])
        assert end.usage.output_tokens > 0


def test_sdk_structured_output(anthropic, server):
    from pydantic import BaseModel

    class Pet(BaseModel):
        name: str
        age: int
    client = client_of(anthropic, server)
    for seed in range(3):
        r = client.messages.parse(model=MODEL, max_tokens=400, messages=user("Invent a pet."), output_format=Pet, extra_body={"seed": seed})
        if r.stop_reason == "end_turn":
            assert isinstance(r.parsed_output, Pet)


def test_sdk_errors(anthropic, server):
    client = client_of(anthropic, server)
    with pytest.raises(anthropic.NotFoundError) as e:
        client.messages.create(model="claude-9", max_tokens=1, messages=user("x"))
    assert e.value.body["error"]["type"] == "not_found_error"
    with pytest.raises(anthropic.BadRequestError) as e:
        client.messages.create(model=MODEL, max_tokens=1, messages=user("x"), extra_body={"surprise": 1})
    assert "surprise: have an unknown member" in e.value.body["error"]["message"]
    with pytest.raises(anthropic.InternalServerError) as e:
        client.messages.batches.create(requests=[])
    assert e.value.status_code == 501
