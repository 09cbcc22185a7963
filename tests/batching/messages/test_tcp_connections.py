"""Connections between processes, and messages as bytes."""

from __future__ import annotations

import socket
from contextlib import closing

import pytest
import torch

from parser.batching.messages import tcp_connections as connections
from parser.batching.messages.message import Message, MessageState
from parser.batching.messages.message_graph import Port
from parser.batching.messages.tcp_connections import (
    NUMBER,
    SECRET_BYTES,
    Connections,
    _accept_connection,
    _open_connection,
    _listening,
    _read,
    delivery_from_bytes,
    delivery_to_bytes,
)
from parser.batching.messages.workers import Delivery

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
    """The connections of a process that is the only one."""
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


def test_a_message_without_values():
    delivery = Delivery(False, Port("loss"), Message((), MessageState(0)))
    assert delivery_from_bytes(delivery_to_bytes(delivery)) == delivery
