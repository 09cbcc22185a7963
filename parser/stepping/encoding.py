"""What does not depend on transitions is computed before the first step: words and buffers."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from parser.batching.transfer import to_device
from parser.replay.vector_rows import buffer_rows, front_positions
from parser.stepping.lstm import SteppedLSTM, join
from parser.treebank.batches import split_by_words
from parser.treebank.tokens import Tokens

MAX_GROUP_WORDS = {"cpu": 2_000, "cuda": 20_000}
"""Words, including padding, whose buffers are encoded at a time. Larger groups need more memory. On a CPU
they are not faster; on a GPU they need fewer kernel launches."""


def sentence_groups(table: Tensor, tokens: Tokens) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Split a batch into groups of consecutive sentences.

    Yields for each group its part of the table, the rows [frames, sentences] that its buffers read (see
    `buffer_rows`) and, on the host, the lengths [sentences].
    """
    root_and_end, max_words = (
        torch.tensor([len(table) - 2, len(table) - 1]),
        MAX_GROUP_WORDS[table.device.type],
    )
    for rows in split_by_words(torch.arange(len(tokens)), tokens.lengths.tolist(), max_words):
        own, lengths = torch.cat([tokens.numbers.elements(rows), root_and_end]), tokens.lengths[rows]
        [frames] = buffer_rows(lengths)
        own, frames = (to_device(indices, table.device) for indices in (own, frames))
        yield table.index_select(0, own), frames, lengths


def frames_by_front(frames: Tensor, lengths: Tensor) -> Tensor:
    """[words + sentences, ...] Arrange the outputs of buffers by front, as in `front_positions`.

    frames: [frames * sentences, ...], from the end of the buffer to the first word. lengths: [sentences], on
    the host.
    """
    sentence, position = front_positions(lengths)
    frame = lengths[sentence] - position
    return frames.index_select(0, to_device(frame * len(lengths) + sentence, frames.device))


def buffer_states(lstm: SteppedLSTM, inputs: Tensor) -> Tensor:
    """[frames * sentences, state] States of the buffer LSTM. inputs: [frames, sentences, token]."""
    states = lstm.split(inputs.new_zeros(inputs.shape[1], lstm.state_size))
    projected = lstm.project(inputs.flatten(0, 1)).view(*inputs.shape[:2], -1)
    found = []
    for frame in projected:
        states = lstm.advance(frame, states)
        found.append(join(states))
    return torch.cat(found)
