"""If these fail, programs written for OpenAI's responses API do not work with glim, or come back to another conversation than theirs."""
import json
import os
import sys
import threading
import time

import jsonschema
import pytest

from glimtest import DATA, ROOT
from servetest import named_events, send, smollm2, user, wait_running

sys.path.insert(0, os.path.join(ROOT, "build", "python"))

RESPONSES, COUNT, MODEL = "/v1/responses", "/v1/responses/input_tokens", "smollm2-135m"
WEATHER = {"type": "function", "name": "get_weather", "description": "The weather of a city", "strict": True, "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}, "days": {"type": "integer", "minimum": 1, "maximum": 9}},
    "required": ["city", "days"], "additionalProperties": False}}
CLOCK = {"type": "function", "name": "get_time", "strict": None, "parameters": {
    "type": "object", "properties": {"zone": {"enum": ["UTC", "CET"]}}, "required": ["zone"], "additionalProperties": False}}
SCHEMAS = {t["name"]: t["parameters"] for t in (WEATHER, CLOCK)}
ASK = {"input": "What is the weather in Paris, and the time?", "tools": [WEATHER, CLOCK], "max_output_tokens": 200}
SEA = {"input": "Tell me of the sea.", "max_output_tokens": 40, "temperature": 0}


def turn(question, thought, answer):
    return [{"role": "user", "content": question}, {"role": "assistant", "content": f"<think>\n{thought}\n</think>\n\n{answer}"}]


# SmolLM2 does not think by itself, but it goes on with a pattern.
THINK = {"input": [*turn("Colour of grass?", "Grass is green.", "Green."), *turn("Colour of snow?", "Snow is white.", "White."),
                   *turn("Colour of coal?", "Coal is black.", "Black."), *user("Colour of the sky?")], "max_output_tokens": 60, "temperature": 0}


def start(folder, *levers):
    return smollm2("store-path", folder / "responses.db", *levers)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    s = start(tmp_path_factory.mktemp("store"))
    yield s
    s.end()


@pytest.fixture(scope="module", params=["Qwen-Qwen3-0.6B", "GLM-4.6"])
def tool_server(request, tmp_path_factory):
    s = start(tmp_path_factory.mktemp("store"), "chat-template", os.path.join(DATA, "templates", request.param + ".jinja"))
    yield s
    s.end()


@pytest.fixture(scope="module")
def qwen(tmp_path_factory):
    s = start(tmp_path_factory.mktemp("store"), "chat-template", os.path.join(DATA, "templates", "Qwen-Qwen3-0.6B.jinja"))
    yield s
    s.end()


@pytest.fixture(scope="module")
def thinker(tmp_path_factory):
    s = start(tmp_path_factory.mktemp("store"), "dialect", "hermes")
    yield s
    s.end()


def put_together(events):
    """The response at the end of a stream; on the way, every item that its events build is the item it ends with."""
    assert [e["sequence_number"] for _, e in events] == list(range(len(events)))
    assert [n for n, _ in events[:2]] == ["response.created", "response.in_progress"]
    first, last = events[0][1]["response"], events[-1][1]["response"]
    assert first == events[1][1]["response"] and first["output"] == [] and first["usage"] is None and first["status"] == "in_progress"
    assert events[-1][0] == {"completed": "response.completed"}.get(last["status"], "response.incomplete")
    items, text, done = [], "", None
    for name, e in events[2:-1]:
        kind = name.removeprefix("response.")
        assert e["output_index"] == len(items) - (kind != "output_item.added")
        if kind == "output_item.added":
            assert done is None and e["item"]["status"] == "in_progress" and not (e["item"].get("content") or e["item"].get("arguments"))
            items.append(e["item"])
            text, part = "", None
            continue
        item = items[-1]
        assert "item_id" not in e or e["item_id"] == item["id"]
        assert e.get("content_index", 0) == 0
        if kind == "content_part.added":
            assert part is None and e["part"]["text"] == ""
            part = e["part"]
        elif kind.endswith(".delta"):
            assert e["delta"] and (part is None) == (kind == "function_call_arguments.delta")
            text += e["delta"]
        elif kind == "content_part.done":
            assert done == e["part"]["text"] == text
            item["content"] = [e["part"]]
        elif kind == "output_item.done":
            assert e["item"] == {**item, "status": e["item"]["status"], **({"arguments": text} if item["type"] == "function_call" else {})}
            items[-1], done = e["item"], None
        else:
            done = e.get("text", e.get("arguments"))
            assert done == text and e.get("name") == item.get("name")
    assert items == last["output"]
    constant = [k for k in first if k not in ("output", "usage", "status", "completed_at", "incomplete_details")]
    assert {k: first[k] for k in constant} == {k: last[k] for k in constant}
    return last


