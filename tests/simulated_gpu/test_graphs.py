"""Captured work is repeated by replays, with tensors that stay in place.

Where nothing can be captured, or the memory is too small, work goes on, if need be in another process.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial

import pytest
import torch
from plain_parser import sentence
from random_parsers import model
from simulated_cuda.device import SimulatedCuda
from stopped_runs import left_behind

from parser.batching.cuda_graph import CudaGraphs, GraphedWork, LostGeneratorError, refuse_without_generator
from parser.networks.stack_parser import StackParser
from parser.parsing.engine import parse
from parser.parsing.pytorch.running_batch import RunningBatch
from parser.training.config import read_config
from parser.training.run import train

pytestmark = pytest.mark.extended
CUDA = torch.device("cuda")
SENTENCES = [sentence((0, *range(1, length))) for length in (5, 1, 17, 3, 30, 2, 40, 9)]
DROPOUT = ["parser.network.dropout=0.3", "training.epochs=2"]


class Work:
    """Work that waits for the device, which no graph can, or that only adds one to `size` numbers."""

    def __init__(self, size=1, waits=False):
        self.numbers, self.waits, self.runs = torch.zeros(size, device="cuda"), waits, 0

    def __call__(self):
        self.runs += 1
        self.numbers.copy_(self.numbers + 1)
        if self.waits:
            self.numbers.sum().item()

    @property
    def times(self):
        """How often the work was done."""
        [number] = set(self.numbers.tolist())
        return number


def graphed(graphs, work, shape="a shape"):
    return partial(GraphedWork(graphs, shape), work)


def test_graphs_overwrite_what_others_have_made(cuda):
    """This is why results are written to tensors that existed before."""
    graphs, numbers = CudaGraphs(CUDA), torch.zeros(2, device="cuda")
    made = {}

    def work_of(name):
        def work():
            made[name] = numbers + 1
            numbers.copy_(made[name])

        return graphed(graphs, work)

    for work in [work_of("one"), work_of("other")] * 2:
        for _ in range(3):
            work()
    assert numbers.tolist() == [12, 12]
    assert made["one"].isnan().all()
    assert made["other"].tolist() == [12, 12]


def test_another_thread_may_allocate_pinned_memory_during_a_capture(cuda):
    def work():
        with ThreadPoolExecutor(1) as thread:
            thread.submit(torch.empty, 4, pin_memory=True).result()

    in_graph = graphed(CudaGraphs(CUDA), work)
    for _ in range(3):
        in_graph()
    assert cuda.counts.operators["graph"]


def test_what_is_captured_is_done_by_replays(cuda):
    number = torch.ones(3, device="cuda")
    work = graphed(CudaGraphs(CUDA), lambda: number.mul_(2).add_(torch.ones_like(number)[:1].expand(3)))
    for value, launches in ((3, 3), (7, 1), (15, 1), (31, 1), (63, 1)):
        cuda.counted()
        work()
        assert (number.tolist()[0], cuda.counted().launches) == (value, launches)


@pytest.mark.parametrize(
    "cause", [lambda there: there.sum().item(), lambda there: there + torch.ones(3).cuda()]
)
def test_work_that_waits_or_uploads_runs_without_a_graph(cuda, cause, capsys):
    number = torch.ones(3, device="cuda")

    def work():
        number.add_(1)
        cause(number)

    in_graph = graphed(CudaGraphs(CUDA), work)
    for _ in range(4):
        in_graph()
    assert number.tolist() == [5, 5, 5]
    assert capsys.readouterr().err.count("without CUDA graphs") == 1


def test_a_graph_reads_tensors_where_they_were(cuda):
    """This is why steps change their tensors in place."""
    box = [torch.ones(1, device="cuda")]

    def work():
        box[0] = box[0] + 1

    in_graph = graphed(CudaGraphs(CUDA), work)
    for _ in range(4):
        in_graph()
    assert box[0].item() != 5


def fail_captures(monkeypatch, kind, method):
    """Let a method wait for the device, so that it cannot be captured."""
    run = getattr(kind, method)

    def wait_and_run(self, *arguments):
        torch.zeros(1, device="cuda").item()
        return run(self, *arguments)

    monkeypatch.setattr(kind, method, wait_and_run)


def parsed(parser):
    return parse(parser, SENTENCES, batch_size=3)


def test_after_a_failed_capture_random_numbers_are_drawn_and_the_cache_can_be_emptied(cuda):
    """PyTorch's allocator refuses the latter while it takes the failed capture for one that goes on."""
    failing = graphed(CudaGraphs(CUDA), Work(waits=True))
    for _ in range(2):
        failing()
    assert torch.rand(3, device="cuda").shape == (3,)
    refuse_without_generator()
    torch.cuda.empty_cache()


