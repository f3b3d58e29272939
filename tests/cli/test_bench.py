"""If this fails, somebody reads a wrong figure out of `glim bench`, its roofline or the comparison with other engines.
No test here expects a speed: figures are checked against each other."""
import json
import os
import statistics
import subprocess
import sys
import xml.etree.ElementTree as ET

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from glimtest import DATA, GLIM, ROOT, glim

Q4 = os.path.join(DATA, "gguf", "llama_q.Q4_K_M.gguf")
LLAMA = os.path.join(DATA, "hf", "llama")
GEMMA = os.path.join(DATA, "hf", "gemma3_text")


def fails(code, *args):
    r = glim("bench", *args, ok=False)
    assert r.returncode == code, f"exit {r.returncode}: {r.stderr}"
    assert r.stdout == "" and r.stderr.startswith("glim: ") and r.stderr.count("\n") == 1
    return r.stderr


# ---- rows ----


def test_each_depth_and_batch_has_a_row():
    rows = json.loads(glim("bench", "-m", Q4, "-p", "8", "-n", "4", "-r", "2", "-d", "0,40", "-b", "1,3,16", "--json").stdout)
    assert [r["test"] for r in rows] == ["pp8", "tg4", "tg4 b3", "tg4 b16",
                                         "pp8@d40", "tg4@d40", "tg4@d40 b3", "tg4@d40 b16"]
    assert [(r["depth"], r["batch"]) for r in rows[:4]] == [(0, 1), (0, 1), (0, 3), (0, 16)]
    assert [r["depth"] for r in rows[4:]] == [40] * 4
    assert all(0 < r["tok_s_min"] <= r["tok_s_median"] <= r["tok_s_max"] for r in rows)
    rows = json.loads(glim("bench", "-m", Q4, "-p", "0", "-n", "2", "-r", "1", "-b", "4", "--json").stdout)
    assert [r["test"] for r in rows] == ["tg2 b4"]
    rows = json.loads(glim("bench", "-m", Q4, "-p", "2", "-n", "0", "-r", "1", "-b", "4", "--json").stdout)
    assert [r["test"] for r in rows] == ["pp2"]


def test_windows_and_descending_depths():
    """Depths in any order; a model whose windows let no cache be cut back computes anew."""
    rows = json.loads(glim("bench", "-m", GEMMA, "-p", "20", "-n", "30", "-r", "2", "-d", "90,7", "-b", "2,1", "--json").stdout)
    assert [r["test"] for r in rows] == ["pp20@d90", "tg30@d90 b2", "tg30@d90", "pp20@d7", "tg30@d7 b2", "tg30@d7"]


@pytest.mark.parametrize("text", ["", ",", "x", "1,", ",1", "1,,2", "1 2", "1;2", "-1", "4,x", "1.5",
                                  "99999999999999999999", "0" * 24 + "x", ",".join(["1"] * 33)])
@pytest.mark.parametrize("option", ["batch", "depth"])
def test_a_list_is_numbers_with_commas_between(option, text):
    message = fails(2, "-m", Q4, f"--{option}={text}")
    assert f"option --{option}: have '{text}', need" in message


def test_bounds():
    assert "1 to 1024" in fails(2, "-m", Q4, "-b", "0")
    assert "1 to 1024" in fails(2, "-m", Q4, "-b", "1,1025")
    assert "have a model for 512 positions, need 516" in fails(3, "-m", Q4, "-p", "0", "-n", "4", "-d", "0,512")
    assert "need" in fails(3, "-m", Q4, "-p", "0", "-n", "4", "-b", "1024", "--mem-limit", "1000000")
    assert "--formats" in fails(2, "--formats", "-m", Q4)
    assert "--formats" in fails(2, "--formats", "--roofline")


def test_text_names_the_kernels():
    out = glim("bench", "-m", Q4, "-p", "8", "-n", "4", "-r", "1", "-b", "1,2").stdout
    kernels = json.loads(glim("bench", "-m", Q4, "-p", "8", "-n", "0", "-r", "1", "--json").stdout)[0]["kernels"]
    lines = [line.split(None, 2) for line in out.splitlines()]
    assert kernels and all([*kind.split(), name] in lines for kind, name in kernels.items()), out
    assert [line[0] for line in lines if "tok/s" in " ".join(line)] == ["pp8", "tg4", "tg4"]


# ---- roofline ----


def roofline(model, *args):
    return json.loads(glim("bench", "-m", model, "--roofline", "--json", "-r", "2", *args).stdout)


COMMON = {"embed", "rope_table", "qkv", "attn_prepare", "attention", "attn_out", "gate_up", "down", "gather", "head", "other"}


