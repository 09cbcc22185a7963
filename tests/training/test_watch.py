"""Processes that wait for a lost one on their devices, where no signal handler runs, go on and save."""

import os
import signal
from contextlib import contextmanager
from threading import Event

import pytest
import torch
from programs import together
from stopped_runs import LONG, left_behind

from parser.networks.stack_parser import StackParser
from parser.system.remote import RemoteError
from parser.training import epoch, loop
from parser.training import run as training_run
from parser.training.config import read_config
from parser.training.processes import LostProcessError, ProcessGroup, watch_over

pytestmark = pytest.mark.extended


class FakeNCCL:
    """Waits for ever, like NCCL's kernels for a lost process, until it is aborted."""

    def __init__(self):
        self._is_aborted = Event()

    def wait(self):
        self._is_aborted.wait()

    def abort(self):
        self._is_aborted.set()


def wait_for_the_dead(processes, way):
    nccl = FakeNCCL()
    with watch_over(nccl) as watch:
        if processes.rank == 1:
            if way == "dies":
                os.kill(os.getpid(), signal.SIGKILL)
            raise ZeroDivisionError
        nccl.wait()
        watch.refuse_if_lost()


@pytest.mark.parametrize("count", [2, 3])
@pytest.mark.parametrize("way", ["dies", "fails"])
def test_who_waits_for_a_lost_process_is_told(way, count):
    first, lost, *others = together(count, wait_for_the_dead, way)
    for left in (first, *others):
        assert isinstance(left, RemoteError)
        assert "LostProcessError" in left.status
    assert ("killed" if way == "dies" else "ZeroDivisionError") in lost.status


def leave_at_different_times(processes):
    nccl = FakeNCCL()
    with watch_over(nccl) as watch:
        if processes.rank:
            Event().wait(1.5)
        watch.refuse_if_lost()
    return nccl._is_aborted.is_set()


def test_nothing_is_aborted_when_all_leave():
    assert together(2, leave_at_different_times) == [False, False]


def trained_with_sums_of_gpus(processes, path, changes, run, dies_at, resume):
    """Train with sums as GPUs make them: those that a lost process leaves unfinished become arbitrary.

    dies_at: number of the batch in which the process with rank 1 dies; None for none.
    """
    nccl, replay, done = FakeNCCL(), StackParser.replay_words, 0
    exact = ProcessGroup.add_up

    def add_up(self, tensor):
        try:
            exact(self, tensor)
        except LostProcessError:
            nccl.wait()
            tensor.fill_(1e3)

    def replay_and_die(network, table, batch):
        nonlocal done
        done += network.training
        if network.training and done == dies_at and processes.rank == 1:
            os.kill(os.getpid(), signal.SIGKILL)
        return replay(network, table, batch)

    @contextmanager
    def watched(processes, device):
        with watch_over(nccl) as watch:
            yield watch

    ProcessGroup.add_up, StackParser.replay_words, training_run.watched = add_up, replay_and_die, watched
    epoch.STEPS_BETWEEN_SYNCHRONISATIONS = 2
    loop.SECONDS_BETWEEN_COPIES, loop.SHARE_OF_COPIES = 0, 1e9
    try:
        training_run.train(read_config(path, changes), run, torch.device("cpu"), resume, processes)
    except LostProcessError as error:
        return error.saved
    return "finished"


@pytest.mark.parametrize("dies_at", [3, 7])
def test_a_run_goes_on_without_the_arbitrary_sums(config_file, tmp_path, dies_at):
    whole, lost = tmp_path / "whole", tmp_path / "lost"
    changes = [*LONG, "parser.network.dropout=0", "training.unknown_probability=0"]  # nothing is random
    assert (
        together(2, trained_with_sums_of_gpus, config_file, changes, whole, None, False) == ["finished"] * 2
    )
    saved, _ = together(2, trained_with_sums_of_gpus, config_file, changes, lost, dies_at, False)
    assert saved.startswith("all but about the last minute is saved, continue with")
    together(2, trained_with_sums_of_gpus, config_file, changes, lost, None, True)
    assert left_behind(lost) == left_behind(whole)


def test_before_the_first_copy_the_checkpoint_is_kept(config_file, tmp_path):
    run = tmp_path / "run"
    saved, _ = together(2, trained_with_sums_of_gpus, config_file, LONG, run, 1, False)
    assert saved.startswith("the last checkpoint is kept")
