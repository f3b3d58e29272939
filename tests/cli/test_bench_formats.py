"""If this fails, somebody reads a wrong figure out of `glim bench --formats`, or out of the tools that say whether a number format is
slower or less exact here than in llama.cpp. No test here expects a speed: the peer is a script with known ones."""
import json
import os
import re
import stat
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from glimtest import DATA, GLIM, ROOT, glim

LLAMA = os.path.join(DATA, "gguf", "llama_q.Q4_K_M.gguf")

# ---- glim bench --formats ----


def test_each_format_has_a_row_with_its_kernel():
    kernels = json.loads(glim("doctor", "--json").stdout)["kernels"]
    rows = json.loads(glim("bench", "--formats", "--json", "--act", "q8").stdout)
    assert {r["format"]: r["kernel"] for r in rows} == kernels and len(rows) == len(kernels) > 10
    for r in rows:
        assert r["activations"] == ("f32" if r["format"] in ("F32", "F16", "BF16") else "q8")
        assert r["rows_1_gb_s"] > 0 and r["rows_512_gop_s"] > 0
        bits = 8 * r["weight_bytes"] / (r["n_out"] * r["n_in"])
        assert 2.5 < bits <= 32 and (r["format"] != "F32" or bits == 32)


def test_text_has_the_same_rows():
    lines = glim("bench", "--formats", "-t", "1").stdout.splitlines()
    assert "1 threads" in lines[0] and lines[1].startswith("weights")
    for line in lines[2:]:
        assert re.fullmatch(r"[A-Z0-9_]+ +(f32|mixed) +\d+\.\d +\d+\.\d  \S.*", line), line
    assert {line.split()[0] for line in lines[2:]} == set(json.loads(glim("doctor", "--json").stdout)["kernels"])


# ---- tools/bench_formats.py ----

BENCH = """#!/bin/sh
echo bench >> "{log}"
n=$(grep -c bench "{log}")
echo "| model | 1 MiB | 1 M | CPU | 2 | pp8 | ${{n}}00.00 ± 1.00 |"
echo "| model | 1 MiB | 1 M | CPU | 2 | tg4 | ${{n}}0.50 ± 1.00 |"
"""
QUANTIZE = """#!/bin/sh
echo "quantize $*" >> "{log}"
while [ "$#" -gt 4 ]; do shift; done
cp "$1" "$2"
"""


@pytest.fixture
def peer(tmp_path):
    """A folder with a llama-quantize that copies and a llama-bench whose n-th run says n * 100 and n * 10.5 tok/s."""
    for name, text in (("llama-bench", BENCH), ("llama-quantize", QUANTIZE)):
        path = tmp_path / name
        path.write_text(text.format(log=tmp_path / "log"))
        path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return tmp_path


def tool(*args, name="bench_formats.py"):
    path = os.path.join(ROOT, "tools", name)
    return subprocess.run([sys.executable, path, *map(str, args)], capture_output=True, text=True, timeout=300)


def measure(peer, *args):
    return tool("--glim", GLIM, "--peer", peer, "--model", LLAMA, "--pp", 8, "--tg", 4, *args)


def test_ratios_contents_and_table(peer, tmp_path):
    out = tmp_path / "out.json"
    r = measure(peer, "--formats", "Q4_0,MXFP4", "--rounds", 3, "-o", out)
    assert r.returncode == 0, r.stderr
    rows = json.loads(out.read_text())
    assert [row["format"] for row in rows] == ["Q4_0", "MXFP4"]
    for i, row in enumerate(rows):
        assert [x["peer"]["pp"] for x in row["rounds"]] == [100 * (3 * i + k) for k in (1, 2, 3)]
        assert row["pp_peer"] == 100 * (3 * i + 2)
        ratios = sorted(x["glim"]["tg"] / x["peer"]["tg"] for x in row["rounds"])
        assert row["tg_ratio"] == ratios[1]
        tensors = [t for t in json.loads(glim("inspect", LLAMA, "--json").stdout)["tensors"]]
        matrices = [t for t in tensors if len(t["shape"]) == 2]
        assert sum(row["types"].values()) == sum(t["bytes"] for t in matrices)
        assert set(row["types"]) == {t["type"] for t in matrices}
        embed = [t["bytes"] for t in tensors if t["name"] == "token_embd.weight"]
        tied = not any(t["name"] == "output.weight" for t in tensors)
        assert row["bytes_a_token"] == sum(t["bytes"] for t in tensors) - (0 if tied else embed[0])
    assert r.stdout.count("\n") == 4 and "| Q4_0 |" in r.stdout
    assert tool(out).stdout == r.stdout
    log = (peer / "log").read_text().splitlines()
    assert [line.split()[0] for line in log] == ["quantize", "bench", "bench", "bench"] * 2
    assert "Q4_0" in log[0] and "mxfp4" in log[4] and "Q8_0" in log[4]


