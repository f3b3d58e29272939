"""If this fails, running a model takes more memory than the plan a user was shown."""
import json
import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from glimtest import GLIM, glim, real_model  # noqa: E402


def peak_rss(*args):
    """Bytes of resident memory at the process's peak."""
    p = subprocess.Popen([GLIM, *args], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    _, status, usage = os.wait4(p.pid, 0)
    p.returncode = os.waitstatus_to_exitcode(status)
    assert p.returncode == 0
    return usage.ru_maxrss * 1024


@pytest.mark.parametrize("name", ["smollm2-135m", "gemma3-270m"])
def test_run_stays_within_the_plan(name):
    model = real_model(name)
    plan = json.loads(glim("plan", "-m", model, "--json").stdout)
    rows = plan["rows"]
    beside = sum(r["bytes"] for r in rows if r["kind"] != "weights")
    home = os.path.expanduser("~/.glim")
    file_bytes = os.path.getsize(os.path.join(home, "models", name + ".gguf"))
    peak = peak_rss("run", "-m", model, "-p", "word " * 600, "-n", "8", "--ignore-eos")
    print(f"{name}: peak {peak / 1e6:.1f} MB, file {file_bytes / 1e6:.1f} MB, KV and scratch {beside / 1e6:.1f} MB")
    assert peak <= 1.1 * (file_bytes + beside)
