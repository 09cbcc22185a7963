"""The clients, for threads and for asyncio. They differ only in how they wait."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import closing
from types import TracebackType
from typing import Self, Unpack, cast

import httpx

from parser.client.attempts import Attempts
from parser.client.messages import AnsweredSentence, ParseAnswer, ParseRequest
from parser.client.streams import ConlluStream, NdjsonStream

PATH = "/v1/parse"
JSON, NDJSON, CONLLU = "application/json", "application/x-ndjson", "text/x-conllu"
TIMEOUT = 310.0
"""Seconds: more than the service gives to a request by default, so that it says itself what took long."""
RETRY_SECONDS = 60.0


class Client:
    """A client of a service. Threads may share it; each of its methods waits for the answer.

    What a request may hold is the same for all methods: `texts`, `sentences` or `conllu`, and the options
    that the service describes at `/docs`. All raise ServiceError.
    """

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = TIMEOUT,
        retry_seconds: float = RETRY_SECONDS,
    ):
        """url: the address of the service, such as http://127.0.0.1:8001. token: one of its tokens. timeout:
        seconds without a byte of the service after which a request has failed. retry_seconds: the time, from
        the first attempt, in which a request that was not answered is sent again; 0 for never.
        """
        self._http = httpx.Client(base_url=url, headers=_headers(token), timeout=timeout)
        self._retry_seconds = retry_seconds

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def parse(self, **wanted: Unpack[ParseRequest]) -> ParseAnswer:
        """Return the trees of all sentences."""
        return cast(ParseAnswer, self._send(JSON, wanted).json())

    def conllu(self, **wanted: Unpack[ParseRequest]) -> str:
        """Return the trees as CoNLL-U."""
        with closing(self._send(CONLLU, wanted, streams=True)) as answer:
            received = ConlluStream(answer)
            try:
                for piece in answer.iter_bytes():
                    received.add(piece)
            except httpx.TransportError as error:
                raise received.cut(error) from error
        return received.text()

    def stream(self, **wanted: Unpack[ParseRequest]) -> Iterator[AnsweredSentence]:
        """Yield each sentence as soon as its tree has come.

        After the first one, the request is not sent again: a ServiceError says how many came.
        """
        with closing(self._send(NDJSON, wanted, streams=True)) as answer:
            received = NdjsonStream(answer)
            try:
                for piece in answer.iter_bytes():
                    yield from received.add(piece)
            except httpx.TransportError as error:
                raise received.cut(error) from error

    def _send(self, form: str, wanted: ParseRequest, streams: bool = False) -> httpx.Response:
        """Return a successful answer, of which nothing is read if it streams. form: its format."""
        attempts = Attempts(self._retry_seconds)
        while True:
            request = self._http.build_request("POST", PATH, json=wanted, headers={"Accept": form})
            try:
                answer = self._http.send(request, stream=streams)
                if _is_in(form, answer):
                    return answer
                answer.read()
                pause = attempts.pause_after(answer)
            except httpx.TransportError as error:
                pause = attempts.pause_after(error)
            time.sleep(pause)


class AsyncClient:
    """A client for asyncio, otherwise like `Client`. Tasks of one event loop may share it."""

    def __init__(
        self,
        url: str,
        *,
        token: str | None = None,
        timeout: float = TIMEOUT,
        retry_seconds: float = RETRY_SECONDS,
    ):
        """The arguments are those of `Client`."""
        self._http = httpx.AsyncClient(base_url=url, headers=_headers(token), timeout=timeout)
        self._retry_seconds = retry_seconds

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def parse(self, **wanted: Unpack[ParseRequest]) -> ParseAnswer:
        """Return the trees of all sentences."""
        return cast(ParseAnswer, (await self._send(JSON, wanted)).json())

    async def conllu(self, **wanted: Unpack[ParseRequest]) -> str:
        """Return the trees as CoNLL-U."""
        answer = await self._send(CONLLU, wanted, streams=True)
        received = ConlluStream(answer)
        try:
            async for piece in answer.aiter_bytes():
                received.add(piece)
        except httpx.TransportError as error:
            raise received.cut(error) from error
        finally:
            await answer.aclose()
        return received.text()

    async def stream(self, **wanted: Unpack[ParseRequest]) -> AsyncIterator[AnsweredSentence]:
        """Yield each sentence as soon as its tree has come, see `Client.stream`.

        Who does not read all of them closes the iterator (`contextlib.aclosing`), so that the service stops.
        """
        answer = await self._send(NDJSON, wanted, streams=True)
        received = NdjsonStream(answer)
        try:
            async for piece in answer.aiter_bytes():
                for sentence in received.add(piece):
                    yield sentence
        except httpx.TransportError as error:
            raise received.cut(error) from error
        finally:
            await answer.aclose()

    async def _send(self, form: str, wanted: ParseRequest, streams: bool = False) -> httpx.Response:
        """See `Client._send`."""
        attempts = Attempts(self._retry_seconds)
        while True:
            request = self._http.build_request("POST", PATH, json=wanted, headers={"Accept": form})
            try:
                answer = await self._http.send(request, stream=streams)
                if _is_in(form, answer):
                    return answer
                await answer.aread()
                pause = attempts.pause_after(answer)
            except httpx.TransportError as error:
                pause = attempts.pause_after(error)
            await asyncio.sleep(pause)


def _is_in(form: str, answer: httpx.Response) -> bool:
    """Whether the request was successful. What else answers in place of the service has other formats."""
    return answer.is_success and answer.headers.get("content-type", "").partition(";")[0] == form


def _headers(token: str | None) -> dict[str, str]:
    return {} if token is None else {"Authorization": f"Bearer {token}"}
