"""If these fail, the arrays glim hands to other tools are wrong, `inspect --check` overlooks damage, or a memory plan, a speed or a
machine report says something untrue."""
import json
import os
import struct
import sys

import numpy as np
import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from glimtest import DATA, glim, hidden, logits, safetensors  # noqa: E402

LLAMA = os.path.join(DATA, "gguf", "llama.f32.gguf")
HF = os.path.join(DATA, "hf", "llama")
Q4 = os.path.join(DATA, "gguf", "llama_q.Q4_K_M.gguf")
TOKENS = [7, 40, 33, 90, 12, 250, 101]


# ---- logits ----


def test_logits_are_a_plain_npy(tmp_path):
    out = tmp_path / "o.npy"
    glim("logits", "-m", LLAMA, "--tokens", json.dumps(TOKENS), "-o", out)
    raw = out.read_bytes()
    assert raw[:8] == b"\x93NUMPY\x01\x00"
    (n,) = struct.unpack_from("<H", raw, 8)
    assert (10 + n) % 64 == 0 and len(raw) == 10 + n + 4 * len(TOKENS) * 320
    a = np.load(out)
    assert a.dtype == np.dtype("<f4") and a.shape == (len(TOKENS), 320) and a.flags.c_contiguous
    assert np.isfinite(a).all() and a.std() > 0.1
    np.testing.assert_array_equal(logits(LLAMA, TOKENS[:4]), a[:4])  # a row depends on what came before alone
    top = json.loads(glim("run", "-m", LLAMA, "--tokens", json.dumps(TOKENS), "-n", "1", "--json").stdout)["tokens"][0]
    assert top == int(a[-1].argmax())


def test_hidden_states_lead_to_the_layer_that_differs(tmp_path):
    mine = tmp_path / "h.npy"
    args = ["logits", "-m", LLAMA, "--tokens", json.dumps(TOKENS)]
    glim(*args, "--dump-hidden", mine)
    h = np.load(mine)
    assert h.shape == (3, len(TOKENS), 96)
    assert json.loads(glim(*args, "--compare", mine, "--json").stdout)["first_divergent"] is None
    for layer in range(3):
        bent = h.copy()
        bent[layer:, 3, 5] += 0.01 * np.abs(h).max()
        np.save(tmp_path / "b.npy", bent)
        r = glim(*args, "--compare", tmp_path / "b.npy", "--json", ok=False)
        assert r.returncode == 1 and json.loads(r.stdout)["first_divergent"] == layer and f"layer {layer}:" in r.stderr
    bent[1] = np.nan
    np.save(tmp_path / "b.npy", bent)
    r = glim(*args, "--compare", tmp_path / "b.npy", "--json", ok=False)
    assert json.loads(r.stdout)["first_divergent"] == 1
    assert glim(*args, "--compare", mine, "--tolerance", "0").returncode == 0


@pytest.mark.parametrize("bad", [np.zeros((3, 7, 95), "f4"), np.zeros((3, 7), "f4"), np.zeros((3, 7, 96), "f8"),
                                 np.asfortranarray(np.zeros((3, 7, 96), "f4"))])
def test_compare_refuses_other_arrays(bad, tmp_path):
    np.save(tmp_path / "b.npy", bad)
    r = glim("logits", "-m", LLAMA, "--tokens", json.dumps(TOKENS), "--compare", tmp_path / "b.npy", ok=False)
    assert r.returncode == 1 and "b.npy" in r.stderr and len(r.stderr.splitlines()) == 1


def test_damaged_npy_files_are_errors(tmp_path):
    path = tmp_path / "b.npy"
    np.save(path, np.zeros((3, 7, 96), "f4"))
    raw = path.read_bytes()
    for cut in [1, 5, 9, 11, 40, 127, len(raw) - 1]:
        path.write_bytes(raw[:cut])
        r = glim("logits", "-m", LLAMA, "--tokens", json.dumps(TOKENS), "--compare", path, ok=False)
        assert r.returncode == 1, cut
    for old, new in [(b"(3, 7, 96)", b"(3, 7, 96 "), (b"(3, 7, 96)", b"(3,,7,96)x"), (b"(3, 7, 96)", b"()        "), (b"NUMPY\x01", b"NUMPY\x09")]:
        assert old in raw
        path.write_bytes(raw.replace(old, new))
        assert glim("logits", "-m", LLAMA, "--tokens", json.dumps(TOKENS), "--compare", path, ok=False).returncode == 1, new


