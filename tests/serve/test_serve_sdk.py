"""If these fail, programs written for OpenAI do not work with glim: they use the client library, and it reads replies its own way."""
import base64
import json
import os
import sys
from typing import Literal

import numpy as np
import pytest

from glimtest import DATA, ROOT
from servetest import smollm2, user

sys.path.insert(0, os.path.join(ROOT, "build", "python"))
openai = pytest.importorskip("openai", reason="tests/run.py --only py/serve/test_serve_sdk installs it")
from pydantic import BaseModel, Field  # noqa: E402

MODEL = "smollm2-135m"
TOOL = {"type": "function", "function": {"name": "get_weather", "description": "The weather of a city", "parameters": {
    "type": "object", "properties": {"city": {"type": "string", "maxLength": 12}}, "required": ["city"], "additionalProperties": False}}}


@pytest.fixture(scope="module")
def client(server):
    return openai.OpenAI(base_url=f"http://127.0.0.1:{server.port}/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def tool_client():
    s = smollm2("chat-template", os.path.join(DATA, "templates", "GLM-4.6.jinja"))
    yield openai.OpenAI(base_url=f"http://127.0.0.1:{s.port}/v1", api_key="none", max_retries=0)
    s.end()


def test_models(client):
    assert [m.id for m in client.models.list()] == [MODEL]
    assert client.models.retrieve(MODEL).owned_by == "glim"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-9")


def test_chat(client):
    ask = dict(model=MODEL, messages=user("What is the capital of France?"), temperature=0, max_completion_tokens=20, seed=1, user="u",
               metadata={"a": "b"}, store=False, n=1, presence_penalty=0, top_p=1, logit_bias={}, stop=None, service_tier="auto")
    r = client.chat.completions.create(**ask)
    assert "Paris" in r.choices[0].message.content
    assert r.choices[0].finish_reason == "stop"
    assert r.usage.total_tokens == r.usage.prompt_tokens + r.usage.completion_tokens
    parts = list(client.chat.completions.create(**ask, stream=True, stream_options={"include_usage": True}))
    assert "".join(p.choices[0].delta.content or "" for p in parts if p.choices) == r.choices[0].message.content
    assert parts[-1].usage.completion_tokens == r.usage.completion_tokens


def test_streaming_helper(client):
    ask = dict(model=MODEL, messages=user("What is the capital of France?"), temperature=0, max_completion_tokens=40)
    whole = client.chat.completions.create(**ask).choices[0].message.content
    with client.chat.completions.stream(**ask, logprobs=True, top_logprobs=2) as stream:
        deltas = [e.delta for e in stream if e.type == "content.delta"]
        final = stream.get_final_completion()
    assert "".join(deltas) == whole == final.choices[0].message.content
    told = final.choices[0].logprobs.content
    assert "".join(t.token for t in told) == whole
    assert all(len(t.top_logprobs) == 2 for t in told)


class Pet(BaseModel):
    name: str = Field(max_length=12)
    kind: Literal["cat", "dog"]
    age: int = Field(ge=0, le=30)
    friends: list[str] = Field(max_length=2)


def test_structured_output_is_parsed(client):
    for seed in range(3):
        r = client.chat.completions.parse(model=MODEL, messages=user("Invent a pet."), response_format=Pet, seed=seed, max_completion_tokens=500)
        if r.choices[0].finish_reason == "stop":
            assert isinstance(r.choices[0].message.parsed, Pet)
    with client.chat.completions.stream(model=MODEL, messages=user("Invent a pet."), response_format=Pet, seed=1) as stream:
        for _ in stream:
            pass
        assert isinstance(stream.get_final_completion().choices[0].message.parsed, Pet)


def test_tools(tool_client):
    ask = dict(model=MODEL, messages=user("Weather in Rome?"), tools=[TOOL], tool_choice="required", parallel_tool_calls=False,
               max_completion_tokens=200)
    seen = 0
    for seed in range(4):
        r = tool_client.chat.completions.create(**ask, seed=seed).choices[0]
        if r.finish_reason != "tool_calls":
            continue
        call, = r.message.tool_calls
        assert call.function.name == "get_weather" and set(json.loads(call.function.arguments)) == {"city"}
        with tool_client.chat.completions.stream(**ask, seed=seed) as stream:
            for _ in stream:
                pass
            streamed, = stream.get_final_completion().choices[0].message.tool_calls
        assert streamed.function.arguments == call.function.arguments
        again = [*ask["messages"], r.message, {"role": "tool", "tool_call_id": call.id, "content": "Sunny."}]
        end = tool_client.chat.completions.create(model=MODEL, messages=again, tools=[TOOL], tool_choice="none", max_completion_tokens=8)
        assert end.usage.completion_tokens > 0
        seen += 1
    assert seen


def test_completions(client):
    r = client.completions.create(model=MODEL, prompt=["One, two,", "Red, green,"], max_tokens=4, temperature=0, logprobs=2, echo=True)
    assert [c.text[:9] for c in r.choices] == ["One, two,", "Red, gree"]
    assert len(r.choices[0].logprobs.tokens) == len(r.choices[0].logprobs.token_logprobs)
    parts = list(client.completions.create(model=MODEL, prompt="One, two,", max_tokens=4, temperature=0, stream=True))
    assert "One, two," + "".join(p.choices[0].text for p in parts) == r.choices[0].text


def test_embeddings(client):
    """The library asks for base64 unless told otherwise."""
    quiet = client.embeddings.create(model=MODEL, input=["a cat", "a dog"])
    plain = client.embeddings.create(model=MODEL, input="a cat", encoding_format="float")
    assert np.array_equal(np.float32(quiet.data[0].embedding), np.float32(plain.data[0].embedding))
    coded = client.embeddings.create(model=MODEL, input="a cat", encoding_format="base64").data[0].embedding
    assert np.array_equal(np.frombuffer(base64.b64decode(coded), "<f4"), np.float32(plain.data[0].embedding))


def test_errors(client):
    with pytest.raises(openai.BadRequestError) as e:
        client.chat.completions.create(model=MODEL, messages=user("x"), temperature=9)
    assert e.value.param == "temperature" and e.value.code == "invalid_value"
    with pytest.raises(openai.NotFoundError) as e:
        client.chat.completions.create(model="gpt-9", messages=user("x"))
    assert e.value.code == "model_not_found"
    with pytest.raises(openai.BadRequestError) as e:
        client.chat.completions.create(model=MODEL, messages=user("x"), extra_body={"surprise": 1})
    assert e.value.param == "surprise"
    with pytest.raises(openai.InternalServerError) as e:
        client.audio.speech.create(model=MODEL, voice="alloy", input="x")
    assert e.value.status_code == 501
