"""Captured work is done by replaying it, with tensors that stay where they are."""

import pytest
import torch

from parser.batching.cuda_graph import GraphedWork
from simulated_cuda.device import SimulatedCuda


@pytest.fixture
def cuda():
    with SimulatedCuda() as cuda:
        yield cuda


def test_what_is_captured_is_done_by_replays(cuda):
    number = torch.ones(3, device="cuda")
    work = GraphedWork(lambda: number.mul_(2).add_(torch.ones_like(number)[:1].expand(3)))
    found = []
    for _ in range(5):
        cuda.counted()
        work()
        found.append((number.tolist()[0], cuda.counted().launches))
    assert [value for value, _ in found] == [3, 7, 15, 31, 63]
    assert [launches for _, launches in found] == [3, 4, 1, 1, 1]


@pytest.mark.parametrize(
    "cause", [lambda there: there.sum().item(), lambda there: there + torch.ones(3).cuda()]
)
def test_work_that_waits_or_uploads_runs_without_a_graph(cuda, cause, capsys):
    number = torch.ones(3, device="cuda")

    def work():
        number.add_(1)
        cause(number)

    graphed = GraphedWork(work)
    for _ in range(4):
        graphed()
    assert number.tolist() == [5, 5, 5]
    assert capsys.readouterr().err.count("without a CUDA graph") == 1


def test_a_graph_reads_tensors_where_they_were(cuda):
    """Why steps change their tensors in place."""
    box = [torch.ones(1, device="cuda")]

    def work():
        box[0] = box[0] + 1

    graphed = GraphedWork(work)
    for _ in range(4):
        graphed()
    assert box[0].item() != 5
