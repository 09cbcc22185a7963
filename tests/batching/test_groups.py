"""Grouping by module against plain Python."""

from __future__ import annotations

import pytest
import torch
from chosen_device import DEVICE
from hypothesis import given
from hypothesis import strategies as st

from parser.batching.groups import Groups, Runs, grouped_product, why_not_grouped

MODULES = 6


@given(st.lists(st.integers(0, MODULES - 1), max_size=30))
def test_groups_are_those_of_plain_python(calls):
    groups = Groups.of(torch.tensor(calls, dtype=torch.int64, device=DEVICE), MODULES)
    order = sorted(range(len(calls)), key=lambda call: calls[call])
    sizes = [calls.count(module) for module in range(MODULES)]
    assert groups.order.tolist() == order
    assert [order[position] for position in groups.position.tolist()] == list(range(len(calls)))
    assert groups.module.tolist() == sorted(calls)
    assert groups.sizes.tolist() == sizes
    assert groups.ends.tolist() == [sum(sizes[: module + 1]) for module in range(MODULES)]
    called = sorted(set(calls))
    assert groups.runs() == Runs(called, [sizes[module] for module in called])


def test_one_by_one_each_call_is_a_run(device):
    assert Runs.one_by_one(torch.tensor([2, 0, 2], device=device)) == Runs([2, 0, 2], [1, 1, 1])


def test_a_grouped_product_is_each_groups_own(device):
    if reason := why_not_grouped(device, torch.float32, 16, 32):
        pytest.skip(reason)
    sizes = [3, 0, 5]
    ends = torch.tensor(sizes, device=device).cumsum(0).int()
    left, right = torch.randn(8, 16, device=device), torch.randn(8, 32, device=device)
    stack = torch.randn(3, 16, 32, device=device)
    rows = [part @ matrix for part, matrix in zip(left.split(sizes), stack, strict=True)]
    torch.testing.assert_close(grouped_product(left, stack, ends), torch.cat(rows))
    sums = [one.T @ other for one, other in zip(left.split(sizes), right.split(sizes), strict=True)]
    torch.testing.assert_close(grouped_product(left.T, right, ends), torch.stack(sums))


def test_where_there_is_no_grouped_product_it_is_said_why():
    assert "no grouped product of 16 x 32 on cpu" in why_not_grouped(torch.device("cpu"), torch.int64, 16, 32)
