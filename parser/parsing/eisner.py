"""The projective trees with the greatest sum of scores (Eisner 1996), for a batch of sentences at once.

A span is complete if its head, at one of its ends, has all of its dependents in the span. It is incomplete if
its ends are head and dependent and the spans between them are complete. Spans of one width are computed
together. They are stored by start or end and by width, so that the parts of all spans of one width lie in
slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from parser.treebank.conllu_faults import cycles
from parser.treebank.projectivity import is_projective

Scores = NDArray[np.floating]
Numbers = NDArray[np.integer]


class _Splits(NamedTuple):
    """[sentences, start, width] Where the best span of each kind is split, as a distance from its start."""

    incomplete: Numbers
    """Between the last word of the left part and the first word of the right part."""
    left: Numbers
    """For complete spans with the head at the right end: the start of the dependent's part."""
    right: Numbers
    """For complete spans with the head at the left end: the last dependent."""


def is_projective_tree(heads: Sequence[int]) -> bool:
    """Whether heads, from word 1 on, are those of a projective tree with one word below ROOT."""
    return heads.count(0) == 1 and not cycles(heads) and is_projective(heads)


def projective_trees(scores: Scores, lengths: Numbers) -> list[list[int]]:
    """The heads of the words of each sentence; one word is below ROOT, which is 0.

    scores: [sentences, longest, longest + 1] the scores of the heads of each word, the first of which is
    ROOT. Scores after the end of a sentence are not read. lengths: [sentences] in words, at least 1.
    """
    splits, by_root = _best_spans(scores)
    trees = []
    for sentence, length in enumerate(lengths.tolist()):
        root = int((by_root[sentence, :length, length - 1] + scores[sentence, :length, 0]).argmax())
        trees.append(_heads(_Splits(*(part[sentence] for part in splits)), root, length))
    return trees


def _best_spans(scores: Scores) -> tuple[_Splits, Scores]:
    """The splits, and [sentences, word, end] the sums of the spans from the first word to `end` whose head is
    `word`, inside the span."""
    sentences, longest, _ = scores.shape
    shape = (sentences, longest, longest)
    # Sums by [sentence, start, width] or [sentence, end, width].
    left_by_start, left_by_end, right_by_start, right_by_end = np.zeros((4, *shape), scores.dtype)
    incomplete_left_by_end, incomplete_right_by_start = np.zeros((2, *shape), scores.dtype)
    splits = _Splits(*np.zeros((3, *shape), np.int16))
    arcs = scores[:, :, 1:]  # [sentences, dependent, head]
    for width in range(1, longest):
        count = longest - width
        starts, ends = slice(0, count), slice(width, longest)
        complete, incomplete = slice(0, width), slice(1, width + 1)  # widths of complete and incomplete parts
        joined, split = _best(right_by_start[:, starts, complete], left_by_end[:, ends, complete])
        splits.incomplete[:, starts, width] = split
        incomplete_left_by_end[:, ends, width] = joined + arcs.diagonal(width, 1, 2)
        incomplete_right_by_start[:, starts, width] = joined + arcs.diagonal(-width, 1, 2)
        sums, split = _best(left_by_start[:, starts, complete], incomplete_left_by_end[:, ends, incomplete])
        splits.left[:, starts, width] = split
        left_by_start[:, starts, width] = left_by_end[:, ends, width] = sums
        sums, split = _best(incomplete_right_by_start[:, starts, incomplete], right_by_end[:, ends, complete])
        splits.right[:, starts, width] = split + 1
        right_by_start[:, starts, width] = right_by_end[:, ends, width] = sums
    return splits, _by_root(left_by_start[:, 0], right_by_end)


def _best(first: Scores, second: Scores) -> tuple[Scores, Numbers]:
    """[sentences, spans] The greatest sums of two parts, and their splits.

    first, second: [sentences, spans, splits] the sums of the parts by width, from 0 or 1 on.
    """
    sums = first + second[:, :, ::-1]
    return sums.max(2), sums.argmax(2)


def _by_root(left: Scores, right_by_end: Scores) -> Scores:
    """The sums as in `_best_spans`. left: [sentences, width] those of spans from the first word."""
    word = np.arange(left.shape[1])
    width = word - word[:, None]  # [word, end]
    right = right_by_end[:, word, np.maximum(width, 0)]  # [sentences, word, end]
    return left[:, :, None] + right


def _heads(splits: _Splits, root: int, length: int) -> list[int]:
    """The heads, from the splits of one sentence [start, width]. root: the word below ROOT, from 0."""
    heads = [0] * length
    waiting = [(0, root, False), (root, length - 1, True)]  # complete spans, and whether the head is first
    while waiting:
        start, end, head_first = waiting.pop()
        if start == end:
            continue
        if head_first:
            dependent = start + int(splits.right[start, end - start])
            heads[dependent] = start + 1
            waiting.append((dependent, end, True))
            first, last = start, dependent
        else:
            dependent = start + int(splits.left[start, end - start])
            heads[dependent] = end + 1
            waiting.append((start, dependent, False))
            first, last = dependent, end
        middle = first + int(splits.incomplete[first, last - first])
        waiting += [(first, middle, True), (middle + 1, last, False)]
    return heads
