"""Batches are made alike on the host and on a device, and nodes run in the order of a sort."""

from itertools import chain

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from plain_parser import make_inventory
from small_parsers import SOME_TREES, examples, padded

from parser.batching.forest_lstm import SortedForest
from parser.batching.ragged import Ragged
from parser.networks.replay.examples import BatchSource, Examples
from parser.networks.replay.flattened import counts_of, positions, ranks_and_counts

KINDS = [{"composition": composes, "rich": rich} for rich in (False, True) for composes in (False, True)]


def prepared_trees(composition, rich=False):
    return examples(make_inventory("arc-eager", composition=composition), SOME_TREES, rich=rich)


def tensors_of(batch):
    found = []
    batch.map(lambda tensor: found.append(tensor.cpu()) or tensor)
    return found


def assert_same_tensors(batch, expected):
    for ours, theirs in zip(tensors_of(batch), tensors_of(expected), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("kind", KINDS, ids=str)
def test_a_batch_made_on_the_device_is_that_of_the_host(kind, cuda):
    prepared, rows = prepared_trees(**kind), torch.randperm(len(SOME_TREES))[:9]
    on_device = BatchSource(prepared, cuda.name)
    cuda.counted()
    batch = on_device.batch(rows)
    counts = cuda.counted()
    assert counts.uploads == 1
    assert not counts.synchronizations
    assert_same_tensors(batch, prepared.batch(rows))
    assert torch.equal(batch.tokens.lengths, prepared.tokens.lengths[rows])


def test_one_graph_serves_batches_with_and_without_padding():
    """The same work is done for both, by the same tensors."""
    prepared, rows = prepared_trees(composition=False), torch.arange(6)
    shape = prepared.shape(rows)
    assert all(prepared.select(own, prepared.shape(own), shape).is_padded for own in (rows, rows[:4]))
    assert_same_tensors(padded(prepared, rows, shape), prepared.batch(rows))


def test_only_the_numbers_of_sentences_are_uploaded(cuda):
    prepared, rows = prepared_trees(composition=False), torch.arange(len(SOME_TREES))
    on_device = BatchSource(prepared, cuda.name)
    shape = on_device.shape(rows)
    assert on_device.prepared(rows, shape).buffer.nbytes < 16 + 8 * (len(rows) + len(shape.stack.nodes) + 2)


def test_a_padded_batch_made_on_the_device_is_that_of_the_host(cuda):
    prepared, rows = prepared_trees(composition=False), torch.arange(7)
    on_device, shape = BatchSource(prepared, cuda.name), prepared.shape(torch.arange(len(SOME_TREES)))
    uploaded = on_device.prepared(rows, prepared.shape(rows), shape).to(cuda.name)
    cuda.counted()
    batch = on_device.made(uploaded)
    counts = cuda.counted()
    assert not counts.uploads
    assert not counts.synchronizations
    assert_same_tensors(batch, padded(prepared, rows, shape))


@pytest.mark.parametrize("why", ["too large", "no memory left"])
def test_without_room_on_the_device_batches_are_made_on_the_host(cuda, monkeypatch, why):
    def fail(examples, device):
        raise torch.OutOfMemoryError("CUDA out of memory")

    if why == "too large":
        monkeypatch.setattr("parser.networks.replay.examples.device_memory", lambda device: 1000)
    else:
        monkeypatch.setattr(Examples, "to", fail)
    prepared, rows = prepared_trees(composition=False), torch.arange(5)
    shape = prepared.shape(torch.arange(len(SOME_TREES)))
    on_host = BatchSource(prepared, cuda.name)
    larger = on_host.made(on_host.prepared(rows, prepared.shape(rows), shape).to(cuda.name))
    batches = (on_host.batch(rows), prepared.batch(rows)), (larger, padded(prepared, rows, shape))
    for batch, expected in batches:
        assert batch.transitions.is_cuda
        assert_same_tensors(batch, expected)


@st.composite
def forests(draw):
    """The parents of the nodes of a few forests; parents come first."""
    return [
        [draw(st.integers(-1, node - 1)) for node in range(size)]
        for size in draw(st.lists(st.integers(0, 9), min_size=1, max_size=5))
    ]


def depths_of(parents):
    found = []
    for parent in parents:
        found.append(0 if parent < 0 else found[parent] + 1)
    return found


@given(forests(), st.data())
def test_nodes_run_in_the_order_of_a_sort(trees, data):
    """Any sentences, in any order, some of them more than once."""
    depths = list(map(depths_of, trees))
    classes = [
        [2 * depth + (node not in parents) for node, depth in enumerate(own)]
        for parents, own in zip(trees, depths, strict=True)
    ]
    lengths = torch.tensor(list(map(len, trees)))
    node_class = Ragged(torch.tensor(list(chain.from_iterable(classes)), dtype=torch.long), lengths)
    rank, counts = ranks_and_counts(node_class.values, lengths)

    rows = torch.tensor(data.draw(st.lists(st.integers(0, len(trees) - 1), min_size=1, max_size=6)))
    chosen = node_class.select(rows)
    number = int(counts.lengths[rows].max())
    own_counts = counts_of(counts, rows, number)
    totals = own_counts.sum(0)
    ranks = Ragged(rank, lengths).select(rows).values
    found = positions(own_counts, totals.cumsum(0) - totals, chosen.row_of_element(), chosen.values, ranks)

    first, parents = 0, []
    for row in rows.tolist():
        parents += [parent + first if parent >= 0 else -1 for parent in trees[row]]
        first += len(trees[row])
    depth = [depth for row in rows.tolist() for depth in depths[row]]
    expected = SortedForest.of(torch.tensor(parents, dtype=torch.long), torch.tensor(depth, dtype=torch.long))
    assert torch.equal(found, expected.position)


def test_a_sentence_that_is_missing_has_no_nodes():
    _, counts = ranks_and_counts(torch.tensor([0, 1, 1, 0]), torch.tensor([3, 1]))
    assert counts_of(counts, torch.tensor([1, -1, 0]), 3).tolist() == [[1, 0, 0], [0, 0, 0], [1, 2, 0]]
