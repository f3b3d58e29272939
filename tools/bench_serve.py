#!/usr/bin/env python3
"""Compares `glim serve` with llama.cpp's llama-server: the same streamed requests, one server at a time, in turns.

    tools/bench_serve.py --glim build/glim --model M.gguf [--peer PATH/llama-server] [--clients 16] [--requests 4] [--rounds 3]

Every client sends its requests one after another to /v1/completions: greedy, a prompt of --prompt words, --tokens tokens, no end before that. Reported
for each server, medians of the rounds: tokens a second of all clients, time to the first token (median, p95), time between tokens (median, p99). With
glim alone it also runs `glim bench --engine` and prints the share of the bare engine's rate that the server reaches.
"""
import argparse
import asyncio
import json
import os
import socket
import statistics
import subprocess
import sys
import time
import urllib.request

WORDS = "time year people way day man thing woman life child world school state family student group country problem hand part place case week".split()


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def prompt(client, request, n):
    x, out = client * 7919 + request * 104729 + 1, []
    for _ in range(n):
        x = (x * 1103515245 + 12345) & 0x7FFFFFFF
        out.append(WORDS[(x >> 8) % len(WORDS)])
    return " ".join(out)


async def ask(port, body, first, gaps):
    """One streamed request; returns its tokens. An event with a non-empty choice is a token."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    data = json.dumps(body).encode()
    writer.write(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\nContent-Length: %d\r\nConnection: close\r\n\r\n" % (port, len(data)) + data)
    begin = last = time.perf_counter()
    tokens, usage = 0, None
    status = await reader.readline()
    if b" 200 " not in status:
        raise RuntimeError(f"{status!r}: {(await reader.read())[:500]!r}")
    while line := await reader.readline():
        if not line.startswith(b"data: {"):
            continue
        now = time.perf_counter()
        if b'"usage":{' in line:
            usage = json.loads(line[6:])["usage"]["completion_tokens"]
        if b'"text":' in line and b'"finish_reason":null' in line:
            if tokens == 0:
                first.append(now - begin)
            else:
                gaps.append(now - last)
            tokens, last = tokens + 1, now
    writer.close()
    return usage or tokens


async def load(port, o, tokens):
    first, gaps = [], []

    async def client(c):
        n = 0
        for r in range(o.requests):
            body = {"model": o.name, "prompt": prompt(c, r, o.prompt), "max_tokens": tokens, "temperature": 0, "stream": True,
                    "ignore_eos": True, "stream_options": {"include_usage": True}}
            n += await ask(port, body, first, gaps)
        return n

    begin = time.perf_counter()
    total = sum(await asyncio.gather(*(client(c) for c in range(o.clients))))
    return total / (time.perf_counter() - begin), sorted(first), sorted(gaps)


def quantile(v, q):
    return v[min(len(v) - 1, int(q * len(v)))] if v else float("nan")


def wait_ready(port, process):
    for _ in range(600):
        if process.poll() is not None:
            raise RuntimeError(f"the server ended with {process.returncode}")
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1) as r:
                if r.status == 200:
                    return
        except OSError:
            time.sleep(0.1)
    raise RuntimeError("the server is not ready after a minute")


def run(command, o, env):
    port = free_port()
    p = subprocess.Popen(command + ["--port", str(port)], env=env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    try:
        wait_ready(port, p)
        asyncio.run(load(port, argparse.Namespace(**{**vars(o), "requests": 1}), 8))  # warm up
        return asyncio.run(load(port, o, o.tokens))
    finally:
        p.terminate()
        p.wait(20)


def main():
    a = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    a.add_argument("--glim", default="build/glim")
    a.add_argument("--model", required=True)
    a.add_argument("--peer", help="path of llama-server; its libraries are looked for beside it")
    a.add_argument("--clients", type=int, default=16)
    a.add_argument("--requests", type=int, default=4)
    a.add_argument("--prompt", type=int, default=64)
    a.add_argument("--tokens", type=int, default=96)
    a.add_argument("--rounds", type=int, default=3)
    o = a.parse_args()
    o.name = os.path.splitext(os.path.basename(o.model))[0]
    ctx = 2 * o.prompt + o.tokens + 64
    servers = {"glim": ([o.glim, "serve", "-m", o.model, "--n-seq", str(o.clients), "--ctx", str(ctx), "-t", "2"], dict(os.environ))}
    if o.peer:
        servers["llama.cpp"] = ([o.peer, "-m", o.model, "-t", "2", "-np", str(o.clients), "-c", str(ctx * o.clients)],
                                {**os.environ, "LD_LIBRARY_PATH": os.path.dirname(os.path.abspath(o.peer))})
    result = {name: [] for name in servers}
    for i in range(o.rounds):
        for name, (command, env) in servers.items():
            result[name].append(run(command, o, env))
            rate, first, gaps = result[name][-1]
            print(f"round {i + 1}  {name:10} {rate:8.1f} tok/s  first token {quantile(first, .5):.3f} s, p95 {quantile(first, .95):.3f} s  "
                  f"between tokens {quantile(gaps, .5):.4f} s, p99 {quantile(gaps, .99):.4f} s", flush=True)
    rate = {n: statistics.median(r[0] for r in v) for n, v in result.items()}
    late = {n: statistics.median(quantile(r[1], .95) for r in v) for n, v in result.items()}
    for n in result:
        print(f"median   {n:10} {rate[n]:8.1f} tok/s  first token p95 {late[n]:.3f} s")
    if o.peer:
        print(f"glim has {rate['glim'] / rate['llama.cpp']:.2f} times the tokens a second; its p95 of first tokens is {late['glim'] / late['llama.cpp']:.2f} of the other's")
    return 0


if __name__ == "__main__":
    sys.exit(main())
