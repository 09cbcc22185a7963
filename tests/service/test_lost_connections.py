"""What clients receive if the process that served them is killed."""

import asyncio
import json
import os
import signal
import socket
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from http.client import HTTPConnection, HTTPResponse, IncompleteRead

import psutil
import pytest
from services import ask, serving

from parser.client import Client
from parser.service.lost_connections import MESSAGE, close_after_client, say_lost
from parser.service.stages import Stage

pytest.importorskip("fastapi")
SENTENCES = 9_000
LONG = json.dumps({"texts": ["It was round. " * SENTENCES]})
"""A request that takes seconds."""
KINDS = "idle", "late", "half", "stream"
HEADERS = {"Content-Type": "application/json"}
BODY = json.dumps({"texts": ["The cat sleeps."]}).encode()
HALF = (
    b"POST /v1/parse HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Type: application/json\r\n"
    b"Content-Length: %d\r\n\r\n%b" % (len(BODY), BODY[:9])
)


@pytest.fixture
def ends():
    """The two ends of a connection: the client's, and the server's."""
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_connection(listener.getsockname()) as client,
        listener.accept()[0] as connection,
    ):
        client.settimeout(60)
        yield client, connection


def answer_at(client):
    answer = HTTPResponse(client)
    answer.begin()
    with answer:
        return answer.status, answer.read().decode(), answer.headers


@pytest.mark.parametrize(
    ("stage", "sent"), [(Stage.ASKED, b""), (Stage.ASKED, b"rest"), (Stage.IDLE, b"GET / HTTP/1.1\r\n\r\n")]
)
async def test_a_request_without_an_answer_gets_an_error(stage, sent, ends):
    client, connection = ends
    client.sendall(sent)
    assert say_lost(connection, stage)
    ending = asyncio.create_task(close_after_client(connection))
    status, text, headers = await asyncio.to_thread(answer_at, client)
    assert (status, text, headers["Retry-After"]) == (503, f"{MESSAGE}\n", "1")
    client.close()
    await ending


@pytest.mark.parametrize("stage", [Stage.IDLE, Stage.ANSWERING, Stage.CLOSED])
async def test_nothing_is_sent_without_a_request_or_into_an_answer(stage, ends):
    client, connection = ends
    assert say_lost(connection, stage) == (stage == Stage.ANSWERING)
    ending = asyncio.create_task(close_after_client(connection))
    assert await asyncio.to_thread(client.recv, 1) == b""
    client.close()
    await ending


@pytest.mark.parametrize(
    ("stage", "line"),
    [
        (Stage.BETWEEN_LINES, f'{{"detail": "{MESSAGE}", "status": 503}}\n'),
        (Stage.BETWEEN_SENTENCES, f"# error = 503: {MESSAGE}\n"),
    ],
)
async def test_a_stream_ends_with_a_line_that_tells_the_error(stage, line, ends):
    client, connection = ends
    connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n6\r\nfirst\n\r\n")
    assert say_lost(connection, stage)
    connection.close()
    with pytest.raises(IncompleteRead) as error:
        await asyncio.to_thread(answer_at, client)
    assert error.value.partial.decode() == f"first\n{line}"


async def test_a_client_that_still_sends_can_read_the_answer(ends):
    client, connection = ends
    say_lost(connection, Stage.ASKED)
    ending = asyncio.create_task(close_after_client(connection))
    await asyncio.to_thread(client.sendall, b"x" * (1 << 23))
    assert (await asyncio.to_thread(answer_at, client))[0] == 503
    client.close()
    await ending


async def test_a_client_that_does_not_close_is_not_waited_for(ends, monkeypatch):
    monkeypatch.setattr("parser.service.lost_connections.SECONDS_TO_READ", 0.1)
    _, connection = ends
    say_lost(connection, Stage.ASKED)
    async with asyncio.timeout(60):
        await close_after_client(connection)
    assert connection.fileno() == -1


async def test_a_client_that_is_gone_or_does_not_read_is_no_error(ends):
    client, connection = ends
    connection.setblocking(False)
    with suppress(BlockingIOError):
        while True:
            connection.send(bytes(1 << 16))
    assert say_lost(connection, Stage.ASKED)
    client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")  # closes by a reset
    client.close()
    assert say_lost(connection, Stage.ASKED)
    await close_after_client(connection)


