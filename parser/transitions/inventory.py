"""The labelled transitions of a parser, and their effect on a batch of states."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from parser.transitions.state import State
from parser.transitions.system import NO_OP, Place, TransitionSystem
from parser.treebank.vocabulary import Vocabulary

UNKNOWN_LABEL = 0
NOT_OPTIMAL = -1
"""Stands in place of a label where a kind of transition is not optimal with any label."""


@dataclass(frozen=True)
class Inventory:
    """The labelled transitions: each transition of a system ("kind") with each label that it may have.

    Labelled transitions have numbers from 0; the number after the last one is `no_op`, the transition of
    finished sentences. Label 0 stands for labels that do not occur in training. It can occur in a gold tree,
    but transitions with it are never legal.
    """

    system: TransitionSystem
    kind: Tensor
    """[transitions + 1] The kind of each labelled transition; the last is that of `NO_OP`."""
    label: Tensor
    """[transitions + 1] The label of the arc; also 0 if there is no arc."""
    known: Tensor
    """[transitions] bool: False for arcs with the unknown label."""
    number: Tensor
    """[kinds, labels] The labelled transition of each kind and label."""
    stack_read: Tensor
    """[kinds + 1] `StackOperation.read` of the stack."""
    stack_move: Tensor
    """[kinds + 1] `StackOperation.move` of the stack."""
    buffer_move: Tensor
    """[kinds + 1] 1 if B0 leaves the buffer, else 0."""
    top: Tensor
    """[kinds + 1] `Place` of the word that is on top of the stack afterwards."""
    head: Tensor
    """[kinds + 1] `Place` of the head."""
    dependent: Tensor
    """[kinds + 1] `Place` of the dependent."""
    composes: Tensor
    """[kinds + 1] `Place` of the word whose vector becomes the composed one."""
    headless_change: Tensor
    """[kinds + 1] Change of `State.headless`."""

    @classmethod
    def of(cls, system: TransitionSystem, vocabulary: Vocabulary) -> Inventory:
        """The inventory of a system with the labels of a training treebank."""
        return cls.build(system, len(vocabulary.labels), vocabulary.word_labels, vocabulary.root_labels)

    @classmethod
    def build(
        cls, system: TransitionSystem, labels: int, word_labels: frozenset[int], root_labels: frozenset[int]
    ) -> Inventory:
        """labels: number of labels, with the unknown one. The sets: the labels from words and from ROOT."""
        pairs: list[tuple[int, int]] = []
        number = torch.zeros(len(system.transitions), labels, dtype=torch.long)
        for kind, transition in enumerate(system.transitions):
            seen = sorted(root_labels if transition.from_root else word_labels)
            number[kind] = len(pairs)  # the transition with the unknown label, unless replaced below
            for label in [UNKNOWN_LABEL, *seen] if transition.makes_arc else [UNKNOWN_LABEL]:
                number[kind, label] = len(pairs)
                pairs.append((kind, label))
        kinds = (*system.transitions, NO_OP)
        return cls(
            system=system,
            kind=torch.tensor([kind for kind, _ in pairs] + [len(system.transitions)]),
            label=torch.tensor([label for _, label in pairs] + [UNKNOWN_LABEL]),
            known=torch.tensor(
                [label != UNKNOWN_LABEL or not kinds[kind].makes_arc for kind, label in pairs]
            ),
            number=number,
            stack_read=torch.tensor([kind.stack.read for kind in kinds]),
            stack_move=torch.tensor([kind.stack.move for kind in kinds]),
            buffer_move=torch.tensor([int(kind.pops_buffer) for kind in kinds]),
            top=torch.tensor([kind.top for kind in kinds]),
            head=torch.tensor([kind.head for kind in kinds]),
            dependent=torch.tensor([kind.dependent for kind in kinds]),
            composes=torch.tensor([kind.composes if system.composes else Place.NOWHERE for kind in kinds]),
            headless_change=torch.tensor([int(kind.pops_buffer) - int(kind.makes_arc) for kind in kinds]),
        )

    def __len__(self) -> int:
        """Number of labelled transitions, without `no_op`."""
        return len(self.known)

    @property
    def no_op(self) -> int:
        """The transition that finished sentences take; it changes nothing."""
        return len(self)

    def to(self, device: torch.device) -> Inventory:
        moved = {f.name: getattr(self, f.name).to(device) for f in fields(self) if f.name != "system"}
        return replace(self, **moved)

    def with_labels(self, legal_kinds: Tensor) -> Tensor:
        """[batch, transitions] bool: the legal labelled transitions. legal_kinds: [batch, kinds] bool."""
        return legal_kinds[:, self.kind[:-1]] & self.known

    def with_label(self, labels: Tensor) -> Tensor:
        """[batch, kinds] The labelled transitions of all kinds with the given labels [batch, kinds]."""
        return self.number.gather(1, labels.T).T

    def apply(self, state: State, transitions: Tensor) -> Tensor:
        """Apply labelled transitions [batch] to the states in place.

        Returns the words [batch] on top of the stacks afterwards.
        """
        kind = self.kind[transitions]
        words = state.words()  # [places, batch]
        head, dependent, top = (
            words.gather(0, place[kind][None]).squeeze(0) for place in (self.head, self.dependent, self.top)
        )
        arc = state.flat_index(dependent)
        state.heads[arc] = head
        state.labels[arc] = self.label[transitions]
        state.depth += self.stack_move[kind]
        state.front += self.buffer_move[kind]
        state.headless += self.headless_change[kind]
        state.stack.scatter_(1, state.depth[:, None] - 1, top[:, None])
        return top
