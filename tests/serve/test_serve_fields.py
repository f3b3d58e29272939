"""If these fail, a request with a wrong member is taken for something else than it says, or hurts the server."""
import json
import os
import socket

import jsonschema
import pytest

CHAT, TEXT, EMBED = "/v1/chat/completions", "/v1/completions", "/v1/embeddings"
GOOD = {
    CHAT: {"messages": [{"role": "user", "content": "x"}], "max_tokens": 1},
    TEXT: {"prompt": "x", "max_tokens": 1},
    EMBED: {"input": "x"},
    "/tokenize": {"content": "x"},
    "/detokenize": {"tokens": [1]},
}


def members(server, path):
    """(name, schema) of a request's members, references resolved."""
    def resolve(schema):
        while "$ref" in schema:
            schema = server.openapi["components"]["schemas"][schema["$ref"].rsplit("/", 1)[1]]
        return schema

    top = resolve(server.operation("POST", path)["requestBody"]["content"]["application/json"]["schema"])
    assert top["additionalProperties"] is False
    for name, schema in top["properties"].items():
        yield name, resolve(schema)


def types(schema):
    found = schema.get("type", [])
    found = {found} if isinstance(found, str) else set(found)
    for part in schema.get("anyOf", []):
        found |= types(part)
    return found


@pytest.mark.parametrize("path", GOOD)
def test_every_member_of_every_kind(server, path):
    """Each member with a value of each JSON kind: taken exactly where the schema takes it."""
    document = server.openapi
    resolver = jsonschema.RefResolver.from_schema(document)
    schema = server.operation("POST", path)["requestBody"]["content"]["application/json"]["schema"]
    validator = jsonschema.Draft202012Validator(schema, resolver=resolver)
    for name, member in members(server, path):
        for value in (None, True, 0, -1, 2, 1.5, 1e300, "", "x", "text", [], ["x"], [1], [1, "x"], [[1]], {}, {"x": 1}, {"type": "text"}):
            body = {**GOOD[path], name: value}
            r = server.post(path, body)
            if not validator.is_valid(body):
                assert r.status == 400, (name, value, r)
                error = r.json["error"]
                assert ": have " in error["message"]
                if "param" in error:
                    assert error["param"].startswith(name)
            else:  # well formed; a rule about several members may still refuse it, by name
                assert r.status in (200, 400, 404), (name, value, r)


@pytest.mark.parametrize("path", [CHAT, TEXT])
def test_bounds(server, path):
    seen = 0
    for name, schema in members(server, path):
        for bound, step in (("minimum", -1), ("maximum", 1)):
            if bound not in schema:
                continue
            edge = schema[bound]
            for beyond in (edge + step * max(1, abs(edge) * 1e-3), step * 1e18):
                beyond = int(beyond) if "integer" in types(schema) else beyond
                r = server.post(path, {**GOOD[path], name: beyond})
                assert r.status == 400 and r.json["error"]["param"] == name, (name, beyond, r)
            if abs(edge) < 1e6 and name not in ("n", "best_of", "top_logprobs"):
                value = int(edge) if "integer" in types(schema) else edge
                r = server.post(path, {**GOOD[path], name: value})
                assert r.status == 200, (name, value, r)
            seen += 1
    assert seen > 20


@pytest.mark.parametrize("path", GOOD)
def test_unknown_members(server, path):
    r = server.post(path, {**GOOD[path], "no_such_member": 1})
    assert r.status == 400
    assert "no_such_member: have an unknown member" in r.json["error"]["message"]


def test_unknown_members_deep_down(server):
    messages = [{"role": "user", "content": [{"type": "text", "text": "x", "colour": "red"}]}]
    server.refused(CHAT, {"messages": messages}, param="messages[0].content[0].colour")
    tools = [{"type": "function", "function": {"name": "f", "colour": "red"}}]
    server.refused(CHAT, {**GOOD[CHAT], "tools": tools}, param="tools[0].function.colour")


@pytest.mark.parametrize("body", [
    b"", b"{", b"[]", b"null", b"5", b'"x"', b"{]", b"{'a':1}", b'{"messages":[]} x', b"\xff\xfe", b'{"messages":"\xff"}', b'{"a":1,}',
    b'{"messages":[{"role":"user","content":"x"}],"seed":99999999999999999999}', b'{"messages":NaN}', b"<html>",
    b'{"messages":[{"role":"user","content":"x"}],"n":1,"n":2}', b'{"messages":[{"role":"user","role":"user","content":"x"}]}',
    b'{"messages":[{"role":"user","content":"\\ud800"}]}', b'{"messages":[{"role":"user","content":"\\u0000"}]}',
])
def test_wrong_json(server, body):
    for path in (CHAT, TEXT, EMBED):
        r = server.post(path, body)
        assert r.status == 400, (body, r)
        assert r.json["error"]["type"] == "invalid_request_error"


