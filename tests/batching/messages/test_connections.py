import socket

import pytest

from parser.batching.messages.connections import NUMBER, SECRET_BYTES, _accepted, _connected, _read

SECRET = bytes(range(SECRET_BYTES))


def test_strangers_are_turned_away():
    with socket.create_server(("127.0.0.1", 0)) as server:
        address = server.getsockname()
        with socket.create_connection(address) as stranger, socket.create_connection(address) as silent:
            silent.close()
            stranger.sendall(bytes(SECRET_BYTES) + NUMBER.pack(5))
            with _connected((address, SECRET), rank=3) as known:
                found, rank = _accepted(server, SECRET)
                with found:
                    found.sendall(b"welcome!")
                    assert (rank, _read(known, 8).tobytes()) == (3, b"welcome!")
            with pytest.raises(ConnectionError):
                _read(stranger, 1)


def test_a_closed_connection_is_an_error():
    one, other = socket.socketpair()
    with one, other:
        one.sendall(b"half")
        one.close()
        with pytest.raises(ConnectionError, match="closed"):
            _read(other, 8)
