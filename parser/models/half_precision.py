"""Models of half the size, for distribution: weights are stored in 16 bits and read as float32.

float16, not bfloat16: weights are small numbers, for which three more bits of precision are worth more than a
range that none of them needs (`scripts/studies/accuracy/compare_precisions.py`).
"""

from __future__ import annotations

from collections.abc import Mapping

import torch
from safetensors.torch import load, save

from parser.models.model_files import name_in_model
from parser.models.model_format import CARD, WEIGHTS

HALF = torch.float16
NOTE = "\nThe weights were rounded to float16 after these scores were measured.\n"
"""Appended to a card."""


def in_half_precision(files: Mapping[str, bytes]) -> dict[str, bytes]:
    """The files of one model or of an ensemble, with their weights as float16.

    A frozen transformer stays as it is. Raises ValueError for a weight outside the range of float16.
    """
    change = {WEIGHTS: _halved, CARD: _told}
    return {name: change.get(name_in_model(name), bytes)(own) for name, own in files.items()}


def _halved(content: bytes) -> bytes:
    weights = load(content)
    largest = torch.finfo(HALF).max
    for name, weight in weights.items():
        if (weight.abs() > largest).any():
            raise ValueError(f"{name}: has weights above {largest:,.0f}, the largest number of float16")
    return save({name: weight.to(HALF) for name, weight in weights.items()})


def _told(card: bytes) -> bytes:
    note = NOTE.encode()
    return card if card.endswith(note) else card + note
