"""Connections that pass from one process to another."""

import asyncio
import errno
import os
import socket
from contextlib import suppress

import pytest
from programs import no_descriptors_left

from parser.service.listening import CLOSED, READY, GivenConnections, Giver


@pytest.fixture
def giver():
    giver = Giver()
    yield giver
    giver.close()


@pytest.fixture
def connect():
    """A function that makes a connection: the client's end, and the end that is passed to a process."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield lambda: (socket.create_connection(listener.getsockname()), listener.accept()[0])


def given_to(giver, release=lambda: None):
    given = GivenConnections(os.dup(giver.theirs), release)
    given.setblocking(False)
    return given


async def test_a_server_answers_what_it_is_given_and_tells_when_it_is_done(giver, connect):
    async def answer(reader, writer):
        writer.write(await reader.readline())
        writer.close()

    async with await asyncio.start_server(answer, sock=given_to(giver)):
        assert giver.hear() == [READY]
        for text in (b"one\n", b"two\n"):
            client, connection = connect()
            with client, connection:
                assert giver.give(connection)
                connection.close()
                client.sendall(text)
                assert await asyncio.to_thread(client.recv, 100) == text
            heard = []
            while not heard:
                await asyncio.sleep(0)
                with suppress(BlockingIOError):
                    heard = giver.hear()
            assert heard == [CLOSED]


def test_what_a_dead_process_has_not_taken_can_be_given_to_another(giver, connect):
    pairs = [connect() for _ in range(3)]
    with given_to(giver) as given:
        for number, (client, connection) in enumerate(pairs):
            client.sendall(b"%d" % number)
            with connection:
                assert giver.give(connection)
        given.accept()[0].close()
    giver.release(1)
    left = list(giver.not_taken())
    assert [connection.recv(10) for connection in left] == [b"1", b"2"]
    for open_end in (*left, *(client for client, _ in pairs)):
        open_end.close()


def test_a_process_is_asked_to_release_connections_in_between(giver, connect):
    asked = []
    client, connection = connect()
    with client, connection, given_to(giver, lambda: asked.append(1)) as given:
        giver.release(2)
        giver.give(connection)
        giver.release(1)
        with given.accept()[0] as accepted:
            assert accepted.getpeername() == client.getsockname()
        assert len(asked) == 2
        with pytest.raises(BlockingIOError):
            given.accept()
        assert len(asked) == 3


def test_a_process_that_takes_nothing_is_not_waited_for(giver, connect):
    client, connection = connect()
    with client, connection:
        given = 0
        while giver.give(connection):
            given += 1
        giver.release(1)
    assert given >= 100
    for left in giver.not_taken():
        left.close()


def test_a_client_that_has_gone_is_passed_over(giver, connect):
    pairs = [connect() for _ in range(2)]
    with given_to(giver) as given:
        for _, connection in pairs:
            giver.give(connection)
            connection.close()
        gone, here = (client for client, _ in pairs)
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # closes by a reset
        gone.close()
        with here, given.accept()[0] as accepted:
            assert accepted.getpeername() == here.getsockname()
        assert giver.hear() == [CLOSED, CLOSED]


def test_a_process_without_descriptors_takes_a_connection_later(giver, connect):
    client, connection = connect()
    with client, connection, given_to(giver) as given:
        giver.give(connection)
        with no_descriptors_left():
            for _ in range(2):
                with pytest.raises(OSError, match=r"open files") as error:
                    given.accept()
                assert error.value.errno == errno.EMFILE
                with pytest.raises(BlockingIOError):  # at which asyncio begins to wait
                    given.accept()
        with given.accept()[0] as accepted:
            assert accepted.getpeername() == client.getsockname()
            with pytest.raises(BlockingIOError):  # no connection was reported as closed
                giver.hear()
