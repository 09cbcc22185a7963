"""Objects with many tensors go to the device by one upload."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from simulated_cuda.device import SimulatedCuda

from parser.batching.transfer import Packed, all_to_device

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
