"""If these fail, a client that goes away leaves its answer running: pages and slots stay taken, and others wait for nobody."""
import json
import socket
import threading
import time

import pytest

from servetest import smollm2, user

CHAT = "/v1/chat/completions"
LONG = {"messages": user("Write a long story."), "max_tokens": 4000, "ignore_eos": True, "temperature": 1}
WORDS = {"messages": user("word " * 3900), "max_tokens": 2, "cache_prompt": False}


@pytest.fixture(scope="module")
def server():
    s = smollm2("n-seq", "4", "queue", "8", "prefix-cache", "off")
    yield s
    s.end()


def send(server, body, path=CHAT):
    data = json.dumps(body).encode()
    s = socket.create_connection(("127.0.0.1", server.port))
    s.sendall(f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n".encode() + data)
    return s


def wait_running(server, n, seconds=20):
    end = time.time() + seconds
    while server.metric("glim_requests_running") < n:
        assert time.time() < end
        time.sleep(0.01)


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("how", ["close", "reset", "shut"])
def test_gone_while_writing(server, stream, how):
    s = send(server, {**LONG, "stream": stream})
    wait_running(server, 1)
    time.sleep(0.2)
    if how == "reset":
        s.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    if how == "shut":
        s.shutdown(socket.SHUT_WR)
    else:
        s.close()
    server.wait_idle(1)
    s.close()


def test_gone_while_reading_the_prompt(server):
    s = send(server, WORDS)
    wait_running(server, 1)
    s.close()
    server.wait_idle(1)


def test_gone_while_waiting(server):
    busy = [send(server, LONG) for _ in range(4)]
    wait_running(server, 4)
    waiting = [send(server, {**LONG, "stream": i % 2 == 0}) for i in range(4)]
    end = time.time() + 10
    while server.metric("glim_requests_waiting") < 4:
        assert time.time() < end
        time.sleep(0.01)
    for s in waiting:
        s.close()
    end = time.time() + 1
    while server.metric("glim_requests_waiting"):
        assert time.time() < end
        time.sleep(0.01)
    assert server.metric("glim_requests_running") == 4
    for s in busy:
        s.close()
    server.wait_idle(1)


def test_gone_before_the_body_is_there(server):
    s = socket.create_connection(("127.0.0.1", server.port))
    s.sendall(b"POST /v1/chat/completions HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n{")
    time.sleep(0.1)
    s.close()
    server.wait_idle(1)


def test_all_answers_and_prompts_of_a_request_go_with_it(server):
    s = send(server, {**LONG, "n": 3})
    wait_running(server, 3)
    s.close()
    server.wait_idle(1)
    s = send(server, {"prompt": ["a", "b", "c"] * 2, "max_tokens": 3000, "ignore_eos": True}, "/v1/completions")
    wait_running(server, 4)
    s.close()
    server.wait_idle(1)


def test_a_full_queue_says_when_to_come_back(server):
    busy = [send(server, LONG) for _ in range(4)]
    wait_running(server, 4)
    busy += [send(server, LONG) for _ in range(8)]
    end = time.time() + 10
    while server.metric("glim_requests_waiting") < 8:
        assert time.time() < end
        time.sleep(0.01)
    r = server.post(CHAT, LONG)
    assert r.status == 429 and int(r.headers["retry-after"]) >= 1, r
    assert r.json["error"]["type"] == "rate_limit_exceeded"
    assert server.get("/health").status == 200
    for s in busy:
        s.close()
    server.wait_idle(1)
    assert server.post(CHAT, {**LONG, "max_tokens": 2}).status == 200


def test_a_request_too_large_for_the_queue_is_refused(server):
    server.refused(CHAT, {**LONG, "n": 9})


def test_more_inputs_than_the_queue_holds(server):
    """They are taken a few at a time."""
    r = server.ok("/v1/completions", {"prompt": [f"{i}" for i in range(40)], "max_tokens": 2})
    assert len(r["choices"]) == 40
    assert len(server.ok("/v1/embeddings", {"input": [f"{i}" for i in range(40)]})["data"]) == 40


def test_a_slow_reader_is_cut_and_others_are_not_held_up():
    s = smollm2("n-seq", "4")
    try:
        slow = send(s, {**LONG, "stream": True, "logprobs": True, "top_logprobs": 20})
        slow.settimeout(60)
        wait_running(s, 1)
        times = []
        for _ in range(5):
            t = time.time()
            s.ok(CHAT, {"messages": user("Hi"), "max_tokens": 4})
            times.append(time.time() - t)
        assert max(times) < 5
        slow.close()
        s.wait_idle(1)
    finally:
        s.end()


def test_many_at_once_get_what_they_get_alone():
    s = smollm2("n-seq", "8")
    try:
        bodies = [{"messages": user(f"Tell me about the number {i}."), "temperature": 1, "seed": i, "max_tokens": 12 + i % 5, "n": 1 + i % 3} for i in range(24)]
        alone = [s.ok(CHAT, b)["choices"] for b in bodies]
        got = [None] * len(bodies)

        def run(i):
            got[i] = s.ok(CHAT, bodies[i])["choices"]

        threads = [threading.Thread(target=run, args=(i,)) for i in range(len(bodies))]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        assert got == alone
    finally:
        s.end()


def test_an_end_lets_answers_end():
    s = smollm2("drain-s", "30")
    result = {}

    def run():
        result["r"] = s.post(CHAT, {**LONG, "max_tokens": 60})

    t = threading.Thread(target=run)
    t.start()
    wait_running(s, 1)
    s.stop()
    t.join()
    assert result["r"].status == 200
    assert result["r"].json["usage"]["completion_tokens"] == 60


def test_an_end_does_not_wait_for_ever():
    s = smollm2("drain-s", "1")
    c = send(s, {**LONG, "stream": True})
    wait_running(s, 1)
    begin = time.time()
    s.stop()
    assert time.time() - begin < 5
    c.close()


def test_a_stream_that_waits_is_kept_alive():
    """Proxies close connections on which nothing comes."""
    s = smollm2("n-seq", "1")
    try:
        busy = send(s, LONG)
        wait_running(s, 1)
        c = send(s, {"messages": user("Hi"), "max_tokens": 2, "stream": True})
        c.settimeout(30)
        seen = b""
        begin = time.time()
        while b": ping\n\n" not in seen:
            seen += c.recv(4096)
        assert 5 < time.time() - begin < 20
        assert b'"content":""' in seen  # the beginning came at once
        busy.close()
        while b"[DONE]" not in seen:
            seen += c.recv(4096)
        c.close()
    finally:
        s.end()
