"""If these fail, strangers use the server, a user's key is worth nothing or everything, or one user takes what others need."""
import hashlib
import json
import os
import signal
import ssl
import socket
import subprocess
import time

import pytest

from opstest import CHAT, LONG, Ops, add_key, glim_env, refused_start

SHORT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 4, "temperature": 0}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """An authority, a certificate, and an empty place for keys."""
    d = tmp_path_factory.mktemp("tls")
    for args in (("init",), ("issue", "127.0.0.1", "localhost", "*.glim.example")):
        r = glim_env("tls", *args, "--dir", d)
        assert r.returncode == 0, r.stderr
    return {"dir": d, "ca": d / "ca.pem", "cert": d / "127.0.0.1.pem", "key": d / "127.0.0.1-key.pem"}


# ---- the file of keys ----

def test_a_key_is_shown_once_and_only_its_hash_kept(tmp_path):
    path = tmp_path / "keys"
    key = add_key(path, "alice", "--requests", 60, "--concurrent", 4)
    text = path.read_text()
    assert key.startswith("glim_") and len(key) == 48
    assert key not in text
    assert text == f"alice {hashlib.sha256(key.encode()).hexdigest()} requests=60 concurrent=4\n"
    assert os.stat(path).st_mode & 0o777 == 0o600
    with open(path, "a") as f:
        f.write("# a remark\n\n")
    other = add_key(path, "bob")
    assert other != key
    assert glim_env("keys", "list", "--api-keys", path).stdout == "alice requests=60 concurrent=4\nbob\n"
    assert glim_env("keys", "add", "bob", "--api-keys", path).returncode == 3
    assert glim_env("keys", "add", "no blanks", "--api-keys", path).returncode == 2
    assert glim_env("keys", "remove", "alice", "--api-keys", path).returncode == 0
    assert glim_env("keys", "remove", "alice", "--api-keys", path).returncode == 3
    assert path.read_text() == f"# a remark\n\nbob {hashlib.sha256(other.encode()).hexdigest()}\n"
    assert os.stat(path).st_mode & 0o777 == 0o600


HASH = "0" * 64


@pytest.mark.parametrize("text, says", [
    ("alice\n", "line 1"), (f"alice {HASH[1:]}\n", "line 1"), (f"alice {HASH}0\n", "line 1"), (f"# x\nalice {HASH.replace('0', 'G')}\n", "line 2"),
    (f"al/ice {HASH}\n", "line 1"), (f"alice {HASH} requests=0\n", "line 1"), (f"alice {HASH} requests=x\n", "line 1"),
    (f"alice {HASH} speed=3\n", "line 1"), (f"alice {HASH}\nalice {HASH}\n", "line 2"), (f"alice {HASH} tokens=4294967296\n", "line 1"),
    (f"alice {HASH}\n\0", "zero byte"),
])
def test_a_file_that_is_not_understood_stops_the_start(tmp_path, text, says):
    path = tmp_path / "keys"
    path.write_text(text)
    path.chmod(0o600)
    assert says in refused_start("--api-keys", path)


def test_a_file_that_others_may_read_stops_the_start(tmp_path):
    path = tmp_path / "keys"
    add_key(path, "alice")
    path.chmod(0o640)
    assert "0600" in refused_start("--api-keys", path)


# ---- who may be reached how ----

@pytest.mark.parametrize("have", [(), ("tls",), ("keys",)])
def test_another_address_needs_tls_and_keys(files, tmp_path, have):
    add_key(tmp_path / "keys", "alice")
    args = []
    if "tls" in have:
        args += ["--tls-cert", files["cert"], "--tls-key", files["key"]]
    if "keys" in have:
        args += ["--api-keys", tmp_path / "keys"]
    for host in ("0.0.0.0", "::"):
        assert "need tls_cert, tls_key and api_keys, or --insecure on" in refused_start("--host", host, *args)


def test_another_address_is_fine_when_insecure_is_spelled_out():
    s = Ops("host", "0.0.0.0", "insecure", "on", "threads", 1)
    assert s.ok(CHAT, SHORT)
    s.end()


