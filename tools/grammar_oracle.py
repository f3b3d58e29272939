#!/usr/bin/env python3
"""Token masks of llguidance for the grammars of tests/data/grammars, as tests/unit/test_text_grammar_mask.c expects them.

    grammar_oracle.py [NAME…]    write tests/data/grammars/masks.json (with names: only compare, and print)

Needs llguidance (written with 1.9.1). The vocabulary is gpt-2's. A grammar is read here by a parser of its own and handed over as Lark
rules whose terminals are single characters: llguidance first splits text into lexemes, greedily, and a lexeme of one character leaves
it nothing to decide, so that its masks are those of the context-free grammar over bytes. A walk takes random admitted tokens, mostly
ASCII ones, and ends with the end token when that is admitted and the walk is long enough. Of each mask the file holds 64 bits of its
SHA-256 (little-endian, bit i = token i).
"""
import hashlib
import json
import os
import random
import struct
import subprocess
import sys

import llguidance

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
DATA = os.path.join(ROOT, "tests", "data", "grammars")
WALKS, STEPS = 6, 48
# Left out, each with its reason; the C tests check them by trying every token one by one.
SKIP = {
    "ambiguous": "llguidance's limit on parser items ends the walk",
}


# ---- vocabulary ----

def byte_letters():
    keep = [*range(33, 127), *range(161, 173), *range(174, 256)]
    letters, n = {}, 0
    for b in range(256):
        if b in keep:
            letters[chr(b)] = b
        else:
            letters[chr(256 + n)] = b
            n += 1
    return letters


def gpt2_tokens():
    d = subprocess.run([sys.executable, os.path.join(ROOT, "tests", "tools", "vocab.py"), "dump", "gpt-2"], check=True,
                       stdout=subprocess.PIPE).stdout
    o = 4
    for _ in range(2):
        o += 4 + struct.unpack_from("<I", d, o)[0]
    eos = struct.unpack_from("<i", d, o + 4)[0]
    o += 20
    n = struct.unpack_from("<I", d, o)[0]
    o += 20
    letters, tokens = byte_letters(), []
    for _ in range(n):
        size, = struct.unpack_from("<I", d, o)
        text = d[o + 4:o + 4 + size].decode()
        tokens.append(bytes(letters[c] for c in text) if all(c in letters for c in text) else text.encode())
        o += 4 + size
    tokens[eos] = b"\xff<eos>"
    return tokens, eos


class Vocab:
    def __init__(self):
        self.tokens, self.eos_token_id = gpt2_tokens()
        self.bos_token_id = None
        self.special_token_ids = [self.eos_token_id]

    def __call__(self, text):
        by_bytes = {t: i for i, t in enumerate(self.tokens)}
        text = text if isinstance(text, bytes) else text.encode()
        return [by_bytes[bytes([b])] for b in text]


# ---- GBNF to Lark over characters ----

class Reader:
    def __init__(self, text):
        self.s, self.i, self.rules = text, 0, {}

    def blanks(self, lines):
        while self.i < len(self.s):
            if self.s[self.i] == "#":
                while self.i < len(self.s) and self.s[self.i] != "\n":
                    self.i += 1
            elif self.s[self.i] in " \t" or (lines and self.s[self.i] in "\r\n"):
                self.i += 1
            else:
                break

    def peek(self):
        return self.s[self.i] if self.i < len(self.s) else ""

    def name(self):
        j = self.i
        while self.peek() and (self.peek().isascii() and self.peek().isalnum() or self.peek() in "-_"):
            self.i += 1
        return self.s[j:self.i]

    def char(self):
        c = self.s[self.i]
        self.i += 1
        if c != "\\":
            return ord(c)
        c = self.s[self.i]
        self.i += 1
        if c in "xuU":
            n = {"x": 2, "u": 4, "U": 8}[c]
            self.i += n
            return int(self.s[self.i - n:self.i], 16)
        return ord({"n": "\n", "r": "\r", "t": "\t"}.get(c, c))

    def file(self):
        self.blanks(True)
        while self.i < len(self.s):
            name = self.name()
            self.blanks(False)
            assert self.s.startswith("::=", self.i), self.s[self.i:self.i + 40]
            self.i += 3
            self.blanks(True)
            self.rules[name] = self.alternatives(False)
            self.blanks(True)
        return self.rules

    def alternatives(self, nested):
        out = [self.sequence(nested)]
        while self.peek() == "|":
            self.i += 1
            self.blanks(True)
            out.append(self.sequence(nested))
        return ("alt", out)

    def sequence(self, nested):
        out = []
        while True:
            c = self.peek()
            if c == '"':
                self.i += 1
                text = []
                while self.peek() != '"':
                    text.append(self.char())
                self.i += 1
                item = ("seq", [("set", False, [(t, t)]) for t in text])
            elif c == "[":
                self.i += 1
                negated = self.peek() == "^"
                self.i += negated
                ranges = []
                while self.peek() != "]":
                    first = last = self.char()
                    if self.peek() == "-" and self.s[self.i + 1] != "]":
                        self.i += 1
                        last = self.char()
                    ranges.append((first, last))
                self.i += 1
                item = ("set", negated, ranges)
            elif c == ".":
                self.i += 1
                item = ("set", True, [])
            elif c == "(":
                self.i += 1
                self.blanks(True)
                item = self.alternatives(True)
                assert self.peek() == ")"
                self.i += 1
            elif c and (c.isascii() and c.isalnum() or c in "-_"):
                item = ("ref", self.name())
            else:
                return ("seq", out)
            self.blanks(nested)
            while self.peek() and self.peek() in "*+?{":
                c = self.peek()
                self.i += 1
                if c == "{":
                    j = self.s.index("}", self.i)
                    low, comma, high = self.s[self.i:j].partition(",")
                    low = int(low)
                    high = (int(high) if high.strip() else None) if comma else low
                    self.i = j + 1
                else:
                    low, high = int(c == "+"), 1 if c == "?" else None
                item = ("rep", item, low, high)
                self.blanks(nested)
            out.append(item)


