"""If these fail, an operator is blind or a request is lost: logs without names, a health check that lies, answers cut by a restart, a
client that is gone and still takes pages."""
import json
import re
import signal
import socket
import time

import pytest

from opstest import CHAT, LONG, Ops, refused_start

SHORT = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 6, "temperature": 0}
STORY = {"messages": [{"role": "user", "content": "Tell a story."}], "max_tokens": 250, "temperature": 0, "ignore_eos": True, "stream": True}
PAPER = {"messages": [{"role": "user", "content": "The sea is wide and the day is long. " * 180}], "max_tokens": 20, "temperature": 0}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    log = tmp_path_factory.mktemp("log") / "access.log"
    s = Ops("threads", 1, "n-seq", 2, "access-log", log, "cors", "https://chat.example, http://localhost:3000")
    s.access = log
    yield s
    s.end()


def lines(s, name, n=1, seconds=3):
    """Lines of the access log with this id."""
    end = time.time() + seconds
    while True:
        have = [json.loads(line) for line in s.access.read_text().splitlines()]
        mine = [line for line in have if line.get("id") == name]
        if len(mine) >= n:
            return mine
        assert time.time() < end, have[-5:]
        time.sleep(0.02)


def content(events):
    return "".join(c["delta"].get("content") or "" for _, d in events if d != "[DONE]" for c in json.loads(d)["choices"])


# ---- names and logs ----

@pytest.mark.parametrize("given, kept", [("abc-1.2:3_4/5+6=7@8", True), ("x" * 128, True), ("x" * 129, False), ("a b", False), ("a\"b", False), ("é", False), ("", False)])
def test_request_ids(server, given, kept):
    raw = server.raw()
    raw.send("GET /health HTTP/1.1\r\nhost: localhost\r\n".encode() + b"x-request-id: " + given.encode() + b"\r\n\r\n")
    _, headers, _ = raw.reply()
    if kept:
        assert headers["x-request-id"] == given
    else:
        assert re.fullmatch(r"req_[0-9A-Za-z]{24}", headers["x-request-id"])
    assert lines(server, headers["x-request-id"])


def test_every_reply_has_an_id_errors_too(server):
    for method, path, body, status in (("GET", "/nothing", None, 404), ("POST", "/health", {}, 405), ("POST", CHAT, {"x": 1}, 400), ("POST", CHAT, b"{", 400)):
        r = server.request(method, path, body, headers={"x-request-id": f"id-{status}"})
        assert (r.status, r.headers["x-request-id"]) == (status, f"id-{status}")
        assert lines(server, f"id-{status}")[-1]["status"] == status


TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"


@pytest.mark.parametrize("value, good", [
    (f"00-{TRACE}-{PARENT}-01", True), (f"00-{TRACE}-{PARENT}-00", True), (f"cc-{TRACE}-{PARENT}-01-more", True),
    (f"00-{TRACE}-{PARENT}-01-more", False), (f"ff-{TRACE}-{PARENT}-01", False), (f"00-{'0' * 32}-{PARENT}-01", False),
    (f"00-{TRACE}-{'0' * 16}-01", False), (f"00-{TRACE.upper()}-{PARENT}-01", False), (f"00-{TRACE}-{PARENT}-1", False), ("", False), ("00", False),
])
def test_traceparent(server, value, good):
    name = f"trace-{abs(hash(value))}"
    r = server.get("/health", headers={"traceparent": value, "x-request-id": name})
    line = lines(server, name)[-1]
    if not good:
        assert "traceparent" not in r.headers and "trace_id" not in line
        return
    version, trace, span, flags = r.headers["traceparent"].split("-")
    assert (version, trace, flags) == ("00", TRACE, value.split("-")[3])
    assert span not in (PARENT, "0" * 16) and re.fullmatch("[0-9a-f]{16}", span)
    assert (line["trace_id"], line["span_id"], line["parent_span_id"]) == (TRACE, span, PARENT)


