"""If these fail, a real model answers worse here than in llama.cpp, or differently from its float32 self.

References: float32 forwards over the dequantised weights; bars: llama.cpp's own KL divergence and top-1 agreement on the same
prompts, recorded beside the references (tests/data/README.md).
"""
import os
import sys

import numpy as np
import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from glimtest import DATA, generate, logits, real_model, safetensors  # noqa: E402

import json  # noqa: E402

MODELS = [("smollm2-135m", "SmolLM2-135M-Instruct.Q4_1"), ("gemma3-270m", "gemma-3-270m-q4_k_m")]


def log_softmax(x):
    x = x.astype(np.float64)
    m = x.max(axis=-1, keepdims=True)
    return x - m - np.log(np.exp(x - m).sum(axis=-1, keepdims=True))


def kl_and_top1(got, ref, i):
    """Mean KL(reference || got) over the reference's top 64 tokens plus one bucket for the rest; share of equal top tokens."""
    ids, top, lse = ref[f"top_ids.{i}"].astype(np.int64), ref[f"top_logits.{i}"], ref[f"logsumexp.{i}"]
    logp = top.astype(np.float64) - lse[:, None].astype(np.float64)
    logq = np.take_along_axis(log_softmax(got), ids, axis=1)
    p, q = np.exp(logp), np.exp(logq)
    rest_p, rest_q = np.maximum(1 - p.sum(1), 1e-12), np.maximum(1 - q.sum(1), 1e-12)
    kl = (p * (logp - logq)).sum(1) + rest_p * (np.log(rest_p) - np.log(rest_q))
    return kl, got.argmax(1) == ids[:, 0]


@pytest.mark.parametrize("name,file", MODELS)
def test_kl_and_top1_no_worse_than_llama_cpp(name, file):
    model = real_model(name)
    ref = safetensors(os.path.join(DATA, "real", file + ".safetensors"))
    with open(os.path.join(DATA, "real", file + ".json")) as f:
        prompts = json.load(f)["prompts"]
    kl, same, bar_kl, bar_same, n = [], [], 0.0, 0.0, 0
    for i, p in enumerate(prompts):
        k, s = kl_and_top1(logits(model, ref[f"tokens.{i}"]), ref, i)
        kl.append(k)
        same.append(s)
        bar = p["llama_cpp"]["default"]
        bar_kl += bar["kld_top64"] * len(k)
        bar_same += bar["top1"] * len(k)
        n += len(k)
    kl, same = np.concatenate(kl).mean(), np.concatenate(same).mean()
    print(f"{name}: KL {kl:.3e} (llama.cpp {bar_kl / n:.3e}), top-1 {same:.4f} (llama.cpp {bar_same / n:.4f})")
    assert kl <= bar_kl / n
    assert same >= bar_same / n - 1e-9


@pytest.mark.parametrize("name,file", MODELS)
def test_greedy_equals_float32_until_a_close_call(name, file):
    model = real_model(name)
    ref = safetensors(os.path.join(DATA, "real", file + ".safetensors"))
    i = 0
    while f"tokens.{i}" in ref:
        got = generate(model, ref[f"tokens.{i}"], 48, "--ignore-eos")["tokens"]
        want, margin = ref[f"greedy.{i}"].tolist(), ref[f"greedy_margin.{i}"]
        close = np.flatnonzero(margin < 0.05)
        n = int(close[0]) if len(close) else len(want)
        assert got[:n] == want[:n], f"prompt {i}"
        i += 1
    assert i >= 6
