"""Trajectories: the transitions of a batch of parsers, step by step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields

import torch
from torch import Tensor

from parser.transitions.inventory import Inventory
from parser.transitions.system import State


@dataclass(frozen=True)
class Trajectory:
    """The transitions of a batch and their effects on stacks and buffers.

    Finished sentences take the transition `Inventory.no_op`, which changes neither.
    """

    transitions: Tensor
    """[batch, steps] Labelled transitions."""
    legal: Tensor
    """[batch, steps, kinds] bool: which kinds of transitions were legal."""
    optimal_labels: Tensor
    """[batch, steps, kinds] The label with which each kind was optimal; NOT_OPTIMAL for other kinds."""
    stack_read: Tensor
    """[batch, steps] `StackOperation.read` of the stack."""
    stack_move: Tensor
    """[batch, steps] `StackOperation.move` of the stack."""
    top: Tensor
    """[batch, steps] The word on top of the stack after the step."""
    front: Tensor
    """[batch, steps] B0 before the step."""

    def to(self, device: torch.device) -> Trajectory:
        return Trajectory(*(getattr(self, field.name).to(device) for field in fields(self)))


STEPS_BETWEEN_SYNCHRONISATIONS = 16
"""On a GPU, the host checks only this often whether all sentences are finished."""


def record(
    inventory: Inventory, state: State, choose: Callable[[State, Tensor], tuple[Tensor, Tensor]]
) -> Trajectory:
    """Run a batch of parsers until all are finished, and record the trajectory.

    state: changed in place. choose: takes the state and the legal kinds [batch, kinds], and returns labelled
    transitions [batch], ignored for finished sentences, and optimal labels [batch, kinds].
    """
    steps: list[tuple[Tensor, ...]] = []
    interval = STEPS_BETWEEN_SYNCHRONISATIONS if state.front.is_cuda else 1
    while True:
        finished = inventory.system.finished(state)
        if len(steps) % interval == 0 and finished.all():
            break
        legal = inventory.system.legal(state)
        chosen, optimal = choose(state, legal)
        transitions = chosen.masked_fill(finished, inventory.no_op)
        front = state.front.clone()
        top = inventory.apply(state, transitions)
        steps.append((transitions, legal, optimal, top, front))
    columns = (torch.stack(values, dim=1) for values in zip(*steps, strict=True))
    transitions, legal, optimal, top, front = _trimmed(inventory, list(columns))
    effects = inventory.effects(transitions)  # [batch, steps] each
    return Trajectory(
        transitions=transitions,
        legal=legal,
        optimal_labels=optimal,
        stack_read=effects.stack_read,
        stack_move=effects.stack_move,
        top=top,
        front=front,
    )


def _trimmed(inventory: Inventory, columns: list[Tensor]) -> list[Tensor]:
    """Remove trailing steps with only `no_op`. columns: [batch, steps, ...]; the first one: transitions."""
    steps = int((columns[0] != inventory.no_op).sum(1).max())
    return [column[:, :steps] for column in columns]