def test_the_access_log(server):
    r = server.post(CHAT + "?", SHORT, headers={"x-request-id": "log-1"})
    usage = r.json["usage"]
    line = lines(server, "log-1")[0]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", line["time"])
    assert (line["method"], line["path"], line["status"], line["peer"], line["complete"]) == ("POST", CHAT, 200, "127.0.0.1", True)
    assert line["bytes"] == len(r.body)
    assert (line["prompt_tokens"], line["generated_tokens"]) == (usage["prompt_tokens"], usage["completion_tokens"])
    assert 0 < line["ms"] < 60000
    server.get("/v1/models?secret=1", headers={"x-request-id": "log-2"}, check=False)
    assert lines(server, "log-2")[0]["path"] == "/v1/models", "what comes after the ? may be a secret"
    raw = server.raw()
    raw.ask("POST", CHAT, {**LONG, "stream": True}, {"x-request-id": "log-3"})
    next(raw.events())
    raw.cut()
    assert lines(server, "log-3")[0]["complete"] is False
    raw = server.raw()
    raw.send("GET / HTTP/1.1\r\n\r\n")
    assert raw.reply()[0] == 400
    server.wait_idle()


def test_sighup_opens_the_access_log_again(server):
    server.get("/health", headers={"x-request-id": "rotate-1"})
    lines(server, "rotate-1")
    server.access.rename(server.access.with_suffix(".1"))
    server.signal(signal.SIGHUP)
    end = time.time() + 3
    while not server.access.exists():
        assert time.time() < end
        time.sleep(0.02)
    server.get("/health", headers={"x-request-id": "rotate-2"})
    lines(server, "rotate-2")
    assert "rotate-2" not in server.access.with_suffix(".1").read_text()


# ---- origins ----

@pytest.mark.parametrize("origin", ["https://chat.example", "http://localhost:3000"])
def test_a_listed_origin_may_ask(server, origin):
    r = server.request("OPTIONS", CHAT, headers={"Origin": origin, "Access-Control-Request-Method": "POST", "Access-Control-Request-Headers": "authorization,x-stainless-os"})
    assert r.status == 204 and r.body == b""
    assert r.headers["access-control-allow-origin"] == origin and r.headers["vary"] == "origin"
    assert "POST" in r.headers["access-control-allow-methods"]
    assert r.headers["access-control-allow-headers"] == "authorization,x-stainless-os"
    assert "access-control-allow-credentials" not in r.headers
    for r in (server.post(CHAT, SHORT, headers={"Origin": origin}), server.post(CHAT, {"x": 1}, headers={"Origin": origin}), server.get("/none", headers={"Origin": origin})):
        assert r.headers["access-control-allow-origin"] == origin
        assert "x-request-id" in r.headers["access-control-expose-headers"]


@pytest.mark.parametrize("origin", ["https://evil.example", "https://chat.example.evil", "https://chat.exampl", "http://chat.example", "null", "", "*", "http://localhost:3001"])
def test_another_origin_may_not(server, origin):
    for r in (server.request("OPTIONS", CHAT, headers={"Origin": origin, "Access-Control-Request-Method": "POST"}), server.post(CHAT, SHORT, headers={"Origin": origin})):
        assert r.status == 403
        assert not [h for h in r.headers if h.startswith("access-control")]


def test_the_page_s_own_origin_and_programs_without_one(server):
    r = server.post(CHAT, SHORT, headers={"Origin": f"http://127.0.0.1:{server.port}"})
    assert r.status == 200 and "access-control-allow-origin" not in r.headers
    assert server.request("OPTIONS", CHAT).status == 405


def test_cors_is_checked_at_the_start():
    assert "need api_keys" in refused_start("--cors", "*")
    assert "need origins like" in refused_start("--cors", "chat.example")


# ---- the page ----

def test_the_page(server):
    for path in ("/", "/dashboard"):
        r = server.get(path)
        assert r.status == 200 and r.headers["content-type"].startswith("text/html") and r.body.startswith(b"<!doctype html>")
        assert "default-src 'none'" in r.headers["content-security-policy"]
        again = server.get(path, headers={"If-None-Match": r.headers["etag"]})
        assert (again.status, again.body) == (304, b"")
        assert server.get(path, headers={"If-None-Match": '"other"'}).status == 200
        assert server.request("HEAD", path).headers["content-length"] == str(len(r.body))


# ---- health, metrics, telemetry ----

