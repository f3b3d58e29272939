# If this fails: the code stops being what docs/ARCHITECTURE.md promises (modules that know only those below them, one place that
# reads the environment, one that allocates, no way to abort from a file or a request), and each later change gets harder.
"""Rules about the source tree.

Each rule is a function from a file's path (relative to the root) and text to a list of complaints. Each is run over the tree and
over small made-up offenders, so that a rule which stopped seeing anything fails as well.
"""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
CODE = ("*.c", "*.h", "*.def", "*.inc", "*.cu", "*.cuh")
DATA_FILE_MAX, DATA_TOTAL_MAX = 2 << 20, 25 << 20

# The arrow: each module and those right below it.
BELOW = {
    "base": [],
    "quant": ["base"],
    "format": ["quant"],
    "op": ["quant"],
    "cpu": ["op"],
    "cuda": ["op"],
    "block": ["op"],
    "arch": ["block", "format"],
    "text": ["base"],
    "run": ["arch", "cpu", "cuda", "text"],
    "store": ["run"],
    "cluster": ["run"],
    "serve": ["store", "cluster"],
    "cli": ["serve"],
}


def reach(module):
    seen = {module}
    for m in BELOW[module]:
        seen |= reach(m)
    return seen


def files(*folders, patterns=CODE):
    return [p for f in folders for g in patterns for p in sorted((ROOT / f).rglob(g))]


def bare(text):
    """The text with comments, strings and character constants blanked; line numbers stay."""
    token = re.compile(r'//[^\n]*|/\*.*?\*/|"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])*\'', re.S)
    return token.sub(lambda m: " " + "\n" * m[0].count("\n"), text)


def calls(names, text):
    """Lines of bare text that call one of the names."""
    pattern = re.compile(r"(?<![\w.>])(?:" + "|".join(names) + r")\s*\(")
    return [f"line {text.count(chr(10), 0, m.start()) + 1}: {m[0]}" for m in pattern.finditer(bare(text))]


def module_of(path):
    return path.split("/")[1]


# ---- rules ----


def layering(path, text):
    includes = re.findall(r'^[ \t]*#[ \t]*include[ \t]*([<"])([^>"]+)[>"]', text, re.M)
    if path == "include/glim.h":
        return [f"includes {name}" for quote, name in includes if quote == '"' or "/" in name]
    module = module_of(path)
    if module not in BELOW:
        return [f"module {module} is not in the arrow"]
    bad = []
    for quote, name in includes:
        if ".." in name.split("/"):
            bad.append(f"includes {name}")
        elif "/" in name and name.split("/")[0] in BELOW and name.split("/")[0] not in reach(module):
            bad.append(f"includes {name}, which is not below {module}")
        elif quote == '"' and "/" not in name and name != "glim.h" and not (ROOT / path).with_name(name).exists():
            bad.append(f"includes {name} without its module")
    return bad


def environment(path, text):
    if re.fullmatch(r"src/base/lever[^/]*\.c", path):
        return []
    return calls(["getenv", "secure_getenv"], text)


def ending(path, text):
    if module_of(path) == "cli":
        return []
    return calls(["abort", "exit", "_exit", "_Exit", "quick_exit", "raise", "__builtin_trap"], text)


def assertions(path, text):
    """An assert that changes something vanishes with NDEBUG."""
    bad = []
    for m in re.finditer(r"\bassert\s*\(([^;]*)\)\s*;", bare(text)):
        if re.search(r"\+\+|--|(?<![=!<>])=(?!=)", m[1]):
            bad.append(f"assert({m[1]})")
    return bad


def allocator(path, text):
    if path == "src/base/mem.c":
        return []
    names = ["malloc", "calloc", "realloc", "reallocarray", "free", "strdup", "strndup", "asprintf", "vasprintf",
             "aligned_alloc", "posix_memalign", "memalign", "valloc", "getline", "open_memstream"]
    return calls(names, text)


def long_file(path, text):
    n = text.count("\n")
    return [f"{n} lines, at most 2000"] if n > 2000 else []


