"""If these fail, a real model's answer depends on who else was served, on the prefix cache, on chunks or on drafts."""
import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from glimtest import GLIM, glim, real_model  # noqa: E402


@pytest.mark.parametrize("name", ["smollm2-135m", "gemma3-270m"])
def test_two_hundred_requests_in_every_condition(name):
    path = glim("pull", real_model(name)).stdout.split()[0]
    test = os.path.join(os.path.dirname(GLIM), "test_run_engine")
    r = subprocess.run([test, path], capture_output=True, text=True, timeout=1200)
    assert r.returncode == 0, r.stdout[-2000:] + r.stderr[-4000:]
    assert "[  PASSED  ] 1 test(s)." in r.stdout + r.stderr