# ---- inspect ----


def test_inspect_lists_metadata_and_tensors():
    r = json.loads(glim("inspect", Q4, "--json").stdout)
    assert (r["format"], r["version"], r["arch"], r["served"]) == ("gguf", 3, "llama", True)
    assert r["metadata"]["llama.block_count"] == {"type": "u32", "value": 1}
    assert r["metadata"]["tokenizer.ggml.tokens"]["n"] == 320 and r["metadata"]["tokenizer.ggml.tokens"]["head"][4] == "<|im_start|>"
    t = {x["name"]: x for x in r["tensors"]}
    assert t["output.weight"] == {"name": "output.weight", "type": "Q6_K", "known": True, "bytes": 320 * 210, "shape": [320, 256]}
    assert r["tensor_bytes"] == sum(x["bytes"] for x in r["tensors"])
    assert r["params"] == sum(np.prod(x["shape"]) for x in r["tensors"])
    assert r["tokenizer"] == {"pre": "gpt-2", "n": 320, "bos": 1, "eos": 2}
    text = glim("inspect", "-m", Q4).stdout
    for word in ("llama.block_count = 1", "Q6_K", "output.weight [320,256]", "GGUF version 3"):
        assert word in text


def test_inspect_of_a_folder():
    r = json.loads(glim("inspect", HF, "--check", "--json").stdout)
    assert (r["format"], r["arch"], r["served"]) == ("hf", "llama", True)
    want = safetensors_header(os.path.join(HF, "model.safetensors"))
    assert {t["name"]: (t["type"], t["shape"]) for t in r["tensors"]} == want
    assert r["config"] == json.load(open(os.path.join(HF, "config.json")))
    assert r["check"]["bad"] == [] and r["check"]["unchecked_tensors"] == 0
    assert "hidden_size" in glim("inspect", HF).stdout


def safetensors_header(path):
    with open(path, "rb") as f:
        (n,) = struct.unpack("<Q", f.read(8))
        h = json.loads(f.read(n))
    return {k: (v["dtype"], v["shape"]) for k, v in h.items() if k != "__metadata__"}


def test_inspect_lists_what_no_architecture_serves(tmp_path):
    other = tmp_path / "other.gguf"
    other.write_bytes(open(LLAMA, "rb").read().replace(b"llama", b"zlama"))
    r = json.loads(glim("inspect", other, "--json").stdout)
    assert (r["arch"], r["served"]) == ("zlama", False) and "zlama" in r["why_not"] and len(r["tensors"]) == 30
    assert glim("run", "-m", other, "-p", "x", ok=False).returncode != 0


def tensor_offset(path, name):
    """Where a tensor's data begin, read off the file by its own numbers: all tensors follow each other, padded to 32."""
    r = json.loads(glim("inspect", path, "--json").stdout)["tensors"]
    size = os.path.getsize(path)
    pad = lambda n: (n + 31) // 32 * 32  # noqa: E731
    start = size - sum(pad(t["bytes"]) for t in r)
    for t in r:
        if t["name"] == name:
            return start
        start += pad(t["bytes"])
    raise KeyError(name)


@pytest.mark.parametrize("name, block_bytes, block, what", [("output.weight", 210, 17, "d"), ("token_embd.weight", 144, 3, "d"),
                                                           ("output_norm.weight", 4, 200, "f32")])
