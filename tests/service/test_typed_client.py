"""`parser.client`: its types are those that the service describes, and it tries again where this helps."""

import asyncio
import json
import re
import socket
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from programs import script
from services import TEXT, serving

pytest.importorskip("fastapi")
httpx = pytest.importorskip("httpx")

from parser.client import AsyncClient, Client, ServiceError  # noqa: E402
from parser.client.attempts import FIRST_PAUSE, LONGEST_PAUSE, Attempts, wanted_pause  # noqa: E402

LONG = "It was round. " * 20_000
JSON, LINES = "application/json", "application/x-ndjson"


def test_the_types_are_those_that_the_service_describes(service):
    """To update them: python scripts/write_client.py"""
    writing = script("write_client")
    described = httpx.get(f"{service.url}/openapi.json").json()
    assert writing.MODULE.read_text(encoding="utf-8") == writing.module(described)


def asked(method, url, *, by=Client, token=None, timeout=60, retry_seconds=0.0, **wanted):
    """The result of a method; a stream as a list."""
    options = {"token": token, "timeout": timeout, "retry_seconds": retry_seconds}

    async def awaited():
        async with AsyncClient(url, **options) as client:
            if method == "stream":
                return [sentence async for sentence in client.stream(**wanted)]
            return await getattr(client, method)(**wanted)

    if by is AsyncClient:
        return asyncio.run(awaited())
    with Client(url, **options) as client:
        result = getattr(client, method)(**wanted)
        return list(result) if method == "stream" else result


both = pytest.mark.parametrize("by", [Client, AsyncClient])


@both
def test_all_forms_of_answers(by, service):
    wanted = {"texts": [TEXT, "It was round. " * 300], "probabilities": True}
    answers = {
        form: httpx.post(f"{service.url}/v1/parse", json=wanted, headers={"Accept": form}, timeout=60)
        for form in (JSON, "text/x-conllu")
    }
    parsed = asked("parse", service.url, by=by, **wanted)
    assert parsed["model"] == "en-tiny-2.5"
    assert parsed == answers[JSON].json()
    assert asked("stream", service.url, by=by, **wanted) == parsed["sentences"]
    assert asked("conllu", service.url, by=by, **wanted) == answers["text/x-conllu"].text


@both
def test_line_ends_that_a_text_may_hold_end_no_sentence(by, service):
    words = ["a\u2028b", "c\x85d", "e\x1ef"]
    [sentence] = asked("stream", service.url, by=by, sentences=[{"words": words, "text": "a\u2029b"}])
    assert (sentence["words"], sentence["text"]) == (words, "a\u2029b")


@both
@pytest.mark.parametrize("method", ["parse", "stream"])
def test_a_refusal_has_its_status_and_message(by, method, service):
    with pytest.raises(ServiceError, match=r"^400: there is no model 'x'; available: ") as caught:
        asked(method, service.url, by=by, texts=[TEXT], model="x")
    assert caught.value.status == 400
    assert len(caught.value.request_id) == 16
    assert caught.value.message.startswith("there is no model 'x'")
    with pytest.raises(ServiceError, match=r"^422: body\.texts\.0: "):
        asked(method, service.url, by=by, texts=[1])


def test_a_token_is_sent(model, tmp_path):
    (tmp_path / "tokens").write_text("0123456789abcdef\n")
    with serving(model, "--token-file", tmp_path / "tokens") as service:
        with pytest.raises(ServiceError, match=r"^401: a token is needed"):
            asked("parse", service.url, texts=[TEXT])
        assert asked("parse", service.url, token="0123456789abcdef", texts=[TEXT])["sentences"]


def answer(status, content=b"", kind=JSON, **headers):
    """A step of a scripted service: an answer."""

    def send(handler):
        handler.send_response(status)
        told = {"Content-Type": kind, "Content-Length": len(content)}
        for name, value in {**told, **headers}.items():
            handler.send_header(name.replace("_", "-"), str(value))
        handler.end_headers()
        handler.wfile.write(content)

    return send


def broken(handler):
    """A step of a scripted service: it dies before it answers."""
    handler.close_connection = True


