"""Parsing many sentences at once: a finished row of the batch is refilled with the next sentence.

Each parser takes its best legal transition. A static batch would run until its longest sentence is finished,
and its other rows would be idle.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from parser.batching.cuda_graph import CudaGraphs, GraphedWork
from parser.batching.device import to_device
from parser.networks.loss import ILLEGAL_SCORE
from parser.networks.stack_parser import WordVectors
from parser.parsing.arc_probabilities import ArcProbabilities
from parser.parsing.ensemble import numbers_in
from parser.parsing.model import Model
from parser.stepping.stepper import EnsembleInference, InferenceStepper, Member, inference_stepper
from parser.transitions.inventory import Inventory
from parser.transitions.system import Positions, State, TransitionSystem
from parser.treebank.vocabulary import Tokens

STEPS_BETWEEN_SYNCHRONISATIONS = 16
"""Steps between two synchronisations of host and device."""
STEPS_BETWEEN_REFILLS = 4
"""A refill takes a sixth of the time of a step, so a finished row is idle for up to three steps."""
MAX_FRAMES = 100_000
"""Memory limit: rows of the batch times the greatest possible stack depth."""


def mask_illegal(inventory: Inventory, state: State, scores: Tensor) -> Tensor:
    """[batch, transitions] The scores, with -inf for transitions that are not legal."""
    legal = inventory.with_labels(inventory.system.legal(state))
    # Clamping keeps legal scores of -inf above those of illegal transitions.
    return scores.clamp(min=torch.finfo(scores.dtype).min).masked_fill(~legal, ILLEGAL_SCORE)


def best_transitions(inventory: Inventory, state: State, scores: Tensor) -> Tensor:
    """[batch] The legal transition of highest score; `no_op` when finished. scores: see `mask_illegal`."""
    return scores.argmax(1).masked_fill(inventory.system.finished(state), inventory.no_op)


class Reading(NamedTuple):
    """Sentences as a model reads them."""

    model: Model
    tokens: Tokens
    """On the host."""
    words: WordVectors

    @classmethod
    def of(cls, model: Model, tokens: Tokens) -> Reading:
        return cls(model, tokens, model.network.encode_distinct(tokens)[0])


def parse_tokens(
    model: Model,
    tokens: Tokens,
    batch_size: int,
    probabilities: ArcProbabilities | None = None,
    in_graph: bool = False,
    readings: Sequence[Reading] = (),
) -> State:
    """Parse sentences; return the final state, whose flat tensors have the trees.

    batch_size: number of sentences in the batch, reduced if they are very long. probabilities: gets those of
    the arcs. in_graph: whether a GPU repeats the steps as a CUDA graph. readings: of the sentences by the
    model and by those whose scores are averaged with its own; by the model alone unless given.
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
                scores = mask_illegal(inventory, queue.state, parsers.scores(positions))
                best = best_transitions(inventory, queue.state, scores)
                if probabilities is not None:
                    probabilities.add(queue.state, scores, best)
                inventory.apply(queue.state, best)
                positions = queue.positions()
                parsers.advance(best, positions)

    graphs = CudaGraphs(model.device) if in_graph else None
    work = GraphedWork(steps, graphs) if graphs else steps
    while True:
        deepest, done = queue.synchronise()
        if done:
            return queue.state
        if parsers.reserve(deepest + STEPS_BETWEEN_SYNCHRONISATIONS) and graphs:
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
