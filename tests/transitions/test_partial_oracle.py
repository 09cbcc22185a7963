"""Right transitions and trajectories of trees that are known in part, compared with all trees that have what
is known."""

import numpy as np
import pytest
import torch
from extended import extended
from plain_parser import Configuration, make_inventory, projective_trees
from reachable_states import Completions, copies_of_state, known_in_part, reachable_states

from parser.batching.ragged import Ragged
from parser.transitions.inventory import NOT_OPTIMAL, UNKNOWN_LABEL
from parser.transitions.oracle import DynamicOracle, known_facts, oracle_trajectory, partial_trajectory
from parser.treebank.sentence import NO_HEAD

KEEPING = ("arc-hybrid", "arc-eager")
CPU = torch.device("cpu")


def as_ragged(trees):
    """Heads, and labels that depend on heads; those of unknown heads are unknown."""
    heads = Ragged.of([torch.tensor(tree) for tree in trees])
    labels = torch.where(heads.values == 0, 1, 2 + heads.values % 2)
    return heads, Ragged(torch.where(heads.values == NO_HEAD, UNKNOWN_LABEL, labels), heads.lengths)


@pytest.mark.parametrize("system", KEEPING)
@pytest.mark.parametrize("length", [1, 2, 3, 4, *extended((5,))])
def test_right_is_what_a_tree_with_all_known_arcs_can_follow(system, length):
    """In all states from which there is such a tree."""
    inventory, completions = make_inventory(system), Completions(length)
    known = known_in_part(completions.trees)
    heads, labels = as_ragged(known)
    oracle = DynamicOracle(inventory, heads, labels, CPU, known_facts(heads))
    trees = np.array(completions.trees)  # [trees, words]
    fitting = ((np.array(known)[:, None] == trees) | (np.array(known)[:, None] == NO_HEAD)).all(2)
    fitting = fitting.astype(np.float32)  # [known, trees]
    for configuration in reachable_states(system, length):
        is_open = fitting @ completions.of(configuration).astype(np.float32) > 0  # [known]
        state = copies_of_state(configuration, length, len(known))
        legal = inventory.system.legal(state)
        found = oracle.optimal_labels(state, legal).numpy()
        assert (found != NOT_OPTIMAL).any(1).all()
        for kind, transition in enumerate(inventory.system.transitions):
            if transition.name not in configuration.legal():
                assert (found[:, kind] == NOT_OPTIMAL).all()
                continue
            after = configuration.after(transition.name)
            expected = fitting @ completions.of(after).astype(np.float32) > 0
            is_right = found[:, kind] != NOT_OPTIMAL
            assert (is_right == expected)[is_open].all(), (configuration, transition.name)
            for word in after.heads.keys() - configuration.heads.keys():  # the label is that of a known arc
                of_word = np.array([own[word - 1] for own in known])
                is_known = of_word == after.heads[word]
                wanted = np.where(is_known, labels.values.view(len(known), -1)[:, word - 1], UNKNOWN_LABEL)
                assert (found[:, kind] == wanted)[is_right].all()


@pytest.mark.parametrize("system", KEEPING)
@pytest.mark.parametrize("length", [1, 2, 3, 4, *extended((5,))])
def test_trajectories_make_all_known_arcs(system, length):
    inventory = make_inventory(system)
    known = known_in_part(projective_trees(length))
    heads, labels = as_ragged(known)
    facts = known_facts(heads)
    found = partial_trajectory(inventory, heads, labels, facts)
    arcs_left = 0
    for own, transitions, right in zip(known, found.transitions, found.optimal_labels, strict=True):
        configuration = Configuration(system, length)
        for transition, labels_of_kinds in zip(transitions.tolist(), right, strict=True):
            if transition == inventory.no_op:
                break
            kind = int(inventory.kind[transition])
            assert labels_of_kinds[kind] != NOT_OPTIMAL
            arcs_left += int((labels_of_kinds != NOT_OPTIMAL).sum()) - 1
            configuration.apply(inventory.system.transitions[kind].name)
        assert configuration.finished()
        tree = configuration.tree()
        assert all(head in (NO_HEAD, its) for head, its in zip(own, tree, strict=True))
    assert arcs_left or length == 1  # somewhere several are right


@pytest.mark.parametrize("system", KEEPING)
def test_complete_trees_among_others_have_the_right_transitions_that_they_have_alone(system):
    """Also in states from which they can not be reached."""
    inventory, trees = make_inventory(system), projective_trees(4)
    nothing_known = (NO_HEAD,) * 4
    for tree in trees[::3]:
        both, alone = (as_ragged(each) for each in ([tree, nothing_known, tree], [tree]))
        of_both = DynamicOracle(inventory, *both, CPU, known_facts(both[0]))
        of_one = DynamicOracle(inventory, *alone, CPU, known_facts(alone[0]))
        for configuration in reachable_states(system, 4):
            state, own = (copies_of_state(configuration, 4, count) for count in (3, 1))
            found = of_both.optimal_labels(state, inventory.system.legal(state))
            expected = of_one.optimal_labels(own, inventory.system.legal(own))
            assert torch.equal(found[::2], expected.expand(2, -1))


@pytest.mark.parametrize("system", KEEPING)
def test_facts_are_needed_only_of_trees_that_are_known_in_part(system):
    heads, labels = as_ragged(projective_trees(3))
    assert known_facts(heads) is None
    assert oracle_trajectory(make_inventory(system), heads, labels).transitions.shape[1] <= 6
