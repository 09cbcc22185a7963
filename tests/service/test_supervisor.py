"""`stack-parser serve --processes`: load is shared, processes can be killed, and nothing is left."""

import os
import re
import signal
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from datetime import datetime
from http.client import HTTPConnection
from itertools import pairwise

import psutil
import pytest
from programs import children_of, running, wait_until
from services import ask, clients_of, serving

from parser.service.listening import PAUSE

pytestmark = pytest.mark.extended
httpx = pytest.importorskip("httpx")
pytest.importorskip("fastapi")

CLIENTS = 32
SENTENCES = 9_000
LOST = 503, b"the process that parsed this has died; send the request again\n"
LONG = "It was round. " * SENTENCES
"""A text that takes seconds."""
SERVE = [sys.executable, "-m", "parser", "serve", "--port", "0", "--device", "cpu", "--processes", "2"]


@contextmanager
def two_processes(model, *options):
    """A service of two processes that are both ready, and the process id of the second one."""
    with serving(model, "--processes", "2", *options) as service:
        yield service, service.next("process ready")["pid"]


def requests_of(service):
    """The number of requests that each process has parsed."""
    counts = {}
    for name, count in service.metrics().items():
        if process := re.search(r'requests_total{.*path="/process",process="(\d)"', name):
            counts[process[1]] = count
    return counts


def running_in(service):
    """The number of requests that each process is parsing."""
    return [count for name, count in service.metrics().items() if "running_requests{" in name]


def wait_for_each(service, earlier):
    """Wait until each of the two processes has answered more requests than in `earlier`."""
    while any(requests_of(service).get(process, 0) <= earlier.get(process, 0) for process in "12"):
        time.sleep(0.05)


def test_connections_that_are_kept_are_shared_evenly(model):
    with two_processes(model) as (service, _):
        connections = [HTTPConnection("127.0.0.1", service.port, timeout=60) for _ in range(CLIENTS)]
        for _ in range(3):
            with ThreadPoolExecutor(CLIENTS) as pool:  # at once, so that both are busy
                assert {status for status, _ in pool.map(ask, connections)} == {200}
        counts = requests_of(service).values()
        assert sum(counts) == 3 * CLIENTS
        assert min(counts) >= CLIENTS
        for connection in connections:
            connection.close()


def test_while_one_is_busy_the_other_answers(model):
    with two_processes(model) as (service, _), ThreadPoolExecutor(1) as pool:
        long = pool.submit(httpx.post, f"{service.url}/v1/parse", json={"texts": [LONG]}, timeout=120)
        while not any(running_in(service)) and not long.done():
            time.sleep(0.05)
        with closing(HTTPConnection("127.0.0.1", service.port)) as connection:
            assert {ask(connection)[0] for _ in range(5)} == {200}
        assert not long.done()
        assert long.result().status_code == 200
        assert set(requests_of(service).values()) == {5.0}


def test_a_process_that_is_killed_is_replaced_while_the_other_answers(model):
    with two_processes(model) as (service, process), clients_of(service.port, 8) as clients:
        with closing(HTTPConnection("127.0.0.1", service.port)) as connection:
            expected = ask(connection)
        for pause in (0.5, 1.0):  # the second time it waits longer
            wait_for_each(service, {})
            os.kill(process, signal.SIGKILL)
            ended = service.next("process ended")
            assert (ended["process"], ended["code"], ended["pause"]) == (2, -signal.SIGKILL, pause)
            before = [len(client.answers) for client in clients]
            process = service.next("process ready")["pid"]
            after = [len(client.answers) for client in clients]
            assert all(now > earlier for now, earlier in zip(after, before, strict=True))
        wait_for_each(service, {"1": requests_of(service)["1"]})  # from the clients of the first process
    answers = [answer for client in clients for answer in client.answers]
    assert set(answers) - {LOST} == {expected}
    assert answers.count(LOST) + sum(client.lost for client in clients) <= 2 * len(clients)


@contextmanager
def without_descriptors(service):
    """The supervisor has no file descriptors left inside the block."""
    supervisor = psutil.Process(service.process.pid)
    limits = supervisor.rlimit(psutil.RLIMIT_NOFILE)
    supervisor.rlimit(psutil.RLIMIT_NOFILE, (3, limits[1]))
    yield
    supervisor.rlimit(psutil.RLIMIT_NOFILE, limits)


