import os
import signal
import subprocess
import sys
import time
from multiprocessing.context import ForkServerProcess

import psutil
import pytest
import torch
from extended import extended
from programs import running, temporary

from parser.system.remote import Remote, RemoteError


class Thing:
    """An object in another process, whose methods can be called."""

    def __init__(self, number):
        self.number = number

    def add(self, other):
        self.number += other
        return self.number, os.getpid()

    def fail(self):
        raise ZeroDivisionError("because\nof two lines")

    def break_pipe(self):
        raise BrokenPipeError("of its own")

    def make_function(self):
        return lambda: self.number

    def want_memory(self, bytes_of_it):
        return torch.empty(bytes_of_it, dtype=torch.uint8)

    def end(self, number):
        os.kill(os.getpid(), number)
        time.sleep(60)

    def answer_at_length(self):
        return bytes(5_000_000)

    def leave(self):
        os._exit(3)

    def sleep(self):
        time.sleep(600)


class Empty(list):
    """An object that is false."""

    def grow(self):
        self.append(1)
        return len(self)


class NeverMade:
    def __init__(self):
        raise OSError("not today")


@pytest.fixture
def thing():
    with Remote(Thing, 1, timeout=600) as remote:
        yield remote


def test_an_object_that_is_false_lives_on_too():
    with Remote(Empty, timeout=600) as remote:
        assert remote.call("copy") == []
        assert [remote.call("grow"), remote.call("grow")] == [1, 2]


def test_an_object_lives_on_in_another_process(thing):
    first, process = thing.call("add", 2)
    second, same_process = thing.call("add", 3)
    assert (first, second) == (3, 6)
    assert process == same_process != os.getpid()


def failure_of(action, *arguments):
    with pytest.raises(RemoteError) as failed:
        action(*arguments)
    return failed.value


@pytest.mark.parametrize(
    ("method", "arguments", "status"),
    [
        ("fail", [], "error: ZeroDivisionError: because"),
        *extended(
            ("break_pipe", [], "error: BrokenPipeError: of its own"),
            ("make_function", [], "make_function"),  # its answer cannot be sent
            ("want_memory", [1 << 50], "out of memory"),
        ),
    ],
)
def test_an_error_is_a_status_and_the_object_goes_on(method, arguments, status, thing):
    failure = failure_of(thing.call, method, *arguments)
    assert status in failure.status
    assert "\n" not in failure.status
    assert method in failure.traceback
    assert thing.call("add", 1)[0] == 2


@pytest.mark.parametrize(
    ("method", "arguments", "status"),
    [("end", [signal.SIGKILL], "error: killed"), *extended(("leave", [], "error: its process ended with "))],
)
def test_a_process_that_ends(method, arguments, status, thing):
    assert failure_of(thing.call, method, *arguments).status.startswith(status)


def test_a_process_that_is_killed_while_it_answers(thing):
    thing.begin("answer_at_length")
    assert thing.connection.poll(60)
    thing._process.kill()
    assert failure_of(thing.answer).status.startswith("error: killed, perhaps")


def test_no_answer_in_time():
    with Remote(Thing, 1, timeout=600) as remote:
        remote.call("add", 1)  # it is up
        remote._timeout = 0.2
        assert failure_of(remote.call, "sleep").status == "timeout"
        assert not remote._process.is_alive()


def test_an_object_that_can_not_be_made():
    with Remote(NeverMade, timeout=600) as remote:
        assert failure_of(remote.call, "add", 1).status == "error: OSError: not today"


PARENT = """
import time
from parser.system.remote import Remote, start_server

if __name__ == "__main__":
    start_server([])
    {what}
    print(remote._process.pid, flush=True)
    time.sleep(1000)
"""


BUSY = "remote = Remote(time.sleep, 1000); remote.begin_making()"
IDLE = "remote = Remote(dict); remote.begin_making(); remote.answer()"
ANSWERED = "remote = Remote(dict); remote.begin_making(); remote.connection.poll(None)"
"""The answer has arrived, but has not been read."""


@pytest.mark.extended
@pytest.mark.parametrize("what", [BUSY, IDLE, ANSWERED])
def test_a_process_ends_with_a_parent_that_is_killed(what, tmp_path, short_path):
    folder = short_path / "temporary"
    (tmp_path / "parent.py").write_text(PARENT.format(what=what))
    program = [sys.executable, str(tmp_path / "parent.py")]
    variables = {**temporary(folder), "PYTHONPATH": os.getcwd()}
    with running(program, env=variables, stdout=subprocess.PIPE) as parent:
        child = psutil.Process(int(parent.stdout.readline()))
        parent.kill()
        child.wait(60)
    assert list(folder.iterdir()) == []


def test_an_interrupt_is_not_for_the_other_process(thing):
    process = thing.call("add", 0)[1]
    os.kill(process, signal.SIGINT)
    assert thing.call("add", 1)[0] == 2


def test_a_ctrl_c_while_a_process_starts_is_for_the_parent_and_is_not_lost(monkeypatch):
    started = []

    def interrupt_and_start(process, start=ForkServerProcess.start):
        os.kill(os.getpid(), signal.SIGINT)
        start(process)
        started.append(process)

    monkeypatch.setattr(ForkServerProcess, "start", interrupt_and_start)
    with pytest.raises(KeyboardInterrupt) as interrupted:
        Remote(Thing, 1, timeout=600)
    assert interrupted.traceback  # keeps the connection, whose end would end the process
    [process] = started
    os.kill(process.pid, signal.SIGINT)
    process.join(1)
    assert process.is_alive()
    process.kill()
    process.join()
