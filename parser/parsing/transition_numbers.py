"""The labelled transitions of two models whose labels have different numbers."""

from __future__ import annotations

import torch
from torch import Tensor

from parser.parsing.model import Model
from parser.transitions.inventory import Inventory
from parser.treebank.vocabulary import Vocabulary

Transition = tuple[int, str]
"""Kind and label."""


def numbered_transitions(inventory: Inventory, vocabulary: Vocabulary) -> dict[Transition, int]:
    """The number of each labelled transition, in order."""
    kinds, labels = (column[:-1].tolist() for column in (inventory.kind, inventory.label))
    named = zip(kinds, map(vocabulary.labels.string, labels), strict=True)
    return {transition: number for number, transition in enumerate(named)}


def numbers_in(model: Model, source: Model) -> Tensor:
    """[transitions + 1] The number in `model` of each labelled transition of `source`, and of `no_op`.

    On the device of `model`, which has all of these transitions.
    """
    number = numbered_transitions(model.inventory, model.vocabulary)
    numbers = [number[each] for each in numbered_transitions(source.inventory, source.vocabulary)]
    return torch.tensor([*numbers, model.inventory.no_op], device=model.device)
