"""If these fail, the engine computes another function than the original models do.

Expected values: float32 forwards of the Hugging Face classes, and llama.cpp's own distance from them for quantised files
(tests/data/README.md). Nothing here was computed by glim.
"""
import json
import os
import sys

import numpy as np
import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from glimtest import DATA, generate, hidden, logits, safetensors  # noqa: E402

HF = os.path.join(DATA, "hf")
GGUF = os.path.join(DATA, "gguf")
CASES = ["llama", "qwen2", "qwen3", "gemma3_text"]


def load(path):
    with open(path) as f:
        return json.load(f)


def case_folder(case, config, tmp_path):
    """The case as transformers 5 writes its config, or with the keys of published config files."""
    if config == "config.json":
        return os.path.join(HF, case)
    for name in os.listdir(os.path.join(HF, case)):
        if name != "config.json":
            os.symlink(os.path.join(HF, case, name), tmp_path / name)
    os.rename(tmp_path / "config.hub.json", tmp_path / "config.json")
    return str(tmp_path)


@pytest.mark.parametrize("config", ["config.json", "config.hub.json"])
@pytest.mark.parametrize("case", CASES)
def test_hf_logits_hidden_greedy(case, config, tmp_path):
    model = case_folder(case, config, tmp_path)
    meta, tokens = load(os.path.join(HF, case, "case.json")), load(os.path.join(HF, case, "tokens.json"))
    want = safetensors(os.path.join(HF, case, "expected.safetensors"))
    bound = max(1e-4, 10 * meta["max_abs_diff_one_ulp_weight_noise"])
    for i, prompt in enumerate(tokens):
        got = logits(model, prompt)
        assert got.shape == want[f"logits.{i}"].shape
        assert np.abs(got - want[f"logits.{i}"]).max() <= bound
        assert generate(model, prompt, 24, "--ignore-eos")["tokens"] == want[f"greedy.{i}"].tolist()
    got = hidden(model, tokens[0])
    for layer in range(meta["hidden_layers"]):
        w = want[f"hidden.0.{layer}"]
        assert np.abs(got[layer] - w).max() <= bound * np.abs(w).max(), f"first divergent layer: {layer}"


@pytest.mark.parametrize("file", ["llama.f32", "qwen2.f32", "qwen3.bf16", "gemma3.f16"])
def test_gguf_converted(file):
    key = file + ".gguf"
    entry = load(os.path.join(GGUF, "converted.json"))[key]
    own, drawn = safetensors(os.path.join(GGUF, "converted_expected.safetensors")), load(os.path.join(GGUF, "converted_tokens.json"))
    if key in drawn:
        tokens = drawn[key]
        want = {i: own[f"{key}.logits.{i}"] for i in range(len(tokens))}
    else:
        case = os.path.basename(entry["checkpoint"])
        tokens = load(os.path.join(HF, case, "tokens.json"))
        e = safetensors(os.path.join(HF, case, "expected.safetensors"))
        want = {i: e[f"logits.{i}"] for i in range(len(tokens))}
    assert want
    for i, w in want.items():
        got = logits(os.path.join(GGUF, file + ".gguf"), tokens[i])
        assert np.abs(got - w).max() <= 1e-3


QUANTS = ["Q8_0", "Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q2_K", "Q3_K_S", "Q4_K_S", "Q4_K_M", "Q5_K_S", "Q6_K", "IQ4_NL", "IQ4_XS", "MXFP4"]


def quantised(quant, *flags):
    """This engine's logits, those of the same weights in float32, and what llama.cpp was measured at."""
    name = f"llama_q.{quant}"
    tokens = load(os.path.join(GGUF, "quant_tokens.json"))["llama_q"][0]
    want = safetensors(os.path.join(GGUF, "quant_expected.safetensors"))[f"{name}.logits"]
    return logits(os.path.join(GGUF, name + ".gguf"), tokens, *flags), want, load(os.path.join(GGUF, "quant.json"))[name]["llama_cpp"]


def top1(got, want):
    return (got.argmax(1) == want.argmax(1)).mean()


@pytest.mark.parametrize("quant", QUANTS)
def test_gguf_quantised_no_worse_than_llama_cpp(quant):
    got, want, bar = quantised(quant, "--act", "q16", "--kv-type", "f16")
    assert np.abs(got - want).mean() <= 0.1 * bar["mean_abs"]
    assert top1(got, want) >= bar["top1"] - 0.02


# The default's bar for top-1 is over all formats: 48 positions of a random model cannot resolve 0.02, one flip is more.
def test_gguf_quantised_by_default_no_worse_than_llama_cpp():
    ours, theirs = [], []
    for quant in QUANTS:
        got, want, bar = quantised(quant)
        assert np.abs(got - want).mean() <= 0.9 * bar["mean_abs"], quant
        ours.append(top1(got, want))
        theirs.append(bar["top1"])
    assert np.mean(ours) >= np.mean(theirs) - 0.02
