"""Right transitions and trajectories of partly known trees, compared with all trees that have the known
arcs."""

import numpy as np
import pytest
import torch
from extended import extended, first_of
from hypothesis import given
from hypothesis import strategies as st
from plain_parser import Configuration, make_inventory, projective_trees
from reachable_states import Completions, copies_of_state, known_in_part, reachable_states
from small_parsers import gold_of

from parser.transitions.inventory import NOT_OPTIMAL
from parser.transitions.labelled import UNKNOWN_LABEL
from parser.transitions.oracle import DynamicOracle, known_facts, partial_trajectory
from parser.transitions.state import legal_kinds
from parser.treebank.sentence import NO_HEAD

KEEPING = ("arc-hybrid", "arc-eager")
CPU = torch.device("cpu")


@pytest.mark.parametrize("system", KEEPING)
@pytest.mark.parametrize("length", [1, 2, 3, 4, *extended((5,))])
def test_right_is_what_a_tree_with_all_known_arcs_can_follow(system, length):
    """In all states that lead to such a tree."""
    inventory, completions = make_inventory(system), Completions(length)
    known = known_in_part(completions.trees)
    heads, labels = gold_of(known)
    oracle = DynamicOracle(inventory, heads, labels, CPU, known_facts(heads))
    trees = np.array(completions.trees)  # [trees, words]
    fitting = ((np.array(known)[:, None] == trees) | (np.array(known)[:, None] == NO_HEAD)).all(2)
    fitting = fitting.astype(np.float32)  # [known, trees]
    for configuration in reachable_states(system, length):
        is_open = fitting @ completions.of(configuration).astype(np.float32) > 0  # [known]
        state = copies_of_state(configuration, length, len(known))
        legal = legal_kinds(inventory.system, state)
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


def assert_known_arcs_are_made(system, known):
    inventory, (heads, labels) = make_inventory(system), gold_of(known)
    found = partial_trajectory(inventory, heads, labels, known_facts(heads))
    for own, transitions, right in zip(known, found.transitions, found.optimal_labels, strict=True):
        configuration = Configuration(system, len(own))
        for transition, of_kinds in zip(transitions.tolist(), right, strict=True):
            if transition == inventory.no_op:
                break
            kind = int(inventory.kind[transition])
            assert of_kinds[kind] != NOT_OPTIMAL
            configuration.apply(inventory.system.transitions[kind].name)
        assert configuration.finished()
        assert all(head in (NO_HEAD, its) for head, its in zip(own, configuration.tree(), strict=True))


@pytest.mark.parametrize("system", KEEPING)
@pytest.mark.parametrize("length", [1, 2, 3, 4, *extended((5,))])
def test_trajectories_make_all_known_arcs(system, length):
    assert_known_arcs_are_made(system, known_in_part(projective_trees(length)))


@st.composite
def partly_known_trees(draw):
    """A projective tree of up to twenty words, in which one or more arcs are unknown."""
    length = draw(st.integers(1, 20))
    configuration = Configuration("arc-hybrid", length)
    while not configuration.finished():
        configuration.apply(draw(st.sampled_from(sorted(configuration.legal()))))
    known = draw(st.lists(st.booleans(), min_size=length, max_size=length))
    known[draw(st.integers(0, length - 1))] = False
    return tuple(head if own else NO_HEAD for head, own in zip(configuration.tree(), known, strict=True))


@pytest.mark.parametrize("system", KEEPING)
@given(st.lists(partly_known_trees(), min_size=1, max_size=5))
def test_trajectories_of_longer_sentences_of_different_lengths_make_them(system, known):
    assert_known_arcs_are_made(system, known)


@pytest.mark.parametrize("system", first_of(KEEPING))
def test_complete_trees_among_others_have_the_right_transitions_that_they_have_alone(system):
    """Even in states from which these trees cannot be reached."""
    inventory, trees = make_inventory(system), projective_trees(4)
    nothing_known = (NO_HEAD,) * 4
    for tree in trees[::7]:
        both, alone = (gold_of(each) for each in ([tree, nothing_known, tree], [tree]))
        of_both = DynamicOracle(inventory, *both, CPU, known_facts(both[0]))
        of_one = DynamicOracle(inventory, *alone, CPU, known_facts(alone[0]))
        for configuration in reachable_states(system, 4):
            state, own = (copies_of_state(configuration, 4, count) for count in (3, 1))
            found = of_both.optimal_labels(state, legal_kinds(inventory.system, state))
            expected = of_one.optimal_labels(own, legal_kinds(inventory.system, own))
            assert torch.equal(found[::2], expected.expand(2, -1))