def test_a_wide_model_is_all_of_one_format(peer, tmp_path):
    """The script copies what it is given: F16 matrices, rows of multiples of 256, the vocabulary of the source."""
    out = tmp_path / "out.json"
    r = measure(peer, "--wide", "--formats", "Q2_K", "--rounds", 1, "-o", out)
    assert r.returncode == 0, r.stderr
    (row,) = json.loads(out.read_text())
    assert row["model"] == "wide" and list(row["types"]) == ["F16"] and row["tg_glim"] > 0
    wide = tmp_path / "wide.gguf"
    subprocess.run([sys.executable, os.path.join(ROOT, "tools", "wide_model.py"), LLAMA, wide], check=True)
    tensors = json.loads(glim("inspect", wide, "--check", "--json").stdout)["tensors"]
    shapes = {t["name"]: t["shape"] for t in tensors}
    source = {t["name"]: t["shape"] for t in json.loads(glim("inspect", LLAMA, "--json").stdout)["tensors"]}
    assert all(s[-1] % 256 == 0 for s in shapes.values())
    assert shapes["token_embd.weight"][0] == source["token_embd.weight"][0]
    assert json.loads(glim("run", "-m", wide, "--tokens", "[1,2,3]", "-n", "2", "--ignore-eos", "--json").stdout)["prompt_tokens"] == 3


def test_what_is_refused(peer):
    assert tool().returncode == 2
    r = measure(peer, "--formats", "Q4_0,Q9_9")
    assert r.returncode == 2 and "Q9_9" in r.stderr
    (peer / "llama-bench").write_text("#!/bin/sh\necho no such thing >&2\nexit 3\n")
    r = measure(peer, "--formats", "Q4_0", "--rounds", 1)
    assert r.returncode != 0 and "no such thing" in r.stderr and "|" not in r.stdout


# ---- tools/kl_formats.py ----

PERPLEXITY = """#!/bin/sh
echo "perplexity $*" >> "{log}"
echo "Mean    KLD:   0.003252 ±   0.000080"
echo "Same top p: 95.556 ± 0.746 %"
"""


def test_distances_from_the_twin(peer, tmp_path):
    """The twin is a copy here, computed with the default activations: those are at no distance, others are, and the text's second
    halves likewise."""
    (peer / "llama-perplexity").write_text(PERPLEXITY.format(log=peer / "log"))
    (peer / "llama-perplexity").chmod(0o755)
    tokens = {"tokens.0": list(range(3, 40)), "tokens.1": [5, 9, 200, 7]}
    header, data = {}, b""
    for name, ids in tokens.items():
        blob = b"".join(i.to_bytes(4, "little") for i in ids)
        header[name] = {"dtype": "I32", "shape": [len(ids)], "data_offsets": [len(data), len(data) + len(blob)]}
        data += blob
    head = json.dumps(header).encode()
    prompts, out = tmp_path / "p.safetensors", tmp_path / "kl.json"
    prompts.write_bytes(len(head).to_bytes(8, "little") + head + data)
    args = ["--glim", GLIM, "--peer", peer, "--model", LLAMA, "--prompts", prompts, "--formats", "Q8_0", "-o", out]
    r = tool(*args, name="kl_formats.py")
    assert r.returncode == 0, r.stderr
    (row,) = json.loads(out.read_text())
    default = next(x["default"] for x in json.loads(glim("levers", "--json").stdout) if x["key"] == "act")
    assert set(row["prompts"]) == {"mixed", "q16", "q8"} and list(row["text"]) == ["mixed"] and default == "mixed"
    assert row["prompts"]["mixed"] == [0, 1] and row["text"]["mixed"] == [0, 1]
    assert 0 < row["prompts"]["q8"][0] < 1 and 0 < row["prompts"]["q16"][0] < 1
    assert row["text_peer"] == [0.003252, pytest.approx(0.95556)]
    assert "3.3e-03 / 0.956" in r.stdout and tool(out, name="kl_formats.py").stdout == r.stdout
    first, second = [line for line in (peer / "log").read_text().splitlines() if line.startswith("perplexity")]
    assert "twin.gguf" in first and "--kl-divergence " not in first + " " and "twin.gguf" not in second
    assert second.endswith("--kl-divergence")
