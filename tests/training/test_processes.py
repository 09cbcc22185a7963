"""What processes exchange, how they share work, and that they train the same model as one process."""

import json
import os
import signal
from contextlib import contextmanager
from threading import Event

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from programs import together
from safetensors.torch import load_file
from stopped_runs import LONG, RICH, left_behind

from parser.networks.stack_parser import StackParser
from parser.system.remote import RemoteError
from parser.training import data, epoch, loop
from parser.training import run as training_run
from parser.training.config import read_config
from parser.training.epoch import train_step
from parser.training.processes import ALONE, LostProcessError, ProcessGroup, watch_over
from parser.training.record import epochs_of
from parser.training.run import new_training, train


@given(st.lists(st.integers(1, 60), max_size=40), st.integers(1, 5), st.randoms())
def test_a_batch_is_dealt_out_evenly(lengths, count, random):
    lengths = torch.tensor(lengths, dtype=torch.long)
    rows = list(range(len(lengths)))
    random.shuffle(rows)
    shares = [
        ProcessGroup(rank, count).deal(torch.tensor(rows, dtype=torch.long), lengths) for rank in range(count)
    ]
    assert sorted(row for share in shares for row in share.tolist()) == sorted(rows)
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    if len(rows) % (2 * count) == 0 and rows:
        words = [int(lengths[share].sum()) for share in shares]
        assert max(words) - min(words) <= int(lengths.max() - lengths.min())


def test_one_process_keeps_the_order_of_a_batch():
    assert ALONE.deal(torch.tensor([2, 0, 1]), torch.tensor([1, 2, 3])).tolist() == [2, 0, 1]


def tell_all(processes):
    numbers = torch.tensor([1.0, processes.rank])
    processes.add_up(numbers)
    with processes.first_before_others():
        pass
    return (
        numbers.tolist(),
        processes.greatest(processes.rank * 10),
        processes.gathered(processes.rank),
        processes.from_first("first" if processes.is_first else None),
        list(processes.share("abcdefg")),
    )


@pytest.mark.extended
def test_what_is_told_reaches_all():
    found = together(3, tell_all)
    assert [answer[:4] for answer in found] == [([3.0, 3.0], 20, [0, 1, 2], "first")] * 3
    assert ["".join(answer[4]) for answer in found] == ["adg", "be", "cf"]


def die_or_wait(processes):
    if processes.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    processes.greatest(0)


def assert_others_are_told(answers):
    """Check that all processes but the second one know that it is lost. Returns the answer of that one."""
    first, lost, *others = answers
    assert all("LostProcessError" in left.status for left in (first, *others))
    return lost


@pytest.mark.extended
@pytest.mark.parametrize("count", [2, 3])
def test_a_death_is_noticed(count):
    assert "killed" in assert_others_are_told(together(count, die_or_wait)).status


CPU = torch.device("cpu")
NOTHING_RANDOM = ["training.unknown_probability=0.0"]
"""Without dropout, which would differ: each process draws its own."""
NETWORKS = {
    "plain": [],
    "arc-eager, two layers": ["parser.system=arc-eager", "parser.network.layers=2"],
    "rich": [change for change in RICH if "dropout" not in change and "exploration" not in change],
}


def gradients(processes, path, changes, batches):
    """For each batch, the loss, and the norm and the values of the gradient. The weights hardly change."""
    config = read_config(path, changes)
    torch.manual_seed(config.training.seed)
    model, loaded = data.load(config, CPU)
    model.network.double()
    training = new_training(model, loaded, config)
    lengths = loaded.train.tokens.lengths
    by_batch = []
    for rows in map(torch.tensor, batches):
        share = processes.deal(rows, lengths)
        loss, norm, _ = train_step(training, loaded, rows, share, processes=processes)
        trained = [weight for weight in model.network.parameters() if weight.requires_grad]
        by_batch.append([loss, norm, *(weight.grad.clone() for weight in trained)])
    return by_batch


@pytest.mark.extended
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("changes", NETWORKS.values(), ids=NETWORKS)
def test_gradients_are_those_of_one_process(config_file, count, changes):
    """Even if a process has no sentence of the batch."""
    batches = [list(range(16)), [3, 9, 1, 0], [5]]
    unchanged = ["training.learning_rate={start: 1e-30, peak: 1e-30}", "training.max_grad_norm=.inf"]
    arguments = config_file, [*NOTHING_RANDOM, *unchanged, *changes], batches
    alone = gradients(ALONE, *arguments)
    for found in together(count, gradients, *arguments):
        torch.testing.assert_close(found, alone, rtol=1e-9, atol=1e-9)


