"""Word vectors from characters: a convolution and max pooling over the word (Ma & Hovy 2016).

There are few distinct characters, so the products of the filters with their embeddings are computed once for
each character. The value of a filter at a window is then a sum of gathered rows.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.autograd import Function
from torch.autograd.function import once_differentiable

from parser.batching.functional import dropout
from parser.batching.ragged import Ragged
from parser.networks.settings import ConvolutionSettings


class CharacterEncoder(nn.Module):
    """ReLU(max over windows of (filters x window + bias))."""

    def __init__(self, settings: ConvolutionSettings, characters: int):
        """characters: number of characters, including the unknown one."""
        super().__init__()
        self.outside = characters
        """Number of the padding character before and after a word."""
        self.characters = nn.Embedding(characters + 1, settings.size)
        nn.init.normal_(self.characters.weight, std=settings.size**-0.5)
        self.filters = nn.ModuleList(
            nn.Linear(settings.size, width * settings.filters, bias=False) for width in settings.widths
        )
        self.biases = nn.ParameterList(torch.zeros(settings.filters) for _ in settings.widths)
        self.widths, self.dropout = settings.widths, settings.dropout
        self.size = settings.vector_size

    def forward(self, strings: Ragged) -> Tensor:
        """[strings, size] The vectors of strings. strings: character numbers, at least one in each string."""
        characters = dropout(self.characters.weight, self.dropout, self.training)
        position = strings.position_in_row()
        length = strings.lengths.repeat_interleave(strings.lengths, output_size=len(strings.values))
        maxima = []
        for width, filters, bias in zip(self.widths, self.filters, self.biases, strict=True):
            # For each position in a window: [characters + 1, filters]
            products = filters(characters).chunk(width, dim=1)
            values = F.embedding(strings.values, products[width // 2] + bias)  # [characters of all, filters]
            for index, product in enumerate(products):
                if index != width // 2:
                    shifted = self._shifted(strings.values, position, length, index - width // 2)
                    values = values + F.embedding(shifted, product)
            maxima.append(segment_max(values, strings))
        return F.relu(torch.cat(maxima, dim=1))

    def _shifted(self, values: Tensor, position: Tensor, length: Tensor, shift: int) -> Tensor:
        """The character `shift` positions to the right of each character; `outside` beyond the word."""
        inside = (position + shift >= 0) & (position + shift < length)
        return torch.where(inside, values.roll(-shift), self.outside)


def segment_max(values: Tensor, rows: Ragged) -> Tensor:
    """[rows, n] Maximum over the elements of each row. values: [elements, n].

    Equal maxima share the gradient. (The gradient of `torch.segment_reduce` is wrong for equal maxima, which
    are frequent here because words often repeat a character.)
    """
    return _SegmentMax.apply(values, rows.lengths, rows.row_of_element())


class _SegmentMax(Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, lengths: Tensor, row: Tensor) -> Tensor:
        maxima = torch.segment_reduce(values, "max", lengths=lengths, unsafe=True)
        ctx.save_for_backward(values, maxima, row)
        return maxima

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        values, maxima, row = ctx.saved_tensors
        is_max = (values == maxima.index_select(0, row)).to(values.dtype)
        count = torch.zeros_like(maxima).index_add_(0, row, is_max)
        return is_max.mul_((gradient / count).index_select(0, row)), None, None
