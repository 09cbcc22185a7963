"""How the server starts and stops."""

import asyncio
import logging
import socket
from contextlib import ExitStack, suppress

import pytest
from programs import no_descriptors_left

pytest.importorskip("uvicorn")

from small_servers import TIMES, at_once, everything_from, served

from parser.service.limits import Admission
from parser.service.listening import PAUSE, listen, url_of
from parser.service.server import Server

CLIENTS = 20


def test_a_server_that_can_not_begin_says_so():
    async def application(scope, receive, send):
        raise OSError("nothing works")

    with listen("127.0.0.1", 0) as listener, pytest.raises(ValueError, match="the service could not begin"):
        Server(application, Admission(1, 1_000), *TIMES, logging.getLogger("test")).run([listener])


def test_an_address_of_ipv6_is_in_brackets():
    try:
        listener = listen("::1", 0)
    except ValueError:
        pytest.skip("this machine has no IPv6")
    with listener:
        assert url_of(listener) == f"http://[::1]:{listener.getsockname()[1]}"


@pytest.mark.parametrize("turns", range(6))
def test_a_connection_that_comes_with_the_signal_is_closed_at_once(turns):
    """Even while a request is running. turns: of the event loop, from the connection to the server's end."""
    release = asyncio.Event()

    async def application(scope, receive, send):
        if scope["type"] == "http":
            await release.wait()
        await at_once(scope, receive, send)

    class ConnectedLate(Server):
        async def shutdown(self, sockets=None):
            late.connect(address)
            for _ in range(turns):
                await asyncio.sleep(0)
            await super().shutdown(sockets)

    async def run():
        server = ConnectedLate(application, Admission(1, 1_000), *TIMES, logging.getLogger("test"))
        serving = asyncio.create_task(server.serve([listener]))
        reader, writer = await asyncio.open_connection(*address)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        while not server.server_state.tasks:
            await asyncio.sleep(0.01)
        server.should_exit = True
        while server.started and listener.fileno() != -1:
            await asyncio.sleep(0.01)
        late.settimeout(60)
        with suppress(ConnectionResetError):
            assert await asyncio.to_thread(late.recv, 1) == b""
        release.set()
        assert b"done" in await reader.read()
        writer.close()
        await serving

    with listen("127.0.0.1", 0) as listener, socket.socket() as late:
        address = listener.getsockname()
        asyncio.run(run())


@pytest.mark.parametrize("stops_in_the_pause", [False, True])
def test_without_descriptors_connections_wait(stops_in_the_pause, caplog):
    """They are accepted later, unless the server stops, and the log has a line for each second."""
    caplog.set_level(logging.INFO)

    def told():
        return [message for message in caplog.messages if "accept" in message]

    async def run(clients):
        async with served() as (server, port):
            with no_descriptors_left():
                for client in clients:
                    client.connect(("127.0.0.1", port))
                while len(told()) < 2:
                    await asyncio.sleep(0.01)
                if stops_in_the_pause:
                    server.should_exit = True
                    while server.servers[0].is_serving():
                        await asyncio.sleep(0.01)
                    await asyncio.sleep(2 * PAUSE)
                    return
            for client in clients:
                client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
                assert b"done" in await asyncio.to_thread(everything_from, client)

    with ExitStack() as stack:
        asyncio.run(run([stack.enter_context(socket.socket()) for _ in range(CLIENTS)]))
    assert len(told()) <= 3
    assert not [record for record in caplog.records if record.levelno > logging.INFO]
