"""A word's vector from its characters: a convolution and the greatest value of each filter.

As the character models of Ma & Hovy 2016 and others. What is convolved are embeddings of few distinct
characters, so a filter's product with each of them is computed once, and a window is a sum of looked up rows.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from parser.config import CharacterSettings
from parser.networks.dropout import dropout
from parser.treebank.ragged import Ragged


class CharacterEncoder(nn.Module):
    """ReLU(max over the windows of a word (filters x window + bias))."""

    def __init__(self, settings: CharacterSettings, characters: int):
        """characters: their number, the unknown one included."""
        super().__init__()
        self.outside = characters
        """The number of what is before and behind a word."""
        self.characters = nn.Embedding(characters + 1, settings.size)
        nn.init.normal_(self.characters.weight, std=settings.size**-0.5)
        self.filters = nn.ModuleList(
            nn.Linear(settings.size, width * settings.filters, bias=False) for width in settings.widths
        )
        self.biases = nn.ParameterList(torch.zeros(settings.filters) for _ in settings.widths)
        self.widths, self.dropout = settings.widths, settings.dropout
        self.size = len(settings.widths) * settings.filters

    def forward(self, strings: Ragged) -> Tensor:
        """[strings, size] strings: the characters' numbers; none is empty."""
        characters = dropout(self.characters.weight, self.dropout, self.training)
        place = strings.position_in_row()
        length = strings.lengths.repeat_interleave(strings.lengths, output_size=len(strings.values))
        highest = []
        for width, filters, bias in zip(self.widths, self.filters, self.biases, strict=True):
            # [characters + 1, filters] for each character of a window
            products = filters(characters).chunk(width, dim=1)
            values = F.embedding(strings.values, products[width // 2] + bias)  # [characters of all, filters]
            for number, product in enumerate(products):
                if number != width // 2:
                    beside = self._beside(strings.values, place, length, number - width // 2)
                    values = values + F.embedding(beside, product)
            highest.append(segment_max(values, strings))
        return F.relu(torch.cat(highest, dim=1))

    def _beside(self, values: Tensor, place: Tensor, length: Tensor, shift: int) -> Tensor:
        """The characters that are `shift` places to the right of each, `outside` where the word has ended."""
        inside = (place + shift >= 0) & (place + shift < length)
        return torch.where(inside, values.roll(-shift), self.outside)


def segment_max(values: Tensor, rows: Ragged) -> Tensor:
    """[rows, n] The greatest of each column over the elements of each row; values: [elements, n].

    Elements that are equally great share the gradient. (That of torch's own `segment_reduce` is wrong for
    these, and a word often has a character twice.)
    """
    return _SegmentMax.apply(values, rows.lengths, rows.row_of_element())


class _SegmentMax(Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, lengths: Tensor, row: Tensor) -> Tensor:
        highest = torch.segment_reduce(values, "max", lengths=lengths, unsafe=True)
        ctx.save_for_backward(values, highest, row)
        return highest

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        values, highest, row = ctx.saved_tensors
        is_highest = (values == highest.index_select(0, row)).to(values.dtype)
        count = torch.zeros_like(highest).index_add_(0, row, is_highest)
        return is_highest.mul_((gradient / count).index_select(0, row)), None, None