def streamed(server, body):
    return put_together(named_events(server, RESPONSES, body))


def same(a, b):
    """Equal but for ids, times, and where a prompt's tokens came from."""
    for r in (a, b):
        for k in ("id", "created_at", "completed_at"):
            r.pop(k)
        r["usage"]["input_tokens_details"].pop("cached_tokens")
        for item in r["output"]:
            item.pop("id")
            item.pop("call_id", None)
    assert a == b


def text_of(r):
    return "".join(p["text"] for i in r["output"] if i["type"] == "message" for p in i["content"])


def delete(server, r):
    reply = server.request("DELETE", f"{RESPONSES}/{r['id']}")
    assert reply.status == 200 and reply.json == {"id": r["id"], "object": "response", "deleted": True}


# ---- text ----


@pytest.mark.parametrize("seed", range(4))
def test_a_stream_says_the_same(server, seed):
    body = {"input": "Tell me of the sea.", "max_output_tokens": 40, "seed": seed, "temperature": 0.9, "top_p": 0.95, "metadata": {"a": "b"}, "user": "u"}
    whole = server.ok(RESPONSES, body)
    assert whole["status"] == "incomplete" and whole["incomplete_details"] == {"reason": "max_output_tokens"}
    assert whole["output"][0]["status"] == "incomplete" and whole["usage"]["output_tokens"] == 40
    assert (whole["metadata"], whole["user"], whole["temperature"], whole["top_p"]) == ({"a": "b"}, "u", 0.9, 0.95)
    same(whole, streamed(server, body))


def test_it_is_the_answer_of_the_chat_api(server):
    messages = [{"role": "system", "content": "Be brief."}, *user("What is the capital of France?")]
    chat = server.ok("/v1/chat/completions", {"messages": messages, "max_tokens": 30, "temperature": 0})
    r = server.ok(RESPONSES, {"input": messages[1]["content"], "instructions": "Be brief.", "max_output_tokens": 30, "temperature": 0})
    assert text_of(r) == chat["choices"][0]["message"]["content"]
    assert r["usage"]["input_tokens"] == chat["usage"]["prompt_tokens"]
    assert r["status"] == "completed" and r["incomplete_details"] is None and r["completed_at"] >= r["created_at"]
    assert r["usage"]["total_tokens"] == r["usage"]["input_tokens"] + r["usage"]["output_tokens"]


def test_inputs(server):
    def n(input, **more):
        return server.ok(COUNT, {"input": input, **more})["input_tokens"]
    plain = n("Hello there")
    assert n(user("Hello there")) == plain
    assert n([{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "Hello"}, {"type": "input_text", "text": " there"}]}]) == plain
    system = n([{"role": "system", "content": "Be brief."}, *user("Hi")])
    assert n([{"role": "developer", "content": "Be brief."}, *user("Hi")]) == n("Hi", instructions="Be brief.") == system != n("Hi")
    answer = [{"type": "output_text", "text": "Hello.", "annotations": []}]
    assert n([*user("Hi"), {"role": "assistant", "content": answer}, *user("Bye")]) == n([*user("Hi"), {"role": "assistant", "content": "Hello."}, *user("Bye")])
    used = server.ok(RESPONSES, {"input": "Hello there", "max_output_tokens": 1, "store": False})["usage"]["input_tokens"]
    assert used == plain


def test_logprobs(server):
    body = {**SEA, "include": ["message.output_text.logprobs"], "top_logprobs": 2}
    whole = server.ok(RESPONSES, body)
    told = whole["output"][0]["content"][0]["logprobs"]
    assert len(told) == 40 and "".join(t["token"] for t in told) == text_of(whole) and all(len(t["top_logprobs"]) == 2 for t in told)
    chat = server.ok("/v1/chat/completions", {"messages": user(SEA["input"]), "max_tokens": 40, "temperature": 0, "logprobs": True, "top_logprobs": 2})
    assert told == chat["choices"][0]["logprobs"]["content"]
    events = named_events(server, RESPONSES, body)
    assert [t for n, e in events if n == "response.output_text.delta" for t in e["logprobs"]] == told
    same(whole, put_together(events))
    server.refused(RESPONSES, {**SEA, "top_logprobs": 2}, param="top_logprobs")