def test_a_key_file_that_others_may_read_stops_the_start(files, tmp_path):
    loose = tmp_path / "key.pem"
    loose.write_bytes(files["key"].read_bytes())
    loose.chmod(0o644)
    assert "0600" in refused_start("--tls-cert", files["cert"], "--tls-key", loose)
    assert "need both" in refused_start("--tls-cert", files["cert"], code=2)


def handshake(port, ca, name="127.0.0.1", most=None, least=None):
    c = ssl.create_default_context(cafile=ca)
    if most:
        c.minimum_version, c.maximum_version = least, most
        c.set_ciphers("ALL:@SECLEVEL=0")
    with socket.create_connection(("127.0.0.1", port), timeout=10) as s, c.wrap_socket(s, server_hostname=name) as t:
        return t.version(), t.getpeercert()


def test_tls_and_keys_on_every_address(files, tmp_path):
    keys = tmp_path / "keys"
    key = add_key(keys, "alice")
    cert, private = tmp_path / "cert.pem", tmp_path / "key.pem"

    def install(name):
        cert.write_bytes((files["dir"] / f"{name}.pem").read_bytes())
        private.write_bytes((files["dir"] / f"{name}-key.pem").read_bytes())
        private.chmod(0o600)

    install("127.0.0.1")
    s = Ops("host", "0.0.0.0", "tls-cert", cert, "tls-key", private, "api-keys", keys, "threads", 1, "allowed-hosts", "gate.glim.example",
            key=key, ca=files["ca"])
    assert "https://0.0.0.0:" in s.stderr()
    assert s.ok(CHAT, SHORT)
    assert s.request("POST", CHAT, SHORT, headers={"Authorization": "Bearer wrong"}).status == 401
    assert s.get("/v1/models", headers={"Host": "gate.glim.example"}).status == 200
    assert s.get("/v1/models", headers={"Host": "evil.example"}, check=False).status == 403
    version, seen = handshake(s.port, files["ca"])
    assert version == "TLSv1.3"
    assert handshake(s.port, files["ca"], most=ssl.TLSVersion.TLSv1_2, least=ssl.TLSVersion.TLSv1_2)[0] == "TLSv1.2"
    with pytest.raises((ssl.SSLError, ConnectionError)):
        handshake(s.port, files["ca"], most=ssl.TLSVersion.TLSv1_1, least=ssl.TLSVersion.TLSv1)
    # SIGHUP: another certificate for those who come now; a stream made before goes on; a broken one changes nothing
    c = s.connect()
    c.request("GET", "/telemetry", headers={"Authorization": f"Bearer {key}"})
    r = c.getresponse()
    assert r.readline().startswith(b"data: ")
    assert glim_env("tls", "issue", "localhost", "127.0.0.1", "--dir", files["dir"]).returncode == 0
    install("localhost")
    s.signal(signal.SIGHUP)
    end = time.time() + 5
    while handshake(s.port, files["ca"])[1]["serialNumber"] == seen["serialNumber"]:
        assert time.time() < end
        time.sleep(0.05)
    seen = handshake(s.port, files["ca"])[1]
    private.chmod(0o644)
    s.signal(signal.SIGHUP)
    while "the old certificate stays in force" not in s.stderr():
        assert time.time() < end + 5
        time.sleep(0.05)
    assert handshake(s.port, files["ca"])[1]["serialNumber"] == seen["serialNumber"]
    assert r.readline() == b"\n" and r.readline().startswith(b"data: ")
    c.close()
    s.end()


def test_files_are_at_home_unless_said_otherwise(tmp_path):
    env = {"GLIM_HOME": str(tmp_path / "home")}
    for args, made in ((("tls", "init"), "tls/ca-key.pem"), (("tls", "issue", "::1"), "tls/::1.pem"), (("keys", "add", "x"), "keys")):
        r = glim_env(*args, env=env)
        assert r.returncode == 0 and (tmp_path / "home" / made).exists(), (args, r.stderr)
    assert glim_env("keys", "list", env=env).stdout == "x\n"


