"""Captured work is repeated by replaying it, with tensors that stay in place."""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch

from parser.batching.cuda_graph import CudaGraphs, GraphedWork

pytestmark = pytest.mark.extended


def graphed(work, graphs=None, shape="a shape"):
    return partial(GraphedWork(graphs or CudaGraphs(torch.device("cuda")), shape), work)


def test_graphs_overwrite_what_others_have_made(cuda):
    """This is why results are written to tensors that existed before."""
    graphs, found = CudaGraphs(torch.device("cuda")), torch.zeros(2, device="cuda")
    made = {}

    def work_of(name):
        def work():
            made[name] = found + 1
            found.copy_(made[name])

        return graphed(work, graphs)

    for work in [work_of("one"), work_of("other")] * 2:
        for _ in range(3):
            work()
    assert found.tolist() == [12, 12]
    assert made["one"].isnan().all()
    assert made["other"].tolist() == [12, 12]


def test_another_thread_may_allocate_pinned_memory_during_a_capture(cuda):
    def work():
        with ThreadPoolExecutor(1) as thread:
            thread.submit(torch.empty, 4, pin_memory=True).result()

    in_graph = graphed(work)
    for _ in range(3):
        in_graph()
    assert cuda.counts.operators["graph"]


def test_what_is_captured_is_done_by_replays(cuda):
    number = torch.ones(3, device="cuda")
    work = graphed(lambda: number.mul_(2).add_(torch.ones_like(number)[:1].expand(3)))
    found = []
    for _ in range(5):
        cuda.counted()
        work()
        found.append((number.tolist()[0], cuda.counted().launches))
    assert [value for value, _ in found] == [3, 7, 15, 31, 63]
    assert [launches for _, launches in found] == [3, 1, 1, 1, 1]


@pytest.mark.parametrize(
    "cause", [lambda there: there.sum().item(), lambda there: there + torch.ones(3).cuda()]
)
def test_work_that_waits_or_uploads_runs_without_a_graph(cuda, cause, capsys):
    number = torch.ones(3, device="cuda")

    def work():
        number.add_(1)
        cause(number)

    in_graph = graphed(work)
    for _ in range(4):
        in_graph()
    assert number.tolist() == [5, 5, 5]
    assert capsys.readouterr().err.count("without CUDA graphs") == 1


def test_a_graph_reads_tensors_where_they_were(cuda):
    """This is why steps change their tensors in place."""
    box = [torch.ones(1, device="cuda")]

    def work():
        box[0] = box[0] + 1

    in_graph = graphed(work)
    for _ in range(4):
        in_graph()
    assert box[0].item() != 5
