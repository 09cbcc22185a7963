"""Answers that fail for reasons that are nobody's fault."""

import asyncio

import pytest

pytest.importorskip("fastapi")

from parser.service.answer import Answer
from parser.service.limits import Admission, RefusedError
from parser.service.request_record import RequestRecord, put_record


def answered(fails_after, held_bytes):
    """The messages of an answer that fails after this many chunks, its record, and its admission."""
    admission, record, messages, scope = Admission(1, 1_000), RequestRecord("POST"), [], {}
    put_record(scope, record)

    async def chunks():
        for _ in range(fails_after):
            yield b"12345678"
        raise RuntimeError("a text of a user")

    async def receive():
        await asyncio.Event().wait()

    async def send(message):
        messages.append(message)

    answer = Answer(chunks(), "text/plain", admission, 60, held_bytes)
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
    messages, error = answered(2, held_bytes=100)
    assert messages == []
    assert error.status_code == 500
    assert "a text of a user" not in error.detail


def test_a_failure_after_the_first_byte_leaves_the_answer_incomplete():
    messages, error = answered(2, held_bytes=1)
    assert error is None
    assert [message["type"] for message in messages] == ["http.response.start", *["http.response.body"] * 2]
    assert all(message["more_body"] for message in messages[1:])


@pytest.mark.parametrize("held_bytes", [1, 100])
async def test_the_work_ends_when_the_client_has_gone(held_bytes):
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
        await Answer(chunks(), "text/plain", admission, 60, held_bytes)(scope, receive, send)
    assert has_ended.is_set()
    assert (admission.running, record.outcome) == (0, "gone")


def test_a_draining_service_refuses():
    admission = Admission(1, 1_000)
    admission.drains = True
    with pytest.raises(RefusedError, match="being stopped"), admission.slot():
        pass
    with pytest.raises(RefusedError, match="being stopped"):
        admission.refuse_if_full()