def long_function(path, text):
    """In our brace style a function, and nothing else, has its braces alone in the first column."""
    bad, start, head = [], None, ""
    for i, line in enumerate(bare(text).split("\n"), 1):
        if line == "{":
            start = i
        elif line.rstrip(";") == "}" and start:
            if i - start - 1 > 120:
                bad.append(f"line {start}: {head.strip()}: {i - start - 1} lines, at most 120")
            start = None
        if line and not line[0].isspace():
            head = line if line != "{" else head
    return bad


def leftovers(path, text):
    return re.findall(r"\b(?:TODO|FIXME|XXX|HACK|placeholder)\b", text)


def opening(path, text):
    """Headers (whose comments are contracts) and tests (what would break for a user) start with a comment."""
    if path.startswith("src/") and not path.endswith(".h"):
        return []
    return [] if text.lstrip().startswith(("/*", "//")) else ["does not begin with a comment"]


RULES = {
    layering: ("src", "include"),
    environment: ("src",),
    ending: ("src",),
    assertions: ("src",),
    allocator: ("src",),
    long_file: ("src",),
    long_function: ("src",),
    leftovers: ("src", "include", "tests/unit", "tests/op", "tests/file", "tests/same", "tests/fuzz"),
    opening: ("src", "include", "tests/unit", "tests/op", "tests/file", "tests/same", "tests/fuzz"),
}

# Every rule's offenders: (path, text).
OFFENDERS = {
    layering: [
        ("src/base/x.c", '#include "op/op.h"\n'),
        ("src/op/x.c", '#include "base/mem.h"\n#include "cpu/cpu.h"\n'),
        ("src/cpu/x.c", '#include "block/block.h"\n'),
        ("src/text/x.c", '#include "quant/quant.h"\n'),
        ("src/block/x.c", '#  include <arch/plan.h>\n'),
        ("src/format/x.c", '#include "op/op.h"\n'),
        ("src/run/x.c", '#include "cli/cli.h"\n'),
        ("src/run/x.c", '#include "../base/mem.h"\n'),
        ("src/run/x.c", '#include "no_such_file.h"\n'),
        ("src/elsewhere/x.c", "int x;\n"),
        ("include/glim.h", '#include "base/mem.h"\n'),
    ],
    environment: [("src/run/x.c", 'a = getenv("HOME");\n'), ("src/base/toml.c", "b = secure_getenv (n);\n")],
    ending: [("src/base/x.c", "    abort();\n"), ("src/run/x.c", "{ exit(1); }\n"), ("src/op/x.c", "_exit (2);\n"),
             ("src/op/x.c", "if (x)\n    quick_exit(2);\n")],
    assertions: [("src/op/x.c", "assert(i++ < n);\n"), ("src/op/x.c", "assert((p = next()));\n")],
    allocator: [("src/op/x.c", "p = malloc(3);\n"), ("src/base/str.c", "free(p);\n"), ("src/run/x.c", "q = strdup (s);\n")],
    long_file: [("src/op/x.c", "\n" * 2001)],
    long_function: [("src/op/x.c", "static int f(void)\n{\n" + "    g();\n" * 121 + "}\n")],
    leftovers: [("src/op/x.c", "/* TO" + "DO: more */\n")],
    opening: [("src/op/x.h", "#ifndef X\n"), ("tests/unit/test_op.c", "#include <stdio.h>\n")],
}
FINE = {
    layering: [("src/op/x.c", '#include "quant/quant.h"\n#include "op/op.h"\n#include <sys/mman.h>\n#include "glim.h"\n'),
               ("include/glim.h", "#include <stdint.h>\n"), ("src/cli/x.c", '#include "run/model.h"\n')],
    environment: [("src/base/lever_env.c", 'getenv("X");\n'), ("src/run/x.c", '/* getenv() */ "getenv()"\n')],
    ending: [("src/cli/main.c", "exit(1);\n"), ("src/run/x.c", "// abort()\nq.exit(1); p->abort(); on_exit_now();\n")],
    assertions: [("src/op/x.c", "assert(a == b && c <= d && e != f);\nassert(x); i++;\n")],
    allocator: [("src/op/x.c", "mem_free(p); crew_free(c); x->free(y); /* free(p) */\n"), ("src/base/mem.c", "free(p);\n")],
    long_file: [("src/op/x.c", "\n" * 2000)],
    long_function: [("src/op/x.c", "static int f(void)\n{\n" + "    g();\n" * 120 + "}\n" * 2 + "int a[] = {\n" + "1,\n" * 200 + "};\n")],
    leftovers: [("src/op/x.c", "/* todo lists are fine as a subject */\n")],
    opening: [("src/op/x.c", "/* An essay. */\n")],
}


