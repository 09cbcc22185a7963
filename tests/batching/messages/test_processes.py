"""A process for each worker: the same graphs, connections between processes, and messages as bytes."""

from __future__ import annotations

import multiprocessing
import os
import socket
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import timedelta
from functools import partial
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import pytest
import torch
import torch.distributed as dist
from message_graphs import examples, instances, layers_in_a_row, two_layers

from parser.batching.messages import tcp_connections as connections
from parser.batching.messages import workers
from parser.batching.messages.asynchronous_updates import staleness, update_all
from parser.batching.messages.message_graph import Message, MessageState, Port
from parser.batching.messages.processes import LocalProcesses, Processes
from parser.batching.messages.tcp_connections import (
    NUMBER,
    SECRET_BYTES,
    Connections,
    _accept_connection,
    _listening,
    _open_connection,
    _read,
    delivery_from_bytes,
    delivery_to_bytes,
)
from parser.batching.messages.workers import Delivery, LostError, NodeError, run
from parser.system.remote import start_server


def begin(rank: int, folder: Path, size: int = 2) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    torch.set_num_threads(1)
    meeting, limit = f"file://{folder}/meeting", timedelta(seconds=600)
    dist.init_process_group("gloo", init_method=meeting, rank=rank, world_size=size, timeout=limit)


def train(rank: int, folder: Path) -> None:
    begin(rank, folder)
    graph = layers_in_a_row(*(layers := two_layers()))
    data = instances(examples(12)) if rank == 0 else []
    losses: list[float] = []
    with Processes() as processes:
        for epoch in range(2):
            renumbered = [each._replace(number=12 * epoch + each.number) for each in data]
            processes.run(graph, renumbered, max_active=1, report=lambda report: losses.append(report.loss))
        held_out = [each._replace(training=False) for each in data]
        processes.run(graph, held_out, 5, lambda report: losses.append(report.loss))
        assert graph.outstanding() == {}
        processes.share(graph)
    torch.save((losses, [layer.state_dict() for layer in layers]), folder / f"{rank}.pt")
    dist.destroy_process_group()


def graph_of_three_workers():
    graph = layers_in_a_row(*two_layers())
    graph.worker["second"] = graph.worker["loss"] = 2
    return graph


def raise_in_the_middle(rank: int, folder: Path) -> None:
    """In the second of three processes a node cannot process its message; the others are notified."""
    begin(rank, folder, size=3)
    wrong = torch.zeros(4, 5, dtype=torch.double), torch.full((4,), 99)
    data = instances([*examples(3), wrong, *examples(3)])
    try:
        with Processes() as processes:
            processes.run(graph_of_three_workers(), data, 2, lambda _: None)
    except (NodeError, LostError) as error:
        (folder / f"{rank}.error").write_text(str(error))


def take_time(rank: int, folder: Path) -> None:
    """Several consecutive runs in three processes that take longer than the group's timeout."""
    begin(rank, folder, size=3)
    graph = graph_of_three_workers()

    with Processes() as processes:
        dist.distributed_c10d._set_pg_timeout(timedelta(seconds=0.3))  # now that all processes have joined
        for number in range(5):
            data = [each._replace(number=10 * number + each.number) for each in instances(examples(1))]
            processes.run(graph, data, 1, lambda _: time.sleep(0.5))
    (folder / f"{rank}.done").touch()


def fail(rank: int, folder: Path) -> None:
    """The second process is killed in the middle."""
    begin(rank, folder)
    [instance] = instances(examples(1))
    endless = (instance._replace(number=number) for number in range(10**9))
    graph = layers_in_a_row(*two_layers())
    with Processes() as processes:
        (folder / f"{rank}.ready").touch()
        try:
            processes.run(graph, endless, 4, lambda _: None)
        except RuntimeError as error:
            (folder / "error").write_text(str(error))
            os._exit(3)