def test_deep_json(server):
    for depth in (100, 2000, 5000, 1000000):
        for body in (b'{"messages":' + b"[" * depth, b'{"messages":' + b"[" * depth + b"]" * depth + b"}", b'{"a":' * depth + b"1" + b"}" * depth):
            assert server.post(CHAT, body).status == 400
    schema = b'{"type":"object","properties":{"a":' * 500 + b'{"type":"null"}' + b"}}" * 500
    r = server.post(CHAT, b'{"messages":[{"role":"user","content":"x"}],"max_tokens":1,"json_schema":' + schema + b"}")
    assert r.status in (200, 400)


def test_large_bodies(server):
    assert server.post(CHAT, b" " * (17 << 20), check=True).status == 413
    many = {**GOOD[CHAT], "stop": ["x"] * 17}
    server.refused(CHAT, many, param="stop")
    server.refused(CHAT, {**GOOD[CHAT], "logit_bias": {str(i): 1 for i in range(99999)}}, param="logit_bias")
    big = {"messages": [{"role": "user", "content": "x" * (8 << 20)}]}
    assert server.post(CHAT, big).json["error"]["code"] == "context_length_exceeded"


def test_routes(server):
    assert server.get("/nowhere").status == 404
    r = server.get(CHAT)
    assert (r.status, r.headers["allow"]) == (405, "POST")
    for path in ("/v1/audio/speech", "/v1/images/generations", "/v1/files", "/v1/files/x", "/v1/batches", "/v1/fine_tuning/jobs", "/v1/moderations"):
        for method in ("GET", "POST", "DELETE"):
            r = server.request(method, path, {} if method == "POST" else None)
            assert r.status == 501, (method, path, r)
            assert r.json["error"]["type"] == "not_supported_error"
    assert server.get("/v1/models?x=1").status == 400
    assert server.request("HEAD", "/health").body == b""
    assert server.get("/health").json == {"status": "ok"}
    assert server.request("GET", "/v1/models", headers={"Origin": "http://evil.example"}).status == 403
    assert server.request("GET", "/v1/models", headers={"Origin": f"http://127.0.0.1:{server.port}"}).status == 200
    assert server.request("GET", "/v1/models", headers={"Host": "evil.example"}).status == 403
    assert server.get("/health").headers["x-request-id"].startswith("req_")


def test_the_document_is_openapi(server):
    doc = server.openapi
    assert doc["openapi"] == "3.1.0"
    names = doc["components"]["schemas"]
    text = json.dumps(doc)
    for schema in names.values():
        jsonschema.Draft202012Validator.check_schema(schema)
    for used in {part.split('"')[0] for part in text.split("#/components/schemas/")[1:]}:
        assert used in names, used
    ids = [o["operationId"] for methods in doc["paths"].values() for o in methods.values()]
    assert len(ids) == len(set(ids)) >= 10


def test_the_pages_are_the_programs():
    from glimtest import ROOT, glim
    with open(os.path.join(ROOT, "docs", "SERVER.md")) as f:
        assert f.read() == glim("serve", "--markdown").stdout, "docs/SERVER.md is out of date: run make docs"


def test_lax():
    from servetest import smollm2
    s = smollm2("unknown-fields", "ignore", "alias", "one,two")
    try:
        r = s.post(CHAT, {**GOOD[CHAT], "x\r\ny: z": 1, "colour": {"a": []}, "model": "two"})
        assert r.status == 200, r
        assert r.headers["x-ignored-fields"] == "x??y: z, colour"
        assert "x-ignored-fields" not in s.post(CHAT, GOOD[CHAT]).headers
        assert s.post(CHAT, {**GOOD[CHAT], "temperature": "hot"}).status == 400
        assert [m["id"] for m in s.get("/v1/models").json["data"]] == ["one", "two"]
        assert r.json["model"] == "one"
    finally:
        s.end()


def test_other_machines_are_not_served_by_accident():
    from glimtest import glim, real_model
    r = glim("serve", "-m", real_model("smollm2-135m"), "--host", "0.0.0.0", "--port", "0", ok=False)
    assert r.returncode == 3
    assert "or --insecure on" in r.stderr
    r = glim("serve", "-m", real_model("smollm2-135m"), "--host", "localhost", "--port", "0", ok=False)
    assert r.returncode == 3, r.stderr


def test_a_busy_port_is_an_error(server):
    from glimtest import glim, real_model
    r = glim("serve", "-m", real_model("smollm2-135m"), "--port", server.port, ok=False)
    assert r.returncode != 0 and str(server.port) in r.stderr
    with socket.create_connection(("127.0.0.1", server.port)):
        assert server.get("/health").status == 200
