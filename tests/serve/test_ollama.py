"""If these fail, a client of Ollama gets another text than OpenAI's clients do, lines that are no JSON, a conversation that forgets, or
options that were taken and did nothing."""
import json

import pytest

import servetest
from servetest import user

MODEL = "smollm2-135m"
HI = {"model": MODEL, "messages": user("Write a sentence about the sea."), "options": {"num_predict": 24, "seed": 1}}
SAY = {"model": MODEL, "prompt": "Write a sentence about the sea.", "options": {"num_predict": 24, "seed": 1}}


def lines(server, path, body):
    """The lines of a stream, each checked; the last is the one with done."""
    c = server.connect()
    c.request("POST", path, json.dumps(body), {"Content-Type": "application/json"})
    r = c.getresponse()
    text = r.read().decode()
    c.close()
    assert r.status == 200, text
    assert r.getheader("content-type") == "application/x-ndjson"
    assert text.endswith("\n")
    out = [json.loads(line) for line in text[:-1].split("\n")]
    for line in out:
        server.check(server.operation("POST", path)["responses"]["200"]["content"]["application/json"]["schema"], line)
    assert [line["done"] for line in out] == [False] * (len(out) - 1) + [True]
    return out


def whole(server, path, body):
    return server.ok(path, {**body, "stream": False})


def refused(server, path, body, status=400):
    r = server.post(path, body)
    assert r.status == status, r
    assert set(r.json) == {"error"} and ": have " in r.json["error"]
    return r.json["error"]


@pytest.mark.parametrize("more", [
    {},
    {"options": {"temperature": 0, "num_predict": 8}},
    {"options": {"temperature": 1.5, "top_k": 0, "top_p": 1, "seed": 3, "num_predict": 30}},
    {"options": {"seed": 2, "stop": ["e", "zz"], "repeat_penalty": 1.2, "num_predict": 20}},
    {"format": "json", "options": {"seed": 4, "num_predict": 30}},
    {"format": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, "options": {"seed": 4, "num_predict": 30}},
    {"logprobs": True, "top_logprobs": 2},
    {"think": False, "keep_alive": "5m", "format": "", "truncate": True, "shift": False},
])
@pytest.mark.parametrize("path,body,text", [
    ("/api/chat", HI, lambda r: r["message"]["content"]),
    ("/api/generate", SAY, lambda r: r["response"]),
])
def test_streamed_is_whole_and_again_the_same(server, more, path, body, text):
    body = {**body, **more}
    one, two, many = whole(server, path, body), whole(server, path, body), lines(server, path, body)
    assert text(one) == text(two) == "".join(text(line) for line in many)
    assert text(many[-1]) == ""
    for key in ("done_reason", "prompt_eval_count", "eval_count", "context"):
        assert one.get(key) == two.get(key) == many[-1].get(key)
    if "logprobs" in more:
        told = [p for line in many for p in line.get("logprobs", [])]
        assert told == one["logprobs"]
        assert all(len(p["top_logprobs"]) == 2 for p in told)
        assert "".join(p["token"] for p in told) == text(one)


def test_a_chat_is_what_the_openai_api_gives(server):
    have = whole(server, "/api/chat", {**HI, "options": {"temperature": 0, "num_predict": 24}})
    want = server.ok("/v1/chat/completions", {"messages": HI["messages"], "temperature": 0, "max_tokens": 24})
    assert have["message"] == {"role": "assistant", "content": want["choices"][0]["message"]["content"]}
    assert have["prompt_eval_count"] == want["usage"]["prompt_tokens"]
    assert have["eval_count"] == want["usage"]["completion_tokens"]
    assert whole(server, "/api/generate", {**SAY, "options": {"temperature": 0, "num_predict": 24}})["response"] == have["message"]["content"]


def test_ends_and_durations(server):
    length = whole(server, "/api/chat", HI)
    assert length["done_reason"] == "length" and length["eval_count"] == 24
    assert length["total_duration"] >= length["prompt_eval_duration"] + length["eval_duration"] > 0
    body = {**HI, "messages": user("Say hi"), "options": {"temperature": 0}}
    end = whole(server, "/api/chat", body)
    assert end["done_reason"] == "stop"
    stop = whole(server, "/api/chat", {**body, "options": {"temperature": 0, "stop": [end["message"]["content"][3:6]]}})
    assert stop["done_reason"] == "stop" and stop["message"]["content"] == end["message"]["content"][:3]