@contextmanager
def started(target, folder: Path, size: int = 2) -> Iterator[list[ForkServerProcess]]:
    """Starts processes, of which nothing is left behind after the block."""
    start_server()  # all later tests use it, too: it never receives a Ctrl-C
    context = multiprocessing.get_context("forkserver")
    processes = [context.Process(target=target, args=(rank, folder)) for rank in range(size)]
    try:
        for process in processes:
            process.start()
        yield processes
    finally:
        for process in processes:
            process.kill()
            process.join()


def exit_codes(target, folder: Path, size: int = 2) -> list[int | None]:
    with started(target, folder, size) as processes:
        for process in processes:
            process.join()
        return [process.exitcode for process in processes]


@pytest.mark.extended
def test_two_processes_do_what_two_threads_do(tmp_path):
    assert exit_codes(train, tmp_path) == [0, 0]
    (losses, weights), (no_losses, same_weights) = (torch.load(tmp_path / f"{rank}.pt") for rank in range(2))
    assert no_losses == []
    layers = two_layers()
    graph, data, expected = layers_in_a_row(*layers), instances(examples(12)), []
    for training in (True, True, False):
        run(graph, [each._replace(training=training) for each in data], 1, lambda r: expected.append(r.loss))
    assert losses[:24] == pytest.approx(expected[:24])
    assert sorted(losses[24:]) == pytest.approx(sorted(expected[24:]))
    torch.testing.assert_close(weights, [layer.state_dict() for layer in layers])
    torch.testing.assert_close(same_weights, weights)


@pytest.mark.extended
def test_a_process_that_dies_ends_the_run_and_is_named(tmp_path):
    with started(fail, tmp_path) as (first, second):
        while len(list(tmp_path.glob("*.ready"))) < 2:
            assert first.is_alive()
            assert second.is_alive()
            time.sleep(0.05)
        time.sleep(0.5)
        second.kill()
        first.join()
        assert first.exitcode == 3
    assert "the process of worker 1 is lost" in (tmp_path / "error").read_text()


@pytest.mark.extended
def test_a_node_that_fails_ends_the_run_everywhere_and_is_named(tmp_path):
    assert exit_codes(raise_in_the_middle, tmp_path, size=3) == [0, 0, 0]
    errors = {path.stem: path.read_text() for path in tmp_path.glob("*.error")}
    assert sorted(errors) == ["0", "1", "2"]
    assert errors["2"].startswith("loss, worker 2, instance 3, position (): IndexError")
    assert errors["0"] == errors["1"] == f"worker 2 has failed: {errors['2']}"


@pytest.mark.extended
def test_silence_is_no_death_and_runs_follow_each_other(tmp_path):
    assert exit_codes(take_time, tmp_path, size=3) == [0, 0, 0]
    assert len(list(tmp_path.glob("*.done"))) == 3


def enter_late(rank: int, folder: Path) -> None:
    begin(rank, folder)
    processes = Processes()
    with pytest.raises(ValueError, match="enter the processes first"):
        processes.run(layers_in_a_row(*two_layers()), [], 1, lambda _: None)
    with processes:
        pass
    dist.destroy_process_group()


def test_the_group_must_be_there_and_the_controller_in_the_process_that_starts_the_others():
    with pytest.raises(ValueError, match="init_process_group"):
        Processes()
    graph = layers_in_a_row(*two_layers())
    graph.worker["controller"] = 1
    with pytest.raises(ValueError, match="on the first worker, not on 1"):
        LocalProcesses(graph, lambda: graph)


@pytest.mark.extended
def test_processes_must_be_entered(tmp_path):
    assert exit_codes(enter_late, tmp_path) == [0, 0]


