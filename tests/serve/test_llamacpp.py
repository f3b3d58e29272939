"""If these fail, a client of llama.cpp's server gets another text streamed than whole, settings that were not in force, a wrong reason
for the end, tokens that are not the text's, or an error where llama.cpp's clients look for another shape."""
import json
import os

import pytest

import servetest
from glimtest import glim, real_model

LIFE = {"prompt": "I believe the meaning of life is", "n_predict": 12, "seed": 1}


def stream(server, body, path="/completion"):
    """Events of a stream, each checked; there is no [DONE]."""
    c = server.connect()
    c.request("POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
    r = c.getresponse()
    text = r.read().decode()
    c.close()
    assert r.status == 200, text
    assert r.getheader("content-type") == "text/event-stream"
    events = [json.loads(block[6:]) for block in text.split("\n\n") if block.startswith("data: ")]
    shape = server.operation("POST", path)["responses"]["200"]["content"]["text/event-stream"]["x-event"]
    for e in events:
        server.check(shape, e)
    return events


def refused(server, path, body, status=400):
    r = server.post(path, body)
    assert r.status == status, r
    error = r.json["error"]
    assert error["code"] == status and ": have " in error["message"], error
    return error


def tokens(server, text, **more):
    return server.ok("/tokenize", {"content": text, **more})["tokens"]


# ---- completions ----

def test_a_completion_is_what_glim_run_gives(server):
    r = glim("run", "-m", real_model("smollm2-135m"), "-p", LIFE["prompt"], "-n", "12", "--json")
    want = json.loads(r.stdout)
    have = server.ok("/completion", {**LIFE, "temperature": 0, "return_tokens": True})
    assert have["tokens"] == want["tokens"]
    assert have["content"] == want["text"]


@pytest.mark.parametrize("more", [
    {"temperature": 0},
    {},
    {"temperature": 1.5, "top_k": 0, "top_p": 1, "min_p": 0, "n_predict": 40},
    {"stop": ["e", "zz"]},
    {"n_probs": 3},
    {"grammar": 'root ::= " to" [ a-z]+ "."'},
    {"json_schema": {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, "n_predict": 40},
    {"logit_bias": [[" to", False], [28, -5]]},
    {"logit_bias": {"288": -100, " find": False}},
    {"n_cmpl": 3, "temperature": 1.2},
    {"samplers": ["top_k", "temperature"], "top_k": 5},
    {"ignore_eos": True, "n_predict": 30},
    {"cache_prompt": False},
    {"repeat_penalty": 1.3, "presence_penalty": 1, "frequency_penalty": 0.5},
    {"stop": [], "grammar": "", "mirostat": 0, "dry_multiplier": 0, "xtc_probability": 0, "top_n_sigma": -1, "id_slot": -1},
])
def test_streamed_is_whole_and_again_the_same(server, more):
    body = {**LIFE, **more, "return_tokens": True}
    whole = server.ok("/completion", body)
    again = server.ok("/completion", body)
    events = stream(server, body)
    several = more.get("n_cmpl", 1) > 1
    for i, w in enumerate(whole if several else [whole]):
        a = again[i] if several else again
        mine = [e for e in events if e["index"] == i]
        assert w["content"] == a["content"] == "".join(e["content"] for e in mine)
        assert w["tokens"] == a["tokens"] == [t for e in mine for t in e["tokens"]]
        assert [e["stop"] for e in mine] == [False] * (len(mine) - 1) + [True]
        assert all(len(e["tokens"]) <= 1 for e in mine) and mine[-1]["content"] == ""
        for key in ("tokens_predicted", "tokens_evaluated", "stop_type", "stopping_word", "truncated", "has_new_line", "prompt"):
            assert mine[-1][key] == w[key]
        assert {**mine[-1]["generation_settings"], "stream": False} == w["generation_settings"]
        if "n_probs" in more:
            told = [p for e in mine[:-1] for p in e["completion_probabilities"]]
            assert told == w["completion_probabilities"]
            assert [p["id"] for p in told] == w["tokens"]
            assert all(len(p["top_logprobs"]) == 3 and bytes(p["bytes"]).decode("utf-8", "replace") == p["token"] for p in told)


def test_what_ended_it(server):
    limit = server.ok("/completion", {**LIFE, "temperature": 0})
    assert (limit["stop_type"], limit["stopping_word"], limit["truncated"]) == ("limit", "", False)
    word = server.ok("/completion", {**LIFE, "temperature": 0, "stop": ["zz", " way"]})
    assert (word["stop_type"], word["stopping_word"]) == ("word", " way")
    assert word["content"] == limit["content"].split(" way")[0]
    chat = "<|im_start|>user\nSay hi<|im_end|>\n<|im_start|>assistant\n"
    eos = server.ok("/completion", {"prompt": chat, "temperature": 0, "n_predict": 200})
    assert (eos["stop_type"], eos["truncated"]) == ("eos", False)
    assert eos["tokens_predicted"] < 200
    on = server.ok("/completion", {"prompt": chat, "temperature": 0, "n_predict": eos["tokens_predicted"] + 5, "ignore_eos": True})
    assert on["stop_type"] == "limit"
    assert all(b["bias"] is None for b in on["generation_settings"]["logit_bias"])
    assert {2, 0} <= {b["token"] for b in on["generation_settings"]["logit_bias"]}


def test_text_that_was_held_back_comes_before_the_end(server):
    body = {"prompt": "<|im_start|>user\nSay hi<|im_end|>\n<|im_start|>assistant\n", "temperature": 0, "n_predict": 200}
    text = server.ok("/completion", body)["content"]
    events = stream(server, {**body, "stop": [text[-1] + "zz"]})
    assert events[-1]["stop_type"] == "eos" and events[-1]["content"] == ""
    assert "".join(e["content"] for e in events) == text


def test_the_context_is_full():
    s = servetest.smollm2("ctx", 64)
    try:
        r = s.ok("/completion", {"prompt": "a b c d", "temperature": 1.5, "ignore_eos": True})
        assert (r["stop_type"], r["truncated"]) == ("limit", True)
        assert r["tokens_evaluated"] + r["tokens_predicted"] == 64
        error = refused(s, "/completion", {"prompt": "word " * 100})
        assert error["type"] == "exceed_context_size_error"
    finally:
        s.stop()


def test_no_tokens_fills_the_cache(server):
    prompt = "A prompt that nobody has sent before, and that is longer than a page of the cache, so that it can be kept: " * 3
    r = server.ok("/completion", {"prompt": prompt, "n_predict": 0})
    assert (r["content"], r["tokens_predicted"], r["timings"]["predicted_n"], r["truncated"]) == ("", 0, 0, False)
    again = server.ok("/completion", {"prompt": prompt, "n_predict": 1})
    assert again["tokens_cached"] == again["timings"]["cache_n"] > 0
    assert again["timings"]["cache_n"] + again["timings"]["prompt_n"] == again["tokens_evaluated"]
    apart = server.ok("/completion", {"prompt": prompt, "n_predict": 1, "cache_prompt": False, "temperature": 0})
    assert apart["tokens_cached"] == 0


def test_prompts(server):
    text = "The sky is"
    ids = tokens(server, text, add_special=True)
    body = {"temperature": 0, "n_predict": 4}
    one = server.ok("/completion", {**body, "prompt": text})
    for prompt in (ids, [ids[0], *ids[1:]], {"prompt_string": text}, [text], ["The", *tokens(server, " sky is")]):
        r = server.ok("/completion", {**body, "prompt": prompt})
        assert (r["content"], r["prompt"]) == (one["content"], text)
    many = server.ok("/completion", {**body, "prompt": [text, ids, {"prompt_string": text}, ["The", *tokens(server, " sky is")]]})
    assert [m["content"] for m in many] == [one["content"]] * 4
    assert [m["index"] for m in many] == [0, 1, 2, 3]
    assert server.ok("/completion", {**body, "prompt": [1, "user", 198], "n_predict": 0})["prompt"] == "<|im_start|>user\n"


def test_fields_that_were_asked_for(server):
    fields = ["content", "generation_settings/n_predict", "timings/predicted_n", "content", "nothing", "a/b"]
    r = server.ok("/completion", {**LIFE, "response_fields": fields})
    assert set(r) == {"content", "generation_settings/n_predict", "timings/predicted_n"}
    assert r["generation_settings/n_predict"] == r["timings/predicted_n"] == 12
    last = stream(server, {**LIFE, "response_fields": ["index", "stop", "stop_type", "content"]})[-1]
    assert last == {"index": 0, "stop": True, "stop_type": "limit", "content": ""}


def test_timings(server):
    one = server.ok("/completion", {**LIFE, "n_predict": 1})["timings"]
    assert (one["predicted_n"], one["predicted_ms"], one["predicted_per_second"], one["predicted_per_token_ms"]) == (1, 0, 0, 0)
    t = server.ok("/completion", LIFE)["timings"]
    assert t["predicted_per_second"] == pytest.approx(11e3 / t["predicted_ms"])
    assert t["prompt_ms"] > 0


def test_settings_are_those_in_force(server):
    r = server.ok("/completion", {**LIFE, "temperature": 0.5, "top_k": 7, "top_p": 0.5, "min_p": 0.1, "typical_p": 0.9, "stop": "zz",
                                  "repeat_last_n": 9, "logit_bias": {"5": 1.5}, "grammar": "root ::= [a-z ]+"})["generation_settings"]
    assert r["temperature"] == 0.5 and r["top_k"] == 7 and r["stop"] == ["zz"] and r["repeat_last_n"] == 9
    assert r["logit_bias"] == [{"token": 5, "bias": 1.5}] and r["grammar"] == "root ::= [a-z ]+" and r["seed"] == 1
    default = server.ok("/completion", {"prompt": "a", "n_predict": 1})["generation_settings"]
    props = server.get("/props").json["default_generation_settings"]["params"]
    told = {k for k in default if default[k] != props[k]}
    assert told == {"seed", "n_predict", "max_tokens"}
    again = server.ok("/completion", {**LIFE, "seed": default["seed"], "temperature": 2})
    assert again["content"] == server.ok("/completion", {**LIFE, "seed": default["seed"], "temperature": 2})["content"]


def test_samplers_that_are_not_listed_are_off(server):
    body = {**LIFE, "temperature": 3, "top_k": 1}
    assert server.ok("/completion", body)["content"] == server.ok("/completion", {**LIFE, "temperature": 0})["content"]
    off = server.ok("/completion", {**body, "samplers": ["temperature"]})
    assert off["generation_settings"]["top_k"] == 0 and off["generation_settings"]["top_p"] == 1
    assert off["content"] != server.ok("/completion", body)["content"]
    plain = server.ok("/completion", {**body, "samplers": []})["generation_settings"]
    assert plain["temperature"] == 1 and plain["repeat_penalty"] == 1


@pytest.mark.parametrize("more,what", [
    ({"prompt": None}, "prompt"),
    ({"prompt": []}, "prompt"),
    ({"prompt": [49152]}, "prompt"),
    ({"prompt": ["a", 3, ["b"]]}, "prompt"),
    ({"prompt": [[]]}, "prompt"),
    ({"prompt": {"prompt_string": "a", "multimodal_data": ["x"]}}, "multimodal_data"),
    ({"prompt": {}}, "prompt"),
    ({"prompt": ""}, "prompt"),
    ({"n_predict": -2}, "n_predict"),
    ({"n_predict": 0, "n_cmpl": 2}, "n_cmpl"),
    ({"id_slot": 0}, "id_slot"),
    ({"lora": []}, "lora"),
    ({"mirostat": 2}, "mirostat"),
    ({"xtc_probability": 0.5}, "xtc_probability"),
    ({"dry_multiplier": 1}, "dry_multiplier"),
    ({"dynatemp_range": 0.5}, "dynatemp_range"),
    ({"t_max_predict_ms": 100}, "t_max_predict_ms"),
    ({"n_probs": 21}, "n_probs"),
    ({"post_sampling_probs": True, "n_probs": 1}, "post_sampling_probs"),
    ({"samplers": ["infill"]}, "samplers"),
    ({"grammar": "root ::= ("}, "grammar"),
    ({"grammar": "root ::= \"a\"", "json_schema": {}}, "json_schema"),
    ({"json_schema": {"type": "hiccup"}}, "schema"),
    ({"logit_bias": [[99999999, 1]]}, "logit_bias"),
    ({"temperatur": 1}, "temperatur"),
    ({"stop": [""]}, "stop"),
])
def test_refused_by_name(server, more, what):
    error = refused(server, "/completion", {**LIFE, **more})
    assert what in error["message"]
    assert error["type"] == "invalid_request_error"


def test_another_model_is_not_found(server):
    assert refused(server, "/completion", {**LIFE, "model": "gpt-4"}, 404)["type"] == "not_found_error"


# ---- text ----

@pytest.mark.parametrize("text", ["What is the capital of France ?", "unicode 媽 and emoji 🤗", "<|im_start|>user\nhi", ""])
def test_tokens_and_back(server, text):
    ids = tokens(server, text)
    assert server.ok("/detokenize", {"tokens": ids})["content"] == text
    pieces = tokens(server, text, with_pieces=True)
    assert [p["id"] for p in pieces] == ids
    joined = b"".join(bytes(p["piece"]) if isinstance(p["piece"], list) else p["piece"].encode() for p in pieces)
    assert joined.decode() == text
    if "媽" in text:
        assert any(isinstance(p["piece"], list) for p in pieces)


def test_special_tokens_are_looked_for_unless_told_not_to(server):
    assert tokens(server, "<|im_start|>") == [1]
    assert len(tokens(server, "<|im_start|>", parse_special=False)) > 1
    assert tokens(server, ["<|im_start|>", 5, "hi"]) == [1, 5, *tokens(server, "hi")]
    refused(server, "/tokenize", {"content": [49152]})
    refused(server, "/detokenize", {"tokens": [49152]})
    refused(server, "/detokenize", {"tokens": ["a"]})


def test_a_template_gives_the_prompt_of_a_chat(server):
    messages = [{"role": "developer", "content": "Be brief."}, {"role": "user", "content": "hi"}]
    prompt = server.ok("/apply-template", {"messages": messages})["prompt"]
    assert prompt == "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n"
    assert not server.ok("/apply-template", {"messages": messages, "add_generation_prompt": False})["prompt"].endswith("assistant\n")
    chat = server.ok("/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": 8})
    text = server.ok("/completion", {"prompt": prompt, "temperature": 0, "n_predict": 8})
    assert text["content"] == chat["choices"][0]["message"]["content"]
    assert text["tokens_evaluated"] == chat["usage"]["prompt_tokens"]
    refused(server, "/apply-template", {"messages": messages, "tools": [{"type": "function", "function": {"name": "f"}}]})


def test_embeddings_are_those_of_the_openai_api(server):
    text = "I believe the meaning of life is"
    want = server.ok("/v1/embeddings", {"input": text})["data"][0]["embedding"]
    for body in ({"content": text}, {"input": text}, {"content": {"content": [{"type": "text", "text": text[:9]},
                                                                              {"type": "text", "text": text[9:]}]}}):
        assert server.ok("/embedding", body) == [{"index": 0, "embedding": [want]}]
    several = server.ok("/embeddings", {"input": [text, tokens(server, text), {"prompt_string": "other"}]})
    assert [v["index"] for v in several] == [0, 1, 2]
    assert several[0]["embedding"] == several[1]["embedding"] == [want] != several[2]["embedding"]
    for body in ({}, {"content": "a", "input": "b"}, {"content": []}, {"content": {}}, {"content": "a", "embd_normalize": -1}):
        refused(server, "/embedding", body)


# ---- infill: a vocabulary with tokens for it, and one without ----

def test_infill_needs_tokens_for_it(server):
    error = refused(server, "/infill", {"input_prefix": "a", "input_suffix": "b"}, 501)
    assert error["type"] == "not_supported_error"


@pytest.mark.parametrize("extra", [{}, {"filename": "ok"}, {"filename": 123}, {"filename": 123, "text": "abc"}, {"text": 4}])
def test_infill_checks_other_files(server, extra):
    refused(server, "/infill", {"input_prefix": "a", "input_suffix": "b", "input_extra": [extra]})


@pytest.fixture(scope="module")
def gap(tmp_path_factory):
    """The same model, three of whose unused control tokens are called as those for infilling are."""
    glim("pull", "smollm2-135m", timeout=900)
    with open(os.path.expanduser("~/.glim/models/smollm2-135m.gguf"), "rb") as f:
        blob = f.read()
    for old, new in ((b"<jupyter_text>", b"<|fim_prefix|>"), (b"<jupyter_code>", b"<|fim_suffix|>"), (b"<empty_output>", b"<|fim_middle|>")):
        assert blob.count(old) == 1 and len(old) == len(new)
        blob = blob.replace(old, new)
    path = tmp_path_factory.mktemp("gap") / "gap.gguf"
    path.write_bytes(blob)
    s = servetest.Server(path)
    yield s
    s.stop()


def test_infill_puts_its_parts_between_tokens(gap):
    body = {"input_prefix": "def f(", "input_suffix": "return x", "prompt": "x", "temperature": 0, "n_predict": 6}
    r = gap.ok("/infill", body)
    assert r["prompt"] == "<reponame>myproject\n<|fim_prefix|>def f(x<|fim_suffix|>return x<|fim_middle|>"
    assert r["content"] == gap.ok("/completion", {"prompt": r["prompt"], "temperature": 0, "n_predict": 6})["content"]
    assert "".join(e["content"] for e in stream(gap, body, "/infill")) == r["content"]
    marked = gap.ok("/infill", {**body, "input_prefix": "<|im_start|>", "input_suffix": "<|im_end|>", "n_predict": 0})
    plain = gap.ok("/infill", {**body, "input_prefix": "", "input_suffix": "", "n_predict": 0})
    assert marked["tokens_evaluated"] > plain["tokens_evaluated"] + 2  # text is not taken for control tokens
    extra = gap.ok("/infill", {**body, "input_extra": [{"filename": "a.h", "text": "int x;"}], "n_predict": 0})
    assert extra["prompt"].startswith("<reponame>myproject\n\n\n--- snippet ---\n\nint x;<|fim_prefix|>")
    ollama = gap.ok("/api/generate", {"model": "gap", "prompt": "def f(x", "suffix": "return x", "stream": False,
                                      "options": {"temperature": 0, "num_predict": 6}})
    assert ollama["response"] == r["content"]
    assert "insert" in gap.ok("/api/show", {"model": "gap"})["capabilities"]


# ---- the server ----

def test_props_slots_models(server):
    props = server.get("/props").json
    assert props["total_slots"] == 16 and props["default_generation_settings"]["n_ctx"] == 4096
    assert "<|im_start|>" in props["chat_template"] and props["chat_template_caps"]["supports_system_role"] is True
    assert (props["bos_token"], props["eos_token"]) == ("<|im_start|>", "<|im_end|>")
    slots = server.get("/slots").json
    assert len(slots) == 16 and not any(s["is_processing"] for s in slots)
    assert server.get("/slots?fail_on_no_slot=1").status == 200
    models = server.get("/models").json["data"]
    assert [m["id"] for m in models] == ["smollm2-135m"] and models[0]["meta"]["n_vocab"] == 49152
    for path in ("/props", "/slots/0?action=save", "/lora-adapters", "/rerank", "/v1/rerank"):
        assert server.post(path, {}).status == 501


def test_slots_are_busy_while_answers_are_in_work():
    s = servetest.smollm2("n-seq", 2)
    try:
        c = [s.connect() for _ in range(2)]
        for x in c:
            x.request("POST", "/completion", json.dumps({"prompt": "a", "n_predict": 2000, "ignore_eos": True, "stream": True}),
                      {"Content-Type": "application/json"})
            assert x.getresponse().read(10)
        assert [slot["is_processing"] for slot in s.get("/slots").json] == [True, True]
        error = s.get("/slots?fail_on_no_slot=1")
        assert error.status == 503 and error.json["error"]["type"] == "unavailable_error"
        for x in c:
            x.sock.close() if x.sock else x.close()
    finally:
        s.stop()
