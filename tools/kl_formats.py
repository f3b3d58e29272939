#!/usr/bin/env python3
"""How far each number format's logits are from float32, for each kind of activations, and llama.cpp's distance beside it.

usage: tools/kl_formats.py --glim build/glim --peer DIR --model FILE.gguf --prompts FILE.safetensors [--text FILE] [--formats Q4_0,…]
                           [-o FILE.json]
       tools/kl_formats.py FILE.json …                          (prints the table of results that were kept)

For each format llama-quantize makes a file and that file's float32 twin, whose weights are the same numbers. The reference is glim
on the twin, which then computes in f32 all through. So the weights' own rounding does not count: what is measured is what an engine
adds to it. KL is the mean of KL(reference || got) over all tokens, top-1 the share of equal largest logits.

Prompts are tensors tokens.0, tokens.1, … of a safetensors file (tests/data/real). On the text (by default this project's docs)
both engines are measured as llama-perplexity does: pieces of 512 tokens, the second half of each. Its reference is llama.cpp on the
twin, its figures come from its own --kl-divergence.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile

import numpy as np

from bench_formats import FORMATS, contents, glim_json, holds, peer_run, requantise

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
TEXT = ["ARCHITECTURE.md", "NUMERICS.md", "TESTING.md", "BENCHMARKS.md"]
MODES = ["mixed", "q16", "q8"]
PLAIN = ["BF16", "F16", "F32"]  # no integer activations
CHUNK = 512

# ---- inputs ----


def token_tensors(path):
    """tokens.0, tokens.1, … of a safetensors file, as lists."""
    with open(path, "rb") as f:
        blob = f.read()
    n = int.from_bytes(blob[:8], "little")
    header, out = json.loads(blob[8 : 8 + n]), []
    while f"tokens.{len(out)}" in header:
        t = header[f"tokens.{len(out)}"]
        a, b = t["data_offsets"]
        out.append(np.frombuffer(blob[8 + n + a : 8 + n + b], {"I32": "<i4", "I64": "<i8"}[t["dtype"]]).tolist())
    return out


def text_chunks(glim, path, text):
    """Pieces of CHUNK tokens, the last partial one left out; each begins with BOS where the model wants one, as llama-perplexity
    does."""
    ids = glim_json(glim, "tokenize", "-m", path, "-f", text)
    bos = len(ids) > len(glim_json(glim, "tokenize", "-m", path, "-f", text, "--no-bos"))
    chunks = [ids[i : i + CHUNK] for i in range(0, len(ids) - CHUNK + 1, CHUNK)]
    return [[ids[0]] + c[1:] if bos else c for c in chunks]


# ---- distances ----


def log_softmax(x):
    x = x.astype(np.float64)
    x -= x.max(axis=1, keepdims=True)
    return x - np.log(np.exp(x).sum(axis=1, keepdims=True))


def logits(glim, model, tokens, *flags):
    with tempfile.TemporaryDirectory() as d:
        ids, out = os.path.join(d, "tokens.json"), os.path.join(d, "logits.npy")
        with open(ids, "w") as f:
            json.dump(tokens, f)
        r = subprocess.run([glim, "logits", "-m", model, "--tokens", ids, "-o", out, *flags], capture_output=True, text=True)
        if r.returncode:
            sys.exit(f"glim logits -m {model}: exit {r.returncode}\n{r.stderr[-2000:]}")
        return np.load(out)


def distances(glim, path, twin, sequences, modes, first=0):
    """mode -> (mean KL, share of equal top-1) over the logits after tokens [first, last) of each sequence."""
    kl, same = {m: [] for m in modes}, {m: [] for m in modes}
    for tokens in sequences:
        end = len(tokens) - 1 if first else len(tokens)
        ref = log_softmax(logits(glim, twin, tokens)[first:end])
        for m in modes:
            flags = ["--act", m] if m in MODES else []
            got = log_softmax(logits(glim, path, tokens, *flags)[first:end])
            kl[m].append((np.exp(ref) * (ref - got)).sum(axis=1))
            same[m].append(got.argmax(axis=1) == ref.argmax(axis=1))
    return {m: (float(np.concatenate(kl[m]).mean()), float(np.concatenate(same[m]).mean())) for m in modes}


def peer_distance(peer, path, twin, text, threads):
    """llama.cpp's mean KL and top-1 on the text, from its own program."""
    with tempfile.TemporaryDirectory() as d:
        common = ["-f", text, "-c", CHUNK, "-t", threads, "--kl-divergence-base", os.path.join(d, "base")]
        peer_run(peer, "llama-perplexity", "-m", twin, *common)
        out = peer_run(peer, "llama-perplexity", "-m", path, *common, "--kl-divergence")
    kl = re.search(r"Mean\s+KLD:\s+([-0-9.]+)", out)
    top = re.search(r"Same top p:\s+([0-9.]+)", out)
    if not kl or not top:
        sys.exit(f"llama-perplexity: no KL divergence in what it says\n{out[-2000:]}")
    return float(kl[1]), float(top[1]) / 100


