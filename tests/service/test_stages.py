"""The stages of a connection, which its server notes for the case that it dies."""

import asyncio
from contextlib import asynccontextmanager

import pytest

pytest.importorskip("uvicorn")

from small_servers import at_once, served

from parser.service.stages import Stage

ASKING = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 4\r\n\r\nbody"
LARGE = b"x" * (1 << 26)


class Connection:
    """A connection of a server, and its stage. The application sends what it is told to."""

    def __init__(self):
        self.stages = [bytearray(1)]
        self._messages = asyncio.Queue()

    def stage_of(self, descriptor):
        self.stages.append(bytearray(1))
        return self.stages[-1]

    async def answer(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await at_once(scope, receive, send)
            return
        has_more = True
        while has_more:
            if message := await self._messages.get():
                await send(message)
                has_more = message.get("more_body", True)
            else:
                await receive()

    def read(self):
        self._messages.put_nowait(None)

    def begin(self, media_type):
        headers = [(b"content-type", media_type.encode())]
        self._messages.put_nowait({"type": "http.response.start", "status": 200, "headers": headers})

    def send(self, content, has_more=False):
        self._messages.put_nowait({"type": "http.response.body", "body": content, "more_body": has_more})

    async def reaches(self, stage):
        while self.stages[-1][0] != stage:
            await asyncio.sleep(0.01)


@asynccontextmanager
async def connected():
    """A connection, and the client's reader and writer."""
    connection = Connection()
    async with served(connection.answer, stage_of=connection.stage_of) as (_, port), asyncio.timeout(60):
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        await connection.reaches(Stage.IDLE)
        yield connection, reader, writer
        writer.close()


@pytest.mark.parametrize("size", [1, 20, len(ASKING)], ids=["begin", "headers", "all"])
async def test_a_request_is_asked_until_its_answer_begins(size):
    async with connected() as (noted, reader, writer):
        for _ in range(2):
            writer.write(ASKING[:size])
            await noted.reaches(Stage.ASKED)
            writer.write(ASKING[size:])
            noted.begin("text/plain")
            await asyncio.sleep(0.1)
            assert noted.stages[-1][0] == Stage.ASKED
            noted.send(b"one", has_more=True)
            assert b"one" in await reader.readuntil(b"one\r\n")
            assert noted.stages[-1][0] == Stage.ANSWERING
            noted.send(b"")
            await noted.reaches(Stage.IDLE)
            assert await reader.readuntil(b"0\r\n\r\n")


async def test_a_request_that_was_asked_to_continue_has_no_answer_yet():
    async with connected() as (noted, reader, writer):
        writer.write(ASKING.replace(b"\r\n\r\nbody", b"\r\nExpect: 100-continue\r\n\r\n"))
        noted.read()
        assert b" 100 Continue\r\n" in await reader.readuntil(b"\r\n\r\n")
        assert noted.stages[-1][0] == Stage.ASKED
        writer.write(b"body")
        noted.begin("text/plain")
        noted.send(b"done")
        await noted.reaches(Stage.IDLE)
        assert b"done" in await reader.readuntil(b"0\r\n\r\n")


@pytest.mark.parametrize(
    ("media_type", "parts", "between"),
    [
        ("application/x-ndjson", [b"{}\n", b"{", b"}\n"], Stage.BETWEEN_LINES),
        ("text/x-conllu", [b"1\ta\n\n", b"1\ta\n", b"2\tb\n\n"], Stage.BETWEEN_SENTENCES),
    ],
)
async def test_only_after_whole_chunks_of_a_stream_another_may_follow(media_type, parts, between):
    async with connected() as (noted, reader, writer):
        writer.write(ASKING)
        noted.begin(media_type)
        for part, stage in zip(parts, (between, Stage.ANSWERING, between), strict=True):
            noted.send(part, has_more=True)
            await reader.readuntil(part + b"\r\n")
            await noted.reaches(stage)
        noted.send(b"")
        await noted.reaches(Stage.IDLE)
        writer.write(ASKING)
        noted.begin("text/plain")
        noted.send(parts[0], has_more=True)
        await reader.readuntil(b"text/plain")
        await reader.readuntil(parts[0] + b"\r\n")
        assert noted.stages[-1][0] == Stage.ANSWERING
        noted.send(b"")


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-ndjson"])
async def test_while_bytes_of_an_answer_wait_nothing_may_follow(media_type):
    """Even if the answer is complete, and the next request has arrived."""
    async with connected() as (noted, reader, writer):
        writer.write(ASKING)
        noted.begin(media_type)
        noted.send(LARGE + b"}\n", has_more=True)
        await noted.reaches(Stage.ANSWERING)
        noted.send(b"")
        writer.write(ASKING)
        await asyncio.sleep(0.3)
        assert noted.stages[-1][0] == Stage.ANSWERING
        await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(len(LARGE))
        await reader.readuntil(b"0\r\n\r\n")
        noted.begin(media_type)
        noted.send(b"done")
        await noted.reaches(Stage.IDLE)


async def test_a_request_that_is_answered_before_its_end_is_not_answered_again():
    async with connected() as (noted, reader, writer):
        writer.write(ASKING[:-2])
        noted.begin("text/plain")
        noted.send(b"early")
        await reader.readuntil(b"0\r\n\r\n")
        assert noted.stages[-1][0] == Stage.ANSWERING
        writer.write(ASKING[-2:-1])
        await asyncio.sleep(0.1)
        assert noted.stages[-1][0] == Stage.ANSWERING


async def test_after_the_end_of_a_connection_nothing_is_noted():
    async with connected() as (noted, _, writer):
        writer.write(ASKING)
        await noted.reaches(Stage.ASKED)
        writer.close()
        await asyncio.sleep(0.1)
        noted.stages[-1][0] = Stage.GIVEN
        noted.begin("text/plain")
        noted.send(b"late")
        await asyncio.sleep(0.1)
        assert noted.stages[-1][0] == Stage.GIVEN
