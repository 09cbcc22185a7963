"""What several processes tell each other, and how they share work."""

import os
import signal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from programs import together

from parser.distributed.process_group import ALONE, ProcessGroup
from parser.system.remote import RemoteError


@given(st.lists(st.integers(1, 60), max_size=40), st.integers(1, 5), st.randoms())
def test_a_batch_is_dealt_out_evenly(lengths, count, random):
    lengths = torch.tensor(lengths, dtype=torch.long)
    rows = list(range(len(lengths)))
    random.shuffle(rows)
    shares = [
        ProcessGroup(rank, count).deal(torch.tensor(rows, dtype=torch.long), lengths) for rank in range(count)
    ]
    assert sorted(row for share in shares for row in share.tolist()) == sorted(rows)
    sizes = [len(share) for share in shares]
    assert max(sizes) - min(sizes) <= 1
    if len(rows) % (2 * count) == 0 and rows:
        words = [int(lengths[share].sum()) for share in shares]
        assert max(words) - min(words) <= int(lengths.max() - lengths.min())


def test_one_process_keeps_the_order_of_a_batch():
    rows = torch.tensor([2, 0, 1])
    assert ALONE.deal(rows, torch.tensor([1, 2, 3])).tolist() == [2, 0, 1]


def tell_all(processes):
    numbers = torch.tensor([1.0, processes.rank])
    processes.add_up(numbers)
    with processes.first_before_others():
        pass
    return (
        numbers.tolist(),
        processes.greatest(processes.rank * 10),
        processes.gathered(processes.rank),
        processes.from_first("first" if processes.is_first else None),
        list(processes.share("abcdefg")),
    )


def test_what_is_told_reaches_all():
    found = together(3, tell_all)
    assert [answer[:4] for answer in found] == [([3.0, 3.0], 20, [0, 1, 2], "first")] * 3
    assert ["".join(answer[4]) for answer in found] == ["adg", "be", "cf"]


def die_or_wait(processes):
    if processes.rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    processes.greatest(0)


@pytest.mark.extended
@pytest.mark.parametrize("count", [2, 3])
def test_a_death_is_noticed(count):
    first, dead, *others = together(count, die_or_wait)
    for left in (first, *others):
        assert isinstance(left, RemoteError)
        assert "LostProcessError" in left.status
    assert "killed" in dead.status
