#!/usr/bin/env python3
"""Compares `glim bench` with llama.cpp for each number format of weights, on one model that llama-quantize re-quantises.

usage: tools/bench_formats.py --glim build/glim --peer DIR --model FILE.gguf [--formats Q4_0,Q6_K,…] [--rounds 3] [-o FILE.json]
       tools/bench_formats.py FILE.json …                       (prints the table of results that were kept)

DIR holds llama-bench and llama-quantize with their libraries. Each round runs both engines in turn, so that a drift of the
machine's speed hits both alike; a speed is the median over rounds and a ratio is the median of the rounds' ratios (> 1: glim is
faster). Weights are only as good as the file they were made from, which speed does not care about. llama-quantize gives a tensor
whose rows are no multiple of a format's block another format: the column "holds" says what the file really has, by bytes. With
--wide a made-up model takes the model's place (wide_model.py), which any format can hold all of.

GB/s are those of the weights that a decoded token reads; GOP/s are multiplications and additions of the products in prefill.
"""

import argparse
import collections
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

import wide_model

# What to ask llama-quantize for. All tensors get the same format (--pure); the last two exist as a tensor's type only.
FORMATS = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "Q2_K", "Q3_K_M", "Q4_K_M", "Q5_K_M", "Q6_K", "IQ4_NL", "IQ4_XS", "BF16", "F16",
           "F32", "MXFP4", "NVFP4"]
BY_TENSOR = ["MXFP4", "NVFP4"]


def peer_run(peer, tool, *args):
    """Standard output of one of the peer's programs."""
    r = subprocess.run([os.path.join(peer, tool), *map(str, args)], capture_output=True, text=True,
                       env=dict(os.environ, LD_LIBRARY_PATH=peer))
    if r.returncode:
        sys.exit(f"{tool} {' '.join(map(str, args))}: exit {r.returncode}\n{r.stderr[-2000:]}")
    return r.stdout


def requantise(peer, source, target, name, threads=2):
    flags = ["--allow-requantize", "--pure"]
    if name in BY_TENSOR:
        t = name.lower()
        flags += ["--tensor-type", f"attn={t}", "--tensor-type", f"ffn={t}", "--token-embedding-type", t]
        name = "Q8_0"
    peer_run(peer, "llama-quantize", *flags, source, target, name, threads)


def glim_json(glim, *args):
    r = subprocess.run([glim, *map(str, args)], capture_output=True, text=True)
    if r.returncode:
        sys.exit(f"glim {' '.join(map(str, args))}: exit {r.returncode}\n{r.stderr[-2000:]}")
    return json.loads(r.stdout)


def contents(glim, path):
    """What a file holds: bytes by type, bytes a decoded token reads, elements of the products in a layer."""
    tensors = glim_json(glim, "inspect", path, "--json")["tensors"]
    tied = not any(t["name"] == "output.weight" for t in tensors)
    types, read, elements = collections.Counter(), 0, 0
    for t in tensors:
        matrix = len(t["shape"]) == 2
        if t["name"] != "token_embd.weight" or tied:  # otherwise one row of it is read
            read += t["bytes"]
        if matrix:
            types[t["type"]] += t["bytes"]
        if matrix and t["name"] not in ("token_embd.weight", "output.weight"):
            elements += t["shape"][0] * t["shape"][1]
    return {"types": dict(types.most_common()), "bytes_a_token": read, "elements_in_layers": elements}


def peer_speed(peer, path, a):
    out = peer_run(peer, "llama-bench", "-m", path, "-t", a.threads, "-p", a.pp, "-n", a.tg, "-r", 1)
    return {kind: float(rate) for kind, rate in re.findall(r"\|\s*(pp|tg)\d+\s*\|\s*([0-9.]+)", out)}


def glim_speed(glim, path, a):
    rows = glim_json(glim, "bench", "-m", path, "-t", a.threads, "-p", a.pp, "-n", a.tg, "-r", 1, "--json", *a.flag)
    return {row["test"][:2]: row["tok_s_median"] for row in rows}, rows[0]["kernels"]


def measure(a, name, path):
    rounds = []
    for _ in range(a.rounds):
        speed, kernels = glim_speed(a.glim, path, a)
        rounds.append({"glim": speed, "peer": peer_speed(a.peer, path, a)})
    row = {"model": "wide" if a.wide else os.path.basename(a.model), "format": name, **contents(a.glim, path), "kernels": kernels, "rounds": rounds}
    for kind in ("pp", "tg"):
        for who in ("glim", "peer"):
            row[f"{kind}_{who}"] = statistics.median(r[who][kind] for r in rounds)
        row[f"{kind}_ratio"] = statistics.median(r["glim"][kind] / r["peer"][kind] for r in rounds)
    return row


def holds(row):
    total = sum(row["types"].values())
    return ", ".join(f"{t} {100 * n / total:.0f} %" for t, n in row["types"].items())


def table(rows):
    lines = ["| model | format | holds | prefill glim | llama.cpp | ratio | GOP/s | decode glim | llama.cpp | ratio | GB/s |",
             "|---|---|---|---|---|---|---|---|---|---|---|"]
    for r in rows:
        gops = 2 * r["elements_in_layers"] * r["pp_glim"] / 1e9
        gbs = r["bytes_a_token"] * r["tg_glim"] / 1e9
        lines.append(f"| {r['model']} | {r['format']} | {holds(r)} | {r['pp_glim']:,.0f} | {r['pp_peer']:,.0f} | {r['pp_ratio']:.2f} "
                     f"| {gops:,.0f} | {r['tg_glim']:,.0f} | {r['tg_peer']:,.0f} | {r['tg_ratio']:.2f} | {gbs:.1f} |")
    return "\n".join(lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("results", nargs="*", help="files of earlier results: print their table and measure nothing")
    p.add_argument("--glim", help="the program")
    p.add_argument("--peer", help="folder of llama.cpp's programs")
    p.add_argument("--model", help="a GGUF file")
    p.add_argument("--wide", action="store_true", help="with the vocabulary of --model, but made-up wide weights")
    p.add_argument("--formats", default=",".join(FORMATS))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--threads", type=int, default=2)
    p.add_argument("--pp", type=int, default=512)
    p.add_argument("--tg", type=int, default=64)
    p.add_argument("--flag", action="append", default=[], help="a further argument of glim bench, as in --flag=--act --flag=q8")
    p.add_argument("-o", "--output", help="where to keep the results (JSON)")
    a = p.parse_args()
    if not a.results and not (a.glim and a.peer and a.model):
        p.error("have no results to print, need --glim, --peer and --model")
    names = a.formats.split(",")
    if not set(names) <= set(FORMATS):
        p.error(f"--formats: have {a.formats}, need some of {','.join(FORMATS)}")
    rows = []
    for path in a.results:
        with open(path) as f:
            rows += json.load(f)
    if not a.results:
        with tempfile.TemporaryDirectory() as d:
            source, path = a.model, os.path.join(d, "model.gguf")
            if a.wide:
                source = os.path.join(d, "wide.gguf")
                wide_model.make(a.model, source)
            for name in names:
                requantise(a.peer, source, path, name, a.threads)
                rows.append(measure(a, name, path))
                print(f"{name}: prefill x{rows[-1]['pp_ratio']:.2f}, decode x{rows[-1]['tg_ratio']:.2f}", file=sys.stderr)
    if a.output:
        with open(a.output, "w") as f:
            json.dump(rows, f, indent=1)
            f.write("\n")
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