def test_health_and_ready(server):
    assert (server.get("/health").status, server.get("/health").json) == (200, {"status": "ok"})
    assert (server.get("/ready").status, server.get("/ready").json) == (200, {"status": "ready"})


def test_a_step_that_does_not_end_is_no_health():
    s = Ops("threads", 1, "health-s", 0.15, "prefill-chunk", 4096, "step-ms", 60000, "ctx", 2048)
    assert s.get("/health").status == 200
    time.sleep(0.3)
    assert s.get("/health").status == 200, "an idle engine is fine however long it idles"
    raw = s.raw()
    raw.ask("POST", CHAT, {**PAPER, "max_tokens": 2})
    seen, end = set(), time.time() + 50
    raw.s.setblocking(False)
    while time.time() < end:
        seen.add((s.get("/health").status, s.get("/ready").status))
        try:
            raw.got += raw.s.recv(65536)
            break
        except BlockingIOError:
            time.sleep(0.02)
    assert (503, 503) in seen, seen
    end = time.time() + 5
    while s.get("/health").status != 200:
        assert time.time() < end
        time.sleep(0.05)
    assert raw.got.startswith(b"HTTP/1.1 200")
    s.end()


SAMPLE = re.compile(r'([a-z0-9_:]+)(\{[a-z_]+="(?:[^"\\]|\\.)*"(?:,[a-z_]+="(?:[^"\\]|\\.)*")*\})? (\S+)$')


def test_metrics_are_what_prometheus_reads(server):
    server.ok(CHAT, SHORT)
    r = server.get("/metrics")
    assert r.headers["content-type"].startswith("text/plain; version=0.0.4")
    kind, seen = {}, set()
    for line in r.body.decode().splitlines():
        if line.startswith("# TYPE "):
            _, _, name, what = line.split(" ")
            assert name not in kind, f"{name} comes twice"
            kind[name] = what
        elif not line.startswith("#"):
            m = SAMPLE.match(line)
            assert m, line
            float(m[3])
            assert (m[1], m[2]) not in seen, line
            seen.add((m[1], m[2]))
            assert m[1] in kind or re.sub("_(bucket|sum|count)$", "", m[1]) in kind, line
    for name in ("vllm:num_requests_running", "vllm:kv_cache_usage_perc", "vllm:time_to_first_token_seconds", "glim_requests_running", "glim_http_requests_total"):
        assert name in kind
    assert all('model_name="smollm2-135m"' in (labels or "") for name, labels in seen if name.startswith("vllm:"))
    health = r'glim_http_requests_total\{method="GET",handler="/health",status="200"\} (\d+)'
    server.get("/health")
    before = int(re.search(health, server.get("/metrics").body.decode())[1])
    server.get("/health")
    assert int(re.search(health, server.get("/metrics").body.decode())[1]) == before + 1


def test_telemetry(server):
    server.wait_idle()
    schema = server.operation("GET", "/telemetry")["responses"]["200"]["content"]["text/event-stream"]["x-event"]
    raw = server.raw()
    raw.ask("GET", "/telemetry")
    events = raw.events()
    began = time.time()
    first = json.loads(next(events)[1])
    assert time.time() - began < 0.5, "the first comes at once"
    assert raw.headers["content-type"] == "text/event-stream" and raw.headers["cache-control"] == "no-store"
    assert first["requests"] == [] and first["state"] == "ready" and abs(first["time"] - time.time()) < 2
    work = server.raw()
    work.ask("POST", CHAT, {**LONG, "stream": True}, {"x-request-id": "telemetry-1"})
    stream = work.events()
    next(stream)
    seen = [json.loads(next(events)[1]) for _ in range(3)]
    for now in [first, *seen]:
        server.check(schema, now)
    gaps = [b["time"] - a["time"] for a, b in zip([first, *seen], seen)]
    assert all(0.8 < g < 1.6 for g in gaps), gaps
    last = seen[-1]
    assert last["queue"]["running"] == 1 and last["tokens"]["generated_per_s"] > 0 and last["kv"]["used"] > 0 and last["rss_bytes"] > 1e7
    assert last["steps"]["rows_mean"] >= 1 and last["tokens"]["generated_total"] > first["tokens"]["generated_total"]
    request, = last["requests"]
    assert (request["state"], request["api"]) == ("decode", CHAT) and request["generated"] > 0 and request["done"] == request["prompt"] > 0
    # its own id, or the client's, ends it; what was said before arrives, and the end
    r = server.request("POST", f"/v1/requests/{request['id']}/cancel")
    assert (r.status, r.json) == (200, {"id": request["id"], "cancelled": 1})
    assert [d for _, d in stream][-1] == "[DONE]"
    server.wait_idle()
    assert server.request("POST", f"/v1/requests/{request['id']}/cancel").status == 404
    work = server.raw()
    work.ask("POST", CHAT, LONG, {"x-request-id": "telemetry-2"})
    server.wait_running(lambda now: now and now[0]["generated"] > 2)
    assert server.request("POST", "/v1/requests/telemetry-2/cancel").json["cancelled"] == 1
    status, _, body = work.reply()
    assert status == 200 and json.loads(body)["choices"][0]["message"]["content"]
    assert json.loads(next(events)[1])["requests"] == []
    raw.cut()
    server.wait_idle()


