"""The labelled transitions of a parser, and their effect on a batch of states."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from parser.transitions.labelled import UNKNOWN_LABEL, Effects, LabelledTransitions
from parser.transitions.state import State
from parser.transitions.system import TransitionSystem
from parser.treebank.vocabulary import Vocabulary

NOT_OPTIMAL = -1
"""Used instead of a label if a kind of transition is not optimal with any label."""


@dataclass(frozen=True)
class Inventory:
    """`LabelledTransitions` as tensors, with tables for batches of states."""

    system: TransitionSystem
    kind: Tensor
    """[transitions + 1] The kind of each labelled transition; the last one is for `NO_OP`."""
    label: Tensor
    """[transitions + 1] The label of the arc; also 0 if there is no arc."""
    known: Tensor
    """[transitions] bool: False for arcs with the unknown label."""
    number: Tensor
    """[kinds, labels] The labelled transition of each kind and label."""
    effect_table: Tensor
    """[effects, transitions + 1] The `Effects` of each labelled transition."""
    labelled: Tensor
    """[2 ** kinds, transitions] bool: the legal labelled transitions for each set of legal kinds, whose bit k
    stands for kind k."""
    bits: Tensor
    """[kinds] For each kind, the number of the set that contains only it."""
    optimal: Tensor
    """[kinds * (labels + 1), transitions] bool: the optimal labelled transitions of each kind, first for
    NOT_OPTIMAL, then for each optimal label."""
    optimal_row: Tensor
    """[kinds] The row of `optimal` for each kind and label 0."""
    keeps_root: Tensor
    """[2, places, transitions] bool: `TransitionSystem.keeps_root`, with and without words on the stack."""

    @classmethod
    def of(cls, system: TransitionSystem, vocabulary: Vocabulary) -> Inventory:
        """The inventory of a system with the labels of a training treebank."""
        return cls.build(system, len(vocabulary.labels), vocabulary.word_labels, vocabulary.root_labels)

    @classmethod
    def build(
        cls, system: TransitionSystem, labels: int, word_labels: frozenset[int], root_labels: frozenset[int]
    ) -> Inventory:
        """labels: number of labels, including the unknown one. word_labels, root_labels: see `Vocabulary`."""
        labelled = LabelledTransitions.of(system, word_labels, root_labels)
        kind, label, known = (
            torch.from_numpy(each) for each in (labelled.kind, labelled.label, labelled.known)
        )
        number = torch.zeros(len(system.transitions), labels, dtype=torch.long)
        is_unknown = label[:-1] == UNKNOWN_LABEL
        number[kind[:-1][is_unknown]] = is_unknown.nonzero()  # unless replaced below
        number[kind[:-1], label[:-1]] = torch.arange(len(labelled))
        kind_sets = torch.arange(2 ** len(system.transitions))[:, None]
        legal = ((kind_sets >> kind[:-1]) % 2 == 1) & known
        bits = 1 << torch.arange(len(system.transitions))
        return cls(
            system=system,
            kind=kind,
            label=label,
            known=known,
            number=number,
            effect_table=torch.from_numpy(labelled.effects).T.contiguous(),
            labelled=legal,
            bits=bits,
            optimal=_optimal(number, known, of_kind=legal[bits]),
            optimal_row=torch.arange(len(bits)) * (labels + 1) - NOT_OPTIMAL,
            keeps_root=torch.from_numpy(labelled.keeps_root),
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

    def effects(self, transitions: Tensor) -> Effects[Tensor]:
        """The effects of labelled transitions. transitions: of any shape."""
        effects = self.effect_table.index_select(1, transitions.flatten())
        return Effects(*effects.view(len(effects), *transitions.shape))

    def with_labels(self, legal_kinds: Tensor) -> Tensor:
        """[batch, transitions] bool: the legal labelled transitions. legal_kinds: [batch, kinds] bool."""
        return self.labelled.index_select(0, (legal_kinds * self.bits).sum(1))

    def with_label(self, labels: Tensor) -> Tensor:
        """[batch, kinds] The labelled transitions of all kinds with the given labels [batch, kinds]."""
        return self.number.gather(1, labels.T).T

    def with_optimal_labels(self, labels: Tensor) -> Tensor:
        """[batch, transitions] bool: the optimal labelled transitions.

        labels: [batch, kinds], a label or NOT_OPTIMAL. If the label is unknown, any label is optimal.
        """
        row = (labels + self.optimal_row).flatten()
        by_kind = self.optimal.index_select(0, row)  # [batch * kinds, transitions]
        return by_kind.view(*labels.shape, -1).any(1)

    def apply(self, state: State, transitions: Tensor) -> Tensor:
        """Apply labelled transitions [batch] to the states in place.

        Returns the words [batch] on top of the stacks afterwards.
        """
        effects = self.effects(transitions)
        places = torch.stack([effects.top, effects.head, effects.dependent])
        top, head, dependent = state.words().gather(0, places)  # [batch] each
        arc = state.flat_index(dependent)
        state.heads[arc] = head
        state.labels[arc] = self.label.index_select(0, transitions)
        state.depth += effects.stack_move
        state.front += effects.buffer_move
        state.headless += effects.headless_change
        state.stack.scatter_(1, state.depth[:, None] - 1, top[:, None])
        return top


def _optimal(number: Tensor, known: Tensor, of_kind: Tensor) -> Tensor:
    """See `Inventory.optimal`. of_kind: [kinds, transitions] bool: the known transitions of each kind."""
    is_chosen = number[:, :, None] == torch.arange(len(known))  # [kinds, labels, transitions]
    with_label = torch.where(known[number][:, :, None], is_chosen, of_kind[:, None])
    none = torch.zeros_like(with_label[:, :1])
    return torch.cat([none, with_label], dim=1).flatten(0, 1)