def test_answers_of_a_schema(server):
    schema = {"type": "object", "properties": {"name": {"type": "string", "maxLength": 12}, "age": {"type": "integer", "minimum": 0, "maximum": 99}},
              "required": ["name", "age"], "additionalProperties": False}
    body = {"input": "Invent a pet.", "max_output_tokens": 200, "text": {"format": {"type": "json_schema", "name": "pet", "schema": schema, "strict": True}}}
    for seed in range(3):
        whole = server.ok(RESPONSES, {**body, "seed": seed})
        jsonschema.validate(json.loads(text_of(whole)), schema)
        same(whole, streamed(server, {**body, "seed": seed}))
    json.loads(text_of(server.ok(RESPONSES, {"input": "Invent a pet.", "text": {"format": {"type": "json_object"}}, "seed": 1, "max_output_tokens": 1000})))
    body["text"]["format"]["schema"] = {"type": "strong"}
    server.refused(RESPONSES, body, param="text.format")


# ---- reasoning ----


def test_reasoning(thinker):
    whole = thinker.ok(RESPONSES, THINK)
    thought, said = whole["output"]
    assert (thought["type"], said["type"]) == ("reasoning", "message") and thought["summary"] == []
    assert thought["content"][0]["text"] and "<think>" not in json.dumps(whole["output"])
    assert 0 < whole["usage"]["output_tokens_details"]["reasoning_tokens"] < whole["usage"]["output_tokens"]
    same(whole, streamed(thinker, THINK))
    cut = {**THINK, "max_output_tokens": 8, "include": ["message.output_text.logprobs"]}
    whole = thinker.ok(RESPONSES, cut)
    assert [(i["type"], i["status"]) for i in whole["output"]] == [("reasoning", "incomplete")]
    assert whole["usage"]["output_tokens_details"]["reasoning_tokens"] == 8
    same(whole, streamed(thinker, cut))


def test_logprobs_are_the_texts_alone(thinker):
    whole = thinker.ok(RESPONSES, {**THINK, "include": ["message.output_text.logprobs"]})
    part = whole["output"][1]["content"][0]
    assert "".join(t["token"] for t in part["logprobs"]) == part["text"]
    same(whole, streamed(thinker, {**THINK, "include": ["message.output_text.logprobs"]}))


def test_reasoning_goes_back_to_the_model(qwen):
    """Qwen3's template keeps what was thought since the last question."""
    call = {"type": "function_call", "call_id": "c1", "name": "get_weather", "arguments": '{"city": "Rome", "days": 1}'}
    result = {"type": "function_call_output", "call_id": "c1", "output": "Sunny"}

    def n(*items):
        return qwen.ok(COUNT, {"input": [*user("Weather?"), *items, result], "tools": [WEATHER]})["input_tokens"]
    thought = {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "I have to look that up, I think."}]}
    summary = {"type": "reasoning", "summary": [{"type": "summary_text", "text": "I have to look that up, I think."}], "encrypted_content": None}
    assert n(thought, call) == n(summary, call) > n(call) + 5
    text = {"role": "assistant", "content": "Let me look."}
    assert n(call) < n(text, call) < n(thought, text, call)


def test_effort(server, qwen):
    def n(effort):
        return qwen.ok(COUNT, {"input": "Hi", "reasoning": {"effort": effort, "summary": "auto"}})["input_tokens"]
    assert n(None) < n("none")
    server.refused(RESPONSES, {"input": "Hi", "reasoning": {"effort": "high"}}, param="input")