@pytest.mark.parametrize("rule", RULES, ids=lambda r: r.__name__)
def test_rule(rule):
    for path, text in OFFENDERS[rule]:
        assert rule(path, text), f"{rule.__name__} does not see {path}: {text!r}"
    for path, text in FINE[rule]:
        assert not rule(path, text), f"{rule.__name__} complains about {path}: {text!r}"
    seen = 0
    bad = []
    for p in files(*RULES[rule]):
        path = str(p.relative_to(ROOT))
        seen += 1
        bad += [f"{path}: {c}" for c in rule(path, p.read_text())]
    assert seen > 10
    assert not bad, "\n".join(bad)


# ---- rules about more than one file's text ----


def test_public_header_is_short():
    assert (ROOT / "include/glim.h").read_text().count("\n") <= 300


def too_much_data(sizes):
    """sizes: {path: bytes}."""
    bad = [f"{p}: {n} bytes, at most {DATA_FILE_MAX}" for p, n in sizes.items() if n > DATA_FILE_MAX]
    if sum(sizes.values()) > DATA_TOTAL_MAX:
        bad.append(f"{sum(sizes.values())} bytes together, at most {DATA_TOTAL_MAX}")
    return bad


def test_data_is_small():
    assert too_much_data({"a": DATA_FILE_MAX + 1})
    assert too_much_data({str(i): DATA_FILE_MAX for i in range(13)})
    sizes = {str(p.relative_to(ROOT)): p.stat().st_size for p in (ROOT / "tests/data").rglob("*") if p.is_file()}
    assert sizes
    assert not too_much_data(sizes)


def clang_format(paths):
    return subprocess.run(["clang-format", "--dry-run", "-Werror", *map(str, paths)], cwd=ROOT, capture_output=True, text=True)


def test_formatting(tmp_path):
    if not shutil.which("clang-format"):
        pytest.skip("clang-format is not installed")
    version = subprocess.run(["clang-format", "--version"], capture_output=True, text=True).stdout
    if not re.search(r"version 14\.", version):
        pytest.skip("clang-format is not version 14, and versions differ in layout")
    shutil.copy(ROOT / ".clang-format", tmp_path)
    ugly = tmp_path / "ugly.c"
    ugly.write_text("int  f( void ){return 1 ;}\n")
    assert clang_format([ugly]).returncode != 0
    r = clang_format(files("src", "include", "tests", patterns=("*.c", "*.h")))
    bad = sorted(set(re.findall(r"^(\S+?):\d+:\d+: error", r.stderr, re.M)))
    assert r.returncode == 0, "run make format; these differ:\n" + "\n".join(bad)


@pytest.mark.parametrize("command, page, word", [(["levers", "--markdown"], "LEVERS.md", "GLIM_"), (["text"], "TEXT.md", "| `")])
def test_generated_page_is_current(command, page, word):
    glim = ROOT / "build/glim"
    assert glim.exists(), "build/glim is missing: run make first"
    env = {k: v for k, v in os.environ.items() if not k.startswith(("GLIM_", "MUSER_", "METRALE_", "TQ_PLUS_"))}
    r = subprocess.run([glim, *command], cwd=ROOT, capture_output=True, text=True, env=env)
    assert r.returncode == 0, r.stderr
    assert r.stdout.count(word) > 10
    assert r.stdout == (ROOT / "docs" / page).read_text(), f"docs/{page} is out of date: run make docs"


def test_modules_are_those_of_the_build():
    """CMakeLists.txt links along the same arrow that the includes follow."""
    text = (ROOT / "CMakeLists.txt").read_text()
    built = {m: (b or "").split() for m, b in re.findall(r"^glim_module\((\w+)(?: BELOW ([\w ]+?))?(?: LIBS [^)]*)?\)", text, re.M)}
    assert len(built) >= 9
    for module, below in built.items():
        assert set(below) <= reach(module) - {module}, f"{module} links {below}"
    sources = {p.name for p in (ROOT / "src").iterdir() if p.is_dir() and any(p.glob("*.c"))}
    assert sources - {"cli"} <= set(built)
