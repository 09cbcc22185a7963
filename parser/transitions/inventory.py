"""The labelled transitions of one parser, and what each of them does to a batch of states."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from parser.transitions.state import State
from parser.transitions.system import NO_OP, Place, TransitionSystem
from parser.treebank.vocabulary import Vocabulary

UNKNOWN_LABEL = 0
NOT_OPTIMAL = -1
"""In the place of a label, where no label makes a transition right."""


@dataclass(frozen=True)
class Inventory:
    """A system's transitions, each with each label that it may carry.

    Labelled transitions count from 0; the number after the last, `wait`, is that of waiting. Label 0 stands
    for labels that training never saw: it can occur in a gold tree, but it is never legal.
    """

    system: TransitionSystem
    kind: Tensor
    """[transitions + 1] The unlabelled transition; the last is `NO_OP`'s, after all of the system's."""
    label: Tensor
    """[transitions + 1] The label of the arc; 0 also where there is no arc."""
    known: Tensor
    """[transitions] bool, False for arcs with a label that training never saw."""
    number: Tensor
    """[kinds, labels] The labelled transition, given the kind and the gold label of the arc."""
    stack_read: Tensor
    """[kinds + 1] `read` of the stack operation; so for the others, one number for each kind."""
    stack_move: Tensor
    buffer_move: Tensor
    top: Tensor
    head: Tensor
    dependent: Tensor
    composes: Tensor
    headless_change: Tensor

    @classmethod
    def of(cls, system: TransitionSystem, vocabulary: Vocabulary) -> Inventory:
        """With the labels that a training treebank named."""
        return cls.build(system, len(vocabulary.labels), vocabulary.word_labels, vocabulary.root_labels)

    @classmethod
    def build(
        cls, system: TransitionSystem, labels: int, word_labels: frozenset[int], root_labels: frozenset[int]
    ) -> Inventory:
        """labels: their number, with the unknown one; the sets: those of arcs from words and from ROOT."""
        pairs: list[tuple[int, int]] = []
        number = torch.zeros(len(system.transitions), labels, dtype=torch.long)
        for kind, transition in enumerate(system.transitions):
            seen = sorted(root_labels if transition.from_root else word_labels)
            number[kind] = len(pairs)  # that of the unknown label, unless the label was seen
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
        """Number of labelled transitions, waiting not counted."""
        return len(self.known)

    @property
    def no_op(self) -> int:
        return len(self)

    def to(self, device: torch.device) -> Inventory:
        moved = {f.name: getattr(self, f.name).to(device) for f in fields(self) if f.name != "system"}
        return replace(self, **moved)

    def with_labels(self, legal_kinds: Tensor) -> Tensor:
        """[batch, transitions] from what is legal without labels, [batch, kinds]."""
        return legal_kinds[:, self.kind[:-1]] & self.known

    def with_label(self, labels: Tensor) -> Tensor:
        """[batch, kinds] The transition of each kind with a label; labels: [batch, kinds]."""
        return self.number.gather(1, labels.T).T

    def apply(self, state: State, transitions: Tensor) -> Tensor:
        """Change the states by the labelled transitions [batch], `wait` among them.

        Returns the words [batch] that lie on top of the stacks afterwards.
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
