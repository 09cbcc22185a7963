"""Clients that go away or are slow, and the end of the service."""

import os
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from extended import first_of
from services import TEXT, parsed_by_command, serving

pytest.importorskip("fastapi")
httpx = pytest.importorskip("httpx")

LONG = "It was round. " * 20_000


def sent(service, texts, kind="application/json"):
    """A raw connection that has sent its request."""
    request = httpx.Request(
        "POST", f"{service.url}/v1/parse", json={"texts": texts}, headers={"Accept": kind}
    )
    connection = socket.create_connection(("127.0.0.1", service.port))
    headers = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    connection.sendall(f"POST /v1/parse HTTP/1.1\r\n{headers}\r\n".encode() + request.read())
    return connection


def short(service):
    return httpx.post(f"{service.url}/v1/parse", json={"texts": [TEXT]}, timeout=60)


@pytest.mark.parametrize("kind", first_of(["application/x-ndjson", "application/json"]))
def test_a_client_that_goes_away_is_cancelled(kind, model):
    with serving(model, "--max-requests=1") as service:
        with sent(service, [LONG * 2], kind) as connection:
            if kind == "application/x-ndjson":
                connection.recv(100)
        told = service.next("request")
        assert told["outcome"] == "gone"
        assert told.get("sentences", 0) < 40_000
        assert short(service).status_code == 200


@pytest.mark.extended
def test_a_slow_client_holds_no_slot(model):
    with serving(model, "--max-requests=1") as service, sent(service, [LONG]) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        deadline = time.monotonic() + 60
        while (answer := short(service)).status_code == 429:
            assert time.monotonic() < deadline
            time.sleep(0.05)
        assert answer.status_code == 200
        assert len(answer.json()["sentences"]) == 3


def test_many_clients_get_what_is_theirs(service, model):
    texts = [f"{TEXT}Number {number}. It was round.\n" for number in range(24)]
    asked = {"tokenizer": "ranges;normalized_spaces", "tagger": "", "parser": ""}
    with ThreadPoolExecutor(len(texts)) as pool:
        answers = list(pool.map(lambda text: service.process_text(data=text, **asked), texts))
    assert answers == [parsed_by_command(model, text, "--text") for text in texts]


def test_a_short_request_does_not_wait_for_a_long_one(service):
    with sent(service, [LONG[: len(LONG) // 4]]) as connection:
        assert short(service).status_code == 200
        assert httpx.get(f"{service.url}/live").status_code == 200
        connection.setblocking(False)
        rest = bytearray()
        while not rest.endswith(b"0\r\n\r\n"):
            try:
                rest += connection.recv(1 << 20)
            except BlockingIOError:
                time.sleep(0.01)
        assert rest.startswith(b"HTTP/1.1 200")
        assert rest.count(b'"sent_id"') == 5_000


@pytest.mark.extended
@pytest.mark.parametrize("number", first_of([signal.SIGTERM, signal.SIGINT, signal.SIGHUP]))
def test_a_signal_lets_running_requests_end(number, model):
    with serving(model) as service, ThreadPoolExecutor(1) as pool:
        wanted = {"json": {"texts": [LONG[: 1 << 16]]}, "timeout": 120}
        running = pool.submit(httpx.post, f"{service.url}/v1/parse", **wanted)
        service.wait_for_requests(1)
        os.kill(service.process.pid, number)
        assert service.next("stopping")["running_requests"] <= 1
        assert len(running.result().json()["sentences"]) > 4_000
        assert service.process.wait(timeout=60) == 0
        with pytest.raises(httpx.ConnectError):
            httpx.get(f"{service.url}/live")
