"""The obstacles that given arcs are to the transitions of a batch, see `parser.transitions.given_arcs`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from parser.batching.device import to_device
from parser.transitions.given_arcs import ABOVE_LAST, MAY_BE_ROOT, ROOT_AFTER
from parser.transitions.state import State
from parser.transitions.system import Obstacle, TransitionSystem
from parser.treebank.sentence import NO_HEAD


def obstacles(state: State, words: Tensor, facts: Tensor, which: Sequence[Obstacle]) -> Tensor:
    """[which, batch] bool: which obstacles are true.

    words: [places, batch], see `State.words`. facts: [words + 1, 4] `WordFacts` in the flat layout of
    `State`; the last row is `NOTHING_GIVEN`.
    """
    s0, s1, b0, _ = words
    bottom = state.stack[:, 1].where(state.depth > 1, 0)
    index = state.flat_index(torch.stack([s0, b0, bottom]))  # [3, batch]
    of_s0, of_b0, of_bottom = facts.index_select(0, index.flatten()).unflatten(0, index.shape).unbind()
    head_of_s0, _, last, _ = of_s0.unbind(1)
    head_of_b0, first, _, flags = of_b0.unbind(1)
    is_on_stack = (head_of_b0 != NO_HEAD) & (head_of_b0 < b0)
    none_after = flags & ROOT_AFTER == 0
    true: dict[Obstacle, Callable[[], Tensor]] = {
        Obstacle.S0_NOT_BELOW_B0: lambda: (head_of_s0 != NO_HEAD) & (head_of_s0 != b0),
        Obstacle.S0_NOT_BELOW_S1: lambda: (head_of_s0 != NO_HEAD) & (head_of_s0 != s1),
        Obstacle.S0_AWAITS: lambda: last >= b0,
        Obstacle.B0_NOT_BELOW_S0: lambda: (head_of_b0 != NO_HEAD) & (head_of_b0 != s0),
        Obstacle.B0_BELOW_STACK: lambda: is_on_stack,
        Obstacle.B0_BELOW_DEEPER: lambda: is_on_stack & (head_of_b0 != s0),
        Obstacle.B0_AWAITS: lambda: (first > 0) & (state.head_of(first) == NO_HEAD),
        Obstacle.NO_ROOT_IN_BUFFER: lambda: (state.depth == 2) & (flags & (MAY_BE_ROOT | ROOT_AFTER) == 0),
        Obstacle.NO_ROOT_AFTER_B0: lambda: none_after & (state.head_of(bottom) != 0),
        Obstacle.NO_ROOT_AT_BOTTOM: lambda: (
            none_after & (torch.where(state.depth > 1, of_bottom[:, -1], flags) & MAY_BE_ROOT == 0)
        ),
        Obstacle.B0_NO_ROOT: lambda: flags & MAY_BE_ROOT == 0,
        Obstacle.B0_ABOVE_LAST: lambda: flags & ABOVE_LAST != 0,
        Obstacle.B0_LEAVES_HEADLESS: lambda: (flags & ABOVE_LAST != 0) & (state.headless > 0),
    }
    return torch.stack([true[each]() for each in which])


@dataclass(frozen=True)
class Obstacles:
    """All or some obstacles of the transitions of a system."""

    which: list[Obstacle]
    blocks: Tensor
    """[obstacles, kinds] 1 if the obstacle blocks this kind of transition, else 0."""

    @classmethod
    def of(
        cls, system: TransitionSystem, device: torch.device, among: Iterable[Obstacle] = Obstacle
    ) -> Obstacles:
        """The obstacles of a system. among: other obstacles are left out."""
        of_kinds = [each.obstacles or Obstacle(0) for each in system.transitions]
        which = [each for each in among if any(each in blocking for blocking in of_kinds)]
        table = torch.tensor([[each in blocking for blocking in of_kinds] for each in which])
        return cls(which, to_device(table.float().view(-1, len(of_kinds)), device))

    def free(self, state: State, words: Tensor, facts: Tensor) -> Tensor:
        """[batch, kinds] bool: which kinds of transitions are not blocked. words, facts: see `obstacles`."""
        if not self.which:
            return self.blocks.new_ones(words.shape[1], self.blocks.shape[1], dtype=torch.bool)
        return obstacles(state, words, facts, self.which).T.float() @ self.blocks == 0
