"""The batched transition systems, compared with plain Python and exhaustive search."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from plain_parser import Configuration, is_projective, is_tree, make_inventory, projective_trees

from parser.batching.ragged import Ragged
from parser.transitions import SYSTEMS
from parser.transitions.inventory import Inventory
from parser.transitions.oracle import oracle_trajectory, record
from parser.transitions.state import State
from parser.treebank.conllu import read_treebank
from parser.treebank.projectivity import is_projective as is_projective_fast
from parser.treebank.tokens import encode_heads, encode_labels
from parser.treebank.vocabulary import Vocabulary

TREES_BY_LENGTH = {1: 1, 2: 2, 3: 7, 4: 30, 5: 143, 6: 728}


def names(inventory, transitions):
    return [
        inventory.system.transitions[int(inventory.kind[number])].name
        for number in transitions
        if number != inventory.no_op
    ]


def gold(trees):
    heads = Ragged.of([torch.tensor(tree) for tree in trees])
    labels = Ragged(torch.where(heads.values == 0, 1, 2 + heads.values % 2), heads.lengths)
    return heads, labels


@pytest.mark.parametrize("system", SYSTEMS)
def test_oracle_builds_every_tree_up_to_six_words(system):
    inventory = make_inventory(system)
    for length, count in TREES_BY_LENGTH.items():
        trees = projective_trees(length)
        assert len(trees) == count
        heads, labels = gold(trees)
        trajectory = oracle_trajectory(inventory, heads, labels)
        for tree, transitions in zip(trees, trajectory.transitions, strict=True):
            plain = Configuration(system, length)
            for name in names(inventory, transitions):
                assert name in plain.legal(), (tree, name)
                plain.apply(name)
            assert plain.finished()
            assert plain.tree() == tree


@pytest.mark.parametrize("system", SYSTEMS)
def test_which_words_root_can_still_become_the_head_of(system):
    def roots(plain):
        """The dependents of ROOT in all trees that can follow."""
        if plain.finished():
            found = {plain.tree().index(0) + 1}
        else:
            found = set().union(*(roots(plain.after(name)) for name in plain.legal()))
        assert found == {word for word in range(1, plain.length + 1) if plain.may_have_root(word)}
        return found

    for length in range(1, 6):
        assert roots(Configuration(system, length)) == set(range(1, length + 1))


@pytest.mark.parametrize("system", SYSTEMS)
def test_oracle_gives_every_arc_its_label(system):
    inventory = make_inventory(system)
    trees = [tree for length in range(1, 6) for tree in projective_trees(length)]
    heads, labels = gold(trees)
    trajectory = oracle_trajectory(inventory, heads, labels)
    state = State.initial(heads.lengths)
    for transitions in trajectory.transitions.unbind(1):
        inventory.apply(state, transitions)
    assert torch.equal(state.heads[:-1], heads.values)
    assert torch.equal(state.labels[:-1], labels.values)


@pytest.mark.parametrize("system", SYSTEMS)
def test_oracle_gives_unseen_labels_a_transition_that_is_never_legal(system):
    inventory = make_inventory(system)
    heads = Ragged.of([torch.tensor([2, 0])])
    trajectory = oracle_trajectory(inventory, heads, Ragged(torch.tensor([0, 1]), heads.lengths))
    taken = trajectory.transitions[0]
    unknown = ~inventory.known[taken[taken != inventory.no_op]]
    assert unknown.sum() == 1
    assert not inventory.with_labels(trajectory.legal[0])[:, ~inventory.known].any()


@pytest.mark.parametrize("system", SYSTEMS)
def test_oracle_refuses_non_projective_trees(system):
    crossing = [(3, 4, 0, 3), (2, 0), (3, 4, 0, 3)]
    assert not is_projective(crossing[0])
    with pytest.raises(ValueError, match="tree 0 of the batch cannot be built"):
        oracle_trajectory(make_inventory(system), *gold(crossing))


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_plain_rules_reach_exactly_the_projective_trees(system):

    def reachable(path):
        plain = Configuration(system, length)
        for name in path:
            plain.apply(name)
        if plain.finished():
            return {plain.tree()}
        legal = plain.legal()
        assert legal, path
        return set().union(*(reachable((*path, name)) for name in sorted(legal)))

    for length in range(1, 6):
        assert reachable(()) == set(projective_trees(length))


@pytest.mark.parametrize("system", SYSTEMS)
@given(seed=st.integers(0, 10_000), lengths=st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_random_walks_agree_with_plain_python_and_have_no_dead_ends(system, seed, lengths):
    inventory = make_inventory(system)
    generator = torch.Generator().manual_seed(seed)
    plains = [Configuration(system, length) for length in lengths]

    def choose(state, legal):
        for plain, mask in zip(plains, legal.tolist(), strict=True):
            allowed = {t.name for t, yes in zip(inventory.system.transitions, mask, strict=True) if yes}
            if not plain.finished():
                assert allowed == plain.legal()
                assert allowed
        weights = inventory.with_labels(legal).float() + 1e-30
        chosen = torch.multinomial(weights, 1, generator=generator).squeeze(1)
        for plain, transition in zip(plains, chosen, strict=True):
            if not plain.finished():
                plain.apply(inventory.system.transitions[int(inventory.kind[transition])].name)
        return chosen, torch.full_like(legal, -1, dtype=torch.long)

    state = State.initial(torch.tensor(lengths))
    trajectory = record(inventory, state, choose)
    assert trajectory.transitions.shape[1] <= 2 * max(lengths)
    heads = Ragged(state.heads[:-1], torch.tensor(lengths)).unflatten()
    labels = Ragged(state.labels[:-1], torch.tensor(lengths)).unflatten()
    for plain, own_heads, own_labels in zip(plains, heads, labels, strict=True):
        tree = tuple(own_heads.tolist())
        assert tree == plain.tree()
        assert is_tree(tree)
        assert is_projective(tree)
        assert [label == 1 for label in own_labels.tolist()] == [head == 0 for head in tree]


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_operations_of_a_trajectory_reproduce_stack_and_buffer(system):
    inventory = make_inventory(system)
    trees = projective_trees(5)
    trajectory = oracle_trajectory(inventory, *gold(trees))
    buffer_move = inventory.effects(trajectory.transitions).buffer_move  # [batch, steps]
    for row, tree in enumerate(trees):
        plain, stack, front = Configuration(system, len(tree)), [0], 1
        for step, name in enumerate(names(inventory, trajectory.transitions[row])):
            assert int(trajectory.front[row, step]) == front
            plain.apply(name)
            read, move = int(trajectory.stack_read[row, step]), int(trajectory.stack_move[row, step])
            previous = len(stack) - 1 - read
            length = len(stack) + move
            stack = [*stack[: previous + 1], int(trajectory.top[row, step])]
            stack = stack[:length] if length <= len(stack) else stack
            front += int(buffer_move[row, step])
            assert len(stack) == len(plain.stack)
            assert int(trajectory.top[row, step]) == plain.stack[-1]
            assert stack == plain.stack or move == -1  # a pop writes above the top
            stack = list(plain.stack)
        is_no_op = trajectory.transitions[row] == inventory.no_op
        assert not trajectory.stack_move[row][is_no_op].any()
        assert not buffer_move[row][is_no_op].any()


@pytest.mark.real_data
@pytest.mark.parametrize("system", SYSTEMS)
def test_oracle_builds_every_projective_tree_of_english_ewt(treebanks, system):
    sentences = read_treebank(str(treebanks / "UD_English-EWT" / "en_ewt-ud-train.conllu"))
    projective = [sentence for sentence in sentences if is_projective_fast(sentence.heads)]
    assert (len(sentences), len(projective)) == (12544, 12256)
    vocabulary = Vocabulary.build(projective, [])
    heads, labels = encode_heads(projective), encode_labels(vocabulary, projective)
    inventory = Inventory.build(
        SYSTEMS[system], len(vocabulary.labels), vocabulary.word_labels, vocabulary.root_labels
    )
    for rows in heads.lengths.argsort().split(1000):
        trajectory = oracle_trajectory(inventory, heads.select(rows), labels.select(rows))
        state = State.initial(heads.lengths[rows])
        for transitions in trajectory.transitions.unbind(1):
            inventory.apply(state, transitions)
        assert torch.equal(state.heads[:-1], heads.select(rows).values)
        assert torch.equal(state.labels[:-1], labels.select(rows).values)


def test_transition_numbers_do_not_depend_on_the_order_of_labels():
    one, other = (
        Inventory.build(SYSTEMS["arc-hybrid"], 10, frozenset(numbers), frozenset([2]))
        for numbers in ([1, 9], [9, 1])  # in either order
    )
    assert torch.equal(one.label, other.label)
    assert torch.equal(one.number, other.number)