def test_the_head_of_a_stream_is_all_there_is(server):
    raw, events = begin(server)
    next(events)
    for path in ("/telemetry", "/v1/streams/" + raw.headers["x-stream-id"]):
        other = server.raw()
        for _ in range(2):
            other.ask("HEAD", path)
            status, headers = other.head()
            assert status == 200 and headers["content-type"] == "text/event-stream"
    assert [d for _, d in events][-1] == "[DONE]", "its reader stays"


def test_telemetry_has_room_for_many_but_not_for_all(server):
    all_of_them = [server.raw() for _ in range(33)]
    for raw in all_of_them:
        raw.ask("GET", "/telemetry")
    statuses = [raw.head()[0] for raw in all_of_them]
    assert sorted(statuses) == [200] * 32 + [429]
    for raw in all_of_them:
        raw.cut()
    end = time.time() + 2
    while server.metric("glim_http_connections") > 1:
        assert time.time() < end
    raw = server.raw()
    raw.ask("GET", "/telemetry")
    assert raw.head()[0] == 200


# ---- a client that goes ----

def leave(raw, how):
    if how == "reset":
        raw.cut()
    elif how == "half":
        raw.s.shutdown(socket.SHUT_WR)
    else:
        raw.close()


@pytest.mark.parametrize("how", ["close", "reset", "half"])
@pytest.mark.parametrize("phase", ["in the head", "before the body", "in the body", "queued", "prefilling", "streaming", "not streaming"])
def test_a_client_that_goes_takes_nothing_with_it(server, phase, how):
    server.wait_idle()
    raw, others = server.raw(), []
    body = json.dumps({**LONG, "stream": phase == "streaming"}).encode()
    head = f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
    if phase == "in the head":
        raw.send(head[:60])
    elif phase == "before the body":
        raw.send(head + "\r\n")
    elif phase == "in the body":
        raw.send((head + "\r\n").encode() + body[:40])
    elif phase == "queued":
        others = [server.raw() for _ in range(2)]
        for o in others:
            o.ask("POST", CHAT, {**LONG, "stream": True})
            next(o.events())
        raw.ask("POST", CHAT, LONG)
        server.wait_running(lambda now: len(now) == 3 and now[-1]["state"] == "queued")
        server.wait_metric("glim_requests_waiting", 1)
    elif phase == "prefilling":
        raw.ask("POST", CHAT, {**PAPER, "cache_prompt": False})
        server.wait_running(lambda now: now and now[0]["state"] == "prefill" and now[0]["done"] < now[0]["prompt"])
        assert server.metric("glim_kv_pages_used") > 0
    else:
        raw.send((head + "\r\n").encode() + body)
        if phase == "streaming":
            events = raw.events()
            for _ in range(3):
                next(events)
        server.wait_running(lambda now: now and now[0]["state"] == "decode" and now[0]["generated"] > 2)
        server.wait_metric("glim_requests_running", 1)
        assert server.metric("glim_kv_pages_used") > 0
    if phase not in ("queued", "prefilling", "streaming", "not streaming"):
        time.sleep(0.05)
    leave(raw, how)
    if others:
        server.wait_metric("glim_requests_waiting", 0, 1)
        assert server.metric("glim_requests_running") == 2, "others go on"
        for o in others:
            o.cut()
    server.wait_idle(1.0)
    assert server.running() == []