def trained(processes, path, changes, run, resume=False):
    return train(read_config(path, changes), run, CPU, resume, processes)


@pytest.mark.extended
def test_a_run_is_that_of_one_process(config_file, tmp_path):
    changes = [*NOTHING_RANDOM, "training.average=0.9", "training.epochs=13", "training.batch_size=4"]
    one = trained(ALONE, config_file, changes, tmp_path / "one")
    first, second = together(2, trained, config_file, changes, tmp_path / "two")
    assert first == second == one
    for ours, theirs in zip(epochs_of(tmp_path / "two"), epochs_of(tmp_path / "one"), strict=True):
        for name in ("loss", "dev_loss", "gradient_norm", "dev_las"):
            assert ours[name] == pytest.approx(theirs[name], rel=1e-4), name
    ours, theirs = (load_file(tmp_path / name / "model/weights.safetensors") for name in ("two", "one"))
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)  # after 52 steps


def signal_in_replay(processes, number, rank, signal_number):
    """Make the process with this rank get the signal in its training batch `number`."""
    done, replay = 0, StackParser.replay_words

    def replay_and_signal(network, table, batch):
        nonlocal done
        done += network.training
        if network.training and done == number and processes.rank == rank:
            os.kill(os.getpid(), signal_number)
        return replay(network, table, batch)

    StackParser.replay_words = replay_and_signal


def trained_until(processes, path, changes, run, number, rank, signal_number, resume):
    signal_in_replay(processes, number, rank, signal_number)
    return trained(processes, path, changes, run, resume)


@pytest.mark.extended
def test_a_run_that_is_stopped_goes_on_as_if_it_had_not_been(config_file, tmp_path):
    """Each process has its own random numbers, whose state is saved."""
    whole, stopped = tmp_path / "whole", tmp_path / "stopped"
    exploration = "training.exploration={from_epoch: 3, probability: 0.5}"
    changes = [*LONG, "training.word_dropout=0.5", exploration]
    together(2, trained, config_file, changes, whole)
    for replays, rank in ((3, 1), (9, 0)):
        arguments = config_file, changes, stopped, replays, rank, signal.SIGTERM, stopped.exists()
        for error in together(2, trained_until, *arguments):
            assert isinstance(error, RemoteError)
            assert "StoppedError: stopped " in error.status
            assert "everything is saved, continue with" in error.status
    together(2, trained, config_file, changes, stopped, True)
    assert left_behind(stopped) == left_behind(whole)


@pytest.mark.extended
def test_a_run_goes_on_with_another_number_of_processes(config_file, tmp_path):
    run = tmp_path / "run"
    for count, replays in ((2, 3), (3, 4)):
        arguments = config_file, LONG, run, replays, count - 1, signal.SIGTERM, run.exists()
        together(count, trained_until, *arguments)
    scores = trained(ALONE, config_file, LONG, run, resume=True)
    assert [row["epoch"] for row in epochs_of(run)] == list(range(1, 13))
    assert scores.las > 50


@pytest.mark.extended
@pytest.mark.parametrize("dev", ["tiny.conllu", None])
def test_a_finished_run_goes_on_to_more_epochs(config_file, tmp_path, dev):
    run = tmp_path / "run"
    changes = [*NOTHING_RANDOM, f"treebank.dev={f'{tmp_path}/{dev}' if dev else 'null'}"]
    changes.append("training.learning_rate.decay=linear")
    together(2, trained, config_file, [*changes, "training.epochs=2"], run)
    for epochs in (4, 4):
        together(2, trained, config_file, [*changes, f"training.epochs={epochs}"], run, True)
        assert [row["epoch"] for row in epochs_of(run)] == [1, 2, 3, 4]
    told = json.loads((run / "model" / "scores.json").read_text())
    assert (told["dev"] is None) == (dev is None)
    assert dev or told["epoch"] == 4


