"""A small server that hands out the page and answers as a test has scripted: what glim serve would say, without a model.

A script is a function (request body) -> iterator of strings (raw event-stream text) or of numbers (seconds to wait).
"""

import json
import sys
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent / "tools"))
import page  # noqa: E402

EDGES = [0.005, 0.01, 0.02, 0.03, 0.05, 0.08, 0.12, 0.2, 0.3, 0.5, 0.8, 1.2, 2, 3, 5, 8]


def event(value):
    return "data: " + (value if isinstance(value, str) else json.dumps(value)) + "\n\n"


def chunk(delta=None, finish=None, **more):
    choices = [] if delta is None and finish is None else [{"index": 0, "delta": delta or {}, "finish_reason": finish}]
    return event({"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "tiny-1b", "choices": choices, **more})


def answer(text, reasoning="", size=7, pause=0.0, finish="stop", n_prompt=41, n_cached=16, **more):
    """An answer in pieces of `size` characters."""
    yield chunk({"role": "assistant"})
    for key, whole in (("reasoning_content", reasoning), ("content", text)):
        for i in range(0, len(whole), size):
            yield chunk({key: whole[i:i + size]})
            if pause:
                yield pause
    yield chunk({}, finish)
    yield chunk(usage={"prompt_tokens": n_prompt, "completion_tokens": len(text) // 4 + 1, "total_tokens": n_prompt + len(text) // 4 + 1,
                       "prompt_tokens_details": {"cached_tokens": n_cached}},
                timings={"prompt_per_second": 812.4, "predicted_per_second": 38.61, "draft_n": 40, "draft_n_accepted": 31}, **more)
    yield event("[DONE]")


def telemetry(second, requests=()):
    """A snapshot of a server that has been busy; deterministic in `second`."""
    wave = [0, 6, 14, 22, 31, 40, 44, 41, 38, 36, 39, 43]
    bell = [0, 2, 9, 30, 84, 160, 122, 71, 40, 22, 9, 4, 2, 1, 0, 0, 0]
    return {
        "time": 1_700_000_000 + second, "uptime_s": 93_784 + second, "model": "tiny-1b", "state": "ready",
        "queue": {"waiting": second % 3, "running": 2 + second % 4, "max_waiting": 64, "max_running": 16},
        "finished": {"length": 41, "end": 1_204, "stop": 63, "cancelled": 12, "deadline": 0, "error": 0, "refused": 5},
        "tokens": {"prompt_total": 812_004 + 90 * second, "cached_total": 530_112 + 70 * second, "generated_total": 301_337 + 40 * second,
                   "prompt_per_s": 310.0 if second % 5 == 0 else 20.5, "generated_per_s": wave[second % len(wave)] * 1.07},
        "ttft": {"edges": EDGES, "counts": bell[::-1][4:] + bell[:4], "sum": 311.2},
        "itl": {"edges": EDGES, "counts": [n * (40 + second) for n in bell], "sum": 9100.5},
        "steps": {"total": 99_000 + 30 * second, "last_age_s": 0.021, "rows_mean": 5.4},
        "kv": {"pages": 4096, "used": 1210 + 20 * (second % 10), "cached": 1734, "page_tokens": 16},
        "drafts": {"proposed_total": 81_200 + 30 * second, "accepted_total": 50_911 + 19 * second},
        "preemptions_total": 3, "connections": 9, "rss_bytes": 1_932_735_283,
        "requests": list(requests),
    }


PROPS = {
    "default_generation_settings": {"n_ctx": 8192, "params": {"temperature": 0.800000011920929, "top_p": 0.95, "top_k": 40, "min_p": 0.05, "max_tokens": -1, "seed": -1}},
    "glim": {
        "version": "0.1.0", "backend": "cpu-avx512", "threads": 8,
        "model": {"name": "tiny-1b", "family": "llama", "params": 1_235_814_400, "weight_bytes": 807_690_240, "ctx": 8192},
        "chat": {"reasoning": True, "efforts": ["low", "medium", "high"], "tools": True},
        "levers": [
            {"key": "kv_type", "value": "q8_0", "origin": "flag", "bits": "changes", "doc": "Number format of keys and values."},
            {"key": "n_seq", "value": 16, "origin": "toml", "bits": "keeps", "doc": "Answers that run at once."},
            {"key": "threads", "value": 0, "origin": "default", "bits": "keeps", "doc": "Worker threads; 0 takes one for each physical core this process may use."},
            {"key": "ctx", "value": 8192, "origin": "default", "bits": "keeps", "doc": "Positions of a sequence."},
        ],
        "kernels": [
            {"op": "linear Q4_K", "kernel": "avx512-vnni panel16 int8", "why": "the processor has AVX-512 VNNI"},
            {"op": "attention", "kernel": "avx512 online softmax", "why": "the processor has AVX-512"},
            {"op": "rmsnorm", "kernel": "avx512", "why": "the processor has AVX-512"},
        ],
    },
}


class Scripted:
    """script: see above. bodies: of the chat requests that came; cancelled: ids; gone: set when a client left a stream."""

    def __init__(self):
        self.html, self.csp = page.make()
        self.script = lambda body: answer("Hello.")
        self.bodies, self.cancelled, self.paths = [], [], []
        self.gone = threading.Event()
        self.key = None           # required when set
        self.requests = []        # of /telemetry
        self.frames = True        # telemetry goes on
        self.second = 0
        self.frame_pause = 0.1    # seconds between frames
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.daemon_threads = True
        self.base = f"http://127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.frames = False
        self.server.shutdown()
        self.server.server_close()

    def _handler(outer):
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.0"  # the end of the connection is the end of the reply

            def log_message(self, *_):
                pass

            def reply(self, status, body, kind="application/json", headers=()):
                body = body if isinstance(body, bytes) else json.dumps(body).encode()
                self.send_response(status)
                for k, v in [("Content-Type", kind), ("Content-Length", str(len(body))), *headers]:
                    self.send_header(k, v)
                self.end_headers()
                self.wfile.write(body)

            def allowed(self):
                if outer.key is None or self.headers.get("Authorization") == f"Bearer {outer.key}":
                    return True
                self.reply(401, {"error": {"message": "no valid API key", "type": "authentication_error", "param": None, "code": None}})
                return False

            def stream(self, parts):
                self.send_response(200)
                self.send_header("Content-Type", "text/event-stream")
                self.end_headers()
                try:
                    for p in parts:
                        if isinstance(p, str):
                            self.wfile.write(p.encode())
                            self.wfile.flush()
                        else:
                            time.sleep(p)
                except (BrokenPipeError, ConnectionResetError):
                    outer.gone.set()

            def frames(self):
                while outer.frames:
                    outer.second += 1
                    for r in outer.requests:
                        r["age_s"] = round(r["age_s"] + 1, 1)
                        r["generated"] += 9 if r["state"] == "decode" else 0
                    yield event(telemetry(outer.second, outer.requests))
                    yield outer.frame_pause

            def do_GET(self):
                outer.paths.append(self.path)
                if self.path == "/":
                    return self.reply(200, outer.html, "text/html; charset=utf-8", [("Content-Security-Policy", outer.csp), ("X-Content-Type-Options", "nosniff")])
                if not self.allowed():
                    return None
                if self.path == "/v1/models":
                    return self.reply(200, {"object": "list", "data": [{"id": "tiny-1b", "object": "model"}]})
                if self.path == "/props":
                    return self.reply(200, PROPS)
                if self.path == "/telemetry":
                    return self.stream(self.frames())
                return self.reply(404, {"error": {"message": f"no route {self.path}", "type": "invalid_request_error"}})

            def do_POST(self):
                outer.paths.append(self.path)
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                if not self.allowed():
                    return None
                if self.path == "/v1/chat/completions":
                    body = json.loads(body)
                    outer.bodies.append(body)
                    script = outer.script(body)
                    return self.reply(*script) if isinstance(script, tuple) else self.stream(script)
                parts = self.path.split("/")
                if self.path.startswith("/v1/requests/") and parts[-1] == "cancel":
                    outer.cancelled.append(parts[3])
                    outer.requests = [r for r in outer.requests if str(r["id"]) != parts[3]]
                    return self.reply(200, {"id": parts[3], "cancelled": True})
                return self.reply(404, {"error": {"message": f"no route {self.path}"}})

        return Handler
