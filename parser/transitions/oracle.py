"""Static and dynamic oracles, and the trajectories of the parsers that follow them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from itertools import chain

import torch
from torch import Tensor

from parser.batching.device import to_device
from parser.batching.ragged import Ragged
from parser.transitions.given_arcs import NOTHING_GIVEN, word_facts
from parser.transitions.inventory import NOT_OPTIMAL, Inventory
from parser.transitions.labelled import UNKNOWN_LABEL
from parser.transitions.obstacles import Obstacles
from parser.transitions.state import Gold, State, costs_of_kinds, legal_kinds, oracle_kinds
from parser.transitions.system import OF_WHOLE_TREE
from parser.treebank.partial_trees import possible_roots
from parser.treebank.sentence import NO_HEAD

STEPS_BETWEEN_SYNCHRONISATIONS = 16
"""On a GPU, the host checks only this often whether all sentences are finished."""
ILLEGAL_COST = 1 << 40
"""The cost of illegal transitions: more than any other cost."""


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
        legal = legal_kinds(inventory.system, state)
        chosen, optimal = choose(state, legal)
        transitions = chosen.masked_fill(finished, inventory.no_op)
        front = state.front.clone()
        top = inventory.apply(state, transitions)
        steps.append((transitions, legal, optimal, top, front))
    columns = (torch.stack(values, dim=1) for values in zip(*steps, strict=True))
    transitions, legal, optimal, top, front = columns
    used = int((transitions != inventory.no_op).sum(1).max())  # without trailing steps with only `no_op`
    transitions, legal, optimal, top, front = (
        column[:, :used] for column in (transitions, legal, optimal, top, front)
    )
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


def gold_trees(heads: Ragged) -> Gold:
    """The gold trees for an oracle. heads: values [words], 0 for ROOT, NO_HEAD for unknown heads."""
    dependents = heads.position_in_row() + 1
    first = heads.offsets.repeat_interleave(heads.lengths)
    has_word_head = heads.values > 0
    last_dependent = torch.zeros(len(heads.values) + 1, dtype=torch.long)
    head_index = (first + heads.values - 1)[has_word_head]
    last_dependent.scatter_reduce_(0, head_index, dependents[has_word_head], "amax")
    by_sentence = torch.full((len(heads), int(heads.lengths.max()) + 1), NO_HEAD)
    by_sentence[heads.row_of_element(), dependents] = heads.values
    return Gold(torch.cat([heads.values, torch.tensor([NO_HEAD])]), last_dependent, by_sentence)


def oracle_trajectory(inventory: Inventory, heads: Ragged, labels: Ragged) -> Trajectory:
    """The transitions of the static oracle for a batch of projective trees.

    heads, labels: values [words]. Raises ValueError for a tree that the system cannot build.
    """
    gold = gold_trees(heads)
    gold_labels = torch.cat([labels.values, labels.values.new_zeros(1)])
    state = State.initial(heads.lengths)

    def choose(state: State, legal: Tensor) -> tuple[Tensor, Tensor]:
        wanted = oracle_kinds(inventory.system, state, gold) & legal
        # The first transition of the oracle or, if there is none (non-projective trees), the first legal one.
        kind = (2 * wanted.int() + legal.int()).argmax(1)  # [batch]
        place = inventory.effects(inventory.number[kind, UNKNOWN_LABEL]).dependent
        dependent = state.words().gather(0, place[None]).squeeze(0)
        label = gold_labels[state.flat_index(dependent)]
        right = torch.full_like(legal, NOT_OPTIMAL, dtype=torch.long).scatter_(
            1, kind[:, None], label[:, None]
        )
        return inventory.number[kind, label], right

    trajectory = record(inventory, state, choose)
    if not torch.equal(state.heads, gold.heads):
        wrong = (state.heads != gold.heads)[:-1].nonzero()[0]
        raise ValueError(
            f"tree {int(heads.row_of_element()[wrong])} of the batch cannot be built: is it non-projective?"
        )
    return trajectory


def known_facts(heads: Ragged) -> Ragged | None:
    """[words, 4] `WordFacts` of partially known trees; `NOTHING_GIVEN` for complete trees.

    heads: values [words], NO_HEAD for unknown heads. None if all trees are complete.
    """
    if not (heads.values == NO_HEAD).any():
        return None
    facts = [
        word_facts(given, possible_roots(given)) if NO_HEAD in given else [NOTHING_GIVEN] * len(given)
        for given in (tree.tolist() for tree in heads.unflatten())
    ]
    return Ragged(torch.tensor(list(chain.from_iterable(facts))), heads.lengths)


def partial_trajectory(inventory: Inventory, heads: Ragged, labels: Ragged, facts: Ragged) -> Trajectory:
    """A trajectory for each partially known tree, along which all known arcs are made.

    In each state, a transition is optimal if all known arcs can still be made after it. The static oracle for
    the known arcs chooses among optimal transitions; if it allows none of them, the first one is taken.
    heads, labels: values [words]. facts: values [words, 4].
    """
    oracle = DynamicOracle(inventory, heads, labels, facts.values.device, facts)

    def choose(state: State, legal: Tensor) -> tuple[Tensor, Tensor]:
        right = oracle.optimal_labels(state, legal)
        may = right != NOT_OPTIMAL
        wanted = oracle_kinds(inventory.system, state, oracle.gold) & may
        kind = (2 * wanted.int() + may.int()).argmax(1, keepdim=True)
        label = right.gather(1, kind).clamp(min=UNKNOWN_LABEL)  # finished sentences have no right label
        return inventory.number[kind, label].squeeze(1), right

    return record(inventory, State.initial(heads.lengths), choose)


class DynamicOracle:
    """Optimal transitions in any states of a batch (Goldberg & Nivre 2013).

    For partially known trees, costs count known arcs only. While all known arcs can still be made, the
    optimal transitions are exactly those after which a tree with all known arcs can still be built.
    """

    def __init__(
        self,
        inventory: Inventory,
        heads: Ragged,
        labels: Ragged,
        device: torch.device,
        facts: Ragged | None = None,
    ):
        """heads, labels: values [words], of projective trees. facts: their `known_facts`.

        Raises ValueError if the transition system has no costs.
        """
        if not inventory.system.has_costs:
            raise ValueError(
                f"{inventory.system.name} has no dynamic oracle: use another system for exploration"
            )
        self._inventory = inventory
        gold = gold_trees(heads)
        parts = (gold.heads, gold.last_dependent, gold.by_sentence)
        self.gold = Gold(*(to_device(part, device) for part in parts))
        self._labels = to_device(torch.cat([labels.values, labels.values.new_zeros(1)]), device)
        self._facts = None
        if facts:
            self._facts = to_device(torch.cat([facts.values, torch.tensor([NOTHING_GIVEN])]), device)
            self._obstacles = Obstacles.of(inventory.system, device, OF_WHOLE_TREE)

    def optimal_labels(self, state: State, legal: Tensor) -> Tensor:
        """[batch, kinds] The gold label of the dependent for transitions of least cost; else NOT_OPTIMAL.

        An arc whose head is not the gold head has no gold label: it gets UNKNOWN_LABEL, with which any label
        is optimal. legal: [batch, kinds] bool.
        """
        words = state.words()  # [places, batch]
        costs = costs_of_kinds(self._inventory.system, state, self.gold)  # [batch, kinds]
        if self._facts is not None:
            costs = 2 * costs + (~self._obstacles.free(state, words, self._facts)).long()
        costs = costs.masked_fill(~legal, ILLEGAL_COST)
        least = costs.min(1, keepdim=True).values
        of_kinds = self._inventory.effects(self._inventory.number[:, UNKNOWN_LABEL])  # [kinds] each
        dependents = state.flat_index(words[of_kinds.dependent])  # [kinds, batch]
        is_gold = self.gold.heads[dependents] == words[of_kinds.head]  # [kinds, batch]
        labels = torch.where(is_gold, self._labels[dependents], UNKNOWN_LABEL).T  # [batch, kinds]
        return torch.where((costs == least) & legal, labels, NOT_OPTIMAL)