@pytest.mark.parametrize("model, more", [(LLAMA, set()), (GEMMA, {"rmsnorm", "add"})], ids=["llama", "gemma3"])
def test_roofline(model, more):
    r = roofline(model, "-p", "40", "-n", "6", "-d", "0,30", "-b", "1,3")
    machine = r["machine"]
    with open(os.path.join(model, "config.json")) as f:
        layers = json.load(f)["num_hidden_layers"]
    for limit in ("memory_gb_s", "cache_gb_s", "int8_gop_s", "f32_gop_s"):
        assert machine[limit] > 0
    assert machine["bf16_gop_s"] is None or machine["bf16_gop_s"] > 0
    assert r["backend"].startswith("cpu-") and r["kernels"] and r["threads"] >= 1
    assert [t["test"] for t in r["tests"]] == ["pp40", "tg6", "tg6 b3", "pp40@d30", "tg6@d30", "tg6@d30 b3"]
    for t in r["tests"]:
        step = t["test"].startswith("tg")
        assert t["tokens"] == (t["batch"] if step else 40) and t["passes"] == (12 if step else 2)
        # a decode wants the logits of every row: nothing is gathered
        missing = {"gather"} if step else set()
        ops = {op["op"]: op for op in t["ops"]}
        assert set(ops) == (COMMON | more) - missing
        other = ops.pop("other")
        assert all(op["seconds"] > 0 and op["bytes"] > 0 and op["calls"] > 0 for op in ops.values())
        assert abs(sum(op["share"] for op in ops.values()) + other["share"] - 1) < 1e-3
        assert other["seconds"] >= 0  # what is not in an op lies between them
        for op in ops.values():
            assert op["share"] == pytest.approx(op["seconds"] / t["seconds"], rel=1e-2, abs=1e-5)
            assert op["percent_of_limit"] == pytest.approx(100 * op["limit_seconds"] / op["seconds"], rel=1e-2, abs=1e-2)
            assert op["gb_s"] == pytest.approx(op["bytes"] / op["seconds"] * 1e-9, rel=1e-2, abs=2e-3)
            assert op["limit"] in ("memory", "cache", "int8", "f32") and op["limit_seconds"] > 0
        assert t["tok_s"] == pytest.approx(t["tokens"] / t["seconds"], rel=1e-3)
        limit = sum(op["limit_seconds"] for op in ops.values())
        assert t["limit_tok_s"] == pytest.approx(t["tokens"] / limit, rel=1e-3)
        assert t["percent_of_limit"] == pytest.approx(100 * limit / t["seconds"], rel=1e-2, abs=1e-2)
        assert {ops[n]["calls"] for n in ("attention", "attn_out", "gate_up", "down")} == {layers}
        assert ops["qkv"]["calls"] == layers + (not step)  # a prefill's last layer: K and V of all rows, q of one
        assert ops["head"]["calls"] == ops["embed"]["calls"] == 1
        assert ops["attn_prepare"]["calls"] == layers + (not step)
    by_name = {t["test"]: {op["op"]: op for op in t["ops"]} for t in r["tests"]}
    assert by_name["pp40"]["down"]["ops"] * layers == (40 * (layers - 1) + 1) * by_name["tg6"]["down"]["ops"]
    assert by_name["tg6 b3"]["down"]["ops"] == 3 * by_name["tg6"]["down"]["ops"]
    assert by_name["tg6@d30"]["attention"]["bytes"] > by_name["tg6"]["attention"]["bytes"]


def test_wide_activations_are_twice_the_work():
    def out(act):
        (t,) = roofline(Q4, "-p", "0", "-n", "2", "--act", act)["tests"]
        return next(op for op in t["ops"] if op["op"] == "attn_out")

    assert out("q16")["ops"] == 2 * out("q8")["ops"]


def test_roofline_text():
    out = glim("bench", "-m", Q4, "--roofline", "-p", "8", "-n", "4", "-r", "1").stdout
    assert "GB/s from memory" in out and "pp8: times of one prefill" in out and "tg4: times of one step" in out
    assert out.count("attention ") == 2 and out.count("total ") == 2 and out.count("of the limit's") == 2


# ---- comparison with other engines ----

PEER = """#!%s
import json, os, sys
a = dict(zip(sys.argv[1::2], sys.argv[2::2]))
if "--help" in sys.argv:
    sys.exit(print(%r))
count = os.path.join(os.path.dirname(sys.argv[0]), "count")
n = len(open(count).read()) if os.path.exists(count) else 0
open(count, "a").write("x")
def row(p, g, d, **more):
    return {"build_commit": "abc", "n_prompt": p, "n_gen": g, "avg_ts": 1000.0 * p + 10 * g + d + n, **more}
p, g, d = int(a["-p"]), int(a["-n"]), int(a.get("-d", 0))
rows = [row(p, 0, d)] if p else []
rows += [row(0, g, d)] if g else []
if "-gp" in a:
    p, g = map(int, a["-gp"].split(","))
    rows.append(row(p, g, 0))
elif d:
    for r in rows:
        r["n_depth"] = d
print(json.dumps(rows))
"""


def make_peer(folder, help_text):
    folder.mkdir()
    path = folder / "llama-bench"
    path.write_text(PEER % (sys.executable, help_text))
    path.chmod(0o755)
    return folder


