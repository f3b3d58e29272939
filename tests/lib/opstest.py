"""Servers of the tests of operations: with keys, TLS and signals, and raw sockets to see exactly what is said."""
import http.client
import json
import os
import socket
import ssl
import struct
import subprocess
import time

from glimtest import GLIM, real_model
from servetest import OURS, Server

CHAT = "/v1/chat/completions"
LONG = {"messages": [{"role": "user", "content": "Count."}], "max_tokens": 3000, "ignore_eos": True, "temperature": 0}


class Ops(Server):
    """key: sent with every request; ca: the server speaks TLS, and this file says whom to trust."""

    def __init__(self, *levers, key=None, ca=None, env=None):
        self.key, self.ca = key, ca
        super().__init__(real_model("smollm2-135m"), *levers, env=env)

    def connect(self, timeout=60):
        if not self.ca:
            return super().connect(timeout)
        return http.client.HTTPSConnection("127.0.0.1", self.port, timeout=timeout, context=ssl.create_default_context(cafile=self.ca))

    def request(self, method, path, body=None, headers=None, **more):
        auth = {"Authorization": f"Bearer {self.key}"} if self.key else {}
        return super().request(method, path, body, {**auth, **(headers or {})}, **more)

    def raw(self):
        return Raw(self.port)

    def signal(self, number):
        self.process.send_signal(number)

    def ended(self, seconds):
        """The exit code; the process has to be gone by then."""
        return self.process.wait(seconds)

    def running(self):
        """What /telemetry says of the requests under way."""
        r = self.raw()
        r.ask("GET", "/telemetry", headers={"Authorization": f"Bearer {self.key}"} if self.key else {})
        snapshot = json.loads(next(r.events())[1])
        r.close()
        return snapshot["requests"]

    def wait_running(self, ok, seconds=10):
        end = time.time() + seconds
        while True:
            now = self.running()
            if ok(now):
                return now
            assert time.time() < end, now
            time.sleep(0.02)

    def wait_metric(self, name, value, seconds=5):
        """Gauges are set once a step."""
        end = time.time() + seconds
        while (have := self.metric(name)) != value:
            assert time.time() < end, (name, have)
            time.sleep(0.01)


class Raw:
    """One connection, seen from below."""

    def __init__(self, port):
        self.s = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.got = b""

    def send(self, data):
        self.s.sendall(data if isinstance(data, bytes) else data.encode())

    def ask(self, method, path, body=None, headers=None):
        data = b"" if body is None else json.dumps(body).encode()
        head = "".join(f"{k}: {v}\r\n" for k, v in (headers or {}).items())
        size = f"content-length: {len(data)}\r\n" if body is not None else ""
        self.send(f"{method} {path} HTTP/1.1\r\nhost: localhost\r\n{size}{head}\r\n".encode() + data)

    def until(self, mark):
        while mark not in self.got:
            more = self.s.recv(65536)
            if not more:
                raise EOFError(self.got)
            self.got += more
        at = self.got.index(mark) + len(mark)
        out, self.got = self.got[:at], self.got[at:]
        return out

    def head(self):
        """status, headers."""
        lines = self.until(b"\r\n\r\n").decode().split("\r\n")
        return int(lines[0].split()[1]), {k.lower(): v for k, v in (line.split(": ", 1) for line in lines[1:] if line)}

    def reply(self):
        """status, headers, body of a reply with a length."""
        status, headers = self.head()
        n = int(headers.get("content-length", 0))
        while len(self.got) < n:
            more = self.s.recv(65536)
            assert more, self.got
            self.got += more
        body, self.got = self.got[:n], self.got[n:]
        return status, headers, body

    def chunks(self):
        while True:
            n = int(self.until(b"\r\n"), 16)
            data = b""
            while len(data) < n + 2:
                if not self.got:
                    self.got = self.s.recv(65536)
                    if not self.got:
                        raise EOFError(data)
                take = n + 2 - len(data)
                data, self.got = data + self.got[:take], self.got[take:]
            if n == 0:
                return
            yield data[:-2]

    def events(self):
        """(id or None, data) of each event; ends with the body, EOFError when the connection breaks before."""
        if not hasattr(self, "status"):
            self.status, self.headers = self.head()
            assert self.status == 200, (self.status, self.headers, self.got)
        text = b""
        for chunk in self.chunks():
            text += chunk
            while b"\n\n" in text:
                event, text = text.split(b"\n\n", 1)
                lines = event.decode().split("\n")
                number = [int(line[4:]) for line in lines if line.startswith("id: ")]
                data = [line[6:] for line in lines if line.startswith("data: ")]
                if data:
                    yield (number[0] if number else None), "\n".join(data)

    def cut(self):
        """Gone without a word: the other side gets a reset."""
        self.s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.s.close()

    def close(self):
        self.s.close()

    def at_end(self, seconds=5):
        """Does the server close the connection?"""
        self.s.settimeout(seconds)
        try:
            while True:
                if not self.s.recv(65536):
                    return True
        except TimeoutError:
            return False
        except ConnectionResetError:
            return True


def glim_env(*args, env=None):
    clean = {k: v for k, v in os.environ.items() if not k.startswith(OURS)}
    return subprocess.run([GLIM, *map(str, args)], capture_output=True, text=True, env={**clean, **(env or {})}, timeout=30)


def add_key(path, name, *limits):
    r = glim_env("keys", "add", name, *limits, "--api-keys", path)
    assert r.returncode == 0, r.stderr
    return r.stdout.strip()


def refused_start(*args, code=3):
    """Standard error of a server that must not start."""
    r = glim_env("serve", "-m", real_model("smollm2-135m"), "--port", "0", "--threads", "1", *args)
    assert r.returncode == code, (r.returncode, r.stderr)
    return r.stderr
