import socket
from contextlib import closing

import pytest

from parser.batching.messages import connections
from parser.batching.messages.connections import (
    NUMBER,
    SECRET_BYTES,
    Connections,
    _accepted,
    _connected,
    _listening,
    _read,
)

SECRET = bytes(range(SECRET_BYTES))


def test_strangers_are_turned_away():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with socket.create_connection(address) as stranger, socket.create_connection(address) as closed:
            closed.close()
            stranger.sendall(bytes(SECRET_BYTES) + NUMBER.pack(5))
            with _connected(address, SECRET, rank=3) as known:
                found, rank = _accepted(server, SECRET)
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
    monkeypatch.setattr(connections, "START_TIMEOUT", 0.2)
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
    with server, _connected(server.getsockname()[:2], SECRET, 1):
        found, rank = _accepted(server, SECRET)
        found.close()
        assert rank == 1


def test_a_closed_connection_is_an_error():
    one, other = socket.socketpair()
    with one, other:
        one.sendall(b"half")
        one.close()
        with pytest.raises(ConnectionError, match="closed"):
            _read(other, 8)
