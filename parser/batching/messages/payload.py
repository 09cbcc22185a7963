"""Payloads: several tensors, or the gradients at them.

A tensor of which somebody wants the gradient says so by its `requires_grad`, though it has no graph.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

Payload = tuple[Tensor | None, ...]


class PayloadSum:
    """Of as many payloads as are expected."""

    def __init__(self, expected: int):
        self._missing = expected
        self.payload: Payload = ()

    def add(self, payload: Payload) -> bool:
        """Whether that was the last."""
        self.payload = added(self.payload, payload) if self.payload else payload
        self._missing -= 1
        return not self._missing


def added(left: Payload, right: Payload) -> Payload:
    return tuple(
        other if one is None else one if other is None else one + other
        for one, other in zip(left, right, strict=True)
    )


def rows_together(payloads: Sequence[Payload], sizes: Sequence[int]) -> Payload:
    """Each tensor's rows, those of one payload after those of the other. sizes: the rows of each payload.

    None is zeros beside others, and None among its like.
    """
    return tuple(_joined(parts, sizes) for parts in zip(*payloads, strict=True))


def _joined(parts: Sequence[Tensor | None], sizes: Sequence[int]) -> Tensor | None:
    present = [part for part in parts if part is not None]
    if not present:
        return None
    filled = [
        present[0].new_zeros(size, *present[0].shape[1:]) if part is None else part
        for part, size in zip(parts, sizes, strict=True)
    ]
    with torch.no_grad():
        return torch.cat(filled).requires_grad_(any(part.requires_grad for part in present))


def rows_apart(payload: Payload, sizes: Sequence[int]) -> list[Payload]:
    """The other way around. sizes: the rows of each part."""
    return list(zip(*(_split(whole, list(sizes)) for whole in payload), strict=True))


def _split(whole: Tensor | None, sizes: list[int]) -> Sequence[Tensor | None]:
    if whole is None:
        return [None] * len(sizes)
    return [part.detach().requires_grad_(whole.requires_grad) for part in whole.detach().split(sizes)]
