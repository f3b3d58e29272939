"""If these fail, a checkpoint whose config says something glim does not understand is computed wrongly instead of refused."""
import json
import os
import struct
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from glimtest import DATA, glim  # noqa: E402


def checkpoint(tmp_path, case, change, tensors=None):
    """A copy of the case whose config went through change(dict)."""
    src = os.path.join(DATA, "hf", case)
    for name in ("model.safetensors", "tokenizer.json", "tokenizer_config.json"):
        os.symlink(os.path.join(src, name), tmp_path / name)
    with open(os.path.join(src, "config.json")) as f:
        config = json.load(f)
    change(config)
    with open(tmp_path / "config.json", "w") as f:
        json.dump(config, f)
    return str(tmp_path)


def refused(path, code, *parts):
    r = glim("run", "-m", path, "-p", "x", "-n", "1", ok=False)
    assert r.returncode == code, r.stderr
    assert r.stdout == ""
    assert r.stderr.startswith("glim: ") and r.stderr.count("\n") == 1
    for part in parts:
        assert part in r.stderr


@pytest.mark.parametrize("case,key,value,code,parts", [
    ("llama", "model_type", "retnet", 3, ["retnet", "llama", "qwen3"]),
    ("llama", "surprise_factor", 2.0, 3, ["surprise_factor"]),
    ("llama", "rope_interleaved", True, 3, ["rope_interleaved"]),
    ("llama", "hidden_act", "relu2", 3, ["relu2", "silu"]),
    ("llama", "num_hidden_layers", 0, 1, ["num_hidden_layers", "0"]),
    ("llama", "num_hidden_layers", 10**9, 1, ["num_hidden_layers"]),
    ("llama", "num_hidden_layers", "3", 1, ["num_hidden_layers", "integer"]),
    ("llama", "num_hidden_layers", 4, 1, ["model.layers.3."]),
    ("llama", "num_hidden_layers", 2, 3, ["model.layers.2."]),
    ("llama", "num_key_value_heads", 4, 1, ["6", "4"]),
    ("llama", "head_dim", 15, 3, ["15", "even"]),
    ("llama", "hidden_size", 64, 1, ["shape"]),
    ("llama", "vocab_size", 319, 1, ["embed_tokens", "319"]),
    ("llama", "rms_norm_eps", -1, 1, ["epsilon"]),
    ("llama", "attention_bias", True, 1, ["q_proj.bias"]),
    ("llama", "rope_parameters", {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}, 3, ["dynamic"]),
    ("llama", "rope_parameters", {"rope_type": "default", "rope_theta": 1e4, "twist": 1}, 3, ["twist"]),
    ("llama", "rope_parameters", {"rope_type": "linear", "rope_theta": 0.5, "factor": 2.0}, 1, ["theta"]),
    ("llama", "quantization_config", {"quant_method": "gptq"}, 3, ["quantization_config"]),
    ("qwen3", "layer_types", ["full_attention"], 1, ["layer_types", "1"]),
    ("qwen3", "layer_types", ["full_attention", "linear_attention", "full_attention"], 3, ["linear_attention"]),
    ("gemma3_text", "use_bidirectional_attention", True, 3, ["bidirectional"]),
])
def test_refused_by_name(tmp_path, case, key, value, code, parts):
    refused(checkpoint(tmp_path, case, lambda c: c.__setitem__(key, value)), code, *parts)


def test_missing_files(tmp_path):
    refused(str(tmp_path / "nothing"), 1, "nothing")
    refused(str(tmp_path), 1, "config.json")


def test_gguf_key_that_nobody_knows(tmp_path):
    """One more llama.* key in an otherwise good file."""
    with open(os.path.join(DATA, "gguf", "llama_q.Q4_0.gguf"), "rb") as f:
        blob = f.read()
    (n_kv,) = struct.unpack_from("<Q", blob, 16)
    key = b"llama.attention.surprise"
    # A key and padding to the alignment, so that every tensor offset stays right.
    extra = struct.pack("<Q", len(key)) + key + struct.pack("<If", 6, 1.0)
    pad = -len(extra) % 32
    name = b"general.pad"
    while pad < 8 + len(name) + 4 + 8:
        pad += 32
    extra += struct.pack("<Q", len(name)) + name + struct.pack("<IQ", 8, pad - 8 - len(name) - 12) + b"x" * (pad - 8 - len(name) - 12)
    path = tmp_path / "m.gguf"
    path.write_bytes(blob[:16] + struct.pack("<Q", n_kv + 2) + blob[24:24] + extra + blob[24:])
    refused(str(path), 3, "llama.attention.surprise")