@pytest.mark.extended
def test_the_death_of_a_process_loses_nothing(config_file, tmp_path):
    run = tmp_path / "run"
    first, second = together(2, trained_until, config_file, LONG, run, 7, 1, signal.SIGKILL, False)
    assert "LostProcessError" in first.status
    assert "killed" in second.status
    found = together(2, trained_until, config_file, LONG, run, 1, 0, signal.SIGTERM, True)
    # 16 sentences are four or five batches.
    assert "in epoch 2, after" in found[0].status
    together(2, trained, config_file, LONG, run, True)
    assert [row["epoch"] for row in epochs_of(run)] == list(range(1, 13))


def of_other_data(processes, path, run):
    other = path.parent / "other.conllu"
    other.write_text((path.parent / "tiny.conllu").read_text().replace("dogs", "frogs"))
    return trained(processes, path, [f"treebank.train={other}"] if processes.rank == 1 else [], run)


@pytest.mark.extended
def test_processes_with_other_treebanks_are_refused(config_file, tmp_path):
    for error in together(2, of_other_data, config_file, tmp_path / "run"):
        assert "process 1 has read other treebanks, word vectors, teachers or" in error.status


class FakeNCCL:
    """Waits for ever, like NCCL's kernels for a lost process, until it is aborted."""

    def __init__(self):
        self.is_aborted = Event()
        self.wait, self.abort = self.is_aborted.wait, self.is_aborted.set


def wait_for_the_dead(processes, way):
    nccl = FakeNCCL()
    with watch_over(nccl) as watch:
        if processes.rank == 1:
            if way == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ZeroDivisionError
        nccl.wait()
        watch.refuse_if_lost()


@pytest.mark.extended
@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("way", ["dies", "fails"])
def test_who_waits_for_a_lost_process_is_told(way, count):
    lost = assert_others_are_told(together(count, wait_for_the_dead, way))
    assert ("killed" if way == "dies" else "ZeroDivisionError") in lost.status


def leave_at_different_times(processes):
    nccl = FakeNCCL()
    with watch_over(nccl) as watch:
        if processes.rank:
            Event().wait(1.5)
        watch.refuse_if_lost()
    return nccl.is_aborted.is_set()


@pytest.mark.extended
def test_nothing_is_aborted_when_all_leave():
    assert together(2, leave_at_different_times) == [False, False]


def trained_with_sums_of_gpus(processes, path, changes, run, dies_at, resume):
    """Train with sums as GPUs make them: those that a lost process leaves unfinished become arbitrary.

    dies_at: number of the batch in which the process with rank 1 dies; None for none.
    """
    nccl, exact = FakeNCCL(), ProcessGroup.add_up

    def add_up(self, tensor):
        try:
            exact(self, tensor)
        except LostProcessError:
            nccl.wait()
            tensor.fill_(1e3)

    @contextmanager
    def watched(processes, device):
        with watch_over(nccl) as watch:
            yield watch

    signal_in_replay(processes, dies_at, 1, signal.SIGKILL)
    ProcessGroup.add_up, training_run.watched = add_up, watched
    epoch.STEPS_BETWEEN_SYNCHRONISATIONS = 2
    loop.SECONDS_BETWEEN_COPIES, loop.SHARE_OF_COPIES = 0, 1e9
    try:
        training_run.train(read_config(path, changes), run, torch.device("cpu"), resume, processes)
    except LostProcessError as error:
        return error.saved
    return "finished"


@pytest.mark.extended
@pytest.mark.parametrize("dies_at", [3, 7])
def test_a_run_goes_on_without_the_arbitrary_sums(config_file, tmp_path, dies_at):
    whole, lost = tmp_path / "whole", tmp_path / "lost"
    changes = [*LONG, "parser.network.dropout=0", "training.unknown_probability=0"]  # nothing is random
    found = together(2, trained_with_sums_of_gpus, config_file, changes, whole, None, False)
    assert found == ["finished"] * 2
    saved, _ = together(2, trained_with_sums_of_gpus, config_file, changes, lost, dies_at, False)
    assert saved.startswith("all but about the last minute is saved")
    together(2, trained_with_sums_of_gpus, config_file, changes, lost, None, True)
    assert left_behind(lost) == left_behind(whole)


@pytest.mark.extended
def test_before_the_first_copy_the_checkpoint_is_kept(config_file, tmp_path):
    run = tmp_path / "run"
    saved, _ = together(2, trained_with_sums_of_gpus, config_file, LONG, run, 1, False)
    assert saved.startswith("the last checkpoint is kept")
