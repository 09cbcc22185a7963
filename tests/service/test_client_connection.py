"""Clients that send too much or too slowly, and clients that do not read."""

import asyncio
import logging
import re
import socket

import pytest

pytest.importorskip("uvicorn")

from small_servers import at_once, everything_from, served

HEADERS = b"Host: a\r\nConnection: close\r\n"
MEGABYTE = b"x" * (1 << 20)


async def answer_to(port, request):
    """The status of the answer, and the text, for a client that reads after it has sent all."""

    def ask():
        with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
            client.sendall(request)
            return everything_from(client)

    head, _, text = (await asyncio.to_thread(ask)).partition(b"\r\n\r\n")
    return int(head.split()[1]), text.decode()


@pytest.mark.parametrize("size", [70_000, 200_000, 5_000_000])
async def test_long_addresses_and_headers_are_refused_with_advice(size):
    async with served() as (_, port):
        status, text = await answer_to(port, b"GET /?%s HTTP/1.1\r\n%s\r\n" % (b"a" * size, HEADERS))
        assert (status, "the address has more than 65,536 bytes" in text) == (414, True)
        assert "POST" in text
        long = b"GET / HTTP/1.1\r\n%sA: %s\r\n\r\n" % (HEADERS, b"a" * size)
        status, text = await answer_to(port, long)
        assert (status, "the headers have more than 65,536 bytes" in text) == (431, True)
        almost = b"a" * 65_000
        assert (await answer_to(port, b"GET /?%s HTTP/1.1\r\n%s\r\n" % (almost, HEADERS)))[0] == 200


@pytest.mark.parametrize(
    ("sent", "status"), [(b"no HTTP\r\n\r\n", 400), (b"GET /%s" % (b"a" * 70_000), 414), (b"GET / HT", 408)]
)
async def test_what_is_no_http_has_a_name_in_its_answer_and_in_the_log(sent, status, caplog):
    caplog.set_level(logging.INFO)
    async with served(seconds=0.2) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        head = (await reader.read()).decode().lower()
        writer.close()
    [name] = re.findall(r"\r\nx-request-id: (\S+)\r\n", head)
    [told] = [record.told for record in caplog.records if record.message == "request"]
    assert (told["request_id"], told["status"], told["path"]) == (name, status, "other")


async def test_headers_that_come_in_parts_are_counted_together():
    async with served() as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\n%sA: %s" % (HEADERS, b"a" * 65_000))
        await writer.drain()
        await asyncio.sleep(0.2)
        writer.write(b"%s\r\n\r\n" % (b"a" * 60_000))
        assert (await reader.readline()).split()[1] == b"431"
        writer.close()


async def test_a_client_reads_the_answer_although_its_body_is_not_read():
    async with served() as (_, port):
        head = b"POST / HTTP/1.1\r\n%sContent-Length: %d\r\n\r\n" % (HEADERS, 8 * len(MEGABYTE))
        assert await answer_to(port, head + 8 * MEGABYTE) == (200, "4\r\ndone\r\n0\r\n\r\n")


@pytest.mark.parametrize("has_begun", [False, True])
async def test_a_body_that_is_no_http_ends_its_request(has_begun, caplog):
    """The application is told that the client is gone, and the log has no error."""
    heard = []

    async def application(scope, receive, send):
        if scope["type"] == "lifespan":
            await at_once(scope, receive, send)
            return
        if has_begun:
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"part", "more_body": True})
        while not heard or heard[-1] == "http.request":
            heard.append((await receive())["type"])
        await at_once(scope, receive, send)

    async with served(application) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n")
        begin = await reader.readuntil(b"part\r\n") if has_begun else b""
        writer.write(b"no number\r\n")
        answer = begin + await reader.read()
        writer.close()
    assert answer.startswith(b"HTTP/1.1 200 " if has_begun else b"HTTP/1.1 400 ")
    assert answer.endswith(b"part\r\n" if has_begun else b"Invalid HTTP request received.\n")
    assert heard[-1] == "http.disconnect"
    assert not [record for record in caplog.records if record.levelno >= logging.ERROR]


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        (b"", b""),
        (b"GET / HTTP/1.1\r\n", b"HTTP/1.1 408 "),
        (b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET / HTTP/1.1\r\n", b"HTTP/1.1 200 "),
        (b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nabc", b"HTTP/1.1 200 "),
    ],
    ids=["nothing", "a part of the headers", "a part of the next headers", "a part of the body"],
)
async def test_a_client_that_goes_on_sending_slowly_is_not_waited_for(sent, received, monkeypatch):
    monkeypatch.setattr("parser.service.server.SECONDS_TO_READ", 0.1)

    async with served(seconds=0.2, grace=1) as (server, port), asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(sent)
        await writer.drain()
        while not server.server_state.connections:
            await asyncio.sleep(0)
        while server.server_state.connections:
            await asyncio.sleep(0.05)
            writer.write(b"a" if sent else b"")  # one byte after the other, without an end
        assert (await reader.read(len(received))) == received
        writer.close()


@pytest.mark.parametrize("rest", [b"", b"no HTTP\r\n\r\n"])
async def test_requests_that_arrive_together_are_answered_in_order(rest):
    """What follows them and is no HTTP ends the connection after their answers."""
    paths, seen = [b"/%d" % number for number in range(5_000)], []

    async def application(scope, receive, send):
        if scope["type"] == "http":
            await asyncio.sleep(0)
            seen.append(scope["raw_path"])
        await at_once(scope, receive, send)

    requests = [b"GET %s HTTP/1.1\r\nHost: a\r\n\r\n" % path for path in paths]
    if not rest:
        requests[-1] = requests[-1].replace(b"Host: a", b"Host: a\r\nConnection: close")
    async with served(application) as (_, port), asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"".join(requests) + rest)
        answers = await reader.read()
        writer.close()
    assert seen == paths
    assert answers.count(b"HTTP/1.1 200 OK\r\n") == answers.count(b"done") == len(paths)


async def test_a_connection_may_wait_for_longer_than_a_request():
    async with served(seconds=0.1) as (_, port):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for _ in range(3):
            writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
            assert b"200" in await reader.readuntil(b"done\r\n0\r\n\r\n")
            await asyncio.sleep(0.3)
        writer.close()


async def test_a_connection_without_another_request_is_closed():
    async with served(keep_alive=1) as (_, port), asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        assert (await reader.read()).endswith(b"done\r\n0\r\n\r\n")
        writer.close()


@pytest.mark.parametrize("gives_up", [False, True])
async def test_a_client_that_does_not_read_is_not_waited_for(gives_up, monkeypatch):
    """gives_up: whether the application ends the answer before it is complete, as it does after the time."""
    monkeypatch.setattr("parser.service.server.SECONDS_TO_READ", 0.1)
    ended = asyncio.Event()

    async def application(scope, receive, send):
        if scope["type"] == "lifespan":
            await at_once(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 200, "headers": []})
        for _ in range(1 if gives_up else 1_000):
            await send({"type": "http.response.body", "body": 16 * MEGABYTE, "more_body": True})
        ended.set()

    async with served(application, seconds=0.2, grace=1) as (server, port), asyncio.timeout(60):
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        writer.write(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")
        await ended.wait()
        while server.server_state.connections:
            await asyncio.sleep(0.05)
        writer.close()
