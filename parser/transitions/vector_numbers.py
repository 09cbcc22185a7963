"""The vectors that each step of a known trajectory uses, by their numbers in the sentence.

In a sentence of n words, vector 0 is that of ROOT, 1 to n are the words, and n + 1 is the end
of the buffer. Composed vectors follow in the order of the steps that compose them.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from parser.batching.forest import StackForest
from parser.transitions.inventory import Inventory
from parser.transitions.system import Place
from parser.transitions.trajectory import Trajectory


@dataclass(frozen=True)
class VectorNumbers:
    """The numbers of the vectors that each step uses."""

    of_node: Tensor
    """[batch, steps + 1] The vector from which each node of the stack forest was computed."""
    front: Tensor
    """[batch, steps] The vector of B0 before each step."""
    composes: Tensor
    """[batch, steps] bool: whether the step composes a vector."""
    head: Tensor
    """[batch, steps] The vector of the head from which it is composed."""
    dependent: Tensor
    """[batch, steps] The vector of the dependent from which it is composed."""


def number_vectors(
    inventory: Inventory, trajectory: Trajectory, forest: StackForest, lengths: Tensor
) -> VectorNumbers:
    """Number the vectors of a trajectory. forest: its stack forest. lengths: [batch] in words."""
    effects = inventory.effects(trajectory.transitions)  # [batch, steps] each
    if not inventory.system.composes:
        return _own_vectors(trajectory)
    place = effects.composes
    composes = place != Place.NOWHERE
    composed = lengths[:, None] + 1 + composes.cumsum(1)
    of_node = torch.zeros_like(forest.top)
    front = torch.ones_like(lengths)
    fronts, heads, dependents = [], [], []
    for step in range(place.shape[1]):
        top = forest.top[:, step, None]
        below = forest.parent.gather(1, top).clamp(min=0)
        # [places, batch] in the order of `Place`. Before its arc, the composed vector is at no place.
        found = torch.stack(
            [of_node.gather(1, top)[:, 0], of_node.gather(1, below)[:, 0], front, composed[:, step]]
        )

        def at(places: Tensor, found: Tensor = found) -> Tensor:
            return found.gather(0, places[None])[0]

        fronts.append(front)
        heads.append(at(effects.head[:, step]))
        dependents.append(at(effects.dependent[:, step]))
        on_stack, in_buffer = place[:, step] == Place.S0, place[:, step] == Place.B0
        of_node[:, step + 1] = torch.where(on_stack, composed[:, step], at(effects.top[:, step]))
        next_word = trajectory.front[:, step] + 1
        front = torch.where(in_buffer, composed[:, step], front)
        front = torch.where(effects.buffer_move[:, step] == 1, next_word, front)
    return VectorNumbers(
        of_node=of_node,
        front=torch.stack(fronts, dim=1),
        composes=composes,
        head=torch.stack(heads, dim=1),
        dependent=torch.stack(dependents, dim=1),
    )


def _own_vectors(trajectory: Trajectory) -> VectorNumbers:
    """Without composition, the vector of each word is always its own."""
    nothing = torch.zeros_like(trajectory.top)
    root = torch.zeros_like(trajectory.top[:, :1])
    return VectorNumbers(
        of_node=torch.cat([root, trajectory.top], dim=1),
        front=trajectory.front,
        composes=nothing.bool(),
        head=nothing,
        dependent=nothing,
    )
