#!/usr/bin/env python3
"""Write src/text/unicode_data.c: the Unicode tables the tokenizers need.

    pip install unicodedata2==16.0.0 && python3 tools/gen_unicode.py > src/text/unicode_data.c

Unicode 16.0 is the version of the regular expression engine behind the `tokenizers` package (Oniguruma 6.9.10), so letters,
numbers and marks are the same sets there and here. The stdlib's unicodedata is usually older, hence the package.
"""
import sys

import unicodedata2 as ud

VERSION = "16.0.0"
L, N, M, P, S, SPACE, UPPER, LOWER = (1 << i for i in range(8))
WHITE_SPACE = {*range(9, 14), 0x20, 0x85, 0xA0, 0x1680, *range(0x2000, 0x200B), 0x2028, 0x2029, 0x202F, 0x205F, 0x3000}
LAST = 0x110000
BLOCKS = 512  # of 256 code points: planes 0 and 1

# Script=Han of Unicode 16, as \p{Han} in the pattern of Kimi K2.
HAN = """2E80-2E99 2E9B-2EF3 2F00-2FD5 3005 3007 3021-3029 3038-303B 3400-4DBF 4E00-9FFF F900-FA6D FA70-FAD9 16FE2-16FE3
16FF0-16FF1 20000-2A6DF 2A700-2B739 2B740-2B81D 2B820-2CEA1 2CEB0-2EBE0 2EBF0-2EE5D 2F800-2FA1D 30000-3134A 31350-323AF"""

# The letters of DeepSeek's first generation: a list of cased letters, frozen into its pattern in this order.
DEEPSEEK = """0041-005A 0061-007A 00B5 00C0-00D6 00D8-00F6 00F8-01BA 01BC-01BF 01C4-0293 0295-02AF 0370-0373 0376 0377 037B-037D
037F 0386 0388-038A 038C 038E-03A1 03A3-03F5 03F7-0481 048A-052F 0531-0556 10A0-10C5 13A0-13F5 13F8-13FD 1C90-1CBA
1CBD-1CBF 1D00-1D2B 1D6B-1D77 1D79-1D9A 1E00-1F15 1F18-1F1D 1F20-1F45 1F48-1F4D 1F50-1F57 1F59 1F5B 1F5D 1F5F-1F7D
1F80-1FB4 1FB6-1FBC 1FBE 1FC2-1FC4 1FC6-1FCC 1FD0-1FD3 1FD6-1FDB 1FE0-1FEC 1FF2-1FF4 1FF6-1FFC 2102 2107 210A-2113
2115 2119-211D 2124 2126 2128 212A-212D 212F-2134 2139 213C-213F 2145-2149 214E 2183 2184 2C00-2C7B 2C7E-2CE4
2CEB-2CEE 2CF2 2CF3 A640-A66D A680-A69B A722-A76F A771-A787 A78B-A78E AB70-ABBF FB00-FB06 FB13-FB17 FF21-FF3A
FF41-FF5A 10400-1044F 104B0-104D3 104D8-104FB 10C80-10CB2 10CC0-10CF2 118A0-118DF 1E900-1E943"""


def category(cp):
    c = ud.category(chr(cp))
    f = {"L": L, "N": N, "M": M, "P": P, "S": S}.get(c[0], 0)
    return f | (SPACE if cp in WHITE_SPACE else 0) | (UPPER if c in ("Lu", "Lt") else 0) | (LOWER if c == "Ll" else 0)


def ranges_of(f):
    """[(first code point, value)] of each run of equal values."""
    out = []
    for cp in range(LAST):
        v = f(cp)
        if not out or out[-1][1] != v:
            out.append((cp, v))
    return out


def pair_list(text):
    """'41-5A B5' as [(0x41, 0x5A), (0xB5, 0xB5)]"""
    pairs = [[int(x, 16) for x in p.split("-")] for p in text.split()]
    return [(p[0], p[-1]) for p in pairs]


def emit(kind, name, values, form, per_line, note):
    print(f"\n/* {note} */")
    print(f"const {kind} {name}[{len(values)}] = {{")
    for i in range(0, len(values), per_line):
        print("    " + ", ".join(format(v, form) for v in values[i:i + per_line]) + ",")
    print("};")
    if kind != "uint8_t" and name != "uc_block":
        print(f"const size_t {name}_n = {len(values)};")


def decomposition(cp):
    d = ud.decomposition(chr(cp))
    return [] if not d or d[0] == "<" else [int(x, 16) for x in d.split()]


def main():
    if ud.unidata_version != VERSION:
        sys.exit(f"gen_unicode: have Unicode {ud.unidata_version}, need {VERSION}")
    print(f"/* Unicode {VERSION}, written by tools/gen_unicode.py; not for editing. What the tables mean: text/unicode.h */")
    print("/* clang-format off */")
    print('#include "text/unicode.h"')
    emit("uint8_t", "uc_ascii", [category(cp) for cp in range(128)], "3d", 16, "class of each ASCII character")
    r = ranges_of(category)
    emit("uint32_t", "uc_range", [cp << 8 | v for cp, v in r], "#x", 10, "first code point << 8 | class, ascending")
    block, j = [], 0
    for b in range(BLOCKS + 1):
        while j + 1 < len(r) and r[j + 1][0] <= b << 8:
            j += 1
        block.append(j)
    emit("uint16_t", "uc_block", block, "d", 20, "index in uc_range of the run that holds code point 256 * i")
    ccc = ranges_of(lambda cp: ud.combining(chr(cp)))
    emit("uint32_t", "uc_ccc", [cp << 8 | v for cp, v in ccc], "#x", 10,
         "first code point << 8 | canonical combining class, ascending")
    dec = [(cp, decomposition(cp)) for cp in range(LAST) if decomposition(cp)]
    assert all(len(d) in (1, 2) for _, d in dec)
    emit("uint64_t", "uc_decomp", [cp << 42 | d[0] << 21 | (d[1] if len(d) == 2 else 0) for cp, d in dec], "#x", 6,
         "code point << 42 | first << 21 | second (0 = none): canonical decompositions, ascending")
    # A pair composes when NFC of the pair is the composite: exclusions drop out by themselves.
    comp = [(d[0] << 21 | d[1], i) for i, (cp, d) in enumerate(dec)
            if len(d) == 2 and ud.normalize("NFC", chr(d[0]) + chr(d[1])) == chr(cp)]
    emit("uint16_t", "uc_comp", [i for _, i in sorted(comp)], "d", 20,
         "indices in uc_decomp of the pairs that compose, ascending by (first, second)")
    for name, text in (("uc_han", HAN), ("uc_deepseek", DEEPSEEK)):
        emit("uint32_t", name, [v for p in pair_list(text) for v in p], "#x", 10, "first, last, first, last, …")
    letters = "".join(chr(a) if a == b else chr(a) + "-" + chr(b) for a, b in pair_list(DEEPSEEK))
    print(f'\n/* the stage of that pattern, as tokenizer.json spells it */\nconst char uc_deepseek_pattern[] = "\\\\s?[{letters}]+";')


main()
