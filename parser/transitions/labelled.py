"""The labelled transitions of a parser: each transition of a system with each of its possible labels."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from parser.transitions.system import NO_OP, Place, Transition, TransitionSystem

if TYPE_CHECKING:
    from torch import Tensor

UNKNOWN_LABEL = 0
Number = TypeVar("Number", "Tensor", int)


class Effects(NamedTuple, Generic[Number]):
    """The effects of transitions, as tensors of the same shape; or of one transition, as numbers."""

    top: Number
    """`Place` of the word that is on top of the stack afterwards."""
    head: Number
    """`Place` of the head."""
    dependent: Number
    """`Place` of the dependent."""
    composes: Number
    """`Place` of the word whose vector is replaced by the composed one."""
    stack_read: Number
    """`StackOperation.read` of the stack."""
    stack_move: Number
    """`StackOperation.move` of the stack."""
    buffer_move: Number
    """1 if B0 leaves the buffer, else 0."""
    headless_change: Number
    """Change of `State.headless`."""


@dataclass(frozen=True)
class LabelledTransitions:
    """They have numbers from 0; the one after the last is `no_op`, that of finished sentences.

    Label 0 stands for labels that do not occur in training. It can occur in a gold tree, but transitions with
    it are never legal.
    """

    system: TransitionSystem
    kind: NDArray[np.int64]
    """[transitions + 1] The number of the transition in the system ("kind"); the last one is for `NO_OP`."""
    label: NDArray[np.int64]
    """[transitions + 1] The label of the arc; also 0 if there is no arc."""

    @classmethod
    def of(
        cls, system: TransitionSystem, word_labels: Iterable[int], root_labels: Iterable[int]
    ) -> LabelledTransitions:
        """word_labels, root_labels: see `Vocabulary`."""
        kinds, labels = [], []
        for kind, transition in enumerate(system.transitions):
            seen = sorted(root_labels if transition.from_root else word_labels)
            of_kind = [UNKNOWN_LABEL, *seen] if transition.makes_arc else [UNKNOWN_LABEL]
            kinds += [kind] * len(of_kind)
            labels += of_kind
        return cls(system, np.array([*kinds, len(system.transitions)]), np.array([*labels, UNKNOWN_LABEL]))

    def __len__(self) -> int:
        """Number of labelled transitions, without `no_op`."""
        return len(self.kind) - 1

    @property
    def known(self) -> NDArray[np.bool_]:
        """[transitions] bool: False for arcs with the unknown label."""
        makes_arc = np.array([each.makes_arc for each in self.system.transitions])
        known: NDArray[np.bool_] = (self.label[:-1] != UNKNOWN_LABEL) | ~makes_arc[self.kind[:-1]]
        return known

    @cached_property
    def effects(self) -> NDArray[np.int64]:
        """[transitions + 1, effects] See `Effects`."""
        kinds = (*self.system.transitions, NO_OP)
        return np.array([_effects(each, self.system.composes) for each in kinds])[self.kind]

    @cached_property
    def keeps_root(self) -> NDArray[np.bool_]:
        """[2, places, transitions] `TransitionSystem.keeps_root`, with and without words on the stack."""
        of_kinds = [
            [
                [self.system.keeps_root(each, place, is_alone) for each in self.system.transitions]
                for place in Place
            ]
            for is_alone in (False, True)
        ]
        return np.array(of_kinds)[:, :, self.kind[:-1]]


def _effects(transition: Transition, composes: bool) -> list[int]:
    """The values of `Effects`, in its order."""
    return [
        transition.top,
        transition.head,
        transition.dependent,
        transition.composes if composes else Place.NOWHERE,
        transition.stack.read,
        transition.stack.move,
        int(transition.pops_buffer),
        int(transition.pops_buffer) - int(transition.makes_arc),
    ]
