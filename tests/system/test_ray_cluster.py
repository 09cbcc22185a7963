"""Addresses of clusters that are not there."""

import re
import socket
import threading
import time
from contextlib import contextmanager, suppress

import pytest

from parser.system import ray_cluster
from parser.system.ray_cluster import refuse_silent


@contextmanager
def listening(answer):
    """The address of a server that answers each connection with these bytes, or stays silent if None."""

    def serve():
        connection, _ = server.accept()
        with connection, suppress(ConnectionError):
            for byte in answer or b"":
                connection.sendall(bytes([byte]))  # as slow as any network may be
                time.sleep(0.001)
            while connection.recv(100):  # until the other side closes
                pass

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=serve)
        thread.start()
        yield f"127.0.0.1:{server.getsockname()[1]}"
        thread.join()


@pytest.fixture(autouse=True)
def _no_settings_of_ray(monkeypatch):
    for name in ("RAY_ADDRESS", "RAY_USE_TLS"):
        monkeypatch.delenv(name, raising=False)


SETTINGS = bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))


@pytest.mark.parametrize("answer", [SETTINGS, SETTINGS + b"more"])
@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_what_answers_as_a_cluster_is_accepted(answer, scheme):
    with listening(answer) as address:
        refuse_silent(f"{scheme}{address}")


@pytest.mark.parametrize("answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0" * 9])
def test_something_else_is_refused(answer):
    with listening(answer) as address, pytest.raises(ValueError, match="is something else; take the address"):
        refuse_silent(address)


def test_one_that_stays_silent_is_refused_in_time(monkeypatch):
    monkeypatch.setattr(ray_cluster, "SECONDS", 0.2)
    with listening(None) as address, pytest.raises(ValueError, match=r"for up to 0\.2 seconds: timed out"):
        refuse_silent(address)


def test_one_that_is_deciphered_by_ray_alone_is_accepted(monkeypatch):
    monkeypatch.setenv("RAY_USE_TLS", "1")
    with listening(None) as address:
        refuse_silent(address)


def test_nothing_listens():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        port = unused.getsockname()[1]
        for host in ("127.0.0.1", "[::1]"):
            with pytest.raises(ValueError, match=f"tried port {port} of {re.escape(host)} "):
                refuse_silent(f"{host}:{port}")


@pytest.mark.parametrize("address", ["head", "head:", ":6379", "head:six", "head:70000", ""])
def test_what_is_no_address(address):
    with pytest.raises(ValueError, match="is neither auto nor HOST:PORT"):
        refuse_silent(address)


def test_auto_is_what_the_environment_says(monkeypatch):
    refuse_silent("auto")  # Ray itself looks for one on this machine
    monkeypatch.setenv("RAY_ADDRESS", "head")
    with pytest.raises(ValueError, match="--address head: is neither"):
        refuse_silent("auto")
