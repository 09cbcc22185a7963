"""What does not depend on transitions is computed before the first of them: words and buffers."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from parser.batching.transfer import to_device
from parser.networks import stack_lstm
from parser.networks.stack_parser import StackParser
from parser.replay.vector_rows import buffer_tokens, front_places
from parser.treebank.batches import split_by_words
from parser.treebank.tokens import Tokens

MAX_GROUP_WORDS = {"cpu": 2_000, "cuda": 20_000}
"""Words, padding included, whose buffers are encoded at a time. On a CPU more bring only more memory; on a
GPU each group costs launches, for every frame of its longest sentence if the parser composes."""


def gather_rows(table: Tensor, rows: Tensor) -> Tensor:
    """[..., size] The rows [...] of a table [rows, size]."""
    return table.index_select(0, rows.flatten()).view(*rows.shape, table.shape[1])


def sentence_groups(table: Tensor, tokens: Tokens) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
    """Sentence by sentence some: their table, rows of it [frames, sentences] and, on the host, lengths."""
    root_and_end, most = torch.tensor([len(table) - 2, len(table) - 1]), MAX_GROUP_WORDS[table.device.type]
    for rows in split_by_words(torch.arange(len(tokens)), tokens.lengths.tolist(), most):
        own, lengths = torch.cat([tokens.numbers.elements(rows), root_and_end]), tokens.lengths[rows]
        own, frames = (to_device(which, table.device) for which in (own, buffer_tokens(lengths)))
        yield table.index_select(0, own), frames, lengths


def frames_by_front(frames: Tensor, lengths: Tensor) -> Tensor:
    """[words + sentences, ...] For every front of each sentence from its first word on.

    frames: [frames * sentences, ...], from the buffers' ends; lengths: [sentences], on the host.
    """
    sentence, place = front_places(lengths)
    # The frames run from the buffer's end: counted down, they are the fronts from the first word on.
    frame = lengths[sentence] - place
    return frames.index_select(0, to_device(frame * len(lengths) + sentence, frames.device))


def buffer_states(network: StackParser, inputs: Tensor) -> Tensor:
    """[frames * sentences, state] Of the buffers' LSTM; inputs: [frames, sentences, token]."""
    state = inputs.new_zeros(inputs.shape[1], stack_lstm.state_size(network.buffer))
    projected = stack_lstm.project(network.buffer, inputs.flatten(0, 1)).view(*inputs.shape[:2], -1)
    states = []
    for frame in projected:
        state = stack_lstm.advance(network.buffer, frame, state)
        states.append(state)
    return torch.cat(states)
