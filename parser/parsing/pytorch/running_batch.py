"""Continuous batching: sentences are parsed together, and others join when some of them are done.

Each parser takes its best legal transition. A static batch would run until its longest sentence is finished,
and its other rows would be idle. Here the device itself gives idle rows the next sentences; the host checks
now and then, takes out the finished sentences, and lets others join.
"""

from __future__ import annotations

from bisect import insort
from collections import Counter, deque
from collections.abc import Sequence
from dataclasses import fields
from itertools import islice
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from parser.batching.cuda_graph import CudaGraphs, GraphedWork, LostGeneratorError
from parser.batching.device import to_device
from parser.models.model import numbers_in
from parser.models.network_model import NetworkModel
from parser.networks.loss import ILLEGAL_SCORE
from parser.networks.stack_parser import EncodedSentences
from parser.networks.stepping.stepper import (
    EnsembleInference,
    InferenceStepper,
    Member,
    Positions,
    inference_stepper,
    with_room,
)
from parser.parsing.constraints import LabelChoices, SentenceConstraints
from parser.parsing.parsed_tree import Arcs
from parser.parsing.pytorch.arc_probabilities import ArcProbabilities
from parser.parsing.pytorch.constrained_batch import ConstrainedBatch
from parser.transitions.inventory import Inventory
from parser.transitions.state import State, legal_kinds
from parser.treebank.sentence import NO_HEAD

STEPS_BETWEEN_SYNCHRONISATIONS = 16
"""Steps between two synchronisations of host and GPU."""
STEPS_BETWEEN_REFILLS = 4
"""A refill takes a sixth of the time of a step, so a finished row is idle for up to three steps."""
MAX_FRAMES = 100_000
"""Memory limit: rows of the batch times the depth of stacks."""
FIRST_DEPTH = 64
"""Initial room of the stacks on a GPU. Few sentences need more; for these, the graph is captured again."""
IDLE = 0
"""The slot of a row without a sentence."""


def mask_illegal(
    inventory: Inventory, state: State, scores: Tensor, constraints: ConstrainedBatch | None = None
) -> Tensor:
    """[batch, transitions] The scores, with -inf for transitions that are not legal."""
    kinds = legal_kinds(inventory.system, state)
    legal = constraints.legal(state, kinds) if constraints else inventory.with_labels(kinds)
    # Clamping keeps legal scores of -inf above those of illegal transitions.
    return scores.clamp(min=torch.finfo(scores.dtype).min).masked_fill_(~legal, ILLEGAL_SCORE)


def steps_at_once(device: torch.device) -> int:
    """Steps between two synchronisations: on a CPU, where nothing waits for one, those between refills."""
    return STEPS_BETWEEN_REFILLS if device.type == "cpu" else STEPS_BETWEEN_SYNCHRONISATIONS


def best_transitions(inventory: Inventory, state: State, scores: Tensor) -> Tensor:
    """[batch] The legal transition with the best score; `no_op` if finished. scores: see `mask_illegal`."""
    return scores.argmax(1).masked_fill_(inventory.system.finished(state), inventory.no_op)


class _Slots(NamedTuple):
    """Tables of the sentences that have joined, by slot; on the device."""

    length: Tensor
    """[slots] In words."""
    base: Tensor
    """[slots] The position before the first word, see `State.base`."""
    is_done: Tensor
    """[slots] bool"""
    is_cancelled: Tensor
    """[slots] bool"""


class _Flat(NamedTuple):
    """The flat tensors of the state."""

    heads: Tensor
    labels: Tensor


class _Sentence(NamedTuple):
    """The location of a sentence in the flat tensors."""

    base: int
    length: int
    block: int
    """The start of its block, which holds the positions of all sentences that joined with it."""
    constraints: SentenceConstraints | None


