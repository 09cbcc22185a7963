"""Continuous batching: when a sentence of the batch is finished, the next one takes its row.

A static batch runs until its longest sentence is finished, and its other rows idle. Here the rows are full
until the sentences run out, whatever their lengths.
"""

from __future__ import annotations

import torch
from torch import Tensor

from parser.batching.transfer import to_device
from parser.parsing.greedy import best_transitions, legal_scores, write_arc_probabilities
from parser.parsing.model import Model
from parser.stepping.positions import Positions
from parser.stepping.stepper import stepper
from parser.transitions.state import State
from parser.transitions.system import TransitionSystem
from parser.treebank.tokens import Tokens

STEPS_BETWEEN_SYNCHRONISATIONS = 16
"""Steps between two reads of the device's state by the host, which waits for the device there."""
STEPS_BETWEEN_REFILLS = 4
"""A refill costs a sixth of a step, so a finished row idles for up to three steps."""
MAX_FRAMES = 100_000
"""Memory bound: rows of the batch times the deepest stack that the longest sentence can have."""


def parse_tokens(model: Model, tokens: Tokens, batch_size: int, probabilities: Tensor | None = None) -> State:
    """The state when all sentences are parsed; its flat tensors hold the trees.

    batch_size: sentences in the batch at the same time, fewer if they are very long. probabilities:
    [words + 1], receives those of the arcs, in the order of `State.heads`.
    """
    inventory = model.inventory
    fitting = max(1, MAX_FRAMES // (int(tokens.lengths.max()) + 1))
    queue = _Queue(tokens.lengths, min(batch_size, len(tokens), fitting), inventory.system, model.device)
    parsers = stepper(model.network, inventory, tokens.to(model.device), queue.positions().front)
    while True:
        deepest, done = queue.synchronise()
        if done:
            return queue.state
        parsers.reserve(deepest + STEPS_BETWEEN_SYNCHRONISATIONS)
        for _ in range(STEPS_BETWEEN_SYNCHRONISATIONS // STEPS_BETWEEN_REFILLS):
            refilled = queue.refill()
            inputs = parsers.inputs_at(queue.positions())
            parsers.restart(refilled, inputs)
            for _ in range(STEPS_BETWEEN_REFILLS):
                scores = legal_scores(inventory, queue.state, parsers.scores(inputs))
                best = best_transitions(inventory, queue.state, scores)
                if probabilities is not None:
                    write_arc_probabilities(inventory, queue.state, scores, best, probabilities)
                inventory.apply(queue.state, best)
                inputs = parsers.inputs_at(queue.positions())
                parsers.advance(best, parsers.transition_inputs(best), inputs)


class _Queue:
    """The sentence in each row of the batch, and the states of the parsers there."""

    def __init__(self, lengths: Tensor, batch_size: int, system: TransitionSystem, device: torch.device):
        """lengths: [sentences], in words, on the host."""
        self.state = State.initial(lengths, batch_size, device)
        lengths = to_device(lengths, device)
        self._system, self._lengths = system, lengths
        self._first_words = lengths.cumsum(0) - lengths
        self._sentences = torch.arange(batch_size, device=lengths.device)  # [batch]
        self._started = torch.tensor(batch_size, device=lengths.device)
        self._root_row = lengths.sum()

    def synchronise(self) -> tuple[int, bool]:
        """The depth of the deepest stack, and whether all is parsed. The host waits for the device here."""
        done = self._system.finished(self.state).all() & (self._started >= len(self._lengths))
        deepest, is_done = torch.stack([self.state.depth.max(), done.long()]).tolist()
        return deepest, bool(is_done)

    def refill(self) -> Tensor:
        """Put the next sentences into the rows whose sentences are finished; returns [batch], True there."""
        finished = self._system.finished(self.state)
        sentences = self._started + finished.cumsum(0) - 1
        refilled = finished & (sentences < len(self._lengths))
        self._sentences = torch.where(refilled, sentences, self._sentences)
        self._started = self._started + refilled.sum()
        state = self.state
        state.depth.masked_fill_(refilled, 1)
        state.front.masked_fill_(refilled, 1)
        state.headless.masked_fill_(refilled, 0)
        state.length = self._lengths[self._sentences]
        state.base = self._first_words[self._sentences] - 1
        return refilled

    def positions(self) -> Positions:
        """Of all rows' parsers."""
        return Positions.of(self.state, self._sentences, self._root_row)
