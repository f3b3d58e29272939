"""If this fails, the example of the C API no longer compiles against the header and the libraries alone, or says something else than
the command line does."""
import glob
import os
import shutil
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from glimtest import DATA, GLIM, ROOT, glim  # noqa: E402

LLAMA = os.path.join(DATA, "gguf", "llama.f32.gguf")
SOURCE = os.path.join(ROOT, "examples", "hello.c")


@pytest.fixture(scope="module")
def hello(tmp_path_factory):
    out = tmp_path_factory.mktemp("hello") / "hello"
    cc = shutil.which(os.environ.get("CC", "cc"))
    libs = glob.glob(os.path.join(os.path.dirname(GLIM), "libglim_*.a"))
    found = subprocess.run(["pkg-config", "--libs", "libcrypto", "libxxhash", "jansson"], capture_output=True, text=True, check=True)
    subprocess.run([cc, "-std=c17", "-Wall", "-Wextra", "-Werror", "-I", os.path.join(ROOT, "include"), SOURCE, "-o", out, "-Wl,--start-group",
                    *libs, "-Wl,--end-group", *found.stdout.split(), "-lm", "-pthread"], check=True)
    return out


def test_it_says_what_the_command_line_says(hello):
    r = subprocess.run([hello, LLAMA, "the wind"], capture_output=True, text=True)
    assert r.returncode == 0 and r.stderr == ""
    assert r.stdout == glim("run", "-m", LLAMA, "-p", "the wind", "-n", "32").stdout + "\n"


def test_errors_have_codes_and_sentences(hello):
    r = subprocess.run([hello, "/nonexistent.gguf"], capture_output=True, text=True)
    assert r.returncode == 1 and "/nonexistent.gguf" in r.stderr and r.stdout == ""


def test_it_stays_small():
    assert len(open(SOURCE).read().splitlines()) <= 40