def test_after_a_failure_no_owner_captures_or_keeps_a_graph(cuda, capsys):
    first, other, later = (CudaGraphs(CUDA) for _ in range(3))
    works = [Work() for _ in range(3)]
    of_first, of_other, of_later = map(graphed, (first, other, later), works)
    failing = Work(waits=True)
    for work in (of_first, of_other) * 3:
        work()
    assert cuda.counts.operators["graph"] == 4
    assert len(cuda.pools) == 2
    for work in [graphed(first, failing)] * 3 + [of_first, of_other, of_later] * 3:
        work()
    assert cuda.counts.operators["graph"] == 4
    assert failing.runs == 4  # and was captured once
    assert [work.times for work in works] == [6, 6, 3]
    torch.cuda.empty_cache()
    assert not cuda.pools
    assert first.failed
    assert later.failed
    error = capsys.readouterr().err
    assert error.count("without CUDA graphs") == 1
    assert "not permitted when stream is capturing" in error


def test_without_random_numbers_the_work_has_not_begun(cuda):
    cuda.recovers, work = False, Work(waits=True)
    in_graph = graphed(CudaGraphs(CUDA), work)
    in_graph()
    with pytest.raises(LostGeneratorError, match="Offset increment outside graph capture"):
        in_graph()
    assert work.times == 1
    in_graph()
    assert work.times == 2
    with pytest.raises(LostGeneratorError):
        refuse_without_generator()


def test_a_shape_that_ran_out_of_memory_frees_all_graphs_and_is_not_tried_again(cuda, capsys):
    cuda.memory_for_graphs, graphs = 1000, CudaGraphs(CUDA)
    small, large = works = Work(100), Work(400)
    each = [graphed(graphs, work, len(work.numbers)) for work in works]
    for _ in range(3):
        each[0]()
    assert len(cuda.pools) == 1
    for _ in range(2):
        each[1]()
    assert not cuda.pools
    for _ in range(3):
        for work in each:
            work()
    assert [work.times for work in works] == [6, 5]
    assert small.runs == 1 + 2  # plainly, and captured
    assert large.runs == 5 + 1
    assert graphs.may_have(100)
    assert not graphs.may_have(400)
    graphed(graphs, again := Work(400), 400)()
    graphed(graphs, again, 400)()
    assert again.runs == 2
    assert capsys.readouterr().err.count("out of memory") == 1


@pytest.mark.parametrize("replays", [False, True])
def test_without_memory_for_a_launch_or_the_first_run(cuda, monkeypatch, replays):
    """Work whose graph cannot be launched has not begun, so it is done plainly."""
    graphs, held, work = CudaGraphs(CUDA), Work(100), Work(10)
    other, in_graph = graphed(graphs, held, 100), graphed(graphs, work, 10)
    for _ in range(3):
        other()
        if replays:
            in_graph()

    def fail(*_):
        raise RuntimeError("CUDA error: out of memory")

    if replays:
        monkeypatch.setattr("simulated_cuda.graphs.Graph.replay", fail)
        in_graph()
        assert work.times == 4
    else:
        monkeypatch.setattr(Work, "__call__", fail)
        with pytest.raises(torch.OutOfMemoryError):
            in_graph()
        assert not cuda.pools
        assert graphs.may_have(10)  # it may fit without the other graph
        with pytest.raises(torch.OutOfMemoryError):
            in_graph()
    assert not cuda.pools
    assert not graphs.may_have(10)
    assert graphs.may_have(100)


@pytest.mark.parametrize("recovers", [True, False])
def test_parsing_goes_on_without_graphs(cuda, recovers, monkeypatch, capsys):
    parser = model(device=CUDA)
    expected = parsed(parser)
    replays = cuda.counts.operators["graph"]
    assert replays
    assert not capsys.readouterr().err
    cuda.recovers = recovers
    fail_captures(monkeypatch, RunningBatch, "_refill")
    for _ in range(2):
        assert parsed(parser) == expected
    assert cuda.counts.operators["graph"] == replays
    assert capsys.readouterr().err.count("without CUDA graphs") == 1


def test_parsing_goes_on_without_memory_for_graphs(cuda, monkeypatch, capsys):
    parser = model(device=CUDA)
    expected = parsed(parser)
    cuda.pools.clear()
    cuda.memory_for_graphs, replays = 0, cuda.counts.operators["graph"]
    assert parsed(parser) == expected
    assert cuda.counts.operators["graph"] == replays
    assert capsys.readouterr().err.count("out of memory") == 1