# ---- tools ----


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("choice", ["required", {"type": "function", "name": "get_time"}, "one", "auto"])
def test_calls_are_calls_of_the_tools(tool_server, choice, seed):
    body = {**ASK, "tool_choice": "required" if choice == "one" else choice, "parallel_tool_calls": choice != "one", "seed": seed}
    whole = tool_server.ok(RESPONSES, body)
    calls = [i for i in whole["output"] if i["type"] == "function_call"]
    for c in calls[:-1] + [c for c in calls[-1:] if c["status"] == "completed"]:
        jsonschema.validate(json.loads(c["arguments"]), SCHEMAS[c["name"]])
    assert [c["status"] for c in calls[:-1]] == ["completed"] * (len(calls) - 1)
    if whole["status"] == "completed":
        assert choice == "auto" or calls and all(c["status"] == "completed" for c in calls)
    if isinstance(choice, dict):
        assert all(c["name"] == "get_time" for c in calls)
    if choice == "one":
        assert whole["status"] == "completed" and len(calls) == 1
    assert whole["tools"] == ASK["tools"] and whole["tool_choice"] == body["tool_choice"]
    same(whole, streamed(tool_server, body))


def test_outputs_go_back(tool_server):
    first = tool_server.ok(RESPONSES, {**ASK, "tool_choice": "required", "parallel_tool_calls": False, "seed": 1})
    call, = first["output"]
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "Sunny"}
    ask = {"tools": ASK["tools"], "max_output_tokens": 8, "temperature": 0}
    linked = tool_server.ok(RESPONSES, {**ask, "input": [output], "previous_response_id": first["id"]})
    spelled = tool_server.ok(RESPONSES, {**ask, "input": [*user(ASK["input"]), call, output]})
    assert linked["usage"]["input_tokens"] == spelled["usage"]["input_tokens"]
    assert text_of(linked) == text_of(spelled)
    parts = {**output, "output": [{"type": "input_text", "text": "Sun"}, {"type": "input_text", "text": "ny"}]}
    assert text_of(tool_server.ok(RESPONSES, {**ask, "input": [*user(ASK["input"]), call, parts]})) == text_of(spelled)
    tool_server.refused(RESPONSES, {**ask, "input": [*user("x"), output]}, param="input")
    gone = {**call, "status": "incomplete", "arguments": '{"ci'}
    assert tool_server.ok(COUNT, {"input": [*user("x"), gone], "tools": ASK["tools"]}) == tool_server.ok(COUNT, {"input": "x", "tools": ASK["tools"]})


def test_no_tools(tool_server):
    assert tool_server.ok(COUNT, {"input": "Hi", "tools": [WEATHER], "tool_choice": "none"}) == tool_server.ok(COUNT, {"input": "Hi"})
    tool_server.refused(RESPONSES, {**ASK, "tools": [], "tool_choice": "required"}, param="tool_choice")
    tool_server.refused(RESPONSES, {**ASK, "tool_choice": {"type": "function", "name": "x"}}, param="tool_choice")


# ---- coming back ----


@pytest.mark.parametrize("stream", [False, True])
def test_a_response_can_be_come_back_to(server, stream):
    r = streamed(server, SEA) if stream else server.ok(RESPONSES, SEA)
    assert r["store"] is True and r["previous_response_id"] is None
    assert server.get(f"{RESPONSES}/{r['id']}").json == r
    delete(server, r)
    for method, path in (("GET", ""), ("DELETE", ""), ("GET", "/input_items"), ("POST", "/cancel")):
        reply = server.request(method, f"{RESPONSES}/{r['id']}{path}")
        assert reply.status == 404 and reply.json["error"]["code"] == "response_not_found"


def test_a_conversation_goes_on(server):
    ask = {"max_output_tokens": 20, "temperature": 0}
    one = server.ok(RESPONSES, {**ask, "input": "My name is Ada.", "instructions": "Be kind."})
    two = server.ok(RESPONSES, {**ask, "input": "What is my name?", "previous_response_id": one["id"]})
    spelled = [*user("My name is Ada."), {"role": "assistant", "content": text_of(one)}, *user("What is my name?")]
    assert text_of(two) == text_of(server.ok(RESPONSES, {**ask, "input": spelled}))
    assert two["previous_response_id"] == one["id"] and two["instructions"] is None
    three = streamed(server, {**ask, "input": "And?", "previous_response_id": two["id"]})
    spelled += [{"role": "assistant", "content": text_of(two)}, *user("And?")]
    assert text_of(three) == text_of(server.ok(RESPONSES, {**ask, "input": spelled}))
    count = {"input": "And?", "previous_response_id": two["id"]}
    assert server.ok(COUNT, count)["input_tokens"] == three["usage"]["input_tokens"]
    delete(server, one)
    assert server.get(f"{RESPONSES}/{three['id']}").status == 200
    error = server.refused(RESPONSES, {**ask, "input": "x", "previous_response_id": three["id"]}, param="previous_response_id")
    assert error["code"] == "previous_response_not_found" and one["id"] in error["message"]
    server.refused(RESPONSES, {**ask, "input": "x", "previous_response_id": "resp_x"}, param="previous_response_id")


