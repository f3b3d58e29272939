#!/usr/bin/env python3
"""Joins src/serve/page/ with marked and DOMPurify into one HTML file, and writes that as C source.

    tools/page.py --c page_data.c [--marked FILE] [--purify FILE]

The scripts and the style sheet that index.html names are put in its place; so the sources are an ordinary page. All scripts
become one. The Content-Security-Policy names the hashes of that script and that style sheet, and allows no other.
"""

import argparse
import base64
import hashlib
import re
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parent.parent / "src/serve/page"
MARKED = Path("/usr/share/javascript/marked/marked.min.js")  # Debian: libjs-marked
PURIFY = Path("/usr/share/nodejs/dompurify/dist/purify.min.js")  # Debian: node-dompurify
MAX_BYTES = 200_000

SCRIPT = re.compile(r'<script src="([^"]+)"></script>\n')
STYLE = re.compile(r'<link rel="stylesheet" href="([^"]+)">\n')


def inline_script(text):
    """Text that means the same inside <script>: HTML would read these three sequences itself."""
    text = re.sub(r"^//# sourceMappingURL=.*$", "", text, flags=re.M)
    return re.sub(r"<(?=!--|/?script)", r"\\x3c", text, flags=re.I).strip() + "\n"


def compact(text):
    """Without comments that stand alone and indentation (the sources have no string over several lines)."""
    text = re.sub(r"^[ \t]*/\*.*?\*/[ \t]*\n", "", text, flags=re.M | re.S)
    return re.sub(r"^[ \t]+|\n(?=\n)", "", text, flags=re.M)


def inline_style(text):
    if "</style" in text.lower():
        raise SystemExit("page.py: style sheet: have </style in it, need a text without")
    return text


def source_hash(text):
    return "'sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode() + "'"


def policy(script, style):
    return "; ".join([
        "default-src 'none'", f"script-src {source_hash(script)}", f"style-src {source_hash(style)}", "connect-src 'self'",
        "img-src data:", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
        "require-trusted-types-for 'script'", "trusted-types dompurify",
    ])


def make(marked=MARKED, purify=PURIFY):
    """(the page's bytes, its Content-Security-Policy)"""
    libraries = {"marked.min.js": Path(marked), "purify.min.js": Path(purify)}
    html = (SOURCE / "index.html").read_text()

    def read(name):
        return libraries[name].read_text() if name in libraries else compact((SOURCE / name).read_text())

    names = SCRIPT.findall(html)
    sheets = STYLE.findall(html)
    script = "\n" + "".join(inline_script(read(n)) for n in names)
    style = "\n" + "".join(inline_style(read(n)) for n in sheets)
    for pattern, tag, text in ((SCRIPT, "script", script), (STYLE, "style", style)):
        first = pattern.search(html)
        if not first:
            raise SystemExit(f"page.py: index.html: have no {tag}, need at least one")
        html = html[:first.start()] + f"<{tag}>{text}</{tag}>\n" + pattern.sub("", html[first.end():])
    data = html.encode()
    if len(data) > MAX_BYTES:
        raise SystemExit(f"page.py: the page: have {len(data)} bytes, need at most {MAX_BYTES}")
    return data, policy(script, style)


def c_source(data, csp):
    lines = [",".join(map(str, data[i:i + 40])) for i in range(0, len(data), 40)]
    tag = hashlib.sha256(data).hexdigest()
    return (f"/* Made by tools/page.py. */\n#include \"serve/page.h\"\n\nstatic const unsigned char bytes[] = {{\n"
            + ",\n".join(lines) + "};\n\n"
            f"const struct page page = {{bytes, sizeof bytes, \"\\\"{tag}\\\"\",\n    \"{csp}\"}};\n")


def main():
    ap = argparse.ArgumentParser(description="Make the page of glim serve.")
    ap.add_argument("--marked", type=Path, default=MARKED)
    ap.add_argument("--purify", type=Path, default=PURIFY)
    ap.add_argument("--c", type=Path, required=True)
    args = ap.parse_args()
    data, csp = make(args.marked, args.purify)
    args.c.write_text(c_source(data, csp))
    return 0


if __name__ == "__main__":
    sys.exit(main())