def test_certificates_are_what_others_expect(files):
    d = files["dir"]
    for name in ("ca-key.pem", "127.0.0.1-key.pem"):
        assert os.stat(d / name).st_mode & 0o777 == 0o600
    r = subprocess.run(["openssl", "verify", "-x509_strict", "-purpose", "sslserver", "-CAfile", d / "ca.pem", d / "127.0.0.1.pem"], capture_output=True, text=True)
    assert r.returncode == 0, r.stdout + r.stderr
    text = subprocess.run(["openssl", "x509", "-noout", "-text", "-in", d / "127.0.0.1.pem"], capture_output=True, text=True).stdout
    assert "IP Address:127.0.0.1, DNS:localhost, DNS:*.glim.example" in text
    assert "CA:FALSE" in text and "TLS Web Server Authentication" in text and "prime256v1" in text
    assert glim_env("tls", "init", "--dir", d).returncode == 3, "an authority is never overwritten"
    assert glim_env("tls", "issue", "127.0.0.1", "--dir", d).returncode == 3, "nor is a certificate"
    for bad in ("a b", "-x", "a..b", "x,DNS:evil", "email:x", "../up"):
        assert glim_env("tls", "issue", "--dir", d, bad).returncode == 2, bad
    assert glim_env("tls", "issue", "late.example", "--dir", d, "--days", 36500).returncode == 3
    assert glim_env("tls", "issue", "late.example", "--dir", d.parent / "none").returncode == 1


# ---- keys in use ----

@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    path = tmp_path_factory.mktemp("keys") / "keys"
    keys = {"admin": add_key(path, "admin"), "twice": add_key(path, "twice", "--requests", 2), "few": add_key(path, "few", "--tokens", 40),
            "one": add_key(path, "one", "--concurrent", 1), "other": add_key(path, "other")}
    s = Ops("api-keys", path, "threads", 1, key=keys["admin"])
    s.keys, s.path = keys, path
    yield s
    s.end()


def bearer(key):
    return {"Authorization": f"Bearer {key}"}


def test_every_route_that_is_not_open_needs_a_key(guarded):
    n = 0
    for path, methods in guarded.openapi["paths"].items():
        for method in methods:
            raw = guarded.raw()
            raw.ask(method.upper(), path.replace("{", "").replace("}", "").replace("*", "x"))
            status, headers, body = raw.reply()
            raw.close()
            if path in ("/", "/dashboard", "/health", "/ready", "/openapi.json"):
                assert status == 200, path
            elif status != 501:
                n += 1
                assert status == 401, (method, path, status)
                assert headers["www-authenticate"] == "Bearer"
    assert n >= 10


@pytest.mark.parametrize("headers, status", [
    ({}, 401), ({"Authorization": "Bearer "}, 401), ({"Authorization": "Bearer glim_x"}, 401), ({"Authorization": "KEY"}, 401),
    ({"Authorization": "Basic KEY"}, 401), ({"Authorization": "Bearer KEY"}, 200), ({"Authorization": "bearer KEY"}, 200),
    ({"x-api-key": "KEY"}, 200), ({"x-api-key": "KEYx"}, 401), ({"x-api-key": ""}, 401), ({"x-api-key": "x" * 9000}, 401),
    ({"Authorization": "Bearer x", "x-api-key": "KEY"}, 401),
])
def test_ways_to_bring_a_key(guarded, headers, status):
    raw = guarded.raw()
    raw.ask("GET", "/v1/models", headers={k: v.replace("KEY", guarded.keys["admin"]) for k, v in headers.items()})
    have, head, body = raw.reply()
    assert have == status
    if status == 401:
        assert json.loads(body)["error"]["type"] == "authentication_error"
        assert guarded.keys["admin"] not in body.decode()


