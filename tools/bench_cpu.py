#!/usr/bin/env python3
"""Measure glim and its peers in turn on this machine, and keep the figures with their ratios.

    tools/bench_cpu.py --glim build/glim --peer llama.cpp=DIR --peer ik_llama.cpp=DIR \\
        --model "SmolLM2-135M Q4_1=FILE.gguf" --rounds 5 --depth 4096,8192 --batch 4,16

A round runs every engine once in turn, each a process of its own with its own warm-up, so that a drift of the machine's
speed meets all of them. An engine's figure is the median over rounds; a ratio is the median of the rounds' ratios
glim / peer. DIR holds a peer's llama-bench and its libraries; decode of several sequences is compared where it holds a
llama-batched-bench too. A test that glim refuses (a depth beyond a model's context) is left out for all.
"""
import argparse
import datetime
import json
import os
import platform
import re
import shlex
import statistics
import subprocess
import sys

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
REFUSED = 3  # glim's exit code


class Refused(Exception):
    pass


def name_of(prefill, gen, depth=0, batch=1):
    """As glim bench names its rows."""
    name = f"pp{prefill}" if prefill else f"tg{gen}"
    return name + (f"@d{depth}" if depth else "") + (f" b{batch}" if batch > 1 else "")


def run(argv, env=None):
    return subprocess.run(argv, env=env, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def output(argv, env=None):
    r = run(argv, env)
    if r.returncode != 0:
        sys.exit(f"bench_cpu: {shlex.join(argv)}: exit {r.returncode}\n{r.stderr[-2000:]}")
    return r.stdout


# ---- engines: measure(call) gives {test: tok/s}; a call is {"prefill", "gen", "depth", "batch": [...]} ----


class Glim:
    name = "glim"

    def __init__(self, path, threads, extra):
        self.argv = [path, "bench", "--json", "-r", "1", "-t", str(threads), *extra]

    def measure(self, model, call):
        argv = [*self.argv, "-m", model, "-p", str(call["prefill"]), "-n", str(call["gen"]), "-d", str(call["depth"]),
                "-b", ",".join(map(str, call["batch"]))]
        r = run(argv)
        if r.returncode == REFUSED:
            raise Refused(r.stderr.strip())
        if r.returncode != 0:
            sys.exit(f"bench_cpu: {shlex.join(argv)}: exit {r.returncode}\n{r.stderr[-2000:]}")
        return {row["test"]: row["tok_s_median"] for row in json.loads(r.stdout)}


class Peer:
    def __init__(self, name, folder, threads):
        self.name, self.folder, self.threads = name, folder, threads
        self.env = dict(os.environ, LD_LIBRARY_PATH=folder)
        self.bench, self.batched = (os.path.join(folder, p) for p in ("llama-bench", "llama-batched-bench"))
        self.commit = None
        # decode at a depth: llama.cpp has -d, ik_llama.cpp -gp
        self.has_depth = "--n-depth" in run([self.bench, "--help"], self.env).stdout

    def measure(self, model, call):
        return self.batches(model, call) if max(call["batch"]) > 1 else self.single(model, call)

    def single(self, model, call):
        argv = [self.bench, "-m", model, "-t", str(self.threads), "-r", "1", "-o", "json"]
        depth = call["depth"]
        if depth and not self.has_depth:
            argv += ["-p", "0", "-n", "0", "-gp", f"{depth},{call['gen']}"]
        else:
            argv += ["-p", str(call["prefill"]), "-n", str(call["gen"])] + (["-d", str(depth)] if depth else [])
        return self.rows(output(argv, self.env))

    def rows(self, text):
        found = {}
        for row in json.loads(text):
            self.commit = row.get("build_commit", self.commit)
            prefill, gen, depth = row["n_prompt"], row["n_gen"], row.get("n_depth", 0)
            if prefill and gen:  # -gp: decode after a prompt
                prefill, depth = 0, prefill
            found[name_of(prefill, gen, depth)] = row["avg_ts"]
        return found

    def batches(self, model, call):
        if not os.access(self.batched, os.X_OK):
            return {}
        most, gen = max(call["batch"]), call["gen"]
        text = output([self.batched, "-m", model, "-t", str(self.threads), "-c", str(most * (gen + 64)), "-npp", "1", "-ntg",
                       str(gen), "-npl", ",".join(map(str, call["batch"])), "--output-format", "jsonl"], self.env)
        rows = [json.loads(line) for line in text.splitlines() if line.startswith("{")]
        return {name_of(0, gen, 0, row["pl"]): row["speed_tg"] for row in rows}


# ---- rounds ----


def calls_of(a):
    """Each a process of every engine in a round."""
    call = {"prefill": 0, "gen": 0, "depth": 0, "batch": [1]}
    calls = [{**call, "prefill": a.prefill[0], "gen": a.gen}]
    calls += [{**call, "prefill": n} for n in a.prefill[1:]]
    calls += [{**call, "gen": a.gen, "depth": d} for d in a.depth]
    return calls + ([{**call, "gen": a.gen, "batch": a.batch}] if a.batch else [])


def measure(engines, model, calls, rounds, say):
    """{test: {engine: [tok/s of each round]}}"""
    found, left_out = {}, []
    for r in range(rounds):
        for engine in engines:  # glim is the first, so that its refusal spares the peers
            for call in calls:
                if call in left_out:
                    continue
                try:
                    rates = engine.measure(model, call)
                except Refused as e:
                    say(f"left out: {e}")
                    left_out.append(call)
                    continue
                for test, rate in rates.items():
                    found.setdefault(test, {}).setdefault(engine.name, []).append(rate)
            say(f"round {r + 1} of {rounds}: {engine.name}")
    return found


def summary(found):
    tests = []
    for test, rates in found.items():
        row = {"test": test, "tok_s": {}, "rounds": rates, "ratio": {}}
        for engine, values in rates.items():
            row["tok_s"][engine] = round(statistics.median(values), 2)
            if engine != "glim":
                row["ratio"][engine] = round(statistics.median(g / p for g, p in zip(rates["glim"], values)), 3)
        tests.append(row)
    return tests


# ---- what the figures belong to ----


def first(path, pattern):
    try:
        with open(path) as f:
            m = re.search(pattern, f.read(), re.M)
    except OSError:
        return None
    return m[1].strip() if m else None


def machine():
    kib = first("/proc/meminfo", r"^MemTotal:\s*(\d+)")
    return {"cpu": first("/proc/cpuinfo", r"^model name\s*: (.*)$") or platform.processor(),
            "cpus": len(os.sched_getaffinity(0)),
            "memory_gib": round(int(kib) / 2**20, 1) if kib else None,
            "system": f"{platform.system()} {platform.release()} {platform.machine()}"}


def commit():
    """The commit of this source tree; with a plus when files differ from it."""
    r = run(["git", "-C", ROOT, "rev-parse", "--short", "HEAD"])
    changed = run(["git", "-C", ROOT, "status", "--porcelain", "--untracked-files=no"]).stdout.strip()
    return (r.stdout.strip() + ("+" if changed else "")) if r.returncode == 0 else "unknown"


def numbers(text):
    return [int(n) for n in text.split(",")] if text else []


def pair(text):
    name, equals, value = text.partition("=")
    if not name or not equals or not value:
        raise argparse.ArgumentTypeError(f"have '{text}', need NAME=PATH")
    return name, os.path.abspath(value)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--glim", default=os.path.join(ROOT, "build", "glim"), help="the program (build/glim)")
    p.add_argument("--glim-args", default="", help="more options for glim bench, in one word: '--act q8'")
    p.add_argument("--peer", type=pair, action="append", default=[], metavar="NAME=DIR")
    p.add_argument("--model", type=pair, action="append", required=True, metavar="NAME=FILE")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--rounds", type=int, default=5)
    p.add_argument("--prefill", type=numbers, default=[512, 4096], metavar="N,…", help="512,4096")
    p.add_argument("--gen", type=int, default=64, help="64")
    p.add_argument("--depth", type=numbers, default=[], metavar="N,…", help="decode with so many tokens in the context")
    p.add_argument("--batch", type=numbers, default=[], metavar="N,…", help="decode so many sequences together")
    p.add_argument("-o", "--output", help="bench/results/<date>-<commit>-<machine>.json")
    a = p.parse_args()
    if a.rounds < 1 or not a.prefill or a.gen < 1:
        p.error("--rounds, --prefill and --gen need numbers above 0")
    return a


def print_table(model, tests):
    print(model)
    for t in tests:
        ratios = "".join(f"   {t['ratio'][e]:.2f} x {e} ({v:,.1f})" for e, v in t["tok_s"].items() if e != "glim")
        print(f"  {t['test']:<14} {t['tok_s'].get('glim', 0):>10,.1f} tok/s{ratios}")


def main():
    a = arguments()
    engines = [Glim(a.glim, a.threads, shlex.split(a.glim_args))] + [Peer(n, d, a.threads) for n, d in a.peer]
    result = {"date": datetime.date.today().isoformat(), "commit": commit(), "machine": machine(), "threads": a.threads,
              "rounds": a.rounds, "glim_args": a.glim_args, "models": []}
    for name, file in a.model:
        found = measure(engines, file, calls_of(a), a.rounds, lambda s: print(f"{name}: {s}", file=sys.stderr))
        tests = summary(found)
        result["models"].append({"name": name, "bytes": os.path.getsize(file), "tests": tests})
        print_table(name, tests)
    result["peers"] = [{"name": e.name, "commit": e.commit} for e in engines[1:]]
    slug = re.sub(r"[^a-z0-9]+", "-", f"{result['machine']['cpu']} {result['machine']['cpus']} cpus".lower()).strip("-")
    path = a.output or os.path.join(ROOT, "bench", "results", f"{result['date']}-{result['commit'].rstrip('+')}-{slug}.json")
    os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
    with open(path, "w") as f:
        json.dump(result, f, indent=1)
        f.write("\n")
    print(f"wrote {path}", file=sys.stderr)


if __name__ == "__main__":
    main()
