#!/usr/bin/env python3
"""The vocabularies of tests/data/vocab: GGUF files without weights, kept without what can be computed.

    vocab.py build NAME OUT.gguf    the original file, bit for bit (its SHA-256 is checked)
    vocab.py dump NAME              the same as a flat list for the C tests, on standard output
    vocab.py pack ORIGINAL.gguf     write tests/data/vocab/<name>.xz

Merges are left out, because the list of tokens implies them. In gpt-2, qwen2 and deepseek-llm merge k makes token
n_first + k, and its two sides are what merging by the earlier merges arrives at. In llama-bpe and gemma-4 every way to split a
token in two tokens is a merge, in an order by token. qwen35 is qwen2 under another name of its pre-tokeniser.

A dump is little-endian: "TVOC", then as u32 length + bytes the model and the pre-tokeniser; i32 bos, eos, unk, add_bos,
add_space_prefix (-1 = absent); u32 n_token, n_merge, has_score, n_charsmap, remove_extra_spaces; tokens; types as i32; scores as f32; merges;
charsmap. spm.tvoc and unigram.tvoc are such files.
"""
import hashlib
import lzma
import os
import struct
import sys

HERE = os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "data", "vocab")
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
STRING, ARRAY = 8, 9
MERGES = "tokenizer.ggml.merges"


# ---- GGUF metadata ----

def string_at(d, o):
    n, = struct.unpack_from("<Q", d, o)
    return d[o + 8:o + 8 + n], o + 8 + n


def strings_at(d, o, n):
    out = []
    for _ in range(n):
        s, o = string_at(d, o)
        out.append(s)
    return out, o


def read_gguf(d, without_merges=False):
    """{key: value} and, of the merges, (offset of the first string, offset after the last)."""
    n_kv, = struct.unpack_from("<Q", d, 16)
    kv, o, span = {}, 24, None
    for _ in range(n_kv):
        key, o = string_at(d, o)
        key = key.decode()
        kind, = struct.unpack_from("<I", d, o)
        o += 4
        if kind == STRING:
            kv[key], o = string_at(d, o)
        elif kind == ARRAY:
            item, n = struct.unpack_from("<IQ", d, o)
            o += 12
            first = o
            if item == STRING:
                kv[key], o = strings_at(d, o, 0 if without_merges and key == MERGES else n)
            else:
                kv[key] = (item, d[o:o + n * SIZES[item]])
                o += n * SIZES[item]
            if key == MERGES:
                span = (first, o)
        else:
            kv[key] = (kind, d[o:o + SIZES[kind]])
            o += SIZES[kind]
    return kv, span


# ---- merges from tokens ----

def merges_by_rank(tokens, n):
    """Merge k makes the k-th token of more than one letter; split it with the merges before k."""
    made = [t for t in tokens if len(t) > 1][:n]
    rank, out = {}, []
    for k, t in enumerate(made):
        s = list(t)
        while len(s) > 2:
            best = min((rank.get(s[i] + s[i + 1], n), i) for i in range(len(s) - 1))
            s[best[1]:best[1] + 2] = [s[best[1]] + s[best[1] + 1]]
        rank[t] = k
        out.append(s[0] + " " + s[1])
    return out


def splits(t, known):
    return [(t[:i], t[i:]) for i in range(1, len(t)) if t[:i] in known and t[i:] in known]


def merges_by_token(tokens, n):
    known = {t: i for i, t in enumerate(tokens)}
    out = []
    for t in tokens:
        out += sorted(splits(t, known), key=lambda p: (known[p[0]], known[p[1]]))
    return [a + " " + b for a, b in out]


def merges_gemma(tokens, n):
    """Runs of line ends, spaces and tabs first, by turns and the longest left side first; then by token likewise. The last of
    the first, two tabs, has changed places with the first of the others."""
    known = {t: i for i, t in enumerate(tokens)}
    runs = "\n\u2581\t"
    first = [(c * a, c * b) for a in range(30, 0, -1) for b in range(31 - a, 0, -1) for c in runs
             if c * a in known and c * b in known and c * (a + b) in known]
    rest = [p for t in tokens if t and (t[0] not in runs or t != t[0] * len(t)) for p in splits(t, known)[::-1]]
    out = first[:-1] + rest[:1] + first[-1:] + rest[1:]
    return [a + " " + b for a, b in out]


