#!/usr/bin/env python3
"""Write src/text/jinja_case_data.c: upper and lower case as Python's str methods map them.

    python3.11 tools/gen_jinja_case.py > src/text/jinja_case_data.c

Python 3.11 knows Unicode 14. Chat templates were written against Python, so its answers are the ones to give.
"""
import sys
import unicodedata

ALL = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]


def title_of(c):
    return c.title()


MAPS = {"upper": str.upper, "lower": str.lower, "title": title_of, "fold": str.casefold}


def runs(pairs):
    """[(first, last, step, delta)]: neighbours one or two apart with equal distance to their images."""
    out = []
    for cp, to in pairs:
        d = to - cp
        if out and out[-1][3] == d and cp - out[-1][1] in (1, 2):
            step = cp - out[-1][1]
            if out[-1][2] in (0, step):
                out[-1][1], out[-1][2] = cp, step
                continue
        out.append([cp, cp, 0, d])
    return out


def ranges(test):
    out = []
    for c in ALL:
        cp = ord(c)
        if not test(c):
            continue
        if out and out[-1][1] == cp - 1:
            out[-1][1] = cp
        else:
            out.append([cp, cp])
    return out


def emit(kind, name, values, note):
    print(f"\n/* {note} */\nconst {kind} {name}[] = {{")
    line = "   "
    for v in values:
        if len(line) + len(v) + 2 > 118:
            print(line)
            line = "   "
        line += " " + v + ","
    print(line + "\n};")
    print(f"const size_t {name}_n = sizeof {name} / sizeof *{name};")


def main():
    assert unicodedata.unidata_version == "14.0.0", unicodedata.unidata_version
    print("/* Written by tools/gen_jinja_case.py from Python's tables of Unicode 14; do not edit. */")
    print('#include "text/jinja_case.h"\n\n/* clang-format off */')
    for name, f in MAPS.items():
        single = [(ord(c), ord(f(c))) for c in ALL if len(f(c)) == 1 and f(c) != c]
        emit("struct jj_case_run", f"jj_case_{name}" + ("_map" if name == "title" else ""),
             ["{%#x, %#x, %d, %d}" % (a, b, s or 1, d) for a, b, s, d in runs(single)],
             "first, last, step, distance")
    many = sorted({(i, ord(c), f(c)) for i, f in enumerate(MAPS.values()) for c in ALL if len(f(c)) > 1})
    emit("struct jj_case_many", "jj_case_many",
         ["{%d, %#x, {%s}}" % (i, c, ", ".join("%#x" % ord(x) for x in s)) for i, c, s in many],
         "map (upper, lower, title, fold), character, what it becomes")
    odd = [("jj_case_other_upper", ranges(lambda c: c.isupper() and unicodedata.category(c) != "Lu"), "upper, no Lu"),
           ("jj_case_other_lower", ranges(lambda c: c.islower() and unicodedata.category(c) != "Ll"), "lower, no Ll"),
           ("jj_case_titled", ranges(lambda c: unicodedata.category(c) == "Lt"), "Lt"),
           ("jj_case_ignorable", ranges(lambda c: ("A\u03a3" + c + "A").lower()[1] == "\u03c3"
                                        and ("1" + c + "\u03a3").lower()[-1] == "\u03c3"),
            "passed over when looking for the letters around a final sigma"),
           ("jj_case_decimal", ranges(str.isdecimal), "str.isdecimal"),
           ("jj_case_digit", ranges(lambda c: c.isdigit() and not c.isdecimal()), "str.isdigit, not decimal"),
           ("jj_case_numeric", ranges(lambda c: c.isnumeric() and not c.isdigit()), "str.isnumeric, not digit")]
    for name, r, note in odd:
        emit("uint32_t", name, ["%#x, %#x" % (a, b) for a, b in r], "first, last: " + note)


if __name__ == "__main__":
    sys.exit(main())
