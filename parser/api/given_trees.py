"""Heads and labels that a program gives for the words of a sentence; None or `_` for none."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from numbers import Integral
from typing import Any, TypeGuard

from parser.treebank.faults import head_fault
from parser.treebank.sentence import BLANK, NO_HEAD, label_fault


def given_heads(values: object, words: int) -> tuple[int, ...]:
    """Return the given heads; empty if nothing is given. words: the number of words. Raises ValueError."""
    found = []
    for word, value in enumerate(_values("heads", values, words), 1):
        if value is None or value == BLANK:
            found.append(NO_HEAD)
            continue
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise ValueError(f"heads, number {word}: {value!r} is not the number of a word")
        if fault := head_fault(str(value), word, words):
            raise ValueError(f"heads, number {word}: {fault}")
        found.append(int(value))
    return tuple(found)


def given_labels(values: object, words: int) -> tuple[str, ...]:
    """Return the given labels, see `given_heads`."""
    found = []
    for word, value in enumerate(_values("labels", values, words), 1):
        if value is None or value == BLANK:
            found.append(BLANK)
            continue
        if not isinstance(value, str):
            raise ValueError(f"labels, number {word}: {value!r} is no string")
        if fault := label_fault(value):
            raise ValueError(f"labels, number {word}: {fault}")
        found.append(value)
    return tuple(found)


def is_list(values: object) -> TypeGuard[Iterable[Any]]:
    """Whether these can be the values of words: in order, and not the characters of a string."""
    return isinstance(values, Iterable) and not isinstance(values, str | Mapping | Set)


def _values(name: str, values: object, words: int) -> list[Any]:
    if values is None:
        return []
    if not is_list(values):
        raise ValueError(f"{name}: a list is needed, not {type(values).__name__}")
    found = list(values)
    if len(found) != words:
        raise ValueError(f"{words} words, but {len(found)} {name}")
    return found
