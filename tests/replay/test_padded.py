"""Padding to a common shape changes neither losses nor gradients."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from plain_parser import make_inventory
from small_parsers import SOME_TREES, assert_equal, examples, loss_and_gradients, network

from parser.networks.loss import transition_loss
from parser.replay.padded import LENGTH_RATIO, Shape, common_shapes, fitting, padded, shapes_of
from parser.transitions import SYSTEMS

SYSTEM = "arc-hybrid"


def prepared_trees(system=SYSTEM):
    return examples(make_inventory(system), SOME_TREES)


def batches_of(prepared, size):
    return list(torch.randperm(len(prepared)).split(size))


@pytest.mark.parametrize("system", SYSTEMS)
@pytest.mark.parametrize("word_features", [False, True])
def test_losses_and_gradients_stay_the_same(system, word_features, device):
    inventory, prepared = make_inventory(system), prepared_trees(system)
    batch = prepared.batch(torch.arange(0, len(prepared), 3))
    own = Shape.of(batch)
    shapes = [
        own,
        Shape.of(prepared.batch(torch.arange(len(prepared)))),
        Shape(
            sentences=own.sentences + 2,
            words=own.words + 5,
            buffer_frames=own.buffer_frames + 1,
            history_frames=own.history_frames + 3,
            transitions=own.transitions + 7,
            nodes=(*[count + 4 for count in own.nodes], 2, 1),
            parents=(*[count + 1 for count in own.parents], 1, 0),
        ),
    ]
    inventory = inventory.to(device)
    parser = network(inventory, layers=2, device=device, word_features=word_features)
    on_device = [batch.to(device), *(padded(batch, shape).to(device) for shape in shapes)]
    assert_equal(
        [
            loss_and_gradients(parser, transition_loss(parser.replay(each), each, inventory))
            for each in on_device
        ]
    )


@pytest.mark.parametrize("system", SYSTEMS)
def test_the_loss_of_padding_is_exactly_zero(system, device):
    inventory, prepared = make_inventory(system).to(device), prepared_trees(system)
    batch = prepared.batch(torch.arange(4))
    larger = padded(batch, Shape.of(prepared.batch(torch.arange(len(prepared))))).to(device)
    scores = torch.randn(len(larger.transitions), len(inventory), device=device, requires_grad=True)
    transition_loss(scores, larger, inventory).backward()
    assert not scores.grad[len(batch.transitions) :].any()
    assert scores.grad[: len(batch.transitions)].any()


def test_batches_of_a_shape_have_tensors_of_the_same_shapes():
    prepared = prepared_trees()
    batches = [prepared.batch(rows) for rows in batches_of(prepared, 7)]
    shape = Shape.around(map(Shape.of, batches))
    found = []
    for batch in batches:
        sizes = []
        larger = padded(batch, shape)
        larger.map(lambda tensor, sizes=sizes: sizes.append((tensor.shape, tensor.dtype)) or tensor)
        found.append((sizes, larger.forest.levels, Shape.of(larger)))
    assert all(each == found[0] for each in found)
    assert found[0][2] == shape


def test_a_padded_forest_is_a_forest():
    prepared = prepared_trees()
    batch = prepared.batch(torch.arange(5))
    forest = padded(batch, Shape.of(prepared.batch(torch.arange(len(prepared))))).forest
    assert forest.order.sort().values.tolist() == list(range(len(forest.order)))
    assert torch.equal(forest.position[forest.order], torch.arange(len(forest.order)))
    for here, parents in forest.levels[1:]:
        assert (forest.parent[here] < parents.stop - parents.start).all()


def test_a_shape_that_is_too_small():
    prepared = prepared_trees()
    small = Shape.of(prepared.batch(torch.arange(2)))
    with pytest.raises(ValueError, match="does not hold"):
        padded(prepared.batch(torch.arange(5)), small)


@given(size=st.integers(1, 12), seed=st.integers(0, 99))
def test_shapes_are_known_without_making_the_batches(size, seed):
    torch.manual_seed(seed)
    prepared = prepared_trees()
    batches = batches_of(prepared, size)
    assert list(shapes_of(prepared, batches)) == [Shape.of(prepared.batch(rows)) for rows in batches]


def test_common_shapes_hold_their_batches_and_grow():
    prepared = prepared_trees()
    by_length = prepared.tokens.lengths.argsort()
    shapes = list(shapes_of(prepared, by_length.split(3)))
    common = common_shapes(shapes)
    assert 1 < len(common) < len(shapes)
    lengths = [shape.buffer_frames for shape in common]
    assert lengths == sorted(set(lengths))
    for shape in shapes:
        found = fitting(common, shape)
        assert found.holds(shape)
        assert found.buffer_frames / shape.buffer_frames < LENGTH_RATIO**2
    assert fitting(common[:1], shapes[-1]) is None