def tool(name, *args, ok=True):
    r = subprocess.run([sys.executable, os.path.join(ROOT, "tools", name), *map(str, args)], capture_output=True, text=True)
    assert not ok or r.returncode == 0, r.stderr
    return r


def test_compare(tmp_path):
    new, old = make_peer(tmp_path / "new", "-d, --n-depth <n>"), make_peer(tmp_path / "old", "-gp <pp,tg>")
    out = tmp_path / "results" / "r.json"
    r = tool("bench_cpu.py", "--glim", GLIM, "--peer", f"new={new}", "--peer", f"old={old}", "--model", f"tiny={Q4}", "--rounds", 3,
             "--threads", 1, "--prefill", "8,16", "--gen", 4, "--depth", "20,600", "--batch", "2", "-o", out)
    assert "left out" in r.stderr and "512 positions" in r.stderr
    result = json.loads(out.read_text())
    assert result["rounds"] == 3 and result["threads"] == 1 and result["machine"]["cpus"] >= 1 and result["commit"]
    assert result["peers"] == [{"name": "new", "commit": "abc"}, {"name": "old", "commit": "abc"}]
    (model,) = result["models"]
    assert model["name"] == "tiny" and model["bytes"] == os.path.getsize(Q4)
    tests = {t["test"]: t for t in model["tests"]}
    assert set(tests) == {"pp8", "tg4", "pp16", "tg4@d20", "tg4 b2"}
    for name, t in tests.items():
        assert set(t["rounds"]) == ({"glim"} if name == "tg4 b2" else {"glim", "new", "old"})
        for engine, rates in t["rounds"].items():
            assert len(rates) == 3 and t["tok_s"][engine] == pytest.approx(statistics.median(rates), abs=0.01)
        for engine, ratio in t["ratio"].items():
            each = [g / p for g, p in zip(t["rounds"]["glim"], t["rounds"][engine])]
            assert ratio == pytest.approx(statistics.median(each), abs=0.001)
    # three calls a round: pp8 with tg4, pp16, tg4 at 20
    assert tests["pp8"]["rounds"]["new"] == [8000, 8003, 8006] and tests["tg4@d20"]["rounds"]["new"] == [62, 65, 68]
    assert tests["pp16"]["rounds"]["old"] == [16001, 16004, 16007]
    assert "x new" in r.stdout and tool("bench_cpu.py", "--model", "tiny", ok=False).returncode == 2


def test_compare_stops_at_a_failing_engine(tmp_path):
    r = tool("bench_cpu.py", "--glim", GLIM, "--model", f"tiny={tmp_path / 'none.gguf'}", "--rounds", 1, ok=False)
    assert r.returncode == 1 and "none.gguf" in r.stderr


def results(path, models, engines, **more):
    """Made-up results; engine i has the rate 100 / (i + 1)."""
    row = {"tok_s": {e: 100 / (i + 1) for i, e in enumerate(engines)}, "ratio": {e: i + 1.0 for i, e in enumerate(engines) if i}}
    result = {"date": "2026-01-02", "commit": "abc", "machine": {"cpu": "A & B <CPU>"}, "threads": 2,
              "models": [{"name": m, "tests": [{"test": "pp512", **row}, {"test": "tg64", **row}]} for m in models], **more}
    path.write_text(json.dumps(result))
    return path


def bars(path):
    root = ET.parse(path).getroot()
    assert root.tag.endswith("svg") and float(root.get("width")) > 0
    every = list(root.iter())
    for e in every:  # nothing sticks out
        if e.get("x"):
            assert 0 <= float(e.get("x")) <= float(root.get("width")) and 0 <= float(e.get("y")) <= float(root.get("height"))
    return [e for e in every if e.get("class") == "bar"], "\n".join(e.text or "" for e in every)


def test_plot(tmp_path):
    engines = ["glim", "llama.cpp", "ik & co"]
    a = results(tmp_path / "a.json", ["Small <1>", "Large"], engines)
    b = results(tmp_path / "b.json", ["Other", "Large"], engines[:2])
    out = tmp_path / "plot.svg"
    tool("plot_bench.py", a, "-o", out)
    found, text = bars(out)
    assert len(found) == 2 * 2 * 3
    widths = sorted({float(e.get("width")) for e in found})
    assert widths == pytest.approx([100, 150, 300])  # a panel is 300 wide
    assert "Small <1>" in text and "ik & co" in text and "A & B <CPU>" in text and "prefill 512" in text
    assert "prefers-color-scheme: dark" in text and "50  (glim 2.00×)" in text
    tool("plot_bench.py", a, b, "-o", out)
    found, text = bars(out)
    assert len(found) == 2 * (3 + 2 + 2)  # Large comes from the second file, which has one peer
    tool("plot_bench.py", a, "-o", out, "--tests", "tg64")
    assert len(bars(out)[0]) == 2 * 3
    assert tool("plot_bench.py", tmp_path / "none.json", "-o", out, ok=False).returncode != 0
