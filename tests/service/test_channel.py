"""Connections that pass from one process to another."""

import asyncio
import errno
import os
import socket
from contextlib import closing, suppress

import pytest
from programs import no_descriptors_left

from parser.service.listening import READY, GivenConnections, Giver
from parser.service.stages import RESERVED, Stage, Stages, stages_of_worker


@pytest.fixture
def stages():
    with closing(Stages(1_000)) as stages:
        yield stages


@pytest.fixture
def giver(stages):
    giver = Giver(stages)
    yield giver
    giver.close()
    for connection in giver.connections:
        connection.close()


@pytest.fixture
def connect():
    """A function that makes a connection: the client's end, and the end that is passed to a process."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield lambda: (socket.create_connection(listener.getsockname()), listener.accept()[0])


@pytest.fixture
def given_to(stages):
    """A function that returns the worker's end of a channel."""
    return lambda giver, release=lambda: None: given_connections(giver, release, stages)


def given_connections(giver, release, stages):
    given = GivenConnections(os.dup(giver.theirs), release, stages_of_worker(stages.descriptor))
    given.setblocking(False)
    return given


async def test_a_server_answers_what_it_is_given_and_tells_when_it_is_done(giver, given_to, connect):
    async def answer(reader, writer):
        writer.write(await reader.readline())
        writer.close()

    async with await asyncio.start_server(answer, sock=given_to(giver)):
        assert giver.hear() == READY
        for text in (b"one\n", b"two\n"):
            client, connection = connect()
            with client:
                assert giver.give(connection)
                assert giver.connections == {connection}
                client.sendall(text)
                assert await asyncio.to_thread(client.recv, 100) == text
                assert await asyncio.to_thread(client.recv, 100) == b""
            while giver.connections:
                await asyncio.sleep(0)
                with suppress(BlockingIOError):
                    assert giver.hear()
            assert connection.fileno() == -1


def test_however_many_connections_close_at_once_the_supervisor_closes_them_too(giver, given_to, connect):
    """Even if there is no room for a message about each of them."""
    pairs = [connect() for _ in range(300)]
    with given_to(giver) as given:
        for client, connection in pairs:
            with client:
                assert giver.give(connection)
            taken, _ = given.accept()
            given.stage_of(taken.fileno())[0] = Stage.IDLE
            taken.close()
    assert len(giver.connections) == len(pairs)
    giver.hear()
    assert not giver.connections


def test_what_a_process_has_not_taken_can_be_given_to_another(giver, given_to, connect):
    pairs = [connect() for _ in range(3)]
    with given_to(giver) as given:
        for number, (client, connection) in enumerate(pairs):
            client.sendall(b"%d" % number)
            assert giver.give(connection)
        with given.accept()[0] as taken:
            given.stage_of(taken.fileno())[0] = Stage.IDLE
            left = giver.at(Stage.GIVEN)
            assert sorted(connection.recv(10) for connection in left) == [b"1", b"2"]
    for client, _ in pairs:
        client.close()


def test_a_process_is_asked_to_release_connections_in_between(giver, given_to, connect):
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


def test_a_client_that_has_gone_is_passed_over(giver, given_to, connect):
    pairs = [connect() for _ in range(2)]
    with given_to(giver) as given:
        for _, connection in pairs:
            giver.give(connection)
        gone, here = (client for client, _ in pairs)
        gone.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # closes by a reset
        gone.close()
        with here, given.accept()[0] as accepted:
            assert accepted.getpeername() == here.getsockname()
        giver.hear()
        assert not giver.connections


def test_a_process_without_descriptors_takes_a_connection_later(giver, given_to, connect):
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


def test_the_last_descriptors_are_left_for_new_processes():
    with closing(Stages(RESERVED)) as full, pytest.raises(OSError, match=r"open files") as error:
        full.check_room()
    assert error.value.errno == errno.EMFILE
    with closing(Stages(RESERVED + 500)) as free:
        free.check_room()
