"""Beam search: the best trees of each sentence, by the mean log probability of their transitions.

Each sentence has several rows of a batched parser, its hypotheses. At each step the best continuations of all
of them survive, whichever they come from, and one row always follows the greedy parser. The mean is over all
transitions that a hypothesis has taken: with arc-eager, their number can differ between trees of a sentence.
Different transitions can lead to equal trees.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from parser.batching.device import to_device
from parser.models.network_model import NetworkModel
from parser.networks.loss import ILLEGAL_SCORE
from parser.networks.stack_parser import EncodedSentences
from parser.networks.stepping.stepper import InferenceStepper, Positions
from parser.parsing.constraints import LabelChoices, SentenceConstraints
from parser.parsing.parsed_tree import Arcs
from parser.parsing.pytorch.constrained_batch import ConstrainedBatch
from parser.parsing.pytorch.runner import encoded
from parser.parsing.pytorch.running_batch import (
    MAX_FRAMES,
    best_transitions,
    mask_illegal,
    stepper_of,
    steps_at_once,
)
from parser.parsing.running import Encoding, Running
from parser.parsing.scheduler import Request
from parser.transitions.inventory import Inventory
from parser.transitions.state import State

WIDTH = 2
"""Hypotheses for each requested tree: some lead to equal trees, and more of them find better trees."""
MAX_ROWS = 256
"""Most hypotheses of all sentences searched at the same time, unless a single sentence has more."""


@torch.inference_mode()
def search_trees(
    model: NetworkModel, encoding: Encoding, requests: Sequence[Request]
) -> list[tuple[Running, list[Arcs]]]:
    """Sentences, for which equally many trees are requested, with the hypotheses for each."""
    sentences = encoded(model, encoding, requests)
    constraints = [running.constraints for running in sentences.running]
    width = WIDTH * requests[0].options.trees
    return list(
        zip(sentences.running, search(model.members, sentences.words, constraints, width), strict=True)
    )


def search(
    models: Sequence[NetworkModel],
    by_model: Sequence[EncodedSentences],
    constraints: Sequence[SentenceConstraints | None],
    width: int,
) -> list[list[Arcs]]:
    """At most `width` hypotheses of each sentence, with their scores; the greedy one first.

    models: their scores are averaged. by_model: the sentences as each model encodes them.
    """
    parsers, inventory = stepper_of(models), models[0].inventory
    parsers.join(1, by_model)
    lengths = by_model[0].tokens.lengths
    before = (lengths + 1).cumsum(0) - (lengths + 1)  # [sentences] see `Positions`
    choices = LabelChoices.of(models[0].vocabulary)
    hypotheses: list[list[Arcs]] = [[] for _ in lengths]
    for sentences in _groups(lengths, width):
        beams = _Beams(inventory, parsers, lengths[sentences], before[sentences], width)
        numbers = sentences.tolist()
        beams.constrain(choices, [constraints[number] for number in numbers])
        beams.run()
        for number, of_sentence in zip(numbers, beams.hypotheses(), strict=True):
            hypotheses[number] = of_sentence
    return hypotheses


def _groups(lengths: Tensor, width: int) -> Iterator[Tensor]:
    """Yield the numbers of sentences of similar length that are searched together, the longest first."""
    order = lengths.argsort(descending=True, stable=True)
    while len(order):
        rows = min(MAX_ROWS, MAX_FRAMES // int(lengths[order[0]]))
        size = max(1, rows // width)
        yield order[:size]
        order = order[size:]


class _Beams:
    """Rows [sentences * width]: those of a sentence are adjacent, and the first of them is greedy."""

    def __init__(
        self, inventory: Inventory, parsers: InferenceStepper, lengths: Tensor, before: Tensor, width: int
    ):
        """lengths, before: [sentences] in words, and the positions before the first words; on the host."""
        self._inventory, self._parsers, self._width = inventory, parsers, width
        self._lengths, self._longest = lengths.tolist(), int(lengths.max())
        device, rows = inventory.kind.device, len(lengths) * width
        self._state = State.initial(torch.full((rows,), self._longest), device=device)
        self._state.length = to_device(lengths.repeat_interleave(width), device)
        self._before = to_device(before.repeat_interleave(width), device)
        row = torch.arange(rows, device=device)
        self._greedy = row[::width]
        """[sentences] The greedy rows."""
        self._is_dead = row % width > 0
        """[rows] bool: which rows hold no hypothesis, because there are not enough."""
        self._sums = torch.zeros(rows, device=device).masked_fill(self._is_dead, ILLEGAL_SCORE)
        """[rows] The sums of the log probabilities of transitions."""
        self._taken = torch.zeros_like(row)
        """[rows] The number of transitions taken."""
        self._constraints: ConstrainedBatch | None = None

    def constrain(self, choices: LabelChoices, constraints: Sequence[SentenceConstraints | None]) -> None:
        """Set the constraints of each sentence."""
        if any(constraints):
            self._constraints = ConstrainedBatch(self._inventory, choices, len(self._state.heads))
            of_rows = [each for each in constraints for _ in range(self._width)]
            self._constraints.join(self._state.base.tolist(), of_rows)

    def run(self) -> None:
        state, steps = self._state, steps_at_once(self._state.depth.device)
        self._parsers.select(torch.zeros_like(self._taken))
        positions = Positions.of(state, self._before)
        self._parsers.restart(torch.ones_like(self._is_dead), positions)
        while not (self._inventory.system.finished(state) | self._is_dead).all():
            self._parsers.reserve(int(state.depth.max()) + steps)
            for _ in range(steps):
                positions = self._step(positions)

    def _step(self, positions: Positions) -> Positions:
        """Take a step. positions: the current ones. Returns the next ones."""
        inventory, state = self._inventory, self._state
        finished = inventory.system.finished(state)
        scores = mask_illegal(inventory, state, self._parsers.scores(positions), self._constraints)
        greedy = best_transitions(inventory, state, scores).index_select(0, self._greedy)
        logs = scores.log_softmax(1)  # [rows, transitions]
        logs = logs.masked_fill(logs.isnan(), ILLEGAL_SCORE)  # in finished rows, and if weights overflow
        of_no_op = torch.zeros_like(self._sums).masked_fill(~finished, ILLEGAL_SCORE)
        sums = self._sums[:, None] + torch.cat([logs, of_no_op[:, None]], 1)  # [rows, transitions + 1]
        taken = self._taken + ~finished
        means = sums / taken[:, None]
        means[self._greedy, greedy] = torch.inf  # so that these come first
        choices = means.shape[1]
        best, chosen = means.view(len(self._greedy), -1).topk(self._width)  # [sentences, width]
        parents = (chosen // choices + self._greedy[:, None]).flatten()
        self._is_dead = best.flatten() == ILLEGAL_SCORE
        transitions = (chosen % choices).flatten().masked_fill(self._is_dead, inventory.no_op)
        self._sums = sums.view(len(self._greedy), -1).gather(1, chosen).flatten()
        self._taken = taken.index_select(0, parents)
        self._select(parents)
        if self._constraints:
            self._constraints.count(state, transitions)
        inventory.apply(state, transitions)
        positions = Positions.of(state, self._before)
        self._parsers.advance(transitions, positions)
        return positions

    def _select(self, parents: Tensor) -> None:
        """Continue with the hypotheses `parents` [rows], which can contain duplicates."""
        state = self._state
        for name in ("stack", "depth", "front", "headless"):
            setattr(state, name, getattr(state, name).index_select(0, parents))
        for of_words in (
            state.heads,
            state.labels,
            *([self._constraints.counted] if self._constraints else []),
        ):
            by_row = self._by_row(of_words)
            by_row.copy_(by_row.index_select(0, parents))
        self._parsers.select(parents)

    def _by_row(self, of_words: Tensor) -> Tensor:
        """[rows, longest] A view of a tensor in the flat layout of the state."""
        rows = len(self._taken)
        return of_words[: rows * self._longest].view(rows, self._longest)

    def hypotheses(self) -> Iterator[list[Arcs]]:
        """Yield the hypotheses of each sentence."""
        scores = (self._sums / self._taken).tolist()
        heads, labels = (self._by_row(each).tolist() for each in (self._state.heads, self._state.labels))
        is_dead = self._is_dead.tolist()
        for number, length in enumerate(self._lengths):
            rows = range(number * self._width, (number + 1) * self._width)
            yield [
                Arcs(heads[row][:length], labels[row][:length], [], scores[row])
                for row in rows
                if not is_dead[row]
            ]
