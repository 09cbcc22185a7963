"""What a batch of parsers did, step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from parser.transitions.inventory import Inventory
from parser.transitions.state import State


@dataclass(frozen=True)
class Trajectory:
    """The transitions of a batch and what they do to stack and buffer. Tensors [batch, steps] unless said.

    After its end a sentence waits: transition `Inventory.wait`, and both hold.
    """

    transitions: Tensor
    """Labelled transitions."""
    legal: Tensor
    """[batch, steps, kinds] What was legal, without labels."""
    optimal_labels: Tensor
    """[batch, steps, kinds] The label with which each would have been right; NOT_OPTIMAL for the others."""
    stack_read: Tensor
    """With `stack_move`, the operation of the stack: push (0, 1), pop (0, -1), hold (0, 0), ..."""
    stack_move: Tensor
    top: Tensor
    """The word on top of the stack after the step; where the step writes to the stack, the word written."""
    front: Tensor
    """B0 before the step."""
    buffer_move: Tensor
    """The operation of the buffer: 1 for a pop, 0 for a hold."""

    def to(self, device: torch.device) -> Trajectory:
        return Trajectory(*(getattr(self, field.name).to(device) for field in fields(self)))


STEPS_BETWEEN_SYNCHRONISATIONS = 16
"""Of the host at a GPU, for which it waits; the steps after the end are cut off."""


def record(
    inventory: Inventory, state: State, choose: Callable[[State, Tensor], tuple[Tensor, Tensor]]
) -> Trajectory:
    """Run a batch to its end.

    state: changed in place. choose: (state, legal kinds [batch, kinds]) -> labelled transitions [batch], not
    heeded where a sentence is finished, and the right ones [batch, kinds].
    """
    steps: list[tuple[Tensor, ...]] = []
    looks = STEPS_BETWEEN_SYNCHRONISATIONS if state.front.is_cuda else 1
    while len(steps) % looks or not inventory.system.finished(state).all():
        finished = inventory.system.finished(state)
        legal = inventory.system.legal(state)
        chosen, right = choose(state, legal)
        transitions = chosen.masked_fill(finished, inventory.no_op)
        front = state.front.clone()
        top = inventory.apply(state, transitions)
        steps.append((transitions, legal, right, top, front))
    columns = (torch.stack(values, dim=1) for values in zip(*steps, strict=True))
    transitions, legal, right, top, front = _without_waiting(inventory, list(columns))
    kind = inventory.kind[transitions]  # [batch, steps]
    return Trajectory(
        transitions=transitions,
        legal=legal,
        optimal_labels=right,
        stack_read=inventory.stack_read[kind],
        stack_move=inventory.stack_move[kind],
        top=top,
        front=front,
        buffer_move=inventory.buffer_move[kind],
    )


def _without_waiting(inventory: Inventory, columns: list[Tensor]) -> list[Tensor]:
    """Without the last steps if all wait in them; columns: [batch, steps, ...], the first the transitions."""
    steps = int((columns[0] != inventory.no_op).sum(1).max())
    return [column[:, :steps] for column in columns]
