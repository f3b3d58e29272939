#!/usr/bin/env python3
"""Draw results of tools/bench_cpu.py: glim against its peers, a panel a test, a group of bars a model.

    tools/plot_bench.py bench/results/*.json -o bench/plot.svg

Bars are tokens a second. Each group has its own scale, the fastest engine being as long as the panel is wide, so that
small and large models can stand together. Of a model that is in several files, the last one counts.
"""
import argparse
import json
from xml.sax.saxutils import escape

PANEL, GAP, LEFT, LABEL = 300, 24, 130, 150  # widths: of the longest bar, between panels, of names, of figures
BAR, STEP, HEAD, TOP = 15, 19, 26, 64  # heights: of a bar, from bar to bar, of a model's name, above the first
COLORS = ["#2f6fed", "#9aa3ad", "#c9a26b", "#7aa89a"]  # glim, then peers
TITLES = {"pp": "prefill {} tokens", "tg": "decode {} tokens"}

STYLE = """
text { font: 13px system-ui, -apple-system, "Segoe UI", sans-serif; fill: #1f2328; }
.title { font-size: 16px; font-weight: 600; }
.model { font-weight: 600; }
.note { font-size: 12px; fill: #59636e; }
@media (prefers-color-scheme: dark) { text { fill: #e6edf3; } .note { fill: #9198a1; } }
"""


def load(paths):
    """{model: {test: {"tok_s": {engine: rate}, "ratio": {engine: ratio}}}}, the engines in order, and a note."""
    models, engines, notes = {}, ["glim"], []
    for path in paths:
        with open(path) as f:
            result = json.load(f)
        notes.append(f"{result['machine']['cpu']}, {result['threads']} threads, {result['date']}, commit {result['commit']}")
        for m in result["models"]:
            models[m["name"]] = {t["test"]: t for t in m["tests"]}
            engines += [e for t in m["tests"] for e in t["tok_s"] if e not in engines]
    return models, list(dict.fromkeys(engines)), "; ".join(dict.fromkeys(notes))


def title(test):
    return TITLES.get(test[:2], "{}").format(test[2:]) + " (tok/s)"


def text(x, y, s, cls="", anchor="start"):
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{cls}" text-anchor="{anchor}">{escape(s)}</text>'


def bar(x, y, length, color, what):
    return (f'<rect class="bar" x="{x:.1f}" y="{y:.1f}" width="{max(length, 1):.1f}" height="{BAR}" rx="2" fill="{color}">'
            f"<title>{escape(what)}</title></rect>")


def group(x, y, test, engines, named):
    """The bars of one model in one panel."""
    out, rates = [], test["tok_s"]
    most = max(rates.values())
    for i, e in enumerate(engines):
        at = y + i * STEP
        if named:
            out.append(text(LEFT - 8, at + BAR - 3, e, anchor="end"))
        if e not in rates:
            continue
        ratio = test["ratio"].get(e)
        figure = f"{rates[e]:,.0f}" + (f"  (glim {ratio:.2f}×)" if ratio else "")
        out.append(bar(x, at, PANEL * rates[e] / most, COLORS[i % len(COLORS)], f"{e}: {figure}"))
        out.append(text(x + PANEL * rates[e] / most + 6, at + BAR - 3, figure))
    return out


def draw(models, engines, note, tests):
    tall = HEAD + len(engines) * STEP + 14
    width, height = LEFT + len(tests) * (PANEL + LABEL) + (len(tests) - 1) * GAP, TOP + len(models) * tall + 20
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
           f"<style>{STYLE}</style>", text(LEFT, 20, "Tokens a second, longer is faster", "title")]
    for p, test in enumerate(tests):
        x = LEFT + p * (PANEL + LABEL + GAP)
        out.append(text(x, TOP - 16, title(test), "model"))
        for i, (name, found) in enumerate(models.items()):
            y = TOP + i * tall
            if p == 0:
                out.append(text(x, y + HEAD - 9, name, "model"))
            if test in found:
                out += group(x, y + HEAD, found[test], engines, p == 0)
    out += [text(LEFT, height - 8, note, "note"), "</svg>"]
    return "\n".join(out) + "\n"


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("results", nargs="+", metavar="RESULTS.json")
    p.add_argument("--tests", default="pp512,tg64", help="rows to draw, a panel each (pp512,tg64)")
    p.add_argument("-o", "--output", required=True, metavar="PLOT.svg")
    a = p.parse_args()
    models, engines, note = load(a.results)
    with open(a.output, "w") as f:
        f.write(draw(models, engines, note, a.tests.split(",")))


if __name__ == "__main__":
    main()