# ---- streams that are kept ----

@pytest.fixture(scope="module")
def story(server):
    raw = server.raw()
    raw.ask("POST", CHAT, STORY)
    events = list(raw.events())
    assert all(number is None for number, _ in events) and "x-stream-id" not in raw.headers, "nobody asked for numbers"
    raw.close()
    return content(events)


def begin(server, seconds=20, body=STORY):
    raw = server.raw()
    raw.ask("POST", CHAT, body, {"x-resume-seconds": str(seconds)})
    return raw, raw.events()


def again(server, stream, after=None, headers=None):
    raw = server.raw()
    raw.ask("GET", f"/v1/streams/{stream}" + ("" if after is None else f"?after={after}"), headers=headers)
    return raw


@pytest.mark.parametrize("how", ["reset", "half"])
def test_a_stream_goes_on_where_it_broke(server, story, how):
    raw, events = begin(server)
    have = [next(events) for _ in range(5)]
    stream = raw.headers["x-stream-id"]
    leave(raw, how)
    time.sleep(0.1)
    server.wait_metric("glim_requests_running", 1)
    raw = again(server, stream, 5)
    rest = list(raw.events())
    assert raw.headers["content-type"] == "text/event-stream"
    assert [n for n, _ in have + rest] == list(range(1, len(have + rest) + 1))
    assert rest[-1][1] == "[DONE]" and content(have + rest) == story
    # it has ended, and is still there, as browsers ask for it too
    for raw in (again(server, stream, 5), again(server, stream, None, {"Last-Event-ID": "5"}), again(server, stream, 5, {"Last-Event-ID": "1"})):
        assert list(raw.events()) == rest
    assert list(again(server, stream).events()) == have + rest
    assert list(again(server, stream, len(have + rest)).events()) == []
    server.wait_idle()


def test_what_a_kept_stream_refuses(server, story):
    raw, events = begin(server)
    n = len(list(events))
    stream = raw.headers["x-stream-id"]
    assert server.get(f"/v1/streams/{stream}?after={n + 1}").status == 400
    assert server.get(f"/v1/streams/{stream}?after=x").status == 400
    assert server.get(f"/v1/streams/{stream}", headers={"Last-Event-ID": "x"}).status == 400
    assert server.get("/v1/streams/req_unknown").status == 404
    for bad in ("0", "601", "x", "1.5", "-1"):
        assert server.post(CHAT, STORY, headers={"x-resume-seconds": bad}).status == 400
    assert "x-stream-id" not in server.post(CHAT, SHORT, headers={"x-resume-seconds": "5"}).headers, "a whole reply is no stream"


def test_a_stream_nobody_comes_back_to_ends(server):
    raw, events = begin(server, 1, {**LONG, "stream": True})
    next(events)
    stream = raw.headers["x-stream-id"]
    raw.cut()
    gone = time.time()
    time.sleep(0.5)
    server.wait_metric("glim_requests_running", 1)
    server.wait_idle(2.0)
    assert time.time() - gone > 0.9
    assert server.get(f"/v1/streams/{stream}").status == 404


def test_a_new_reader_takes_over(server, story):
    raw, events = begin(server)
    have = [next(events) for _ in range(4)]
    stream = raw.headers["x-stream-id"]
    second = again(server, stream, 2)
    them = second.events()
    assert [next(them) for _ in range(2)] == have[2:4]
    with pytest.raises((EOFError, ConnectionError)):
        list(events)
    third = again(server, stream, 4)
    rest = list(third.events())
    with pytest.raises((EOFError, ConnectionError)):
        list(them)
    assert content(have + rest) == story and rest[-1][1] == "[DONE]"
    server.wait_idle()


def test_a_kept_stream_can_be_cancelled(server):
    raw, events = begin(server, 30, {**LONG, "stream": True})
    next(events)
    stream = raw.headers["x-stream-id"]
    raw.cut()
    time.sleep(0.1)
    assert server.request("POST", f"/v1/requests/{stream}/cancel").status == 200
    server.wait_idle()
    assert list(again(server, stream).events())[-1][1] == "[DONE]"


