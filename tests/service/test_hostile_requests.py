"""Requests that would stop a service or take its memory. `test_load.py` asks what others notice of them."""

import asyncio
import json
import socket
from contextlib import ExitStack, aclosing, closing
from http.client import HTTPConnection
from pathlib import Path

import pytest
import torch
from extended import extended
from hostile_requests import HOSTILE
from services import TEXT, serving

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

import httpx
from hypothesis import given, settings
from hypothesis import strategies as st

from parser.cli import main
from parser.service.limits import Limits
from parser.service.reading import word_sentences
from parser.service.request_record import RequestRecord
from parser.service.served_models import ServedModel, ServedModels
from parser.service.service import READ_AHEAD, READ_AHEAD_OF_ALL, Input, Service

REFUSED = [name for name, hostile in HOSTILE.items() if 200 not in hostile.statuses]
READ = [(name,) for name in HOSTILE if name not in REFUSED]


@pytest.mark.parametrize("name", [*REFUSED, *extended(*READ)])
def test_each_is_answered_and_so_is_the_next(name, service):
    hostile = HOSTILE[name]
    with closing(HTTPConnection("127.0.0.1", service.port, timeout=60)) as connection:
        connection.request("POST", hostile.path, hostile.make(), hostile.headers)
        answer = connection.getresponse()
        assert answer.status in hostile.statuses
        if answer.status != 200:
            assert len(answer.read()) < 2_000
    answer = httpx.post(f"{service.url}/v1/parse", json={"texts": [TEXT]}, timeout=60)
    assert len(answer.json()["sentences"]) == 3


@pytest.mark.extended
@pytest.mark.filterwarnings("default")  # the library warns
@pytest.mark.parametrize("requests", [60, pytest.param(1_000, marks=pytest.mark.soak)])
def test_what_is_answered_is_described(requests, service):
    """Requests that are drawn from the description of the interface, and requests that it does not allow."""
    schemathesis = pytest.importorskip("schemathesis")
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    checked = [not_a_server_error, checks.status_code_conformance, checks.content_type_conformance]
    checked.append(checks.response_schema_conformance)
    parsing = schemathesis.openapi.from_url(f"{service.url}/openapi.json")["/v1/parse"]["POST"]
    modes = [parsing.as_strategy(generation_mode=mode) for mode in schemathesis.GenerationMode]

    @settings(max_examples=requests)
    @given(st.one_of(modes))
    def ask(case):
        case.call_and_validate(checks=checked)

    ask()
    answer = httpx.post(f"{service.url}/v1/parse", json={"texts": [TEXT]}, timeout=60)
    assert len(answer.json()["sentences"]) == 3


def begin(port, told, sent):
    """A connection with a request of which only a part has been sent."""
    connection = socket.create_connection(("127.0.0.1", port))
    head = "POST /v1/parse HTTP/1.1", "Host: x", "Content-Type: application/json", f"Content-Length: {told}"
    connection.sendall("\r\n".join([*head, "", ""]).encode() + b" " * sent)
    return connection


def test_the_bytes_of_all_requests_are_bounded(model):
    """Bytes are counted when they come, until the request is answered or broken off."""
    body = json.dumps({"texts": [TEXT]}).encode() + b" " * 2_000
    with serving(model, "--max-total-bytes=5000", "--max-bytes=5000") as service, ExitStack() as stack:

        def ask(**content):
            headers = {"Content-Type": "application/json"}
            return httpx.post(f"{service.url}/v1/parse", headers=headers, timeout=60, **content)

        for _ in range(3):  # who only announces a body takes no room
            stack.enter_context(begin(service.port, 4_000, 0))
        assert ask(content=body).status_code == 200
        with begin(service.port, 4_500, 4_000):
            while (answer := ask(content=body)).status_code == 200:
                pass  # the bytes have not arrived yet
            assert answer.status_code == 429
            assert answer.headers["retry-after"] == "1"
            assert "4,000 bytes of other requests wait already; try again later" in answer.json()["detail"]
            assert ask(content=iter([body])).status_code == 429
            assert ask(json={"texts": [TEXT]}).status_code == 200  # a small one has room
            in_query = {"data": "A.", "tokenizer": ""}
            assert httpx.get(f"{service.url}/process", params=in_query).status_code == 200
        while (answer := ask(content=body)).status_code == 429:
            pass
        assert answer.status_code == 200


def test_limits_that_contradict_each_other_are_refused(model, capsys):
    assert main(["serve", str(model), "--port", "0", "--max-total-bytes", "5000"]) == 2
    assert "--max-total-bytes 5000 is less than --max-bytes 4194304" in capsys.readouterr().err


async def test_together_requests_read_no_more_ahead_than_a_few(model):
    """Sentences that wait take a hundred times the memory of their bytes."""
    served = ServedModel.load("tiny", Path(model), torch.device("cpu"), 64)
    clients, waiting = 8, []

    limits = Limits(1 << 22, 1 << 25, 1_000, 1_000_000, 128, 300.0)
    service = Service(ServedModels([served]), limits)

    def sentences():
        return word_sentences(({"words": ["a"]} for _ in range(40_000)), lambda _: [])

    def parsed():
        return aclosing(service.parse(served, Input(sentences, 10_000), RequestRecord("POST"), lambda _: b""))

    async def ask():
        with service.admission.slot():
            await asyncio.sleep(0)
            async with parsed() as trees:
                for _ in range(3):
                    await anext(trees)
                    waiting.append(served.thread.load.waiting_words)

    await asyncio.gather(*(ask() for _ in range(clients)))
    service.close()
    assert max(waiting) <= READ_AHEAD_OF_ALL < clients * READ_AHEAD
