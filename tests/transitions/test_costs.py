"""The costs of dynamic oracles, compared with exhaustive search over all states and projective trees."""

import numpy as np
import pytest
import torch
from extended import first_of
from plain_parser import make_inventory, projective_trees
from reachable_states import as_state, key, reachable_states

from parser.batching.ragged import Ragged
from parser.transitions.inventory import NOT_OPTIMAL
from parser.transitions.labelled import UNKNOWN_LABEL
from parser.transitions.oracle import DynamicOracle, gold_trees
from parser.transitions.state import State, costs_of_kinds, legal_kinds, oracle_kinds
from parser.treebank.sentence import NO_HEAD

SYSTEMS = ("arc-hybrid", "arc-eager")
MOST_WORDS = 5


def unrestricted_eager_moves(configuration):
    """As in Goldberg & Nivre 2013: words may stay without heads, ROOT may have many dependents."""
    stack, buffer, heads = configuration.stack, configuration.buffer, configuration.heads
    top, names = stack[-1], set()
    if buffer:
        names |= {"Shift", "Right-Arc" if top else "Root-Arc"}
        if top and top not in heads:
            names.add("Left-Arc")
        if top in heads:
            names.add("Reduce")
    return names


class Reachable:
    """The gold arcs that are reachable from a state, for all gold trees at once."""

    def __init__(self, system, length):
        self.system, self.trees = system, projective_trees(length)
        self.known = {}

    def best(self, configuration):
        """[trees] The greatest number of gold arcs of each tree among all continuations."""
        name = key(configuration)
        if name not in self.known:
            heads = configuration.heads
            own = np.array([sum(heads.get(w) == h for w, h in enumerate(tree, 1)) for tree in self.trees])
            continuations = [self.best(configuration.after(move)) for move in self.moves(configuration)]
            self.known[name] = np.max(continuations, axis=0) if continuations else own
        return self.known[name]

    def moves(self, configuration):
        if self.system == "arc-eager":
            return unrestricted_eager_moves(configuration)
        return set() if configuration.finished() else configuration.legal()


def same_tree(tree, count):
    return Ragged(torch.tensor(tree * count), torch.full((count,), len(tree)))


@pytest.mark.parametrize("system", first_of(SYSTEMS))
def test_costs_are_the_arcs_that_a_transition_makes_unreachable(system):
    rules = make_inventory(system).system
    names = [transition.name for transition in rules.transitions]
    checked = 0
    for length in range(1, MOST_WORDS + 1):
        reachable = Reachable(system, length)
        configurations = reachable_states(system, length)
        state = as_state(configurations, length)
        legal = legal_kinds(rules, state)
        expected = torch.zeros(len(configurations), len(names), len(reachable.trees), dtype=torch.long)
        for row, configuration in enumerate(configurations):
            assert {name for name, yes in zip(names, legal[row], strict=True) if yes} == configuration.legal()
            for name in configuration.legal():
                lost = reachable.best(configuration) - reachable.best(configuration.after(name))
                expected[row, names.index(name)] = torch.from_numpy(lost)
        for number, tree in enumerate(reachable.trees):
            costs = costs_of_kinds(rules, state, gold_trees(same_tree(tree, len(configurations))))
            assert torch.equal(costs.where(legal, 0), expected[:, :, number]), (system, tree)
            checked += int(legal.sum())
    assert checked > 50_000


@pytest.mark.extended
def test_arc_hybrid_always_has_a_transition_of_cost_zero_and_arc_eager_mostly():
    shares = {}
    for system in SYSTEMS:
        rules = make_inventory(system).system
        free, total = 0, 0
        for length in range(1, MOST_WORDS + 1):
            configurations = reachable_states(system, length)
            state = as_state(configurations, length)
            legal = legal_kinds(rules, state)
            for tree in projective_trees(length):
                costs = costs_of_kinds(rules, state, gold_trees(same_tree(tree, len(configurations))))
                free += int(((costs == 0) & legal).any(1).sum())
                total += len(configurations)
        shares[system] = free / total
    assert shares["arc-hybrid"] == 1
    assert 0.8 < shares["arc-eager"] < 1


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_oracle_returns_gold_labels_for_transitions_of_least_cost(system):
    inventory = make_inventory(system)
    tree, labels = (2, 0, 2, 3), (2, 1, 3, 2)
    configurations = reachable_states(system, len(tree))
    count = len(configurations)
    state = as_state(configurations, len(tree))
    legal = legal_kinds(inventory.system, state)
    heads, gold_labels = same_tree(tree, count), same_tree(labels, count)
    right = DynamicOracle(inventory, heads, gold_labels, torch.device("cpu")).optimal_labels(state, legal)
    costs = costs_of_kinds(inventory.system, state, gold_trees(heads))
    for row, configuration in enumerate(configurations):
        least = min(int(cost) for cost, yes in zip(costs[row], legal[row], strict=True) if yes)
        for kind, transition in enumerate(inventory.system.transitions):
            if not legal[row, kind] or costs[row, kind] > least:
                assert right[row, kind] == NOT_OPTIMAL
            elif transition.makes_arc:
                before, then = configuration.heads, configuration.after(transition.name).heads
                [dependent] = then.keys() - before.keys()
                is_gold = then[dependent] == tree[dependent - 1]
                assert right[row, kind] == (labels[dependent - 1] if is_gold else UNKNOWN_LABEL)
            else:
                assert right[row, kind] == 0


def test_arc_standard_has_no_dynamic_oracle():
    inventory = make_inventory("arc-standard")
    with pytest.raises(ValueError, match="arc-standard has no dynamic oracle"):
        DynamicOracle(inventory, same_tree((0,), 1), same_tree((1,), 1), torch.device("cpu"))


def test_along_the_gold_trajectory_the_oracles_agree():
    """The transition of the static oracle is optimal for the dynamic oracle."""
    for system in SYSTEMS:
        inventory = make_inventory(system)
        for tree in projective_trees(4):
            heads = Ragged(torch.tensor(tree), torch.tensor([4]))
            labels = Ragged(torch.where(heads.values == 0, 1, 2), heads.lengths)
            oracle = DynamicOracle(inventory, heads, labels, torch.device("cpu"))
            state, gold = State.initial(heads.lengths), gold_trees(heads)
            while not inventory.system.finished(state).all():
                legal = legal_kinds(inventory.system, state)
                wanted = oracle_kinds(inventory.system, state, gold) & legal
                kind = int((2 * wanted.int() + legal.int()).argmax(1))
                right = oracle.optimal_labels(state, legal)
                assert right[0, kind] != NOT_OPTIMAL
                inventory.apply(state, inventory.number[kind, right[0, kind]][None])
            assert torch.equal(state.heads[:-1], heads.values)
            assert NO_HEAD not in state.heads[:-1]