class RunningBatch:
    def __init__(self, models: Sequence[NetworkModel], max_rows: int, in_graph: bool):
        """models: their scores are averaged. in_graph: whether a GPU repeats the steps as a CUDA graph."""
        self._model, self._max_rows = models[0], max_rows
        self._inventory, self._device = models[0].inventory, models[0].device
        self._parsers, self._steps_at_once = stepper_of(models), steps_at_once(self._device)
        zero = torch.zeros(1, dtype=torch.long, device=self._device)
        self._row_slots = zero.clone()
        """[rows] The slot of the sentence in each row."""
        self._state = _idle_state(zero)
        self._slots = _Slots(zero, zero, zero.bool(), zero.bool())
        self._queue = zero.repeat(self._refills)
        """[capacity] The slots of the next sentences."""
        self._queued, self._started = zero[0].clone(), zero[0].clone()
        self._probabilities: ArcProbabilities | None = None
        self._constraints: ConstrainedBatch | None = None
        self._graphs = CudaGraphs(self._device) if in_graph else None
        self._moved()
        # On the host:
        self._sentences: dict[int, _Sentence] = {}
        self._free: list[int] = []
        self._waiting: deque[int] = deque()
        self._blocks = _Blocks()
        self._rows_on_host, self._depths = [IDLE], [1]

    @property
    def waiting(self) -> int:
        """Sentences that have joined and have not been in a row yet."""
        return len(self._waiting)

    def join(
        self,
        by_model: Sequence[EncodedSentences],
        probabilities: bool = False,
        constraints: Sequence[SentenceConstraints | None] = (),
    ) -> list[int]:
        """Let sentences join at the next refill. Returns their slots.

        by_model: the sentences as each model encodes them. constraints: those of each sentence, or empty.
        """
        lengths = by_model[0].tokens.lengths
        positions = by_model[0].positions
        start = self._blocks.take(positions)
        stop = start + positions
        self._reserve(stop)
        if probabilities and not self._probabilities:
            self._probabilities = ArcProbabilities(self._inventory, len(self._state.heads))
            self._moved()
        self._forget(start, stop)
        bases = start - 1 + (lengths + 1).cumsum(0) - (lengths + 1)
        self._constrain(start, stop, bases.tolist(), constraints)
        if self._parsers.join(start, by_model):
            self._moved()
        slots = self._take_slots(len(lengths))
        where, length, base = to_device(torch.stack([torch.tensor(slots), lengths, bases]), self._device)
        self._slots.length.index_copy_(0, where, length)
        self._slots.base.index_copy_(0, where, base)
        self._slots.is_done.index_fill_(0, where, False)
        self._slots.is_cancelled.index_fill_(0, where, False)
        starts = [start] * len(slots)
        of_sentences = constraints or [None] * len(slots)
        sentences = map(_Sentence, bases.tolist(), lengths.tolist(), starts, of_sentences)
        self._sentences.update(zip(slots, sentences, strict=True))
        self._blocks.share(start, len(slots))
        self._waiting.extend(slots)
        return slots

    def _constrain(
        self, start: int, stop: int, bases: Sequence[int], constraints: Sequence[SentenceConstraints | None]
    ) -> None:
        """Set the constraints of the sentences at positions from start to stop, which begin after `bases`."""
        has_any = any(constraints)
        others = [sentence.constraints for sentence in self._sentences.values() if sentence.constraints]
        if has_any and not self._constraints:
            choices = LabelChoices.of(self._model.vocabulary)
            self._constraints = ConstrainedBatch(self._inventory, choices, len(self._state.heads))
            self._moved()
        elif self._constraints and not (has_any or others):
            self._constraints = None  # they would cost time at each step
            self._moved()
        if self._constraints:
            self._constraints.forget(start, stop)
            if has_any and self._constraints.join(bases, constraints, others):
                self._moved()

    def cancel(self, slot: int) -> None:
        """Finish a sentence at the next refill. Its arcs are meaningless."""
        self._slots.is_cancelled[slot : slot + 1] = True

    def work(self) -> None:
        """Take several steps without a synchronisation."""
        self._adapt_rows()
        depth = max(self._depths) + self._steps_at_once
        if self._graphs:
            depth = max(depth, FIRST_DEPTH)
        if self._state.stack.shape[1] < depth:
            stack = self._state.stack
            self._state.stack = torch.cat([stack, stack.new_zeros(len(stack), depth)], dim=1)
            self._moved()
        if self._parsers.reserve(depth):
            self._moved()
        following = list(islice(self._waiting, len(self._queue)))
        self._queue[: len(following)] = to_device(torch.tensor(following, dtype=torch.long), self._device)
        self._queued.fill_(len(following))
        self._started.zero_()
        if self._graphed:
            try:
                self._graphed(self._steps)
                return
            except LostGeneratorError:
                pass  # steps draw no random numbers
        self._steps()

    def done(self) -> dict[int, Arcs]:
        """Synchronise host and device, and remove the finished sentences. Returns their arcs by slot."""
        self._retire()
        state, probabilities = self._state, self._probabilities
        parts = [self._started[None], self._row_slots, state.depth, self._slots.is_done]
        parts += [state.heads, state.labels]
        parts += [probabilities.of_arcs.view(torch.int32)] if probabilities else []
        sizes = list(map(len, parts))
        on_host = torch.cat([part.int() for part in parts]).cpu().split(sizes)
        (started,), rows, depths, is_done, heads, labels, *of_arcs = (part.numpy() for part in on_host)
        for _ in range(started):
            self._waiting.popleft()
        self._rows_on_host, self._depths = rows.tolist(), depths.tolist()
        self._slots.is_done.zero_()
        done = {}
        for slot in is_done.nonzero()[0].tolist():
            if slot == IDLE:
                continue
            base, length, block, _ = self._sentences.pop(slot)
            here = slice(base + 1, base + 1 + length)
            shares = of_arcs[0][here].view(np.float32).tolist() if of_arcs else []
            done[slot] = Arcs(heads[here].tolist(), labels[here].tolist(), shares)
            self._free.append(slot)
            self._blocks.release(block)
        return done

    @property
    def _refills(self) -> int:
        """Refills between two synchronisations."""
        return self._steps_at_once // STEPS_BETWEEN_REFILLS

    def _steps(self) -> None:
        inventory, state = self._inventory, self._state
        for _ in range(self._refills):
            refilled = self._refill()
            positions = Positions.of(state, state.base)
            self._parsers.restart(refilled, positions)
            for _ in range(STEPS_BETWEEN_REFILLS):
                scores = mask_illegal(inventory, state, self._parsers.scores(positions), self._constraints)
                best = best_transitions(inventory, state, scores)
                if self._probabilities:
                    self._probabilities.add(state, scores, best)
                if self._constraints:
                    self._constraints.count(state, best)
                inventory.apply(state, best)
                positions = Positions.of(state, state.base)
                self._parsers.advance(best, positions)

    def _retire(self) -> None:
        """Mark the sentences that are done, and leave their rows idle."""
        finished = self._inventory.system.finished(self._state)
        finished |= self._slots.is_cancelled.index_select(0, self._row_slots)
        self._slots.is_done.index_copy_(0, self._row_slots, finished)
        self._leave_idle(finished)

    def _leave_idle(self, which: Tensor) -> None:
        """which: [rows] bool"""
        self._row_slots.masked_fill_(which, IDLE)
        self._state.depth.masked_fill_(which, 1)
        self._state.front.masked_fill_(which, 1)
        self._state.headless.masked_fill_(which, 0)

    def _refill(self) -> Tensor:
        """Put the next sentences into idle rows. Returns [rows] bool: which rows have a new sentence."""
        self._retire()
        is_idle = self._row_slots == IDLE
        following = self._started + is_idle.cumsum(0) - 1
        is_filled = is_idle & (following < self._queued)
        slots = self._queue.index_select(0, following.clamp(0, len(self._queue) - 1))
        torch.where(is_filled, slots, self._row_slots, out=self._row_slots)
        self._started += is_filled.sum()
        torch.index_select(self._slots.length, 0, self._row_slots, out=self._state.length)
        torch.index_select(self._slots.base, 0, self._row_slots, out=self._state.base)
        return is_filled

    def _adapt_rows(self) -> None:
        """Make the number of rows about that of the sentences, but no larger than the memory allows.

        With graphs the number never shrinks for lack of sentences: a GPU takes as long for few rows as for
        many, and each graph is for one number of rows.
        """
        rows, wanted = len(self._rows_on_host), min(self._max_rows, len(self._sentences))
        if wanted > rows or (2 * wanted <= rows and not self._graphs):
            rows = min(self._max_rows, 1 << (wanted - 1).bit_length())
        while rows > 1 and rows * (max(self._depths) + self._steps_at_once) > MAX_FRAMES:
            rows //= 2
        if rows != len(self._rows_on_host):
            self._resize(rows)

    def _resize(self, rows: int) -> None:
        """Change the number of rows. If they are too few, the deepest sentences stay; others start again."""
        busy = [row for row, slot in enumerate(self._rows_on_host) if slot != IDLE]
        busy.sort(key=lambda row: -self._depths[row])
        for row in busy[rows:]:
            slot = self._rows_on_host[row]
            base, length, *_ = self._sentences[slot]
            self._forget(base + 1, base + 1 + length)
            self._waiting.appendleft(slot)
        kept = busy[:rows]
        self._rows_on_host = [self._rows_on_host[row] for row in kept] + [IDLE] * (rows - len(kept))
        self._depths = [self._depths[row] for row in kept] + [1] * (rows - len(kept))
        index = to_device(torch.tensor(kept + [0] * (rows - len(kept))), self._device)
        self._parsers.select(index)
        state = self._state
        for name in ("stack", "depth", "front", "length", "base", "headless"):
            setattr(state, name, getattr(state, name).index_select(0, index))
        self._row_slots = self._row_slots.index_select(0, index)
        self._leave_idle(torch.arange(rows, device=self._device) >= len(kept))
        self._queue = self._queue.new_zeros(rows * self._refills)
        self._moved()

    def _moved(self) -> None:
        """Discard the captured graph, after tensors have moved to other memory."""
        sizes = *self._state.stack.shape, len(self._state.heads), len(self._slots.length)
        shape = *sizes, bool(self._probabilities), bool(self._constraints)
        self._graphed = GraphedWork(self._graphs, shape) if self._graphs else None

    def _reserve(self, stop: int) -> None:
        """Make flat tensors long enough for the positions up to `stop`."""
        state = self._state
        if stop < len(state.heads):
            return
        state.heads, state.labels = with_room(_Flat(state.heads, state.labels), stop + 1)
        state.heads[-1] = NO_HEAD
        if self._probabilities:
            self._probabilities.reserve(len(state.heads))
        if self._constraints:
            self._constraints.reserve(len(state.heads))
        self._moved()

    def _forget(self, start: int, stop: int) -> None:
        """Remove the arcs of the words at these positions."""
        self._state.heads[start:stop] = NO_HEAD
        if self._probabilities:
            self._probabilities.forget(start, stop)
        if self._constraints:
            self._constraints.begin(start, stop)

    def _take_slots(self, count: int) -> list[int]:
        """Take free slots, after adding some if there are too few."""
        if count > len(self._free):
            before = len(self._slots.length)
            self._slots = with_room(self._slots, before + count)
            self._free.extend(range(before, len(self._slots.length)))
            self._moved()
        taken = self._free[-count:]
        del self._free[-count:]
        return taken


