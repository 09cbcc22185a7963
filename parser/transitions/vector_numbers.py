"""Which vector stands for which word along known trajectories.

VectorNumbers of a sentence are numbered: 0 is ROOT's, 1 to n are the words' own, n + 1 is that of the buffer's end,
and those that steps compose follow in their order.
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
    """Tensors [batch, steps] unless said."""

    of_node: Tensor
    """[batch, steps + 1] That each node of the stack's forest was made from."""
    front: Tensor
    """The buffer's front's, before each step."""
    composes: Tensor
    """bool, whether the step composes a vector."""
    composed: Tensor
    """Its number, where there is one; so for the next two."""
    head: Tensor
    dependent: Tensor


def number_vectors(inventory: Inventory, trajectory: Trajectory, forest: StackForest, lengths: Tensor) -> VectorNumbers:
    """forest: the stack's, of the trajectory; lengths: [batch] in words."""
    kind = inventory.kind[trajectory.transitions]  # [batch, steps]
    if not inventory.system.composes:
        return _own_vectors(trajectory)
    place = inventory.composes[kind]
    composes = place != Place.NOWHERE
    composed = lengths[:, None] + 1 + composes.cumsum(1)
    of_node = torch.zeros_like(forest.top)
    front = torch.ones_like(lengths)
    fronts, heads, dependents = [], [], []
    for step in range(kind.shape[1]):
        top = forest.top[:, step, None]
        below = forest.parent.gather(1, top).clamp(min=0)
        # [places, batch], in the order of `Place`; what is composed is nowhere before it is.
        found = torch.stack(
            [of_node.gather(1, top)[:, 0], of_node.gather(1, below)[:, 0], front, composed[:, step]]
        )

        def at(places: Tensor, found: Tensor = found) -> Tensor:
            return found.gather(0, places[None])[0]

        own = kind[:, step]
        fronts.append(front)
        heads.append(at(inventory.head[own]))
        dependents.append(at(inventory.dependent[own]))
        on_stack, in_buffer = place[:, step] == Place.S0, place[:, step] == Place.B0
        of_node[:, step + 1] = torch.where(on_stack, composed[:, step], at(inventory.top[own]))
        next_word = trajectory.front[:, step] + 1
        front = torch.where(in_buffer, composed[:, step], front)
        front = torch.where(inventory.buffer_move[own] == 1, next_word, front)
    return VectorNumbers(
        of_node=of_node,
        front=torch.stack(fronts, dim=1),
        composes=composes,
        composed=composed,
        head=torch.stack(heads, dim=1),
        dependent=torch.stack(dependents, dim=1),
    )


def _own_vectors(trajectory: Trajectory) -> VectorNumbers:
    """Of a parser that does not compose: every word's is its own."""
    nothing = torch.zeros_like(trajectory.top)
    root = torch.zeros_like(trajectory.top[:, :1])
    return VectorNumbers(
        of_node=torch.cat([root, trajectory.top], dim=1),
        front=trajectory.front,
        composes=nothing.bool(),
        composed=nothing,
        head=nothing,
        dependent=nothing,
    )