RULES = {"gpt-2": merges_by_rank, "qwen2": merges_by_rank, "deepseek-llm": merges_by_rank, "llama-bpe": merges_by_token,
         "gemma-4": merges_gemma, "llama-spm": None, "phi-3": None}
RENAMED = {"qwen35": "qwen2"}
NAMES = sorted([*RULES, *RENAMED])


def build(name):
    """(file, metadata) of the original GGUF."""
    base = RENAMED.get(name, name)
    with open(os.path.join(HERE, base + ".xz"), "rb") as f:
        d = lzma.decompress(f.read())
    kv, span = read_gguf(d, without_merges=True)
    if span:
        n, = struct.unpack_from("<Q", d, span[0] - 8)
        kv[MERGES] = [m.encode() for m in RULES[base]([t.decode() for t in kv["tokenizer.ggml.tokens"]], n)]
        d = d[:span[0]] + b"".join(struct.pack("<Q", len(m)) + m for m in kv[MERGES]) + d[span[0]:]
    if name != base:
        key = struct.pack("<Q", 18) + b"tokenizer.ggml.pre" + struct.pack("<I", STRING)
        old = key + struct.pack("<Q", len(base)) + base.encode()
        d = d.replace(old, key + struct.pack("<Q", len(name)) + name.encode(), 1)
        kv["tokenizer.ggml.pre"] = name.encode()
    with open(os.path.join(HERE, "SHA256SUMS")) as f:
        want = dict(reversed(line.split()) for line in f)["ggml-vocab-" + name + ".gguf"]
    if hashlib.sha256(d).hexdigest() != want:
        sys.exit(f"vocab: {name}: have another SHA-256 than {want}")
    return d, kv


# ---- commands ----

def pack_string(b):
    return struct.pack("<I", len(b)) + b


def dump(name):
    _, kv = build(name)
    tokens, merges = kv["tokenizer.ggml.tokens"], kv.get(MERGES, [])

    def number(key):
        kind, raw = kv.get("tokenizer.ggml." + key, (4, b"\xff\xff\xff\xff"))
        return int.from_bytes(raw, "little", signed=kind != 7)

    types, scores = kv["tokenizer.ggml.token_type"][1], kv.get("tokenizer.ggml.scores", (6, b""))[1]
    out = [b"TVOC", pack_string(kv["tokenizer.ggml.model"]), pack_string(kv.get("tokenizer.ggml.pre", b"")),
           struct.pack("<5i", *map(number, ("bos_token_id", "eos_token_id", "unknown_token_id", "add_bos_token",
                                            "add_space_prefix"))),
           struct.pack("<5I", len(tokens), len(merges), bool(scores), 0, 0)]
    out += [pack_string(t) for t in tokens] + [types, scores] + [pack_string(m) for m in merges]
    sys.stdout.buffer.write(b"".join(out))


def pack(path):
    name = os.path.basename(path)[len("ggml-vocab-"):-len(".gguf")]
    with open(path, "rb") as f:
        d = f.read()
    _, span = read_gguf(d)
    if span:
        d = d[:span[0]] + d[span[1]:]
    with open(os.path.join(HERE, name + ".xz"), "wb") as f:
        f.write(lzma.compress(d, preset=9 | lzma.PRESET_EXTREME))


def main(args):
    if len(args) == 3 and args[0] == "build" and args[1] in NAMES:
        with open(args[2], "wb") as f:
            f.write(build(args[1])[0])
    elif len(args) == 2 and args[0] == "dump" and args[1] in NAMES:
        dump(args[1])
    elif len(args) == 2 and args[0] == "pack":
        pack(args[1])
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