def test_check_names_tensor_and_block(name, block_bytes, block, what, tmp_path):
    bad = tmp_path / "bad.gguf"
    raw = bytearray(open(Q4, "rb").read())
    at = tensor_offset(Q4, name) + block * block_bytes
    if what == "f32":
        raw[at : at + 4] = struct.pack("<f", float("nan"))
    else:  # the block's scale: Q6_K keeps it at the end, Q4_K at the beginning
        at += 208 if block_bytes == 210 else 0
        raw[at : at + 2] = struct.pack("<H", 0x7C00)
    bad.write_bytes(raw)
    assert glim("inspect", Q4, "--check").returncode == 0
    r = glim("inspect", bad, "--check", "--json", ok=False)
    assert r.returncode == 1 and name in r.stderr and f"block {block}:" in r.stderr
    assert json.loads(r.stdout)["check"]["bad"] == [{"tensor": name, "first_block": block, "blocks": 1}]
    assert name in glim("inspect", bad, "--check", ok=False).stdout
    assert glim("inspect", bad).returncode == 0  # without --check nothing is read


# ---- plan, bench, doctor ----


def test_plan_adds_up_and_grows():
    def plan(*args, ok=True):
        r = glim("plan", "-m", Q4, "--json", *args, ok=ok)
        p = json.loads(r.stdout)
        assert p["total"] == sum(row["bytes"] for row in p["rows"])
        return p, r.returncode

    def kv(p):
        return sum(row["bytes"] for row in p["rows"] if row["kind"] == "kv")

    p, _ = plan("--ctx", "256")
    assert p["fits"] and kv(plan("--ctx", "512")[0]) > kv(p)
    # keys and values of 1 layer, 1 KV head of 64: f16, and by default bytes with f16 scales for each 32 and each 64
    assert kv(plan("--ctx", "256", "--kv-type", "f16")[0]) >= 256 * 64 * 2 * 2 > kv(p) >= 256 * (2 * 64 + 2 * 2 + 2)
    assert kv(plan("--ctx", "256", "--seqs", "4")[0]) == 4 * kv(p)
    p, code = plan("--mem-limit", "100000", ok=False)
    assert (p["fits"], p["available"], code) == (False, 100000, 3)
    assert "total" in glim("plan", "-m", Q4).stdout


def test_bench_rows():
    rows = json.loads(glim("bench", "-m", Q4, "-p", "40", "-n", "10", "-r", "3", "-t", "1", "--json").stdout)
    assert [r["test"] for r in rows] == ["pp40", "tg10"]
    for r in rows:
        assert (r["model"], r["threads"]) == ("Llama_Q", 1) and r["backend"].startswith("cpu-")
        assert 0 < r["tok_s_min"] <= r["tok_s_median"] <= r["tok_s_max"]
        assert r["tok_s_min"] <= r["tok_s_mean"] <= r["tok_s_max"]
        assert any(k.startswith("Q4_K ") for k in r["kernels"]) and all(r["kernels"].values())
    deep = json.loads(glim("bench", "-m", Q4, "-p", "8", "-n", "8", "-d", "100", "-r", "1", "--json").stdout)
    assert [r["test"] for r in deep] == ["pp8@d100", "tg8@d100"]
    assert [r["test"] for r in json.loads(glim("bench", "-m", Q4, "-p", "0", "-n", "4", "-r", "1", "--json").stdout)] == ["tg4"]
    assert glim("bench", "-m", Q4, "-p", "0", "-n", "0", ok=False).returncode == 2
    assert glim("bench", "-m", Q4, "-p", "513", ok=False).returncode == 3
    assert "pp8" in glim("bench", "-m", Q4, "-p", "8", "-n", "4", "-r", "1").stdout


def test_doctor_tells_of_this_machine():
    d = json.loads(glim("doctor", "--json").stdout)
    assert d["isa"]["generic"] and 1 <= d["cores"] <= d["cpus"] and d["read_gb_s"] > 0.1
    assert d["memory_available"] is None or d["memory_available"] > 0
    assert d["cuda"] == "not in this build" and d["kernels"]["Q4_K"] and "I32" not in d["kernels"]
    generic = json.loads(glim("doctor", "--json", "--cpu-isa", "generic").stdout)
    assert generic["backend"] == "cpu-generic"
    assert "Q4_K" in glim("doctor").stdout