def test_options_are_in_force(server):
    a = whole(server, "/api/chat", {**HI, "options": {"temperature": 5, "top_k": 1, "num_predict": 12}})
    b = whole(server, "/api/chat", {**HI, "options": {"temperature": 0, "num_predict": 12}})
    assert a["message"] == b["message"]
    texts = {whole(server, "/api/chat", {**HI, "options": {"temperature": 1.5, "seed": i, "num_predict": 12}})["message"]["content"] for i in range(4)}
    assert len(texts) == 4


def test_raw_is_the_prompt_itself(server):
    prompt = "<|im_start|>user\nWrite a sentence about the sea.<|im_end|>\n<|im_start|>assistant\n"
    raw = whole(server, "/api/generate", {**SAY, "raw": True, "prompt": prompt, "options": {"temperature": 0, "num_predict": 12}})
    text = server.ok("/completion", {"prompt": prompt, "temperature": 0, "n_predict": 12})
    assert raw["response"] == text["content"] and raw["prompt_eval_count"] == text["tokens_evaluated"]
    assert "context" not in raw


def test_a_context_goes_on(server):
    body = {**SAY, "options": {"temperature": 0, "num_predict": 12}}
    first = whole(server, "/api/generate", body)
    assert len(first["context"]) == first["prompt_eval_count"] + first["eval_count"]
    again = {**body, "prompt": "And of land?", "context": first["context"]}
    second = whole(server, "/api/generate", again)
    assert second["context"][: len(first["context"])] == first["context"]
    text = server.ok("/completion", {"prompt": second["context"][: second["prompt_eval_count"]], "temperature": 0, "n_predict": 12})
    assert text["content"] == second["response"]
    assert lines(server, "/api/generate", again)[-1]["context"] == second["context"]


def test_system_comes_before_the_prompt(server):
    options = {"temperature": 0, "num_predict": 8}
    have = whole(server, "/api/generate", {**SAY, "system": "Answer in French.", "options": options})
    chat = whole(server, "/api/chat", {"model": MODEL, "options": options,
                                       "messages": [{"role": "system", "content": "Answer in French."}, *user(SAY["prompt"])]})
    assert have["response"] == chat["message"]["content"] and have["prompt_eval_count"] == chat["prompt_eval_count"]


def test_nothing_asked_is_answered_at_once(server):
    for path, body in (("/api/generate", {"model": MODEL}), ("/api/generate", {"model": MODEL, "prompt": "", "keep_alive": 0}),
                       ("/api/chat", {"model": MODEL, "messages": []}), ("/api/chat", {"model": MODEL})):
        r = server.ok(path, body)
        assert r["done"] is True and r["done_reason"] == "load"


@pytest.mark.parametrize("path,more,what", [
    ("/api/chat", {"messages": [{"role": "user", "content": "a", "images": ["x"]}]}, "images"),
    ("/api/chat", {"messages": [{"role": "boss", "content": "a"}]}, "role"),
    ("/api/chat", {"tools": [{"type": "function", "function": {"name": "f"}}]}, "tools"),
    ("/api/chat", {"think": True}, "reasoning"),
    ("/api/chat", {"think": "hard"}, "think"),
    ("/api/chat", {"format": "yaml"}, "format"),
    ("/api/chat", {"format": {"type": "hiccup"}}, "schema"),
    ("/api/chat", {"options": {"num_ctx": 100000}}, "num_ctx"),
    ("/api/chat", {"options": {"mirostat": 1}}, "mirostat"),
    ("/api/chat", {"options": {"heat": 1}}, "heat"),
    ("/api/chat", {"top_logprobs": 2}, "top_logprobs"),
    ("/api/generate", {"suffix": "b"}, "infill"),
    ("/api/generate", {"template": "{{ .Prompt }}"}, "template"),
    ("/api/generate", {"context": [49152]}, "context"),
    ("/api/generate", {"raw": True, "system": "a"}, "system"),
    ("/api/generate", {"images": ["x"]}, "images"),
    ("/api/generate", {"prompt": "word " * 5000}, "prompt"),
])
def test_refused_by_name(server, path, more, what):
    body = {**(HI if path == "/api/chat" else SAY), **more}
    assert what in refused(server, path, body, 501 if what == "infill" else 400)