DONE = {"model": "a", "sentences": [{"words": ["a"], "heads": [0], "labels": ["root"]}]}
DONE_LINE = json.dumps(DONE["sentences"][0]).encode() + b"\n"
DONE_STEP = {
    "parse": answer(200, json.dumps(DONE).encode()),
    "stream": answer(200, DONE_LINE, LINES),
}
RESULT = {"parse": DONE, "stream": DONE["sentences"]}


@contextmanager
def scripted(*steps):
    """The address of a service that takes these steps, one for each request, and the times of requests."""
    left, times = list(steps), []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self):
            times.append(time.monotonic())
            self.rfile.read(int(self.headers["content-length"]))
            left.pop(0)(self)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", times
        finally:
            server.shutdown()
            serving.join()


@both
@pytest.mark.parametrize("method", ["parse", "stream"])
@pytest.mark.parametrize("status", [429, 503])
def test_a_busy_service_is_asked_again_after_the_time_that_it_names(status, method, by):
    with scripted(answer(status, Retry_After=1), broken, DONE_STEP[method]) as (url, times):
        assert asked(method, url, by=by, retry_seconds=60, texts=["a"]) == RESULT[method]
    assert len(times) == 3
    assert times[1] - times[0] >= 1


@both
@pytest.mark.parametrize(
    ("step", "told"),
    [
        (answer(429, b'{"detail": "full"}', Retry_After=3_600), "^429: full$"),
        (answer(503, b'{"detail": "not done within 300 seconds"}'), "^503: not done within 300 seconds$"),
        (answer(502, b"<html>Bad Gateway</html>", "text/html"), "^502: <html>Bad Gateway"),
        (answer(500, b"[1]"), r"^500: \[1\]$"),
        (answer(400), "^400: Bad Request$"),
        (answer(200, b"<html>Please log in</html>", "text/html"), "^200: <html>Please log in"),
    ],
    ids=["beyond the limit", "took too long", "proxy", "other JSON", "empty", "other page"],
)
def test_what_another_attempt_would_not_help_is_told_at_once(step, told, by):
    for method in ("parse", "stream"):
        with scripted(step) as (url, times), pytest.raises(ServiceError, match=told):
            asked(method, url, by=by, retry_seconds=60, texts=["a"])
        assert len(times) == 1


@both
def test_the_limit_is_for_all_attempts(by):
    with (
        scripted(*[broken] * 100) as (url, times),
        pytest.raises(ServiceError, match=r"^no answer: ") as told,
    ):
        asked("parse", url, by=by, retry_seconds=1, texts=["a"])
    assert told.value.status is None
    assert 1 < len(times) < 10
    with scripted(broken) as (url, times), pytest.raises(ServiceError, match=r"^no answer: "):
        asked("parse", url, by=by, retry_seconds=0, texts=["a"])


@both
def test_what_is_not_answered_in_time_is_not_asked_again(by):
    ends = threading.Event()
    with scripted(lambda _: ends.wait()) as (url, times):
        with pytest.raises(ServiceError, match=r"^the service did not answer in time") as told:
            asked("parse", url, by=by, timeout=0.2, retry_seconds=60, texts=["a"])
        ends.set()
    assert (told.value.status, len(times)) == (None, 1)


@both
def test_a_service_that_is_not_there(by):
    with socket.socket() as unheard:
        unheard.bind(("127.0.0.1", 0))
        with pytest.raises(ServiceError, match=r"^no answer: ") as told:
            asked("parse", f"http://127.0.0.1:{unheard.getsockname()[1]}", by=by, texts=["a"])
    assert told.value.status is None
    with pytest.raises(ServiceError, match="'http://' or 'https://'"):
        asked("parse", "127.0.0.1:8001", by=by, texts=["a"], retry_seconds=60)