def lark(rules):
    names = {n: "start" if n == "root" else f"r{i}" for i, n in enumerate(rules)}
    sets = {}

    def code(c):
        return "\\u{%x}" % c

    def emit(x):
        if x[0] == "alt":
            return "(" + " | ".join(emit(y) for y in x[1]) + ")"
        if x[0] == "seq":
            return "(" + " ".join(emit(y) for y in x[1]) + ")" if x[1] else '""'
        if x[0] == "ref":
            return names[x[1]]
        if x[0] == "rep":
            return emit(x[1]) + "{%d,%s}" % (x[2], "" if x[3] is None else x[3])
        if x[1] and not x[2]:
            body = "(?s:.)"
        else:
            body = "[" + "^" * x[1] + "".join(code(a) if a == b else f"{code(a)}-{code(b)}" for a, b in x[2]) + "]"
        return sets.setdefault(body, f"T{len(sets)}")

    lines = ['%llguidance {"no_forcing": true}']  # or a mask is cut down to one way of writing bytes that are certain
    lines += [f"{names[n]}: {emit(x)}" for n, x in rules.items()]
    return "\n".join(lines + [f"{name}: /{body}/" for body, name in sets.items()])


# ---- walks ----

def allowed(mask, n):
    return [i for i in range(n) if mask[i >> 3] >> (i & 7) & 1]


def walk(tok, vocab, text, rng):
    m = llguidance.LLMatcher(tok, text, limits=llguidance.LLParserLimits(max_items_in_row=20000, step_max_items=500000))
    assert not m.get_error(), m.get_error()
    ids, hashes = [], []
    want = rng.choice([4, 12, 30])
    for _ in range(STEPS):
        mask = m.compute_bitmask()
        assert not m.get_error(), m.get_error()
        n_byte = (len(vocab.tokens) + 63) // 64 * 8
        mask = bytes(mask)[:n_byte].ljust(n_byte, b"\0")
        hashes.append(hashlib.sha256(mask).hexdigest()[:16])
        may = allowed(mask, len(vocab.tokens))
        assert may, "an empty mask"
        if vocab.eos_token_id in may:
            if len(ids) >= want or len(may) == 1:
                break
            may.remove(vocab.eos_token_id)
        plain = [i for i in may if vocab.tokens[i].isascii()]
        if plain and rng.random() < 0.8:
            may = plain
        short = [i for i in may if len(vocab.tokens[i]) <= 2]
        if short and rng.random() < 0.5:
            may = short
        ids.append(rng.choice(may))
        assert m.consume_token(ids[-1]), m.get_error()
    return {"ids": ids, "masks": hashes}


def main():
    vocab = Vocab()
    tok = llguidance.LLTokenizer(llguidance.TokenizerWrapper(vocab))
    out = {}
    for file in sorted(os.listdir(DATA)):
        name, ext = os.path.splitext(file)
        if ext != ".gbnf" or name in SKIP or (sys.argv[1:] and name not in sys.argv[1:]):
            continue
        with open(os.path.join(DATA, file), encoding="utf-8") as f:
            text = lark(Reader(f.read()).file())
        rng = random.Random(name)
        out[name] = [walk(tok, vocab, text, rng) for _ in range(WALKS)]
        print(name, [len(w["ids"]) for w in out[name]],
              repr(b"".join(vocab.tokens[i] for i in out[name][0]["ids"]))[:100], flush=True)
    if not sys.argv[1:]:
        with open(os.path.join(DATA, "masks.json"), "w") as f:
            json.dump({"program": "llguidance " + llguidance.__version__, "vocabulary": "gpt-2", "grammars": out}, f,
                      separators=(",", ":"))
            f.write("\n")


if __name__ == "__main__":
    main()
