"""Uploads, microbatches and repeatable sums."""

from __future__ import annotations

import os

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from simulated_cuda.device import SimulatedCuda

from parser.batching.device import Packed, all_to_device, deterministic_sums, in_microbatches

DTYPES = [torch.bool, torch.uint8, torch.int64, torch.float32, torch.float64]


class Tensors(list):
    def map(self, function):
        return Tensors(function(tensor) for tensor in self)


def of(dtype, shape):
    return torch.randint(0, 2, shape).to(dtype)


@given(st.lists(st.tuples(st.sampled_from(DTYPES), st.lists(st.integers(0, 3), max_size=3)), max_size=6))
def test_tensors_of_all_types_and_shapes_arrive(kinds):
    tensors = [of(dtype, shape) for dtype, shape in kinds]
    tensors += [torch.arange(12).view(3, 4).T, torch.arange(12).view(3, 4)[:, 1]]  # not contiguous
    with SimulatedCuda() as cuda:
        moved = all_to_device(Tensors(tensors), cuda.name)
        assert (cuda.counts.uploads, len(cuda.counts.synchronizations)) == (1, 0)
        assert all(tensor.is_cuda for tensor in moved)
        for tensor, expected in zip(moved, tensors, strict=True):
            torch.testing.assert_close(tensor.cpu(), expected, rtol=0, atol=0)


def test_what_is_on_the_device_stays_there():
    with SimulatedCuda() as cuda:
        there, here = torch.ones(3, device="cuda"), torch.zeros(2)
        moved = Packed(Tensors([there, here])).to(cuda.name)
        assert moved[0] is there
        assert moved[1].is_cuda


@pytest.mark.parametrize("count", [0, 2])
def test_on_a_cpu_nothing_is_copied(count):
    tensors = [torch.zeros(3)] * count
    assert all(
        a is b for a, b in zip(all_to_device(Tensors(tensors), torch.device("cpu")), tensors, strict=True)
    )


def test_twice_as_many_microbatches_until_memory_is_enough():
    tried = []

    def compute(microbatches):
        tried.append([len(part) for part in microbatches])
        if max(tried[-1]) > 2:
            raise torch.OutOfMemoryError("too much")
        return torch.cat(list(microbatches)).tolist()

    rows = torch.tensor([4, 2, 6, 1, 3, 5, 0])
    assert in_microbatches(compute, rows, torch.arange(7)) == rows.tolist()
    assert tried == [[7], [4, 3], [2, 2, 2, 1]]


@pytest.mark.parametrize("error", [torch.OutOfMemoryError, MemoryError])
def test_a_sentence_that_is_too_long_for_memory(error):
    def compute(microbatches):
        raise error("too much")

    with pytest.raises(ValueError, match="too little memory for a sentence of 9 words"):
        in_microbatches(compute, torch.tensor([2, 1, 0]), torch.tensor([3, 9, 4]))


@pytest.mark.parametrize(("wanted", "name"), [(False, "cuda"), (True, "cpu"), (True, "cuda")])
def test_sums_are_deterministic_where_that_is_wanted_on_a_gpu(wanted, name, monkeypatch):
    monkeypatch.setenv("CUBLAS_WORKSPACE_CONFIG", "")  # so that it is as it was after the test
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG")
    chosen = wanted and name == "cuda"
    with deterministic_sums(wanted, torch.device(name)):
        assert torch.are_deterministic_algorithms_enabled() == chosen
        assert ("CUBLAS_WORKSPACE_CONFIG" in os.environ) == chosen
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.utils.deterministic.fill_uninitialized_memory


def test_an_operator_that_is_not_is_refused():
    with SimulatedCuda() as cuda, deterministic_sums(True, cuda.name):
        torch.ones(3, dtype=torch.long, device="cuda").cumsum(0)
        with pytest.raises(RuntimeError, match="deterministic"):
            torch.ones(3, device="cuda").cumsum(0)