@both
@pytest.mark.parametrize("method", ["stream", "conllu"])
def test_a_stream_that_fails_raises_what_its_last_line_tells(method, by, service):
    texts = ["It was round. " * 3_000, "a" * 20_001]
    with pytest.raises(ServiceError) as caught:
        asked(method, service.url, by=by, texts=texts)
    told = r"the answer was broken off after [1-9][\d,]* sentences: text 2 has more than 20,000 characters"
    assert re.match(told, caught.value.message)
    assert caught.value.status == 400
    assert len(caught.value.request_id) == 16


@both
def test_the_last_line_tells_an_error_although_the_end_looks_complete(by):
    """As it does behind a proxy that hides where the connection was cut."""
    row = b"\t".join([b"1", b"a", *[b"_"] * 8])
    contents = {
        "conllu": row + b"\n\n# error = 503: out of time\n",
        "stream": DONE_LINE + b'{"detail": "out of time", "status": 503}\n',
    }
    for method, content in contents.items():
        kind = LINES if method == "stream" else "text/x-conllu"
        with scripted(answer(200, content, kind)) as (url, _), pytest.raises(ServiceError) as caught:
            asked(method, url, by=by, texts=["a"])
        assert str(caught.value) == "503: the answer was broken off after 1 sentence: out of time"


@both
def test_a_comment_of_a_sentence_is_no_error(by, service):
    given = "# error = 503: out of time\n" + "\t".join(["1", "a", *"________"]) + "\n\n"
    assert "# error = 503: out of time\n1\ta" in asked("conllu", service.url, by=by, conllu=given)


@pytest.mark.extended
@both
def test_a_service_that_dies_during_the_answer(by, model):
    """Nothing is lost silently, and nothing comes twice."""

    async def awaited(service):
        async with AsyncClient(service.url, timeout=60) as client:
            async for _ in client.stream(texts=[LONG]):
                service.kill()

    def waited(service):
        with Client(service.url, timeout=60) as client:
            for _ in client.stream(texts=[LONG]):
                service.kill()

    with serving(model) as service, pytest.raises(ServiceError, match=r"broken off after [1-9]") as told:
        asyncio.run(awaited(service)) if by is AsyncClient else waited(service)
    assert told.value.status is None
    assert len(told.value.request_id) == 16


@pytest.mark.extended
@both
def test_requests_beyond_the_service_s_limit_are_all_answered(by, model):
    """429 with Retry-After, from a real service."""
    with serving(model, "--max-requests=1") as service:
        got = []

        def ask():
            got.append(asked("parse", service.url, by=by, retry_seconds=60, texts=[TEXT * 300]))

        threads = [threading.Thread(target=ask) for _ in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert [len(each["sentences"]) for each in got] == [900] * 6


def test_pauses_grow_and_heed_the_service():
    attempts = Attempts(1_000)
    pauses = [attempts.pause_after(httpx.ConnectError("")) for _ in range(10)]
    assert all(FIRST_PAUSE / 2 <= pause <= LONGEST_PAUSE for pause in pauses)
    assert pauses[-1] > LONGEST_PAUSE / 2
    assert attempts.pause_after(httpx.Response(429, headers={"Retry-After": "100"})) == 100
    date = format_datetime(datetime.now(UTC) + timedelta(seconds=100), usegmt=True)
    assert 90 < wanted_pause(httpx.Response(503, headers={"Retry-After": date})) <= 100
    assert wanted_pause(httpx.Response(503, headers={"Retry-After": "Mon, 01 Jan 2024 00:00:00 GMT"})) == 0
    assert wanted_pause(httpx.Response(503, headers={"Retry-After": "soon"})) is None
    assert wanted_pause(httpx.Response(400, headers={"Retry-After": "1"})) is None


def test_it_needs_no_part_of_the_parser():
    """What takes long to import, or runs only where models are."""
    names = (
        "torch",
        "numpy",
        "pydantic",
        "yaml",
        "fastapi",
        "parser.runtime",
        "parser.api",
        "parser.service",
    )
    code = f"import sys, parser.client; print([name for name in {names} if name in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"


def test_its_missing_library_is_named():
    code = "import sys; sys.modules['httpx'] = None; import parser.client"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert "parser.client needs httpx, which is not installed for this Python: pip install" in done.stderr