@pytest.mark.extended
def test_they_do_what_threads_do_and_end_with_an_error_when_one_is_lost():
    """A single test for everything, because processes take long to start."""
    layers, plain_layers = two_layers(), two_layers()
    graph, plain = (layers_in_a_row(*own, update_after=5) for own in (layers, plain_layers))
    losses: list[float] = []
    expected: list[float] = []
    workers.run(plain, instances(examples(12)), 1, lambda report: expected.append(report.loss))
    update_all(plain)
    processes = LocalProcesses(graph, partial(layers_in_a_row, *layers, update_after=5))
    processes.run(graph, instances(examples(12)), 1, lambda report: losses.append(report.loss))
    processes.update()
    processes.share()
    assert losses == pytest.approx(expected)
    for layer, plain_layer in zip(layers, plain_layers, strict=True):
        torch.testing.assert_close(list(layer.parameters()), list(plain_layer.parameters()))
    assert processes.staleness() == staleness(plain)
    processes._others[0].kill()
    with pytest.raises(LostError):
        processes.run(graph, instances(examples(12)), 1, lambda _: None)
    processes.close()
    assert processes._others[0].returncode is not None


SECRET = bytes(range(SECRET_BYTES))


def test_strangers_are_turned_away():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with socket.create_connection(address) as stranger, socket.create_connection(address) as closed:
            closed.close()
            stranger.sendall(bytes(SECRET_BYTES) + NUMBER.pack(5))
            with _open_connection(address, SECRET, rank=3) as known:
                found, rank = _accept_connection(server, SECRET)
                with found:
                    found.sendall(b"welcome!")
                    assert (rank, _read(known, 8).tobytes()) == (3, b"welcome!")
            with pytest.raises(ConnectionError):
                _read(stranger, 1)


@pytest.fixture
def alone(monkeypatch):
    """The connections of a single process."""
    monkeypatch.setattr(connections.dist, "get_rank", lambda: 0)
    monkeypatch.setattr(connections.dist, "get_world_size", lambda: 1)
    monkeypatch.setattr(connections.dist, "all_gather_object", lambda offers, own: None)
    with closing(Connections("127.0.0.1")) as made:
        yield made


def test_who_does_not_come_is_not_waited_for_endlessly(alone, monkeypatch):
    monkeypatch.setattr(connections, "CONNECT_TIMEOUT", 0.2)
    monkeypatch.setattr(connections, "STRANGER_TIMEOUT", 0.2)
    with (
        socket.create_server(("127.0.0.1", 0)) as server,
        socket.create_connection(server.getsockname()),
        pytest.raises(TimeoutError, match="only 0 of 2 processes"),
    ):
        alone._accept(server, SECRET, 2)


def test_an_address_that_is_not_reached_is_named(alone):
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
    with pytest.raises(OSError, match=r"worker 0 is not reached at .*; set MASTER_ADDR"):
        alone._connect([(address, SECRET)], 1)


@pytest.mark.parametrize("first", ["127.0.0.1", "::1"])
def test_both_versions_of_addresses(first):
    try:
        server = _listening(first, 1)
    except OSError as error:
        pytest.skip(f"{first}: {error}")
    with server, _open_connection(server.getsockname()[:2], SECRET, 1):
        found, rank = _accept_connection(server, SECRET)
        found.close()
        assert rank == 1


def test_a_closed_connection_is_an_error():
    one, other = socket.socketpair()
    with one, other:
        one.sendall(b"half")
        one.close()
        with pytest.raises(ConnectionError, match="closed"):
            _read(other, 8)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (5, 1, 3)])
def test_what_is_unpacked_is_what_was_packed(dtype, shape):
    tensor = torch.randn(shape).mul(9).to(dtype)
    wanted = torch.randn(3, 4).T.requires_grad_()
    message = Message((tensor, None, wanted, torch.tensor([True])), MessageState(7, (1, -2)), training=False)
    forward, to, (payload, state, training) = delivery_from_bytes(
        delivery_to_bytes(Delivery(True, Port("näme", 2), message))
    )
    assert (forward, to, state, training) == (True, Port("näme", 2), MessageState(7, (1, -2)), False)
    assert payload[0].dtype == dtype
    assert torch.equal(payload[0], tensor)
    assert payload[1] is None
    assert torch.equal(payload[2], wanted)
    assert payload[2].requires_grad
    assert payload[2].is_leaf
    assert payload[3].tolist() == [True]
    delivery = Delivery(False, Port("loss"), Message((), MessageState(0)))
    assert delivery_from_bytes(delivery_to_bytes(delivery)) == delivery
