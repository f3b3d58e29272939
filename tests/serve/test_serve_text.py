"""If these fail, text completions differ from what the model says: harnesses that score texts by their logprobs get wrong numbers."""

import numpy as np

from glimtest import logits, real_model

TEXT = "/v1/completions"


def log_softmax(rows):
    rows = rows.astype(np.float64)
    rows -= rows.max(axis=1, keepdims=True)
    return rows - np.log(np.exp(rows).sum(axis=1, keepdims=True))


def test_echo_scores_a_prompt(server):
    """As lm-eval's local-completions asks: token ids, echo, logprobs 1, one token or none."""
    ids = server.ok("/tokenize", {"content": "The quick brown fox jumps over the lazy dog."})["tokens"]
    lp = log_softmax(logits(real_model("smollm2-135m"), ids))
    for max_tokens in (0, 1):
        r = server.ok(TEXT, {"prompt": ids, "echo": True, "logprobs": 1, "max_tokens": max_tokens, "temperature": 0, "seed": 1234})
        told = r["choices"][0]["logprobs"]
        assert len(told["tokens"]) == len(ids) + max_tokens
        assert told["token_logprobs"][0] is None and told["top_logprobs"][0] is None
        assert "".join(told["tokens"][:len(ids)]) == "The quick brown fox jumps over the lazy dog."
        assert r["choices"][0]["text"].startswith("The quick brown fox jumps over the lazy dog.")
        for i, token in enumerate(ids[1:]):
            assert abs(told["token_logprobs"][i + 1] - lp[i, token]) < 2e-6
            top = told["top_logprobs"][i + 1]
            assert abs(max(top.values()) - lp[i].max()) < 2e-6
            assert abs(top[told["tokens"][i + 1]] - lp[i, token]) < 2e-6
            greedy = max(top.values()) == top[told["tokens"][i + 1]]
            assert greedy == (lp[i].argmax() == token)
        assert told["text_offset"][:4] == [0, 3, 9, 15]
        assert r["usage"]["completion_tokens"] == max_tokens


def test_many_prompts(server):
    texts = [f"Number {i} is" for i in range(60)]
    ids = [server.ok("/tokenize", {"content": t})["tokens"] for t in texts]
    body = {"max_tokens": 3, "temperature": 0, "logprobs": 0}
    by_text = server.ok(TEXT, {**body, "prompt": texts})
    by_ids = server.ok(TEXT, {**body, "prompt": ids})
    assert by_text["choices"] == by_ids["choices"]
    assert [c["index"] for c in by_text["choices"]] == list(range(60))
    for i in (0, 7, 59):
        one = server.ok(TEXT, {**body, "prompt": texts[i]})["choices"][0]
        assert {**one, "index": i} == by_text["choices"][i]
    events = server.stream(TEXT, {**body, "prompt": texts})
    for c in by_text["choices"]:
        assert "".join(x["text"] for e in events for x in e["choices"] if x["index"] == c["index"]) == c["text"]
    two = server.ok(TEXT, {"prompt": texts[:3], "n": 2, "seed": 5, "temperature": 1.5, "max_tokens": 8})
    assert len(two["choices"]) == 6
    again = server.ok(TEXT, {"prompt": texts[1], "n": 2, "seed": 5, "temperature": 1.5, "max_tokens": 8})
    assert [c["text"] for c in two["choices"][2:4]] == [c["text"] for c in again["choices"]]


def test_streamed_echo_is_whole_echo(server):
    body = {"prompt": "Once upon a time", "echo": True, "logprobs": 2, "max_tokens": 6, "temperature": 0}
    whole = server.ok(TEXT, body)["choices"][0]
    events = server.stream(TEXT, {**body, "stream_options": {"include_usage": True}})
    parts = [c for e in events for c in e["choices"]]
    assert "".join(p["text"] for p in parts) == whole["text"]
    for name in ("tokens", "token_logprobs", "top_logprobs", "text_offset"):
        assert [x for p in parts if p["logprobs"] for x in p["logprobs"][name]] == whole["logprobs"][name]
    assert whole["text"].startswith("Once upon a time")
    plain = server.ok(TEXT, {**body, "echo": False, "logprobs": None})["choices"][0]
    assert whole["text"] == "Once upon a time" + plain["text"]
    assert plain["logprobs"] is None


def test_tokens_that_are_no_text(server):
    """An emoji of several tokens: each alone is no UTF-8, together they are."""
    body = {"prompt": "\U0001F9FF", "echo": True, "logprobs": 0, "max_tokens": 0}
    r = server.ok(TEXT, body)["choices"][0]
    assert r["text"] == "\U0001F9FF"
    assert all(t.startswith("bytes:\\x") for t in r["logprobs"]["tokens"]) and len(r["logprobs"]["tokens"]) > 1


def test_control_tokens_are_tokens_in_raw_prompts(server):
    r = server.ok(TEXT, {"prompt": "<|im_start|>user\nhi<|im_end|>\n", "max_tokens": 1})
    assert r["usage"]["prompt_tokens"] < 10


def test_defaults(server):
    r = server.ok(TEXT, {"prompt": "Count: 1, 2, 3,", "temperature": 0, "ignore_eos": True})
    assert r["usage"]["completion_tokens"] == 16
    assert r["choices"][0]["finish_reason"] == "length"
    assert r["object"] == "text_completion"


def test_refusals(server):
    x = {"prompt": "x", "max_tokens": 1}
    server.refused(TEXT, {**x, "suffix": "y"}, param="suffix")
    server.refused(TEXT, {**x, "best_of": 2}, param="best_of")
    server.ok(TEXT, {**x, "best_of": 1, "suffix": None})
    server.refused(TEXT, {**x, "prompt": [999999]}, param="prompt")
    server.refused(TEXT, {**x, "prompt": [[1], [999999]]}, param="prompt")
    server.refused(TEXT, {**x, "prompt": []}, param="prompt")
    server.refused(TEXT, {**x, "prompt": ""}, param="prompt")
    server.refused(TEXT, {**x, "prompt": [[]]}, param="prompt[0]")
    server.refused(TEXT, {**x, "prompt": ["x", 1]}, param="prompt[1]")
    server.refused(TEXT, {**x, "grammar": "root ::= \"a\"", "json_schema": {}}, param="json_schema")
    server.refused(TEXT, {**x, "grammar": "root := nonsense"}, param="grammar")
    server.refused(TEXT, {**x, "grammar": "root ::= \"a\"", "ignore_eos": True}, param="grammar")


def test_grammar(server):
    r = server.ok(TEXT, {"prompt": "The answer is", "grammar": 'root ::= " yes" | " no"', "temperature": 1})
    assert r["choices"][0]["text"] in (" yes", " no")
    assert r["choices"][0]["finish_reason"] == "stop"


def test_tokenize(server):
    text = "Hello <|im_start|> wörld \U0001F600"
    r = server.ok("/tokenize", {"content": text})
    assert server.ok("/detokenize", {"tokens": r["tokens"]})["content"] == text
    plain = server.ok("/tokenize", {"content": text, "parse_special": False})["tokens"]
    assert len(plain) > len(r["tokens"])
    assert server.ok("/detokenize", {"tokens": plain})["content"] == text
    assert server.ok("/tokenize", {"content": ""})["tokens"] == []
    assert server.post("/detokenize", {"tokens": [10 ** 8]}).status in (200, 400)
