"""If this fails, running a model takes more memory than the plan a user was shown, or the plan misstates what a format costs."""
import json
import os
import struct
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from glimtest import DATA, GLIM, glim, real_model  # noqa: E402

# Beside the plan: the program, its libraries, the tokenizer, and the stretch of the file that is being read.
BESIDE = 44 << 20

FORMATS = {  # GGUF's number, elements and bytes of a block
    "F32": (0, 1, 4), "F16": (1, 1, 2), "BF16": (30, 1, 2), "Q4_0": (2, 32, 18), "Q8_0": (8, 32, 34),
    "Q3_K": (11, 256, 110), "Q4_K": (12, 256, 144), "Q6_K": (14, 256, 210), "MXFP4": (39, 32, 17),
}
DIM, FFN, HEAD, KV_HEAD, VOCAB = 2048, 8192, 32, 8, 320
GROWTH = {"Q3_K": 1.05, "Q4_K": 1.03, "MXFP4": 1.06}  # scales in a wider type (src/cpu/pack.c)


def peak_rss(*args):
    """Bytes of resident memory at the process's peak."""
    p = subprocess.Popen([GLIM, *args], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    assert p.returncode == 0, p.stderr.read()
    return usage.ru_maxrss * 1024


def tensors(n_layer, fmt):
    """(name, rows, columns, format), rows 0 for a vector."""
    out = [("token_embd.weight", VOCAB, DIM, fmt), ("output_norm.weight", 0, DIM, "F32"), ("output.weight", VOCAB, DIM, fmt)]
    kv = DIM // HEAD * KV_HEAD
    for i in range(n_layer):
        out += [(f"blk.{i}.{name}.weight", rows, cols, fmt if rows else "F32") for name, rows, cols in [
            ("attn_norm", 0, DIM), ("attn_q", DIM, DIM), ("attn_k", kv, DIM), ("attn_v", kv, DIM), ("attn_output", DIM, DIM),
            ("ffn_norm", 0, DIM), ("ffn_gate", FFN, DIM), ("ffn_up", FFN, DIM), ("ffn_down", DIM, FFN)]]
    return out


def large_model(path, n_layer, fmt):
    """A llama of zeros: the metadata of a small one with other widths, and a hole in the file for weights."""
    with open(os.path.join(DATA, "gguf", "llama_q.Q4_0.gguf"), "rb") as f:
        small = f.read()
    n_kv, = struct.unpack_from("<Q", small, 16)
    first_tensor = struct.pack("<Q", len("output.weight")) + b"output.weight"
    kv = small[24:small.index(first_tensor)]
    for key, value in [("block_count", n_layer), ("embedding_length", DIM), ("feed_forward_length", FFN),
                       ("attention.head_count", HEAD), ("attention.head_count_kv", KV_HEAD)]:
        at = kv.index(b"llama." + key.encode() + struct.pack("<I", 4)) + len("llama." + key) + 4
        kv = kv[:at] + struct.pack("<I", value) + kv[at + 4:]
    info, at, todo = b"", 0, tensors(n_layer, fmt)
    for name, rows, cols, f in todo:
        number, elems, size = FORMATS[f]
        dims = [cols, rows] if rows else [cols]
        info += struct.pack("<Q", len(name)) + name.encode() + struct.pack(f"<I{len(dims)}QIQ", len(dims), *dims, number, at)
        at += -(-max(rows, 1) * cols // elems * size // 32) * 32
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(todo), n_kv) + kv + info
    with open(path, "wb") as f:
        f.write(head + bytes(-len(head) % 32))
        f.truncate(f.tell() + at)
    return at


def plan_of(model, *flags):
    plan = json.loads(glim("plan", "-m", model, "--json", *flags).stdout)
    return plan, [r for r in plan["rows"] if r["kind"] == "weights"]


@pytest.mark.parametrize("name", ["smollm2-135m", "gemma3-270m"])
def test_run_stays_within_the_plan(name):
    model = real_model(name)
    plan, weights = plan_of(model)
    beside = sum(r["bytes"] for r in plan["rows"] if r["kind"] != "weights")
    home = os.path.expanduser("~/.glim")
    file_bytes = os.path.getsize(os.path.join(home, "models", name + ".gguf"))
    peak = peak_rss("run", "-m", model, "-p", "word " * 600, "-n", "8", "--ignore-eos")
    print(f"{name}: peak {peak / 1e6:.1f} MB, file {file_bytes / 1e6:.1f} MB, KV and scratch {beside / 1e6:.1f} MB")
    assert peak <= 1.1 * (file_bytes + beside)
    assert peak <= plan["total"] + BESIDE
    in_file = sum(r["file_bytes"] for r in weights)
    assert 0.9 * file_bytes < in_file <= file_bytes  # the rest of the file is metadata, the tokenizer above all


@pytest.mark.parametrize("fmt", sorted(FORMATS))
def test_the_layout_takes_the_files_place(fmt, tmp_path):
    """Twice the file would show: it is three times the slack at least."""
    n_layer = max(1, round((180 << 20) * FORMATS[fmt][1] / FORMATS[fmt][2] / 62e6))
    path = str(tmp_path / "m.gguf")
    size = large_model(path, n_layer, fmt)
    assert size > 3 * BESIDE
    flags = ["--ctx", "64", "--prefill-chunk", "16"]
    plan, weights = plan_of(path, *flags)
    assert sum(r["file_bytes"] for r in weights) == size
    assert sum(r["bytes"] for r in weights) <= GROWTH.get(fmt, 1.0) * size + 4096
    if fmt == "Q4_K":
        assert any("Q4_K: " in line and "+2.8 %" in line for line in glim("plan", "-m", path, *flags).stdout.splitlines())
    assert all(r["file_bytes"] == 0 for r in plan["rows"] if r["kind"] != "weights")
    peak = peak_rss("run", "-m", path, "--tokens", "[5, 6]", "-n", "1", *flags)
    print(f"{fmt}: file {size / 1e6:.1f} MB, plan {plan['total'] / 1e6:.1f} MB, peak {peak / 1e6:.1f} MB")
    assert peak <= plan["total"] + BESIDE


def test_a_short_prompt_touches_a_short_cache():
    """The cache of a long context is there from the start, but memory is only taken as it fills."""
    model = real_model("smollm2-135m")
    plan, _ = plan_of(model, "--ctx", "8192")
    kv = sum(r["bytes"] for r in plan["rows"] if r["kind"] == "kv")
    peak = peak_rss("run", "-m", model, "-p", "word " * 20, "-n", "4", "--ignore-eos", "--ctx", "8192")
    print(f"plan {plan['total'] / 1e6:.1f} MB, kv {kv / 1e6:.1f} MB, peak {peak / 1e6:.1f} MB")
    assert kv > 2 * BESIDE and peak <= plan["total"] - kv + kv // 16 + BESIDE