def _idle_state(zero: Tensor) -> State:
    """The state of one row, before any sentence has joined. zero: [1]"""
    zeros = {field.name: zero.clone() for field in fields(State)}
    return State(**zeros | {"stack": zero[:, None].clone(), "depth": zero + 1, "front": zero + 1})


class _Blocks:
    """The positions in use, in blocks. A block is free again when all of its sentences are done."""

    def __init__(self) -> None:
        self._taken: list[tuple[int, int]] = [(0, 2)]
        """Starts and ends, in order; the first block is that of idle rows."""
        self._sentences: Counter[int] = Counter()
        """The number of unfinished sentences of each block, by its start."""

    def take(self, positions: int) -> int:
        """Reserve the first free block of this size. Returns its start."""
        start = 0
        for begin, end in self._taken:
            if begin - start >= positions:
                break
            start = end
        insort(self._taken, (start, start + positions))
        return start

    def share(self, start: int, sentences: int) -> None:
        """Set the number of sentences that use a block."""
        self._sentences[start] = sentences

    def release(self, start: int) -> None:
        """Note that one of the block's sentences is done."""
        self._sentences[start] -= 1
        if not self._sentences[start]:
            del self._sentences[start]
            self._taken = [block for block in self._taken if block[0] != start]


def stepper_of(models: Sequence[NetworkModel]) -> InferenceStepper:
    """A stepper with a single parser, of all models together."""
    parsers = [inference_stepper(model.network, model.inventory, batch=1) for model in models]
    if len(models) == 1:
        return parsers[0]
    numbers = (to_device(torch.tensor(numbers_in(model, models[0])), model.device) for model in models)
    return EnsembleInference(list(map(Member, parsers, numbers)))
