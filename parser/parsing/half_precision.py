"""Models at half their size, to be given away: weights in 16 bits, which are read as float32.

float16, not bfloat16: weights are small numbers, for which three more bits of precision are worth more than a
range that none of them needs (`scripts/studies/accuracy/compare_precisions.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from safetensors.torch import load, save

from parser.parsing.model_format import WEIGHTS

HALF = torch.float16


def in_half_precision(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of one model or of an ensemble, with their weights as float16.

    A frozen transformer stays as it is. Raises ValueError for a weight that is beyond what float16 can be.
    """
    return {name: _halved(own) if _has_weights(name) else own for name, own in files.items()}


def _has_weights(name: str) -> bool:
    """Whether a file has the trained weights of a model, which may be one of an ensemble."""
    return name.rpartition("/")[2] == WEIGHTS


def _halved(content: bytes) -> bytes:
    weights = load(content)
    largest = torch.finfo(HALF).max
    for name, weight in weights.items():
        if (weight.abs() > largest).any():
            raise ValueError(f"{name}: has weights above {largest:,.0f}, the largest number of float16")
    return save({name: weight.to(HALF) for name, weight in weights.items()})
