"""Which transitions keep given arcs possible, compared with all trees that can still be built."""

from itertools import product

import numpy as np
import pytest
import torch
from extended import extended, first_of
from plain_parser import projective_trees
from reachable_states import Completions, as_state, copies_of_state, known_in_part, reachable_states

from parser.batching.ragged import Ragged
from parser.transitions import transition_system
from parser.transitions.given_arcs import NOTHING_GIVEN, obstacles_alone, word_facts
from parser.transitions.obstacles import obstacles
from parser.transitions.oracle import gold_trees
from parser.transitions.state import costs_of_kinds, legal_kinds
from parser.transitions.system import Obstacle
from parser.treebank.partial_trees import possible_roots
from parser.treebank.sentence import NO_HEAD

KEEPING = ("arc-hybrid", "arc-eager")


def all_constraints(trees, all_roots):
    """All heads, each with all sets of words that may be the root, or with the largest set."""
    for heads in known_in_part(trees):
        possible = possible_roots(heads)
        choices = product(*([False, True] if may_be else [False] for may_be in possible))
        for roots in choices if all_roots else [possible]:
            if any(roots):
                yield heads, roots


def flat_facts(constraints):
    """[words + 1, 4] The facts of one sentence for each constraint."""
    rows = [fact for heads, roots in constraints for fact in word_facts(heads, roots)]
    return torch.tensor([*rows, NOTHING_GIVEN])


def obstacles_of(state, facts):
    """[batch] The sums of the obstacles that are present."""
    found = obstacles(state, state.words(), facts, list(Obstacle))  # [obstacles, batch]
    return (found.long() * torch.tensor(list(Obstacle))[:, None]).sum(0)


@pytest.mark.parametrize("system", KEEPING)
@pytest.mark.parametrize(
    ("length", "all_roots"), [(1, True), (2, True), (3, True), *extended((4, True), (5, True), (6, False))]
)
def test_a_transition_has_no_obstacle_where_a_tree_with_all_given_arcs_can_follow(system, length, all_roots):
    """In all states that lead to such a tree. So there are no dead ends, and no tree is lost."""
    rules, completions = transition_system(system, False), Completions(length)
    trees = np.array(completions.trees)  # [trees, words]
    constraints = list(all_constraints(completions.trees, all_roots))
    heads, roots = (np.array(column) for column in zip(*constraints, strict=True))
    fitting = ((heads[:, None] == trees) | (heads[:, None] == NO_HEAD)).all(2)  # [constraints, trees]
    fitting &= roots[:, (trees == 0).argmax(1)]
    assert fitting.any(1).all()
    fitting = fitting.astype(np.float32)
    facts = flat_facts(constraints)
    for configuration in reachable_states(system, length):
        is_open = fitting @ completions.of(configuration).astype(np.float32) > 0  # [constraints]
        state = copies_of_state(configuration, length, len(constraints))
        found = obstacles_of(state, facts).numpy()
        for transition in rules.transitions:
            if transition.name in configuration.legal():
                left = completions.of(configuration.after(transition.name))
                expected = fitting @ left.astype(np.float32) > 0
                is_free = found & transition.obstacles == 0
                assert (is_free == expected)[is_open].all(), (configuration, transition.name)


@pytest.mark.parametrize("system", KEEPING)
@pytest.mark.parametrize("length", first_of([1, 3, 4, 5], 2))
def test_obstacles_of_a_sentence_alone_are_those_in_a_batch(system, length):
    constraints = list(all_constraints(projective_trees(length), length < 5))
    all_facts = [[NOTHING_GIVEN, *word_facts(*own), NOTHING_GIVEN] for own in constraints]
    for configuration in reachable_states(system, length):
        state = copies_of_state(configuration, length, len(constraints))
        together = obstacles_of(state, flat_facts(constraints)).tolist()
        heads = [configuration.heads.get(word, NO_HEAD) for word in range(length + 1)]
        front, headless = int(state.front[0]), int(state.headless[0])
        for facts, expected in zip(all_facts, together, strict=True):
            assert obstacles_alone(configuration.stack, front, heads, headless, facts) == expected


@pytest.mark.parametrize("length", [3, 4, *extended((5,))])
def test_in_arc_hybrid_obstacles_are_costs_and_what_leaves_no_root(length):
    """The costs of the given arcs only, in states from which all of these arcs can be made."""
    rules, completions = transition_system("arc-hybrid", False), Completions(length)
    trees = np.array(completions.trees)
    without_roots = Obstacle.NO_ROOT_IN_BUFFER | Obstacle.NO_ROOT_AT_BOTTOM
    configurations = reachable_states("arc-hybrid", length)
    state = as_state(configurations, length)
    legal = legal_kinds(rules, state)
    for heads, roots in all_constraints(completions.trees, all_roots=False):
        fitting = ((np.array(heads) == trees) | (np.array(heads) == NO_HEAD)).all(1)
        is_open = torch.tensor([bool(fitting @ completions.of(each)) for each in configurations])
        of_all = Ragged(torch.tensor(heads * len(configurations)), torch.full((len(configurations),), length))
        costs = costs_of_kinds(rules, state, gold_trees(of_all))
        found = obstacles_of(state, flat_facts([(heads, roots)] * len(configurations)))
        for kind, transition in enumerate(rules.transitions):
            breaks = found & (transition.obstacles & ~without_roots) != 0
            own = legal[:, kind] & is_open
            assert torch.equal(breaks[own], costs[own, kind] > 0)


def test_arc_standard_does_not_know():
    assert not transition_system("arc-standard", False).keeps_given_arcs
    assert all(transition_system(name, True).keeps_given_arcs for name in KEEPING)