def test_there_is_room_for_so_many_streams(server):
    ids = []
    for _ in range(66):
        raw, events = begin(server, 60, {**SHORT, "max_tokens": 1, "stream": True})
        list(events)
        ids.append(raw.headers["x-stream-id"])
        raw.close()
    assert [server.get(f"/v1/streams/{i}", check=False).status for i in (ids[0], ids[1], ids[2], ids[-1])] == [404, 404, 200, 200]


# ---- the end ----

def stopping(*levers):
    s = Ops("threads", 1, *levers)
    raw = s.raw()
    raw.ask("POST", CHAT, {**STORY, "max_tokens": 500})
    events = raw.events()
    next(events)
    return s, raw, events


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_drain_lets_answers_end(number):
    s, raw, events = stopping("drain-s", 60)
    watch, idle, waiting = s.raw(), s.raw(), s.raw()
    watch.ask("GET", "/telemetry")
    states = watch.events()
    assert json.loads(next(states)[1])["state"] == "ready"
    idle.ask("GET", "/health")
    assert idle.reply()[0] == 200
    waiting.send(f"POST {CHAT} HTTP/1.1\r\nhost: localhost\r\ncontent-length: 2\r\n")
    s.signal(number)
    time.sleep(0.3)
    assert json.loads(list(states)[-1][1])["state"] == "draining", "the last that the dashboard hears"
    r = s.post(CHAT, SHORT)
    assert r.status == 503 and r.headers["connection"] == "close" and int(r.headers["retry-after"]) >= 1
    assert r.json["error"]["code"] == "shutting_down"
    r = s.get("/ready")
    assert r.status == 503 and r.headers["connection"] == "close"
    assert s.get("/health").status == 200 and s.get("/metrics").status == 200
    idle.ask("POST", CHAT, SHORT)
    status, headers, _ = idle.reply()
    assert (status, headers["connection"]) == (503, "close") and idle.at_end()
    waiting.send("\r\n{}")
    assert waiting.reply()[0] == 503
    rest = list(events)
    assert rest[-1][1] == "[DONE]" and json.loads(rest[-2][1])["choices"][0]["finish_reason"] == "length"
    assert s.ended(5) == 0, s.stderr()


def test_a_drain_with_nothing_to_do_is_short():
    s = Ops("threads", 1, "drain-s", 60)
    kept = s.raw()
    kept.ask("GET", "/health")
    kept.reply()
    began = time.time()
    s.signal(signal.SIGTERM)
    assert s.ended(5) == 0
    assert time.time() - began < 3


def test_a_drain_has_a_deadline():
    s, raw, events = stopping("drain-s", 1)
    r = s.raw()
    r.ask("POST", CHAT, {**LONG, "stream": True})
    mine = r.events()
    next(mine)
    began = time.time()
    s.signal(signal.SIGTERM)
    with pytest.raises((EOFError, ConnectionError)):
        list(mine)
    assert 0.8 < time.time() - began < 5
    assert s.ended(10) == 0, s.stderr()


def test_a_second_signal_cuts():
    s, raw, events = stopping("drain-s", 60)
    r = s.raw()
    r.ask("POST", CHAT, {**LONG, "stream": True}, {"x-resume-seconds": "60"})
    mine = r.events()
    next(mine)
    s.signal(signal.SIGTERM)
    time.sleep(0.3)
    s.signal(signal.SIGINT)
    began = time.time()
    with pytest.raises((EOFError, ConnectionError)):
        list(mine)
    assert s.ended(10) == 0, s.stderr()
    assert time.time() - began < 5


def test_a_kept_stream_survives_the_beginning_of_a_drain():
    s, raw, events = stopping("drain-s", 60)
    first = s.raw()
    first.ask("POST", CHAT, {**STORY, "max_tokens": 500}, {"x-resume-seconds": "20"})
    mine = first.events()
    have = [next(mine) for _ in range(3)]
    stream = first.headers["x-stream-id"]
    first.cut()
    s.signal(signal.SIGTERM)
    time.sleep(0.2)
    rest = list(again(s, stream, 3).events())
    assert rest[0][0] == 4 and rest[-1][1] == "[DONE]" and have
    list(events)
    assert s.ended(10) == 0, s.stderr()