def test_input_items(server):
    one = server.ok(RESPONSES, {**SEA, "input": [{"role": "system", "content": "Be kind."}, {"type": "message", "id": "msg_mine", "role": "user", "content": "Hi"}]})
    two = server.ok(RESPONSES, {**SEA, "input": "Go on.", "previous_response_id": one["id"]})

    def page(query=""):
        r = server.get(f"{RESPONSES}/{two['id']}/input_items{query}")
        assert r.status == 200, r
        return r.json
    items = page("?order=asc")
    assert items["has_more"] is False and (items["first_id"], items["last_id"]) == (items["data"][0]["id"], items["data"][-1]["id"])
    assert [(i["role"], i["content"][0]["text"]) for i in items["data"]] == [
        ("system", "Be kind."), ("user", "Hi"), ("assistant", text_of(one)), ("user", "Go on.")]
    assert items["data"][1]["id"] == "msg_mine" and items["data"][2] == one["output"][0]
    assert page()["data"] == items["data"][::-1]
    first = page("?limit=3")
    assert first["has_more"] and first["data"] == items["data"][:0:-1]
    assert page(f"?limit=3&after={first['last_id']}")["data"] == items["data"][:1]
    assert page(f"?order=asc&limit=1&after=msg_mine")["data"] == [one["output"][0]]
    for bad in ("limit=0", "limit=x", "order=up", "after=nobody", "colour=red"):
        assert server.get(f"{RESPONSES}/{two['id']}/input_items?{bad}").status == 400


def test_what_is_not_to_be_kept_is_not(server):
    r = server.ok(RESPONSES, {**SEA, "store": False})
    assert r["store"] is False and server.get(f"{RESPONSES}/{r['id']}").status == 404


def test_a_server_that_keeps_nothing(tmp_path):
    s = start(tmp_path, "store-size", "0")
    r = s.ok(RESPONSES, {**SEA, "store": True})
    assert r["store"] is False and s.get(f"{RESPONSES}/{r['id']}").status == 404
    assert s.request("DELETE", f"{RESPONSES}/{r['id']}").status == s.get(f"{RESPONSES}/{r['id']}/input_items").status == 404
    s.refused(RESPONSES, {**SEA, "previous_response_id": r["id"]}, param="previous_response_id")
    s.end()
    assert not os.listdir(tmp_path)


def test_an_answer_too_large_to_keep_is_told(tmp_path):
    s = start(tmp_path, "store-size", "100")
    for r in (s.ok(RESPONSES, SEA), named_events(s, RESPONSES, SEA)[-1][1]["response"]):
        assert r["store"] is False and text_of(r)
    assert "a response was not kept: store: response: have" in s.stderr()
    s.end()


def test_responses_outlive_the_server(tmp_path):
    s = start(tmp_path)
    r = s.ok(RESPONSES, SEA)
    s.end()
    s = start(tmp_path)
    assert s.get(f"{RESPONSES}/{r['id']}").json == r
    assert s.ok(RESPONSES, {**SEA, "previous_response_id": r["id"]})["usage"]["input_tokens"] > r["usage"]["total_tokens"]
    s.end()


# ---- ending one early ----


def read_until(sock, word):
    text = b""
    while word not in text:
        more = sock.recv(65536)
        assert more, text
        text += more
    return text.decode()


def test_cancel(server):
    sock = send(server, RESPONSES, {"input": "Write a long story.", "max_output_tokens": 3500, "ignore_eos": True, "stream": True})
    text = read_until(sock, b"output_text.delta")
    id = text.split('"id":"resp_')[1].split('"')[0]
    now = server.get(f"{RESPONSES}/resp_{id}").json
    assert now["status"] == "in_progress" and now["output"][0]["status"] == "in_progress"
    reply = server.request("POST", f"{RESPONSES}/resp_{id}/cancel")
    assert reply.status == 200 and reply.json["status"] == "cancelled" and text_of(reply.json)
    text = read_until(sock, b"response.incomplete")
    sock.close()
    server.wait_idle(1)
    kept = server.get(f"{RESPONSES}/resp_{id}").json
    assert kept["status"] == "cancelled" and text_of(kept).startswith(text_of(reply.json)) and kept["output"][0]["status"] == "incomplete"
    assert server.request("POST", f"{RESPONSES}/resp_{id}/cancel").status == 400


