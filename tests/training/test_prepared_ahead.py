"""Batches are prepared in order, before they are asked for, in another thread."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from parser.training.epoch import AHEAD, prepared_ahead

BATCHES = torch.arange(9).split(1)


@given(st.lists(st.integers(0, 99), max_size=12))
def test_batches_come_in_order(numbers):
    found = prepared_ahead(lambda rows: rows * 2, torch.tensor(numbers).split(1) if numbers else ())
    assert [int(rows) for rows in found] == [2 * number for number in numbers]


def test_they_are_prepared_in_a_thread_before_they_are_asked_for():
    threads, begun = set(), []
    is_third_begun = threading.Event()

    def prepare(rows):
        threads.add(threading.current_thread())
        begun.append(int(rows))
        if len(begun) == 1 + AHEAD:
            is_third_begun.set()
        return rows

    ahead = prepared_ahead(prepare, BATCHES)
    assert int(next(ahead)) == 0
    assert is_third_begun.wait(timeout=60)
    assert begun == list(range(1 + AHEAD))
    ahead.close()
    [thread] = threads
    assert thread is not threading.current_thread()
    assert not thread.is_alive()


def test_what_is_not_begun_when_it_is_closed_is_not_prepared(monkeypatch):
    begun, is_second_begun, may_go_on = [], threading.Event(), threading.Event()
    submit, submitted = ThreadPoolExecutor.submit, []

    def submit_and_note(*given):
        submitted.append(submit(*given))
        return submitted[-1]

    def end_second():
        while not submitted[-1].cancelled():
            time.sleep(0.01)
        may_go_on.set()

    def prepare(rows):
        begun.append(int(rows))
        if len(begun) == 2:
            is_second_begun.set()
            assert may_go_on.wait(timeout=60)
        return rows

    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit_and_note)
    ahead = prepared_ahead(prepare, BATCHES)
    next(ahead)
    assert is_second_begun.wait(timeout=60)
    threading.Thread(target=end_second, daemon=True).start()
    ahead.close()  # waits for the second batch
    assert begun == [0, 1]


def test_what_goes_wrong_is_raised_for_its_batch():
    def prepare(rows):
        if rows == 2:
            raise ValueError("the third batch")
        return rows

    ahead = prepared_ahead(prepare, BATCHES)
    assert [int(next(ahead)), int(next(ahead))] == [0, 1]
    with pytest.raises(ValueError, match="the third batch"):
        next(ahead)
