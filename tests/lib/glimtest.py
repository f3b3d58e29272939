"""What the Python tests share: running the binary, reading safetensors and .npy without the engine's help."""
import json
import os
import struct
import subprocess
import tempfile

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DATA = os.path.join(ROOT, "tests", "data")
GLIM = os.environ.get("TEST_GLIM", os.path.join(ROOT, "build", "glim"))

DTYPES = {"F64": "<f8", "F32": "<f4", "I64": "<i8", "I32": "<i4", "U8": "u1"}


def safetensors(path):
    """name -> numpy array."""
    with open(path, "rb") as f:
        blob = f.read()
    (n,) = struct.unpack_from("<Q", blob)
    out = {}
    for name, t in json.loads(blob[8 : 8 + n]).items():
        if name != "__metadata__":
            a, b = t["data_offsets"]
            out[name] = np.frombuffer(blob[8 + n + a : 8 + n + b], DTYPES[t["dtype"]]).reshape(t["shape"])
    return out


def glim(*args, ok=True, env=None, cwd=None, timeout=300):
    """Run the binary; with ok, any failure is the test's failure and shows both streams."""
    r = subprocess.run([GLIM, *map(str, args)], capture_output=True, text=True, timeout=timeout, cwd=cwd,
                       env=dict(os.environ, **(env or {})))
    if ok:
        assert r.returncode == 0, f"glim {' '.join(map(str, args))}: exit {r.returncode}\n{r.stdout[-2000:]}\n{r.stderr[-2000:]}"
    return r


def tokens_file(folder, tokens):
    path = os.path.join(folder, "tokens.json")
    with open(path, "w") as f:
        json.dump([int(t) for t in tokens], f)
    return path


def logits(model, tokens, *flags):
    """f32 [n_token, n_vocab]."""
    with tempfile.TemporaryDirectory() as d:
        out = os.path.join(d, "logits.npy")
        glim("logits", "-m", model, "--tokens", tokens_file(d, tokens), "-o", out, *flags)
        return np.load(out)


def hidden(model, tokens, *flags):
    """f32 [n_layer, n_token, dim]."""
    with tempfile.TemporaryDirectory() as d:
        out, h = os.path.join(d, "logits.npy"), os.path.join(d, "hidden.npy")
        glim("logits", "-m", model, "--tokens", tokens_file(d, tokens), "-o", out, "--dump-hidden", h, *flags)
        return np.load(h)


def generate(model, tokens, n, *flags):
    """The JSON object of `glim run`."""
    with tempfile.TemporaryDirectory() as d:
        r = glim("run", "-m", model, "--tokens", tokens_file(d, tokens), "-n", n, "--json", *flags)
        return json.loads(r.stdout)


def real_model(name):
    """Path of a pulled model; pulled on first use."""
    glim("pull", name, timeout=900)
    return name
