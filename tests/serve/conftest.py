import os
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
import servetest  # noqa: E402


@pytest.fixture(scope="module")
def server():
    """One for all tests of a file; at the end nothing is left running and it ends cleanly."""
    s = servetest.smollm2()
    yield s
    s.end()
