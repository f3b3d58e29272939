"""A made-up llama whose rows are multiples of 256, so that every number format can hold all of it: for measuring speed.

usage: tools/wide_model.py FILE.gguf OUT.gguf

Vocabulary and settings are those of FILE, a GGUF of the family llama; widths are ours and weights are random F16.
"""

import os
import struct
import sys

SHAPE = {"block_count": 16, "embedding_length": 768, "feed_forward_length": 2048, "attention.head_count": 12,
         "attention.head_count_kv": 4, "rope.dimension_count": 64}
DROPPED = ["general.alignment", "llama.attention.key_length", "llama.attention.value_length"]  # the default, and dim / heads, hold
SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}  # bytes of GGUF's value types
STRING, ARRAY, U32, F32, F16 = 8, 9, 4, 0, 1
# The upper byte of a random F16: any sign, exponents of 2^-7 to 2^-4.
UPPER = bytes((b & 0x80) | (8 + (b >> 4 & 3)) << 2 | (b & 3) for b in range(256))


def value_end(blob, kind, at):
    if kind == STRING:
        return at + 8 + struct.unpack_from("<Q", blob, at)[0]
    if kind != ARRAY:
        return at + SIZES[kind]
    item, n = struct.unpack_from("<IQ", blob, at)
    at += 12
    if item in SIZES:
        return at + n * SIZES[item]
    for _ in range(n):
        at = value_end(blob, item, at)
    return at


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def read_metadata(blob):
    """key -> its bytes, type and value; and where the list of tensors begins, and how many there are."""
    n_tensor, n = struct.unpack_from("<QQ", blob, 8)
    at, out = 24, {}
    for _ in range(n):
        end = value_end(blob, STRING, at)
        key = blob[at + 8 : end].decode()
        (kind,) = struct.unpack_from("<I", blob, end)
        at = value_end(blob, kind, end + 4)
        out[key] = blob[end:at]
    return out, at, n_tensor


def n_vocab(blob, at, n_tensor):
    """Rows of token_embd.weight."""
    for _ in range(n_tensor):
        end = value_end(blob, STRING, at)
        name = blob[at + 8 : end]
        (n_dim,) = struct.unpack_from("<I", blob, end)
        dims = struct.unpack_from(f"<{n_dim}Q", blob, end + 4)
        at = end + 4 + 8 * n_dim + 12
        if name == b"token_embd.weight":
            return dims[1]
    sys.exit("no token_embd.weight in the model")


def tensors(vocab):
    dim, ffn, kv = SHAPE["embedding_length"], SHAPE["feed_forward_length"], SHAPE["attention.head_count_kv"] * SHAPE["rope.dimension_count"]
    out = [("token_embd", (dim, vocab)), ("output_norm", (dim,))]
    for i in range(SHAPE["block_count"]):
        layer = {"attn_norm": (dim,), "attn_q": (dim, dim), "attn_k": (dim, kv), "attn_v": (dim, kv), "attn_output": (dim, dim),
                 "ffn_norm": (dim,), "ffn_gate": (dim, ffn), "ffn_up": (dim, ffn), "ffn_down": (ffn, dim)}
        out += [(f"blk.{i}.{name}", shape) for name, shape in layer.items()]
    return out


def weights(shape):
    """A norm of ones, or a random matrix."""
    if len(shape) == 1:
        return struct.pack("<f", 1) * shape[0]
    data = bytearray(os.urandom(2 * shape[0] * shape[1]))
    data[1::2] = bytes(data[1::2]).translate(UPPER)
    return data


def padding(n):
    return b"\0" * (-n % 32)


def make(source, target):
    with open(source, "rb") as f:
        blob = f.read()
    metadata, at, n_tensor = read_metadata(blob)
    if metadata.get("general.architecture", b"")[12:] != b"llama":
        sys.exit(f"{source}: need a model of the family llama")
    for key in DROPPED:
        metadata.pop(key, None)
    for key, value in SHAPE.items():
        metadata[f"llama.{key}"] = struct.pack("<II", U32, value)
    metadata["general.file_type"] = struct.pack("<II", U32, 1)
    listed = tensors(n_vocab(blob, at, n_tensor))
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(listed), len(metadata))
    head += b"".join(text(k) + v for k, v in metadata.items())
    offset = 0
    for name, shape in listed:
        size = 4 * shape[0] if len(shape) == 1 else 2 * shape[0] * shape[1]
        head += text(f"{name}.weight") + struct.pack(f"<I{len(shape)}QIQ", len(shape), *shape, F32 if len(shape) == 1 else F16, offset)
        offset += size + len(padding(size))
    with open(target, "wb") as f:
        f.write(head + padding(len(head)))
        for _, shape in listed:
            data = weights(shape)
            f.write(data)
            f.write(padding(len(data)))


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    make(*sys.argv[1:])
