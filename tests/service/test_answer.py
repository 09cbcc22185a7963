"""Answers that fail for reasons that are nobody's fault."""

import asyncio

import pytest

pytest.importorskip("fastapi")

from parser.service.answer import HELD_BYTES, Answer
from parser.service.limits import Admission, RefusedError
from parser.service.request_record import RequestRecord, put_record


def line(status, detail):
    return f"{status} {detail}".encode()


def answered(fails_after, chunk=b"12345678", error_line=None):
    """The messages of an answer that fails after this many chunks, and the error that it raises."""
    admission, record, messages, scope = Admission(1, 1_000), RequestRecord("POST"), [], {}
    put_record(scope, record)

    async def chunks():
        for _ in range(fails_after):
            yield chunk
        raise RuntimeError("a text of a user")

    async def receive():
        await asyncio.Event().wait()

    async def send(message):
        messages.append(message)

    answer = Answer(chunks(), "text/plain", admission, 60, error_line)
    error = None
    try:
        asyncio.run(answer(scope, receive, send))
    except RefusedError as refused:
        error = refused
    assert admission.running == 0
    assert record.outcome == "failed"
    assert record.error.startswith("RuntimeError at ")
    assert "a text of a user" not in str(record.told())
    return messages, error


def test_a_failure_before_the_first_byte_has_a_status():
    messages, error = answered(2)
    assert messages == []
    assert error.status_code == 500
    assert "a text of a user" not in error.detail


def test_a_failure_after_the_first_byte_leaves_the_answer_incomplete():
    messages, error = answered(2, b"x" * HELD_BYTES)
    assert error is None
    assert [message["type"] for message in messages] == ["http.response.start", *["http.response.body"] * 2]
    assert all(message["more_body"] for message in messages[1:])


def test_a_stream_that_fails_has_a_last_line_and_is_incomplete():
    messages, error = answered(2, error_line=line)
    assert error is None
    sent = [message["body"] for message in messages[1:]]
    assert sent == [b"12345678", b"12345678", b"500 the service failed; its log says where"]
    assert all(message["more_body"] for message in messages[1:])
    messages, error = answered(0, error_line=line)
    assert (messages, error.status_code) == ([], 500)


@pytest.mark.parametrize("error_line", [line, None])
async def test_the_work_ends_when_the_client_has_gone(error_line):
    admission, record, scope, has_ended = Admission(1, 1_000), RequestRecord("POST"), {}, asyncio.Event()
    put_record(scope, record)

    async def chunks():
        try:
            yield b"12345678"
            await asyncio.Event().wait()
        finally:
            has_ended.set()

    async def receive():
        return {"type": "http.disconnect"}

    async def send(message):
        pass

    async with asyncio.timeout(60):
        await Answer(chunks(), "text/plain", admission, 60, error_line)(scope, receive, send)
    assert has_ended.is_set()
    assert (admission.running, record.outcome) == (0, "gone")


def test_a_draining_service_refuses():
    admission = Admission(1, 1_000)
    admission.drains = True
    with pytest.raises(RefusedError, match="being stopped"), admission.slot():
        pass
    with pytest.raises(RefusedError, match="being stopped"):
        admission.refuse_if_full()