def test_a_process_that_can_not_be_started_is_tried_again(model):
    with two_processes(model) as (service, process):
        with without_descriptors(service):
            os.kill(process, signal.SIGKILL)
            missing = service.next("process not started")
            assert (missing["process"], missing["error"]) == (2, "Too many open files")
        assert service.next("process ready")["process"] == 2
        assert service.process_text(data="The cat sleeps.", tokenizer="", parser="")


def test_connections_wait_while_the_supervisor_has_no_descriptors(model):
    """The log has a line for each second, even if a process ends meanwhile."""
    with (
        two_processes(model) as (service, process),
        closing(HTTPConnection("127.0.0.1", service.port)) as connection,
    ):
        with without_descriptors(service):
            connection.connect()
            missing = [service.next("no connections accepted")]
            os.kill(process, signal.SIGKILL)
            missing += [service.next("no connections accepted") for _ in range(2)]
        assert ask(connection)[0] == 200
    assert {line["error"] for line in missing} == {"Too many open files"}
    times = [datetime.fromisoformat(line["time"]) for line in missing]
    assert all((later - earlier).total_seconds() > 0.9 * PAUSE for earlier, later in pairwise(times))


def test_nothing_is_in_the_file_system(model, tmp_path, monkeypatch):
    """Not even if its names are too long for sockets, or if the supervisor is killed."""
    monkeypatch.setenv("TMPDIR", str(folder := tmp_path / ("long" * 30)))
    folder.mkdir()
    with two_processes(model) as (service, _):
        assert service.told["models"] == [model.name]
        assert len(running_in(service)) == 2
    assert list(folder.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_at_a_signal_running_requests_end_and_nothing_is_left(number, model):
    with two_processes(model) as (service, _), ThreadPoolExecutor(4) as pool:
        workers = children_of(service.process)
        wanted = {"json": {"texts": [LONG]}, "timeout": 120}
        running = [pool.submit(httpx.post, f"{service.url}/v1/parse", **wanted) for _ in range(4)]
        while sum(running_in(service)) < len(running) and not any(one.done() for one in running):
            time.sleep(0.05)
        assert not any(one.done() for one in running)
        service.process.send_signal(number)
        assert {len(one.result().json()["sentences"]) for one in running} == {SENTENCES}
        assert service.process.wait() == 0
        psutil.wait_procs(workers)


def test_connections_that_no_process_has_taken_are_closed_at_a_signal(model):
    with two_processes(model) as (service, _):
        workers = [worker for worker in children_of(service.process) if "parser" in worker.cmdline()]
        for worker in workers:
            worker.suspend()
        with socket.create_connection(("127.0.0.1", service.port), timeout=60) as connection:
            time.sleep(0.5)  # most probably it has been passed to one of them
            service.process.send_signal(signal.SIGTERM)
            with suppress(ConnectionResetError):
                assert connection.recv(1) == b""
            assert service.process.poll() is None
        for worker in workers:
            worker.resume()
        assert service.process.wait() == 0


def test_the_processes_end_with_a_supervisor_that_is_killed(model):
    with two_processes(model) as (service, _):
        workers = children_of(service.process)
        assert len(workers) >= 2
        service.process.kill()
        psutil.wait_procs(workers)


def test_what_can_not_be_loaded_is_told_once(tmp_path):
    several, alone = (
        subprocess.run([*command, str(tmp_path / "nowhere")], capture_output=True, text=True, check=False)
        for command in (SERVE, SERVE[:-2])
    )
    assert (several.returncode, several.stderr) == (alone.returncode, alone.stderr)
    assert several.returncode == 2


@pytest.mark.parametrize(
    ("whom", "number", "code", "told"),
    [
        ("program", signal.SIGTERM, 128 + signal.SIGTERM, "interrupted\n"),
        ("worker", signal.SIGKILL, 2, "one of the 2 processes has ended without a message"),
    ],
)
def test_what_ends_before_it_serves_says_so(whom, number, code, told, model):
    with running([*SERVE, str(model)], stderr=subprocess.PIPE, text=True) as program:
        wait_until(lambda: any("parser" in line for line in commands_below(program)), program)
        pid = program.pid if whom == "program" else psutil.Process(program.pid).children()[0].pid
        os.kill(pid, number)
        _, said = program.communicate()
        assert said.startswith(told)
        assert program.returncode == code


def commands_below(program):
    """The command lines of the children that already run their own program."""
    for child in children_of(program):
        with suppress(psutil.Error):
            if child.cmdline()[0] == sys.executable:
                yield from child.cmdline()