@pytest.mark.extended
def test_each_request_of_a_killed_process_ends_noticeably_and_others_go_on(model):
    """Of two connections in turn, each process has one."""
    with ExitStack() as stack:
        service = stack.enter_context(serving(model, "--processes", "2"))
        killed = service.next("process ready")["pid"]
        pairs = {
            kind: [
                stack.enter_context(closing(HTTPConnection("127.0.0.1", service.port, timeout=120)))
                for _ in range(2)
            ]
            for kind in KINDS
        }
        for pair in pairs.values():
            for connection in pair:
                connection.connect()
        for connection in (*pairs["idle"], *pairs["late"]):
            assert ask(connection)[0] == 200
        for connection in pairs["half"]:
            connection.sock.sendall(HALF)
        streams = []
        for connection in pairs["stream"]:
            connection.request("POST", "/v1/parse", LONG, {**HEADERS, "Accept": "application/x-ndjson"})
            streams.append(connection.getresponse())
        assert all(json.loads(stream.readline())["words"] for stream in streams)
        psutil.Process(killed).suspend()  # so that it does not read the next request
        for connection in pairs["late"]:
            connection.request("POST", "/v1/parse", BODY, HEADERS)
        os.kill(killed, signal.SIGKILL)
        assert service.next("process ended")["requests"] == 3

        late = [connection.getresponse() for connection in pairs["late"]]
        assert sorted((answer.status, answer.headers["Retry-After"]) for answer in late) == STATUSES
        assert {answer.read() for answer in late if answer.status == 503} == {f"{MESSAGE}\n".encode()}

        for connection in pairs["half"]:
            connection.sock.sendall(BODY[9:])
        half = [answer_at(connection.sock) for connection in pairs["half"]]
        assert sorted((status, headers["Retry-After"]) for status, _, headers in half) == STATUSES

        assert sorted(map(is_complete, streams)) == [False, True]
        for connection in pairs["idle"]:
            connection.sock.settimeout(0.5)
        assert sorted(map(is_closed, pairs["idle"])) == [False, True]
        for connection in pairs["idle"]:
            if is_closed(connection):
                connection.close()
            else:
                connection.sock.settimeout(60)
            assert ask(connection)[0] == 200


@pytest.mark.extended
def test_a_process_that_is_killed_while_the_service_stops_is_not_waited_for(model):
    """The other one is suspended, and does not stop."""
    with ExitStack() as stack:
        service = stack.enter_context(serving(model, "--processes", "2"))
        killed = service.next("process ready")["pid"]
        connections = [
            stack.enter_context(closing(HTTPConnection("127.0.0.1", service.port, timeout=60)))
            for _ in range(2)
        ]
        for connection in connections:
            connection.connect()
        for connection in connections:
            connection.request("POST", "/v1/parse", LONG, {**HEADERS, "Accept": "application/x-ndjson"})
        streams = [connection.getresponse() for connection in connections]
        assert all(stream.readline() for stream in streams)
        [other] = (each for each in psutil.Process(service.process.pid).children() if each.pid != killed)
        service.process.send_signal(signal.SIGTERM)
        service.next("stopping")
        other.suspend()
        os.kill(killed, signal.SIGKILL)
        ended = service.next("process ended")
        assert (ended["pid"], ended["requests"]) == (killed, 1)
        other.resume()
        assert sorted(map(is_complete, streams)) == [False, True]
        assert service.process.wait(timeout=60) == 0


STATUSES = [(200, None), (503, "1")]


def is_complete(stream):
    try:
        lines = stream.read().splitlines()
    except IncompleteRead:
        return False
    assert len(lines) == SENTENCES - 1
    return True


def is_closed(connection):
    """Whether the server has closed it, without a byte."""
    try:
        assert connection.sock.recv(1, socket.MSG_PEEK) == b""
    except TimeoutError:
        return False
    return True


@pytest.mark.extended
def test_clients_get_all_trees_although_processes_are_killed(model):
    texts = [f"The cat sleeps. It was round. The cat sleeps {number}. " * 50 for number in range(40)]
    with serving(model, "--processes", "2") as service, Client(service.url) as client:
        service.next("process ready")
        expected = [client.parse(texts=[text]) for text in texts]
        with ThreadPoolExecutor(8) as pool:
            answers = [pool.submit(client.parse, texts=[text]) for text in texts]
            lost = 0
            while not lost:
                if all(answer.done() for answer in answers):
                    answers += [pool.submit(client.parse, texts=[text]) for text in texts]
                psutil.Process(service.process.pid).children()[-1].kill()
                lost = service.next("process ended")["requests"]
                service.next("process ready")
        assert [answer.result() for answer in answers] == expected * (len(answers) // len(texts))
