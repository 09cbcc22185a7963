"""The labelled transitions of two models whose labels have different numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from parser.parsing.model import Model

Transition = tuple[int, str]
"""Kind and label."""


def numbered_transitions(model: Model) -> dict[Transition, int]:
    """The number of each labelled transition of a model, in order."""
    kinds, labels = (column[:-1].tolist() for column in (model.inventory.kind, model.inventory.label))
    named = zip(kinds, map(model.vocabulary.labels.string, labels), strict=True)
    return {transition: number for number, transition in enumerate(named)}


def numbers_in(model: Model, source: Model) -> Tensor:
    """[transitions + 1] The number in `model` of each labelled transition of `source`, and of `no_op`.

    On the device of `model`, which has all of these transitions.
    """
    number = numbered_transitions(model)
    numbers = [number[transition] for transition in numbered_transitions(source)]
    return torch.tensor([*numbers, model.inventory.no_op], device=model.device)