def test_names_of_the_model(server):
    assert server.ok("/api/generate", {"model": MODEL + ":latest"})["model"] == MODEL
    for name in ("llama3.2", MODEL + ":other", ":latest", MODEL + ":latest:latest"):
        refused(server, "/api/chat", {**HI, "model": name}, 404)
    assert server.post("/api/show", {"name": "llama3.2"}).status == 404


def test_what_it_tells_of_the_model(server):
    tag = server.get("/api/tags").json["models"][0]
    assert tag["name"] == tag["model"] == MODEL + ":latest" and tag["details"]["family"] == "llama"
    assert server.get("/api/ps").json["models"][0]["context_length"] == 4096
    show = server.ok("/api/show", {"model": tag["model"]})
    assert show["capabilities"] == ["completion", "embedding"] and "<|im_start|>" in show["template"]
    assert show["model_info"]["llama.context_length"] == 8192
    assert server.get("/api/version").json["version"]
    for method, path in (("POST", "/api/pull"), ("DELETE", "/api/delete"), ("POST", "/api/create"), ("POST", "/api/embed")):
        r = server.request(method, path)
        assert r.status == 501 and set(r.json) == {"error"}


# ---- a template with tools and reasoning ----

@pytest.fixture(scope="module")
def tools():
    import os
    from glimtest import DATA
    s = servetest.smollm2("chat-template", os.path.join(DATA, "templates", TEMPLATE))
    yield s
    s.stop()


TEMPLATE = "Qwen-Qwen3-0.6B.jinja"
WEATHER = {"type": "function", "function": {"name": "weather", "parameters": {
    "type": "object", "properties": {"city": {"enum": ["Oslo", "Rome"]}}, "required": ["city"]}}}


def test_a_history_of_calls_reaches_the_model_as_openai_s_does(tools):
    call = {"function": {"name": "weather", "arguments": {"city": "Oslo"}}}
    history = [*user("Weather in Oslo?"), {"role": "assistant", "content": "", "tool_calls": [call]},
               {"role": "tool", "content": "rain", "tool_name": "weather"}]
    options = {"temperature": 0, "num_predict": 8}
    have = whole(tools, "/api/chat", {"model": MODEL, "messages": history, "tools": [{"function": WEATHER["function"]}], "options": options})
    theirs = [*user("Weather in Oslo?"), {"role": "assistant", "content": "", "tool_calls": [
        {"id": "a", "type": "function", "function": {"name": "weather", "arguments": "{\"city\":\"Oslo\"}"}}]},
        {"role": "tool", "content": "rain", "tool_call_id": "a"}]
    want = tools.ok("/v1/chat/completions", {"messages": theirs, "tools": [WEATHER], "temperature": 0, "max_tokens": 8})
    assert have["prompt_eval_count"] == want["usage"]["prompt_tokens"]
    assert have["message"].get("content") == (want["choices"][0]["message"]["content"] or "")


def test_calls_come_whole_and_fit_their_schema(tools):
    """The prompt is written so that even a small model calls; what matters is that calls are told and text is not lost."""
    found = 0
    for seed in range(12):
        body = {"model": MODEL, "messages": user("Call weather for Rome now."), "tools": [WEATHER], "think": False,
                "options": {"temperature": 1.2, "seed": seed, "num_predict": 60}}
        one, many = whole(tools, "/api/chat", body), lines(tools, "/api/chat", body)
        calls = [c for line in many for c in line["message"].get("tool_calls", [])]
        strip = lambda cs: [c["function"] for c in cs]
        assert strip(calls) == strip(one["message"].get("tool_calls", []))
        assert "".join(line["message"]["content"] for line in many) == one["message"]["content"]
        assert "".join(line["message"].get("thinking", "") for line in many) == one["message"].get("thinking", "")
        for i, f in enumerate(strip(calls)):
            assert f["index"] == i and f["name"] == "weather" and f["arguments"]["city"] in ("Oslo", "Rome")
            found += 1
    print("calls:", found)


def test_thinking_is_apart(tools):
    show = tools.ok("/api/show", {"model": MODEL})
    assert {"tools", "thinking"} <= set(show["capabilities"])
    on = whole(tools, "/api/chat", {**HI, "think": True})
    off = whole(tools, "/api/chat", {**HI, "think": False})
    assert off["prompt_eval_count"] != on["prompt_eval_count"]