@pytest.mark.parametrize("stream", [False, True])
def test_a_client_that_goes_stops_its_answer(server, stream):
    s = send(server, RESPONSES, {"input": "Write a long story.", "max_output_tokens": 3500, "ignore_eos": True, "stream": stream})
    wait_running(server, 1)
    s.close()
    server.wait_idle(1)


def test_many_at_once(server):
    """Each goes on from its own conversation."""
    wrong = []

    def talk(i):
        one = server.ok(RESPONSES, {**SEA, "input": f"Say {i}.", "max_output_tokens": 8})
        two = server.ok(RESPONSES, {**SEA, "input": "Again.", "previous_response_id": one["id"], "max_output_tokens": 8})
        items = server.get(f"{RESPONSES}/{two['id']}/input_items?order=asc").json["data"]
        if [p["content"][0]["text"] for p in items] != [f"Say {i}.", text_of(one), "Again."]:
            wrong.append(items)
    threads = [threading.Thread(target=talk, args=(i,)) for i in range(12)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    assert not wrong


# ---- what cannot be ----


@pytest.mark.parametrize("more, param, why", [
    ({"input": [{"role": "user", "content": [{"type": "input_image", "image_url": "x"}]}]}, "input[0].content[0].type", "images"),
    ({"input": [{"role": "user", "content": [{"type": "input_file", "file_id": "x"}]}]}, "input[0].content[0].type", "files"),
    ({"input": [{"type": "item_reference", "id": "x"}]}, "input[0].type", "previous_response_id"),
    ({"input": [{"type": "web_search_call", "id": "x"}]}, "input[0].type", "only messages"),
    ({"input": [{"type": "reasoning", "summary": [], "encrypted_content": "x"}]}, "input[0].encrypted_content", "key"),
    ({"input": [{"role": "tool", "content": "x"}]}, "input[0].role", "developer"),
    ({"input": []}, "input", "at least 1"),
    ({"tools": [{"type": "web_search"}]}, "tools[0].type", "web"),
    ({"tools": [{"type": "file_search", "vector_store_ids": []}]}, "tools[0].type", "files"),
    ({"tools": [{"type": "code_interpreter"}]}, "tools[0].type", "code"),
    ({"tools": [{"type": "mcp"}]}, "tools[0].type", "runs no tools"),
    ({"tools": [{"type": "custom", "name": "x"}]}, "tools[0].type", "JSON"),
    ({"tools": [WEATHER]}, "input", "tools"),
    ({"tool_choice": {"type": "allowed_tools"}}, "tool_choice.type", "allowed"),
    ({"background": True}, "background", "ends with its request"),
    ({"conversation": "c"}, "conversation", "previous_response_id"),
    ({"prompt": {"id": "x"}}, "prompt", "prompts"),
    ({"truncation": "auto"}, "truncation", "disabled"),
    ({"include": ["web_search_call.results"]}, "include[0]", "logprobs"),
    ({"metadata": {"a": 1}}, "metadata.a", "string"),
    ({"max_output_tokens": 0}, "max_output_tokens", "from 1"),
    ({"surprise": 1}, "surprise", "unknown"),
])
def test_what_cannot_be_is_refused_by_name(server, more, param, why):
    assert why in server.refused(RESPONSES, {"input": "x", **more}, param=param)["message"]


def test_errors(server):
    server.refused(RESPONSES, {"input": "x", "model": "gpt-9"}, status=404, param="model")
    assert server.refused(RESPONSES, {"input": "word " * 5000}, param="input")["code"] == "context_length_exceeded"
    assert server.post(RESPONSES + "/compact", {}).status == 501
    assert server.request("PUT", RESPONSES + "/x").status == 405
    assert server.post(RESPONSES, b'{"input": ').json["error"]["code"] == "invalid_json"


# ---- OpenAI's own client ----


@pytest.fixture(scope="module")
def openai():
    return pytest.importorskip("openai", reason="tests/run.py --only py/serve/test_responses installs it")


def client_of(openai, s):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{s.port}/v1", api_key="none", max_retries=0)


def test_sdk(openai, server):
    client = client_of(openai, server)
    ask = dict(model=MODEL, input="What is the capital of France?", temperature=0, max_output_tokens=40)
    whole = client.responses.create(**ask)
    assert "Paris" in whole.output_text and whole.status == "completed"
    with client.responses.stream(**ask) as stream:
        deltas = [e.delta for e in stream if e.type == "response.output_text.delta"]
        final = stream.get_final_response()
    assert "".join(deltas) == whole.output_text == final.output_text
    assert client.responses.retrieve(final.id).output_text == final.output_text
    again = client.responses.create(**{**ask, "input": "And of Spain?"}, previous_response_id=final.id)
    texts = [i.content[0].text for i in client.responses.input_items.list(again.id, order="asc", limit=2)]
    assert texts == ["What is the capital of France?", whole.output_text, "And of Spain?"]
    assert client.responses.input_tokens.count(model=MODEL, input=ask["input"]).input_tokens == whole.usage.input_tokens
    client.responses.delete(final.id)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(final.id)
    with pytest.raises(openai.BadRequestError) as e:
        client.responses.create(**ask, background=True)
    assert e.value.param == "background"


def test_sdk_reasoning(openai, thinker):
    client = client_of(openai, thinker)
    with client.responses.stream(model=MODEL, input=THINK["input"], temperature=0, max_output_tokens=60) as stream:
        thought = "".join(e.delta for e in stream if e.type == "response.reasoning_text.delta")
        final = stream.get_final_response()
    assert [i.type for i in final.output] == ["reasoning", "message"]
    assert final.output[0].content[0].text == thought
    again = client.responses.create(model=MODEL, input=[*THINK["input"], *final.output, *user("Colour of blood?")], max_output_tokens=8)
    assert again.usage.input_tokens > final.usage.input_tokens


def test_sdk_tools(openai, qwen):
    client = client_of(openai, qwen)
    ask = dict(model=MODEL, tools=[WEATHER], tool_choice="required", parallel_tool_calls=False, max_output_tokens=200)
    for seed in range(3):
        with client.responses.stream(input="Weather in Rome?", **ask, extra_body={"seed": seed}) as stream:
            for e in stream:
                if e.type == "response.function_call_arguments.delta":
                    snapshot = e.snapshot
            final = stream.get_final_response()
        call, = final.output
        assert call.arguments == snapshot
        jsonschema.validate(json.loads(call.arguments), WEATHER["parameters"])
        output = [{"type": "function_call_output", "call_id": call.call_id, "output": "Sunny."}]
        end = client.responses.create(model=MODEL, input=output, previous_response_id=final.id, tools=[WEATHER], max_output_tokens=8)
        items = [{"role": "user", "content": "Weather in Rome?"}, *final.output, *output]
        other = client.responses.create(model=MODEL, input=items, tools=[WEATHER], max_output_tokens=8)
        assert end.usage.input_tokens == other.usage.input_tokens


def test_sdk_structured_output(openai, server):
    from pydantic import BaseModel, Field

    class Pet(BaseModel):
        name: str = Field(max_length=12)
        age: int = Field(ge=0, le=30)
    client = client_of(openai, server)
    for seed in range(3):
        r = client.responses.parse(model=MODEL, input="Invent a pet.", text_format=Pet, max_output_tokens=500, extra_body={"seed": seed})
        assert r.status == "completed" and isinstance(r.output_parsed, Pet)
    with client.responses.stream(model=MODEL, input="Invent a pet.", text_format=Pet, extra_body={"seed": 1}) as stream:
        for _ in stream:
            pass
        assert isinstance(stream.get_final_response().output_parsed, Pet)


def test_sdk_cancel(openai, server):
    client = client_of(openai, server)
    stream = client.responses.create(model=MODEL, input="Write a long story.", max_output_tokens=3500, stream=True, extra_body={"ignore_eos": True})
    id = next(iter(stream)).response.id
    time.sleep(0.2)
    assert client.responses.cancel(id).status == "cancelled"
    assert list(stream)[-1].response.status == "cancelled"
