"""Windows packed into one row, without padding, for transformers whose pieces attend to all of their window.

Products with weights, norms and dropout take each piece alone, so that they need no windows. Only attention
does, and pads groups of windows of like length. On a CPU this saves a fifth of a training step. A GPU reads
padded windows, because the groups would be more launches.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention
from transformers import AttentionInterface, AttentionMaskInterface
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from parser.batching import functional
from parser.batching.ragged import Ragged, gather_rows
from parser.networks.transformer.pieces import Together

PACKED_ATTENTION = "packed_windows"
"""The name of `_attention` in the library."""


class PaddedWindows(NamedTuple):
    """Adjacent windows of a row, padded for attention."""

    start: int
    """Of the first window in the row."""
    end: int
    """Of the last one."""
    is_piece: Tensor
    """[windows, length]"""
    places: Tensor | None
    """[pieces] Their places in the padded windows; None if there is no padding."""

    @classmethod
    def of(cls, start: int, counts: Tensor, length: int) -> PaddedWindows:
        """counts: [windows] number of pieces in each, special ones included. length: that of the longest."""
        is_piece = torch.arange(length) < counts[:, None]
        places = None if is_piece.all() else is_piece.flatten().nonzero()[:, 0]
        return cls(start, start + int(counts.sum()), is_piece, places)


class PackedWindows(NamedTuple):
    """Windows, one after the other in a row. All tensors are on the host."""

    pieces: Tensor
    """[row] The number of each piece in the batch; of special pieces, that of the nearest."""
    positions: Tensor
    """[row] Of each piece in its window; the first special one is at 0."""
    ends: Tensor
    """[row] The position after the last piece of a word in its window."""
    padded: list[PaddedWindows]
    words: Ragged
    """For each word read from these windows, the places of its pieces in the row."""

    @classmethod
    def of(cls, groups: Sequence[Together], before: int, after: int) -> PackedWindows:
        """before, after: number of special pieces around a window."""
        counts = [group.counts + before + after for group in groups]
        firsts = torch.cat([group.first for group in groups])
        windows = torch.cat(counts)  # [windows]
        row = Ragged(torch.empty(int(windows.sum())), windows)
        starts, window_of, positions = row.offsets, row.row_of_element(), row.position_in_row()
        ends = windows[window_of] - after
        pieces = firsts[window_of] + (positions - before).clamp(min=0).minimum(ends - before - 1)
        padded: list[PaddedWindows] = []
        words: list[Ragged] = []
        first = 0
        for group, its_counts in zip(groups, counts, strict=True):
            its_starts = starts[first : first + len(its_counts)]
            padded.append(PaddedWindows.of(int(its_starts[0]), its_counts, group.length + before + after))
            window = group.words.values.div(group.length, rounding_mode="floor")
            places = its_starts[window] + before + group.words.values % group.length
            words.append(Ragged(places, group.words.lengths))
            first += len(its_counts)
        return cls(pieces, positions, ends, padded, Ragged.join(words))


def _attention(
    module: Any,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    dropout: float = 0.0,
    scaling: float | None = None,
    padded_windows: Sequence[PaddedWindows] = (),
    **others: Any,
) -> tuple[Tensor, None]:
    """[1, row, heads, size] The attention within each window; without `padded_windows`, the library's.

    query, key, value: [1, heads, row, size].
    """
    if not padded_windows:
        return sdpa_attention_forward(
            module, query, key, value, attention_mask, dropout=dropout, scaling=scaling, **others
        )
    rows = [part[0].transpose(0, 1) for part in (query, key, value)]  # [row, heads, size] each
    scale = query.shape[-1] ** -0.5 if scaling is None else scaling
    attended = []
    for windows in padded_windows:
        # [windows, heads, length, size] each
        queries, keys, values = (_padded(part, windows).transpose(1, 2) for part in rows)
        mask = None if windows.places is None else windows.is_piece[:, None, None]
        if dropout:  # with it, PyTorch's own function is slower on a CPU
            states = _with_dropout(queries * scale, keys, values, mask, dropout)
        else:
            states = scaled_dot_product_attention(queries, keys, values, attn_mask=mask, scale=scale)
        flat = states.transpose(1, 2).flatten(0, 1).flatten(1)  # [windows * length, heads * size]
        attended.append(flat if windows.places is None else gather_rows(flat, windows.places))
    return torch.cat(attended)[None].unflatten(2, rows[0].shape[1:]), None


def _with_dropout(
    queries: Tensor, keys: Tensor, values: Tensor, mask: Tensor | None, probability: float
) -> Tensor:
    """[windows, heads, length, size]"""
    scores = queries @ keys.transpose(2, 3)  # [windows, heads, length, length]
    if mask is not None:
        scores = scores.masked_fill(~mask, -torch.inf)
    return functional.dropout(scores.softmax(-1), probability, True).to(values.dtype) @ values


def _padded(row: Tensor, windows: PaddedWindows) -> Tensor:
    """[windows, length, heads, size] row: [row, heads, size]."""
    pieces, sizes = row[windows.start : windows.end], row.shape[1:]
    shape = *windows.is_piece.shape, *sizes
    if windows.places is None:
        return pieces.reshape(shape)
    empty = row.new_zeros(windows.is_piece.numel(), *sizes)
    return empty.index_copy(0, windows.places, pieces).view(shape)


AttentionInterface.register(PACKED_ATTENTION, _attention)
AttentionMaskInterface.register(PACKED_ATTENTION, sdpa_mask)
