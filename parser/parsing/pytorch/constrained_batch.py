"""The transitions that constraints allow in a running batch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch
from torch import Tensor

from parser.batching.device import to_device
from parser.networks.stepping.stepper import with_room
from parser.parsing.constraints import KEPT_LIMITS, OF_LABELS, LabelChoices, SentenceConstraints
from parser.transitions.given_arcs import NOTHING_GIVEN
from parser.transitions.inventory import Inventory
from parser.transitions.obstacles import Obstacles
from parser.transitions.state import State
from parser.transitions.system import Place

NOWHERE = {Place.NOWHERE}
LIMITS_ROOM = 8
"""Initial rows of bits. Their number doubles when more limits come, and then tensors move."""


class WordConstraints(NamedTuple):
    """Tensors in the flat layout of `State`."""

    facts: Tensor
    """[words + 1, 4] See `WordFacts`."""
    label_row: Tensor
    """[words + 1] See `LabelChoices`."""
    limits: Tensor
    """[words + 1] The row of the limits of the word's sentence; 0 without any."""
    counted_first: Tensor
    """[words + 1] The bits of dependents that count and are known before parsing."""
    counted: Tensor
    """[words + 1] The same bits, with those of dependents since then."""


class ConstrainedBatch:
    """The constraints of a batch, where some sentences can have none. Nothing here waits for the device."""

    def __init__(self, inventory: Inventory, choices: LabelChoices, size: int):
        """size: the length of flat tensors."""
        self._inventory, self._device = inventory, inventory.kind.device
        transitions = inventory.system.transitions
        self._obstacles = Obstacles.of(inventory.system, self._device)
        effects = inventory.effects(torch.arange(len(inventory), device=self._device))
        self._heads, self._dependents = effects.head, effects.dependent  # [transitions] each
        fits = to_device(torch.from_numpy(choices.table), self._device).index_select(1, inventory.label[:-1])
        self._allowed = {
            place: fits | (self._dependents != place)
            for place in sorted({each.dependent for each in transitions} - NOWHERE)
        }
        """[rows, transitions] bool, by the place of the dependent."""
        row = torch.arange(len(fits), device=self._device)
        self._is_known = (row >= OF_LABELS) & (row % 2 == 0)
        """[rows] bool: the arc is given with its label."""
        self._limits: dict[tuple[int, ...], int] = {(): 0}
        self._bits = torch.zeros(LIMITS_ROOM, len(inventory) + 1, dtype=torch.long, device=self._device)
        """[>= limits, transitions + 1] The bits that arcs count for."""
        self._words = WordConstraints(
            *(self._bits.new_zeros(0, 4), *(self._bits.new_zeros(0) for _ in WordConstraints._fields[1:]))
        )
        self.reserve(size)

    @property
    def counted(self) -> Tensor:
        """[words + 1] The bits of dependents that count, in the flat layout of `State`."""
        return self._words.counted

    def reserve(self, size: int) -> None:
        """Make flat tensors as long as those of the state."""
        before = len(self._words.facts)
        self._words = with_room(self._words, size, room=1)
        self.forget(max(0, before - 1), len(self._words.facts))

    def forget(self, start: int, stop: int) -> None:
        """Reset the positions from start to stop: until `join`, sentences there have no constraints."""
        for part in self._words:
            part[start:stop] = 0
        for column, value in enumerate(NOTHING_GIVEN):
            self._words.facts[start:stop, column] = value

    def begin(self, start: int, stop: int) -> None:
        """Restart the sentences at the positions from start to stop."""
        self._words.counted[start:stop] = self._words.counted_first[start:stop]

    def join(
        self,
        bases: Sequence[int],
        constraints: Sequence[SentenceConstraints | None],
        others: Sequence[SentenceConstraints] = (),
    ) -> bool:
        """Add sentences at positions reset by `forget`. Returns whether steps must be captured again.

        bases: the positions before their first words. others: the constraints of sentences already there.
        """
        rows: list[tuple[int, ...]] = []
        positions: list[int] = []
        had_limits, bits = self._has_limits, self._bits
        if len(self._limits) > KEPT_LIMITS:
            self._keep_limits(dict.fromkeys(each.limits for each in others))
        for base, given in zip(bases, constraints, strict=True):
            if given is None:
                continue
            if given.limits not in self._limits:
                self._add_limits(given.limits)
            limits = self._limits[given.limits]
            of_words = zip(given.facts, given.label_rows, given.counted, strict=True)
            rows += [(*facts, row, limits, counted, counted) for facts, row, counted in of_words]
            positions += range(base + 1, base + 1 + len(given.heads))
        if rows:
            where, values = (to_device(torch.tensor(each), self._device) for each in (positions, rows))
            columns = (values[:, :4], *values[:, 4:].unbind(1))
            for part, column in zip(self._words, columns, strict=True):
                part.index_copy_(0, where, column)
        return self._bits is not bits or self._has_limits != had_limits

    @property
    def _has_limits(self) -> bool:
        """Whether steps check limits."""
        return len(self._limits) > 1

    def legal(self, state: State, kinds: Tensor) -> Tensor:
        """[batch, transitions] bool: which labelled transitions are legal.

        kinds: [batch, kinds] bool, which kinds are legal without constraints.
        """
        words = state.words()  # [places, batch]
        legal = self._inventory.with_labels(kinds & self._obstacles.free(state, words, self._words.facts))
        index = state.flat_index(words)  # [places, batch]
        rows = self._words.label_row[index]
        for place, table in self._allowed.items():
            legal &= table.index_select(0, rows[place])
        return self._within_limits(index, rows, legal) if self._has_limits else legal

    def count(self, state: State, transitions: Tensor) -> None:
        """Count the arcs of the transitions [batch], before they are applied."""
        if not self._has_limits:
            return
        words = self._words
        head = state.words().gather(0, self._inventory.effects(transitions).head[None]).squeeze(0)
        index = state.flat_index(head)
        bits = self._bits[words.limits.index_select(0, index), transitions]
        words.counted.index_copy_(0, index, words.counted.index_select(0, index) | bits)

    def _within_limits(self, index: Tensor, rows: Tensor, legal: Tensor) -> Tensor:
        """[batch, transitions] bool: the legal transitions that exceed no limit, or all if each exceeds one.

        index: [places, batch] of the words. rows: [places, batch] of the labels. legal: [batch, transitions]
        """
        limits = self._words.limits[index].amax(0)  # of the sentences; 0 for ROOT and for no word
        bits = self._bits.index_select(0, limits)[:, :-1]  # [batch, transitions]
        exceeds = bits & self._words.counted[index].index_select(0, self._heads).T != 0
        # Given arcs were counted before.
        exceeds &= ~self._is_known[rows].index_select(0, self._dependents).T
        within = legal & ~exceeds
        return torch.where(within.any(1, keepdim=True), within, legal)

    def _keep_limits(self, which: Iterable[tuple[int, ...]]) -> None:
        """Keep only these limits. Sentences with other limits are done."""
        kept = [(), *(limits for limits in which if limits)]
        before = to_device(torch.tensor([self._limits[limits] for limits in kept]), self._device)
        numbers = before.new_zeros(len(self._bits))  # [limits] new numbers, by old number
        numbers[before] = torch.arange(len(kept), device=self._device)
        self._words.limits.copy_(numbers[self._words.limits])
        self._bits[: len(kept)] = self._bits.index_select(0, before)
        self._limits = {limits: number for number, limits in enumerate(kept)}

    def _add_limits(self, limits: tuple[int, ...]) -> None:
        row = self._limits[limits] = len(self._limits)
        if row == len(self._bits):
            self._bits = torch.cat([self._bits, torch.zeros_like(self._bits)])
        self._bits[row] = to_device(torch.tensor(limits), self._device)[self._inventory.label]
