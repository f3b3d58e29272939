"""A server under test: `glim serve` on a free port, raw HTTP, and every reply checked against what /openapi.json says of its route."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import tempfile
import time

import jsonschema

from glimtest import GLIM, real_model

OURS = ("GLIM_", "MUSER_", "METRALE_", "TQ_PLUS_", "MELON_")


class Reply:
    def __init__(self, status, headers, body):
        self.status, self.headers, self.body = status, headers, body

    @property
    def json(self):
        return json.loads(self.body)

    def __repr__(self):
        return f"{self.status} {self.body[:2000]!r}"


class Server:
    """levers: alternating names and values, as on the command line without the dashes."""

    def __init__(self, model, *levers, env=None):
        self.log = tempfile.NamedTemporaryFile("w+", suffix=".log")
        argv = [GLIM, "serve", "-m", str(model), "--port", "0"]
        self.folder = tempfile.TemporaryDirectory(prefix="glim-serve-")
        if "store-path" not in levers:  # not the one of whoever runs the tests
            argv += ["--store-path", os.path.join(self.folder.name, "responses.db")]
        for name, value in zip(levers[::2], levers[1::2]):
            argv += [f"--{name}", str(value)]
        clean = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
        self.process = subprocess.Popen(argv, stderr=self.log, stdout=subprocess.DEVNULL, env={**clean, **(env or {})})
        self.port = self.wait_for_port()
        self.openapi = self.request("GET", "/openapi.json", check=False).json
        self.validators = {}

    def wait_for_port(self, seconds=120):
        end = time.time() + seconds
        while time.time() < end:
            m = re.search(r"on https?://\S+:(\d+)$", self.stderr(), re.M)
            if m:
                return int(m[1])
            assert self.process.poll() is None, f"glim serve ended with {self.process.returncode}: {self.stderr()}"
            time.sleep(0.02)
        raise AssertionError("glim serve: no port after 120 s: " + self.stderr())

    def stderr(self):
        with open(self.log.name) as f:
            return f.read()

    def stop(self):
        """Ends it as an operator would; any other end than a clean one is a failure."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(60)
            except subprocess.TimeoutExpired:
                self.process.kill()
                raise
        assert self.process.returncode == 0, f"exit code {self.process.returncode}: {self.stderr()}"

    def end(self):
        """At the end of tests: idle, and then gone."""
        assert self.process.poll() is None, f"glim serve is gone, exit code {self.process.returncode}: {self.stderr()}"
        self.wait_idle()
        self.stop()

    def connect(self, timeout=120):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)

    # ---- requests ----

    def request(self, method, path, body=None, headers=None, check=True, timeout=120):
        """body: bytes as they are, anything else as JSON."""
        c = self.connect(timeout)
        head = {"Content-Type": "application/json", **(headers or {})}
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        c.request(method, path, data, head)
        r = c.getresponse()
        reply = Reply(r.status, {k.lower(): v for k, v in r.getheaders()}, r.read())
        c.close()
        if check:
            self.validate(method, path, reply)
        return reply

    def post(self, path, body, **more):
        return self.request("POST", path, body, **more)

    def get(self, path, **more):
        return self.request("GET", path, **more)

    def ok(self, path, body, **more):
        """The reply's JSON of a request that has to work."""
        r = self.post(path, body, **more)
        assert r.status == 200, (body, r)
        return r.json

    def refused(self, path, body, status=400, param=None):
        """The error of a request that has to be refused."""
        r = self.post(path, body)
        assert r.status == status, (body, r)
        error = r.json["error"]
        if param is not None:
            assert error["param"] == param, (body, error)
        assert ": have " in error["message"], error
        return error

    def stream(self, path, body):
        """Data of all events but the last, [DONE]; each checked."""
        c = self.connect()
        c.request("POST", path, json.dumps({**body, "stream": True}), {"Content-Type": "application/json"})
        r = c.getresponse()
        text = r.read().decode()
        c.close()
        assert r.status == 200, text
        assert r.getheader("content-type") == "text/event-stream"
        events = []
        for block in text.split("\n\n")[:-1]:
            lines = [line for line in block.split("\n") if not line.startswith(":")]
            assert all(line.startswith(("data: ", "event: ")) for line in lines), block
            events += [line[6:] for line in lines if line.startswith("data: ")]
        assert text.endswith("\n\n")
        assert events[-1] == "[DONE]"
        events = [json.loads(e) for e in events[:-1]]
        for e in events:
            self.check(self.operation("POST", path)["responses"]["200"]["content"]["text/event-stream"]["x-event"], e)
        return events

    # ---- schemas ----

    def operation(self, method, path):
        for pattern, methods in self.openapi["paths"].items():
            if re.fullmatch(re.sub(r"\{[^}]*\}", "[^/]+", pattern), path.split("?")[0]):
                return methods.get(method.lower())
        return None

    def check(self, schema, value):
        key = json.dumps(schema)
        if key not in self.validators:
            resolver = jsonschema.RefResolver.from_schema(self.openapi)
            self.validators[key] = jsonschema.Draft202012Validator(schema, resolver=resolver)
        self.validators[key].validate(value)

    def validate(self, method, path, reply):
        operation = self.operation(method, path)
        kind = reply.headers.get("content-type", "")
        if operation is None or not kind.startswith("application/json"):
            return
        part = operation["responses"].get(str(reply.status)) or operation["responses"][f"{reply.status // 100}XX"]
        self.check(part["content"]["application/json"]["schema"], reply.json)

    # ---- counters ----

    def metric(self, name):
        """Sum of a metric's samples."""
        text = self.get("/metrics").body.decode()
        return sum(float(line.rsplit(" ", 1)[1]) for line in text.splitlines() if re.match(rf"{re.escape(name)}[ {{]", line))

    def wait_idle(self, seconds=1.0):
        """Nothing runs, waits or holds pages, within so many seconds."""
        end = time.time() + seconds
        names = ("glim_requests_running", "glim_requests_waiting", "glim_kv_pages_used")
        while True:
            left = {n: self.metric(n) for n in names}
            if not any(left.values()):
                return
            assert time.time() < end, left
            time.sleep(0.01)


def named_events(server, path, body):
    """(name, data) of all events of a stream whose events have names; each checked."""
    r = server.post(path, {**body, "stream": True})
    assert r.status == 200 and r.headers["content-type"] == "text/event-stream", r
    schema = server.operation("POST", path)["responses"]["200"]["content"]["text/event-stream"]["x-event"]
    text, events = r.body.decode(), []
    assert text.endswith("\n\n")
    for block in text.split("\n\n")[:-1]:
        lines = [line for line in block.split("\n") if not line.startswith(":")]
        if lines:
            name, data = lines
            events.append((name.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
            assert events[-1][1]["type"] == events[-1][0]
            server.check(schema, events[-1][1])
    return events


def send(server, path, body):
    """A request whose reply nobody reads yet: the socket."""
    data = json.dumps(body).encode()
    s = socket.create_connection(("127.0.0.1", server.port))
    s.sendall(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
    return s


def wait_running(server, n, seconds=20):
    end = time.time() + seconds
    while server.metric("glim_requests_running") < n:
        assert time.time() < end
        time.sleep(0.01)


def joined(events, answer=0, member="content"):
    """The streamed text of a chat's answer."""
    return "".join(c["delta"].get(member) or "" for e in events for c in e["choices"] if c["index"] == answer)


def smollm2(*levers, **more):
    return Server(real_model("smollm2-135m"), *levers, **more)


def user(text):
    return [{"role": "user", "content": text}]
