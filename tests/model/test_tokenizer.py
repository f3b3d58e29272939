"""If these fail, `glim tokenize` and `glim detokenize` disagree with the programs the models were trained with.

The vocabularies are rebuilt to the original GGUF files, bit for bit (tests/tools/vocab.py checks their SHA-256); expected ids are
llama.cpp's. All texts of all vocabularies run in tests/unit/test_text_vocab.c; here a few go the whole way through a file
and the command line.
"""
import json
import os
import subprocess
import sys

import pytest

sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "lib"))
sys.path.insert(0, os.path.join(os.path.dirname(__file__), "..", "tools"))
import vocab  # noqa: E402
from glimtest import DATA, GLIM, glim  # noqa: E402

LIMIT = 2 << 20
EVERY = 6  # of the texts, this many between two that are tried


@pytest.fixture(scope="module", params=vocab.NAMES)
def model(request, tmp_path_factory):
    path = tmp_path_factory.mktemp("vocab") / (request.param + ".gguf")
    path.write_bytes(vocab.build(request.param)[0])
    return request.param, str(path)


def cases(name):
    with open(os.path.join(DATA, "vocab", name + ".inp"), "rb") as f:
        texts = f.read().split(b"\n__ggml_vocab_test__\n")
    with open(os.path.join(DATA, "vocab", name + ".out")) as f:
        ids = [[int(x) for x in line.split()] for line in f]
    texts = texts[:len(ids)]
    assert len(texts) == len(ids) >= 46
    return list(zip(texts, ids))


def tokenize(model, text, tmp_path, *flags):
    path = tmp_path / "text"
    path.write_bytes(text)
    return json.loads(glim("tokenize", "-m", model, "-f", path, *flags).stdout)


def detokenize(model, ids):
    r = subprocess.run([GLIM, "detokenize", "-m", model, "--tokens", json.dumps(ids)], capture_output=True, timeout=60)
    assert r.returncode == 0, r.stderr
    return r.stdout


def test_ids_of_llama_cpp(model, tmp_path):
    name, path = model
    for text, ids in [c for c in cases(name) if c[0]][::EVERY]:
        assert tokenize(path, text, tmp_path, "--no-bos") == ids, text


def test_bytes_come_back(model, tmp_path):
    name, path = model
    text = "  Grüße, 你好 \U0001F999!\n\n\t1234 don't\r\n".encode() + (b"" if name == "deepseek-llm" else b"\xff\xfe\x80\0")
    assert detokenize(path, tokenize(path, text, tmp_path)) == text


def test_ids_of_tokenizers_for_a_checkpoint(tmp_path):
    with open(os.path.join(DATA, "vocab", "ids.json")) as f:
        rows = json.load(f)["hf/llama"]
    model = os.path.join(DATA, "hf", "llama")
    for text, ids in rows[::EVERY]:
        assert tokenize(model, text.encode(), tmp_path, "--special") == ids, text
        assert detokenize(model, ids) == text.encode()


def test_data_is_small():
    folder = os.path.join(DATA, "vocab")
    sizes = {n: os.path.getsize(os.path.join(folder, n)) for n in os.listdir(folder)}
    assert sum(sizes.values()) <= 3 * LIMIT
    assert all(n <= LIMIT for n in sizes.values()), sizes
