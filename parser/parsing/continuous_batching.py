"""Continuous batching: when a sentence of the batch is finished, its row is refilled with the next sentence.

A static batch runs until its longest sentence is finished, and its other rows are idle. With continuous
batching all rows are in use until no sentences are left.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from parser.batching.cuda_graph import CudaGraphs, GraphedWork
from parser.batching.transfer import to_device
from parser.parsing.ensemble import Reading
from parser.parsing.greedy import best_transitions, legal_scores, write_arc_probabilities
from parser.parsing.model import Model
from parser.parsing.transition_numbers import numbers_in
from parser.stepping.inference.ensemble import EnsembleInference, Member
from parser.stepping.inference.stepper import InferenceStepper, inference_stepper
from parser.stepping.positions import Positions
from parser.transitions.state import State
from parser.transitions.system import TransitionSystem
from parser.treebank.tokens import Tokens

STEPS_BETWEEN_SYNCHRONISATIONS = 16
"""Steps between two synchronisations of host and device."""
STEPS_BETWEEN_REFILLS = 4
"""A refill takes a sixth of the time of a step, so a finished row is idle for up to three steps."""
MAX_FRAMES = 100_000
"""Memory limit: rows of the batch times the greatest possible stack depth."""


def parse_tokens(
    model: Model,
    tokens: Tokens,
    batch_size: int,
    probabilities: Tensor | None = None,
    in_graph: bool = False,
    readings: Sequence[Reading] = (),
) -> State:
    """Parse sentences; return the final state, whose flat tensors have the trees.

    batch_size: number of sentences in the batch, reduced if they are very long. probabilities: [words + 1],
    filled with the probabilities of the arcs, in the order of `State.heads`. in_graph: whether a GPU repeats
    the steps as a CUDA graph. readings: of the sentences by the model and by those whose scores are averaged
    with its own; by the model alone unless given.
    """
    inventory = model.inventory
    max_batch_size = max(1, MAX_FRAMES // (int(tokens.lengths.max()) + 1))
    queue = _Queue(
        tokens.lengths, min(batch_size, len(tokens), max_batch_size), inventory.system, model.device
    )
    parsers = _parsers(readings or [Reading.of(model, tokens)], len(queue.state.depth))
    parsers.restart(torch.ones_like(queue.state.depth, dtype=torch.bool), queue.positions())

    def steps() -> None:
        for _ in range(STEPS_BETWEEN_SYNCHRONISATIONS // STEPS_BETWEEN_REFILLS):
            refilled = queue.refill()
            positions = queue.positions()
            parsers.restart(refilled, positions)
            for _ in range(STEPS_BETWEEN_REFILLS):
                scores = legal_scores(inventory, queue.state, parsers.scores(positions))
                best = best_transitions(inventory, queue.state, scores)
                if probabilities is not None:
                    write_arc_probabilities(inventory, queue.state, scores, best, probabilities)
                inventory.apply(queue.state, best)
                positions = queue.positions()
                parsers.advance(best, positions)

    graphs = CudaGraphs(model.device)
    work = GraphedWork(steps, graphs) if in_graph else steps
    while True:
        deepest, done = queue.synchronise()
        if done:
            return queue.state
        if parsers.reserve(deepest + STEPS_BETWEEN_SYNCHRONISATIONS) and in_graph:
            work = GraphedWork(steps, graphs)
        work()


def _parsers(readings: Sequence[Reading], batch: int) -> InferenceStepper:
    """`batch` parsers of the sentences."""
    first = readings[0].model
    parsers = [
        inference_stepper(model.network, model.inventory, tokens, words, batch)
        for model, tokens, words in readings
    ]
    if len(readings) == 1:
        return parsers[0]
    numbers = (numbers_in(reading.model, first) for reading in readings)
    return EnsembleInference(list(map(Member, parsers, numbers)))


class _Queue:
    """The states of the rows of the batch, and the sentence in each row."""

    def __init__(self, lengths: Tensor, batch_size: int, system: TransitionSystem, device: torch.device):
        """lengths: [sentences] in words, on the host."""
        self.state = State.initial(lengths, batch_size, device)
        lengths = to_device(lengths, device)
        self._system, self._lengths = system, lengths
        self._bases = lengths.cumsum(0) - lengths - 1  # see `State.base`
        self._sentences = torch.arange(batch_size, device=lengths.device)  # [batch]
        self._started = torch.full((), batch_size, device=lengths.device)
        self._root_row = lengths.sum()

    def synchronise(self) -> tuple[int, bool]:
        """Synchronise host and device; return the greatest stack depth, and whether all is parsed."""
        done = self._system.finished(self.state).all() & (self._started >= len(self._lengths))
        deepest, is_done = torch.stack([self.state.depth.max(), done.long()]).tolist()
        return deepest, bool(is_done)

    def refill(self) -> Tensor:
        """Put the next sentences into finished rows. Returns [batch] bool: which rows were refilled."""
        finished = self._system.finished(self.state)
        sentences = self._started + finished.cumsum(0) - 1
        refilled = finished & (sentences < len(self._lengths))
        torch.where(refilled, sentences, self._sentences, out=self._sentences)
        self._started += refilled.sum()
        state = self.state
        state.depth.masked_fill_(refilled, 1)
        state.front.masked_fill_(refilled, 1)
        state.headless.masked_fill_(refilled, 0)
        torch.index_select(self._lengths, 0, self._sentences, out=state.length)
        torch.index_select(self._bases, 0, self._sentences, out=state.base)
        return refilled

    def positions(self) -> Positions:
        """The positions of the parsers in all rows."""
        return Positions.of(self.state, self._sentences, self._root_row)
