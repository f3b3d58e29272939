"""If these fail, the service that an administrator installs does not start, or runs with more rights than it needs."""
import json
import os
import re
import shutil
import subprocess

import pytest

from glimtest import GLIM, ROOT, glim

PACKAGING = os.path.join(ROOT, "packaging")


def read(name):
    with open(os.path.join(PACKAGING, name)) as f:
        return f.read()


@pytest.fixture
def unit(tmp_path):
    """The unit with paths that exist here."""
    path = tmp_path / "glim.service"
    path.write_text(read("glim.service").replace("/usr/local/bin/glim", GLIM))
    return path


needs_systemd = pytest.mark.skipif(not shutil.which("systemd-analyze"), reason="no systemd-analyze here")


@needs_systemd
def test_systemd_understands_the_unit(unit):
    r = subprocess.run(["systemd-analyze", "verify", "--man=no", unit], capture_output=True, text=True)
    ours = [line for line in (r.stdout + r.stderr).splitlines() if "glim" in line]
    assert not ours, ours


@needs_systemd
def test_the_unit_has_few_rights(unit):
    r = subprocess.run(["systemd-analyze", "security", "--offline=yes", "--no-pager", unit], capture_output=True, text=True)
    exposure = re.search(r"exposure level for glim.service: ([\d.]+)", r.stdout + r.stderr)
    assert exposure, r.stdout + r.stderr
    assert float(exposure[1]) < 2.5, r.stdout


def test_what_the_packages_say_to_the_program_exists():
    levers = {row["key"]: row for row in json.loads(glim("levers", "--json").stdout)}
    said = set(re.findall(r"\bGLIM_(\w+)=", read("serve.env") + read("glim.service") + read("Dockerfile")))
    flags = set(re.findall(r"--(host|tls-\w+|api-\w+|access-\w+|log-\w+)", read("glim.service") + read("Dockerfile")))
    assert len(said) >= 6 and len(flags) >= 4
    for name in [s.lower() for s in said] + [f.replace("-", "_") for f in flags]:
        assert name in levers, name
    drain = int(levers["drain_s"]["default"])
    assert int(re.search(r"TimeoutStopSec=(\d+)", read("glim.service"))[1]) > drain
    assert int(re.search(r"--stop-timeout (\d+)", read("Dockerfile"))[1]) > drain


def test_the_container_has_the_libraries_and_no_root():
    text = read("Dockerfile")
    assert re.search(r"^USER (?!0|root)\d+:\d+$", text, re.M)
    needed = subprocess.run(["readelf", "-d", GLIM], capture_output=True, text=True).stdout
    owners = {"libxxhash": "libxxhash0", "libjansson": "libjansson4", "libevent_core-2.1": "libevent-core-2.1-7", "libcurl": "libcurl4",
              "libevent_openssl-2.1": "libevent-openssl-2.1-7", "libssl": "libssl3", "libcrypto": "libssl3", "libedit": "libedit2", "libsqlite3": "libsqlite3-0"}
    for name in re.findall(r"Shared library: \[([^\]]+)\.so", needed):
        if name not in ("libc", "libm", "ld-linux-x86-64"):
            assert owners[name] in text.split(), name