def measure(a, name, folder, text, threads=2):
    path, twin = os.path.join(folder, "model.gguf"), os.path.join(folder, "twin.gguf")
    requantise(a.peer, a.model, path, name, threads)
    peer_run(a.peer, "llama-quantize", "--allow-requantize", path, twin, "F32", threads)
    modes = ["f32"] if name in PLAIN else MODES
    return {
        "model": os.path.basename(a.model),
        "format": name,
        **contents(a.glim, path),
        "prompts": distances(a.glim, path, twin, token_tensors(a.prompts), modes),
        "text": distances(a.glim, path, twin, text_chunks(a.glim, path, text), modes[:1], CHUNK // 2),
        "text_peer": peer_distance(a.peer, path, twin, text, threads),
    }


# ---- output ----


def cell(pair):
    return f"{pair[0]:.1e} / {pair[1]:.3f}" if pair else ""


def table(rows):
    lines = ["| model | format | holds | mixed | q16 | q8 | text: glim | text: llama.cpp |", "|---|---|---|---|---|---|---|---|"]
    for r in rows:
        p = r["prompts"]
        cells = [cell(p.get("mixed") or p.get("f32")), cell(p.get("q16")), cell(p.get("q8")), *map(cell, r["text"].values()),
                 cell(r["text_peer"])]
        lines.append(f"| {r['model']} | {r['format']} | {holds(r)} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("results", nargs="*", help="files of earlier results: print their table and measure nothing")
    p.add_argument("--glim", help="the program")
    p.add_argument("--peer", help="folder of llama.cpp's programs")
    p.add_argument("--model", help="a GGUF file")
    p.add_argument("--prompts", help="safetensors file with tokens.0, tokens.1, …")
    p.add_argument("--text", help="a text of a few thousand tokens")
    p.add_argument("--formats", default=",".join(FORMATS))
    p.add_argument("-o", "--output", help="where to keep the results (JSON)")
    a = p.parse_args()
    if not a.results and not (a.glim and a.peer and a.model and a.prompts):
        p.error("have no results to print, need --glim, --peer, --model and --prompts")
    names = a.formats.split(",")
    if not set(names) <= set(FORMATS):
        p.error(f"--formats: have {a.formats}, need some of {','.join(FORMATS)}")
    rows = []
    for path in a.results:
        with open(path) as f:
            rows += json.load(f)
    for name in [] if a.results else names:
        with tempfile.TemporaryDirectory() as d:
            text = a.text
            if not text:
                text = os.path.join(d, "text")
                with open(text, "w") as out:
                    for doc in TEXT:
                        with open(os.path.join(ROOT, "docs", doc)) as f:
                            out.write(f.read())
            rows.append(measure(a, name, d, text))
            print(f"{name}: {rows[-1]['prompts']}", file=sys.stderr)
    if a.output:
        with open(a.output, "w") as f:
            json.dump(rows, f, indent=1)
            f.write("\n")
    print(table(rows))
    return 0


if __name__ == "__main__":
    sys.exit(main())
