"""The labelled transitions of a parser, and their effect on a batch of states."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import Generic, NamedTuple, TypeVar

import torch
from torch import Tensor

from parser.transitions.system import NO_OP, Place, State, Transition, TransitionSystem
from parser.treebank.vocabulary import Vocabulary

UNKNOWN_LABEL = 0
NOT_OPTIMAL = -1
"""Used instead of a label if a kind of transition is not optimal with any label."""


Number = TypeVar("Number", Tensor, int)


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
class Inventory:
    """The labelled transitions: each transition of a system ("kind") with each of its possible labels.

    Labelled transitions have numbers from 0; the number after the last one is `no_op`, the transition of
    finished sentences. Label 0 stands for labels that do not occur in training. It can occur in a gold tree,
    but transitions with it are never legal.
    """

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
        pairs: list[tuple[int, int]] = []
        number = torch.zeros(len(system.transitions), labels, dtype=torch.long)
        for kind, transition in enumerate(system.transitions):
            seen = sorted(root_labels if transition.from_root else word_labels)
            number[kind] = len(pairs)  # the transition with the unknown label, unless replaced below
            for label in [UNKNOWN_LABEL, *seen] if transition.makes_arc else [UNKNOWN_LABEL]:
                number[kind, label] = len(pairs)
                pairs.append((kind, label))
        kinds = (*system.transitions, NO_OP)
        kind_of = torch.tensor([kind for kind, _ in pairs] + [len(system.transitions)])
        known = torch.tensor([label != UNKNOWN_LABEL or not kinds[kind].makes_arc for kind, label in pairs])
        by_kind = torch.tensor([_effects(each, system.composes) for each in kinds])  # [kinds + 1, effects]
        kind_sets = torch.arange(2 ** len(system.transitions))[:, None]
        legal = ((kind_sets >> kind_of[:-1]) % 2 == 1) & known
        bits = 1 << torch.arange(len(system.transitions))
        keeps_root = torch.tensor(
            [
                [[system.keeps_root(each, place, is_alone) for each in system.transitions] for place in Place]
                for is_alone in (False, True)
            ]
        )  # [2, places, kinds]
        return cls(
            system=system,
            kind=kind_of,
            label=torch.tensor([label for _, label in pairs] + [UNKNOWN_LABEL]),
            known=known,
            number=number,
            effect_table=by_kind[kind_of].T.contiguous(),
            labelled=legal,
            bits=bits,
            optimal=_optimal(number, known, of_kind=legal[bits]),
            optimal_row=torch.arange(len(bits)) * (labels + 1) - NOT_OPTIMAL,
            keeps_root=keeps_root[:, :, kind_of[:-1]],
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