def test_a_stranger_s_body_is_not_read(guarded):
    raw = guarded.raw()
    raw.send(f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 16000000\r\n\r\n")
    status, headers, _ = raw.reply()
    assert status == 401 and headers["connection"] == "close"
    assert raw.at_end()


def limited(r, kind):
    assert r.status == 429, r
    assert int(r.headers["retry-after"]) >= 1
    error = r.json["error"]
    assert error["type"] == error["code"] == "rate_limit_exceeded" and kind in error["message"], error
    return int(r.headers["retry-after"])


def test_requests_a_minute(guarded):
    mine = bearer(guarded.keys["twice"])
    assert [guarded.post(CHAT, SHORT, headers=mine).status for _ in range(2)] == [200, 200]
    assert 1 <= limited(guarded.post(CHAT, SHORT, headers=mine), "requests a minute") <= 30
    assert guarded.get("/v1/models", headers=mine).status == 200, "what costs nothing is free"
    assert guarded.post(CHAT, SHORT).status == 200, "others have their own"


def test_tokens_a_minute(guarded):
    mine = bearer(guarded.keys["few"])
    r = guarded.post(CHAT, {**SHORT, "max_tokens": 30, "ignore_eos": True}, headers=mine)
    assert r.status == 200
    used = r.json["usage"]["total_tokens"]
    assert used > 40
    wait = limited(guarded.post(CHAT, SHORT, headers=mine), "tokens a minute")
    assert abs(wait - (used - 40 + 1) * 60 / 40) <= 5, "until the bucket holds a token again"
    text = guarded.get("/metrics").body.decode()
    assert f'glim_key_tokens_total{{key="few",kind="prompt"}} {r.json["usage"]["prompt_tokens"]}' in text
    assert f'glim_key_tokens_total{{key="few",kind="generated"}} {r.json["usage"]["completion_tokens"]}' in text
    assert 'glim_key_refused_total{key="few",limit="tokens"} 1' in text


def test_requests_at_a_time(guarded):
    mine = bearer(guarded.keys["one"])
    raw = guarded.raw()
    raw.ask("POST", CHAT, {**LONG, "stream": True}, mine)
    next(raw.events())
    limited(guarded.post(CHAT, SHORT, headers=mine), "requests at a time")
    assert guarded.post(CHAT, SHORT).status == 200
    raw.cut()
    guarded.wait_idle()
    end = time.time() + 2
    while guarded.post(CHAT, SHORT, headers=mine).status != 200:
        assert time.time() < end
    assert 'glim_key_running{key="one"} 0' in guarded.get("/metrics").body.decode()


def test_what_is_of_one_key_is_not_another_s(guarded):
    raw = guarded.raw()
    raw.ask("POST", CHAT, {**LONG, "stream": True}, {**bearer(guarded.keys["other"]), "x-resume-seconds": "30"})
    next(raw.events())
    stream = raw.headers["x-stream-id"]
    assert guarded.get(f"/v1/streams/{stream}").status == 404
    assert guarded.request("POST", f"/v1/requests/{stream}/cancel").status == 404
    assert guarded.request("POST", f"/v1/requests/{stream}/cancel", headers=bearer(guarded.keys["other"])).status == 200
    assert [data for _, data in raw.events()][-1] == "[DONE]"
    raw.close()


def test_sighup_reads_the_keys_again(tmp_path):
    path = tmp_path / "keys"
    old, used = add_key(path, "old"), add_key(path, "used", "--requests", 1)
    s = Ops("api-keys", path, "threads", 1, "log-level", "info", key=old)
    assert s.post(CHAT, SHORT, headers=bearer(used)).status == 200
    assert s.post(CHAT, SHORT, headers=bearer(used)).status == 429
    new = add_key(path, "new")
    assert s.get("/v1/models", headers=bearer(new)).status == 401, "not before the signal"
    assert glim_env("keys", "remove", "old", "--api-keys", path).returncode == 0

    def hup(says):
        n = s.stderr().count(says)
        s.signal(signal.SIGHUP)
        end = time.time() + 5
        while s.stderr().count(says) == n:
            assert time.time() < end, s.stderr()
            time.sleep(0.02)
        time.sleep(0.1)

    hup("2 API keys")
    assert s.get("/v1/models", headers=bearer(new)).status == 200
    assert s.get("/v1/models", headers=bearer(old)).status == 401
    assert s.post(CHAT, SHORT, headers=bearer(used)).status == 429, "what was used stays used"
    path.write_text("nonsense\n")
    hup("the old API keys stay in force")
    assert s.get("/v1/models", headers=bearer(new)).status == 200
    s.key = new
    s.end()
