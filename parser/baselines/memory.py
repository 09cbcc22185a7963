"""The recurrent state of a batch of parsers, one frame at a time with gradients."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from parser.batching.device import to_device
from parser.batching.ragged import gather_rows
from parser.batching.stack import PUSH, Stack
from parser.batching.stepped_lstm import States, SteppedLSTM, join, output
from parser.networks.stack_parser import StackParser
from parser.replay.batch import buffer_rows
from parser.transitions.inventory import Inventory
from parser.transitions.system import front_positions
from parser.treebank.batches import split_by_words
from parser.treebank.vocabulary import Tokens

Inputs = tuple[Tensor, ...]
"""Tensors [batch, size] or, for many steps, [steps, batch, size], gathered at `Positions`."""


class Outputs(NamedTuple):
    """The arguments of `StackParser.score_states`, [batch, hidden] each."""

    stack: Tensor
    features: Tensor
    history: Tensor


class Memory:
    """The stacks of a batch, which the stepper reads and writes, and the history."""

    def __init__(self, network: StackParser, inventory: Inventory, batch: int, root_row: Tensor):
        """root_row: [1, size] The first row of each stack."""
        self.stack = Stack(batch, root_row.shape[1], like=root_row[0])
        self.stack.write(*PUSH, root_row.expand(batch, -1))
        self.history = SteppedHistory(network, inventory, batch)


class SteppedHistory:
    """The LSTM over the transitions."""

    def __init__(self, network: StackParser, inventory: Inventory, batch: int):
        self._lstm = SteppedLSTM(network.history)
        embeddings = network.transition_embeddings.weight
        self._inputs = self._lstm.project(embeddings)  # [transitions + 1, 4 * hidden]
        first = self._lstm.first(embeddings[inventory.no_op])
        self._states: States = [part.expand(batch, -1) for part in first]

    def inputs(self, transitions: Tensor) -> Tensor:
        """[..., 4 * hidden] Projected embeddings of transitions [...]."""
        return gather_rows(self._inputs, transitions)

    def advance(self, inputs: Tensor) -> None:
        """inputs: [batch, 4 * hidden], as from `inputs`."""
        self._states = self._lstm.advance(inputs, self._states)

    @property
    def output(self) -> Tensor:
        """[batch, hidden]"""
        return output(self._states)


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