def write_chains(path, lengths):
    """Write a treebank of these lengths, in whose trees the head of each word is the word before it."""
    row = "{}\tw\tw\tX\tX\t_\t{}\tdep\t_\t_\n"
    trees = ("".join(row.format(word, word - 1) for word in range(1, length + 1)) for length in lengths)
    path.write_text("\n".join([*trees, ""]))


@pytest.mark.parametrize("sentences", [1, 2])
def test_a_batch_that_fits_without_graphs_is_neither_split_nor_refused(
    config_file, tmp_path, monkeypatch, sentences, capsys
):
    write_chains(tmp_path / "tiny.conllu", [3] * 40 + [30] * sentences)
    replay, words = StackParser.replay_words, 30 * sentences
    units = "training.batch_unit=words", f"training.batch_size={words}"
    with SimulatedCuda() as cuda:

        def replay_or_fail(network, table, batch):
            if network.training and not cuda.captured and batch.tokens.words >= words and cuda.pools:
                raise torch.OutOfMemoryError("CUDA out of memory")
            return replay(network, table, batch)

        monkeypatch.setattr(StackParser, "replay_words", replay_or_fail)
        changes = ["training.epochs=2", "training.cuda_graphs=true", *units]
        train(read_config(config_file, changes), tmp_path / "run", cuda.name)
    assert cuda.counts.operators["graph"]
    assert "microbatches" not in capsys.readouterr().err


@pytest.mark.parametrize("where", ["trees", "loss"])
def test_graphs_of_training_leave_their_memory_to_dev(config_file, tmp_path, monkeypatch, where):
    replay, steps = StackParser.replay_words, RunningBatch._steps
    with SimulatedCuda() as cuda:

        def fail_beside_graphs(here):
            if where == here and cuda.pools and not cuda.captured:
                raise torch.OutOfMemoryError("CUDA out of memory")

        def replay_or_fail(network, table, batch):
            if not network.training:
                fail_beside_graphs("loss")
            return replay(network, table, batch)

        def step_or_fail(batch):
            fail_beside_graphs("trees")
            return steps(batch)

        monkeypatch.setattr(StackParser, "replay_words", replay_or_fail)
        monkeypatch.setattr(RunningBatch, "_steps", step_or_fail)
        changes = ["training.epochs=3", "training.cuda_graphs=true", "training.learning_rate.decay=plateau"]
        train(read_config(config_file, changes), tmp_path / "run", cuda.name)
    assert cuda.counts.operators["graph"]


def test_training_goes_on_without_graphs(config_file, tmp_path, monkeypatch, capsys):
    fail_captures(monkeypatch, StackParser, "replay_words")
    config = read_config(config_file, [*DROPOUT, "training.cuda_graphs=true"])
    with SimulatedCuda() as cuda:
        train(config, tmp_path / "run", cuda.name)
    assert not cuda.counts.operators["graph"]
    assert len(left_behind(tmp_path / "run")[0]) == 2
    assert capsys.readouterr().err.count("without CUDA graphs") == 1


def test_training_without_random_numbers_is_saved_and_stops(config_file, tmp_path, monkeypatch):
    run = tmp_path / "run"
    with monkeypatch.context() as patched, SimulatedCuda() as cuda:
        fail_captures(patched, StackParser, "replay_words")
        cuda.recovers = False
        config = read_config(config_file, [*DROPOUT, "training.cuda_graphs=true"])
        told = rf"in epoch 1, after [12] .* --resume {run} --set training.cuda_graphs=false$"
        with pytest.raises(ValueError, match=told):
            train(config, run, cuda.name)
    with SimulatedCuda() as cuda:
        train(read_config(config_file, DROPOUT), run, cuda.name, resume=True)
    assert len(left_behind(run)[0]) == 2


def test_training_is_saved_if_parsing_dev_loses_the_random_numbers(
    config_file, tmp_path, monkeypatch, capsys
):
    """Sentences of so many words take more steps than one graph has."""
    write_chains(tmp_path / "tiny.conllu", [30] * 8)
    fail_captures(monkeypatch, RunningBatch, "_refill")
    config = read_config(config_file, [*DROPOUT, "training.cuda_graphs=true"])
    with SimulatedCuda() as cuda:
        cuda.recovers = False
        with pytest.raises(ValueError, match=r"draws no random numbers.* at the start of epoch 2"):
            train(config, tmp_path / "run", cuda.name)
    config = read_config(config_file, DROPOUT)  # nothing is captured for dev either
    with SimulatedCuda() as cuda:
        cuda.recovers = False
        train(config, tmp_path / "run", cuda.name, resume=True)
    assert [row["epoch"] for row in left_behind(tmp_path / "run")[0]] == [1, 2]
