"""The parser's trees beside those of its scorer of arcs, and how well both know their errors.

    python scripts/studies/accuracy/measure_arc_scorer.py runs/*/model --treebank dev.conllu

The scorer's tree is the one of greatest sum: among projective trees (Eisner 1996), or with --crossing among
all (Chu & Liu 1965, Edmonds 1967; needs `pip install ufal.chu_liu_edmonds`). Both trees together: the tree of
greatest sum where each arc of the parser's tree has a bonus. Heads are compared, labels are the parser's.

Of the probabilities of the parser's arcs, the calibration error is the mean distance between probability and
share of right heads, over twenty groups of equally many arcs; the area is that under the curve by which wrong
heads are found, the least probable first (0.5: by chance).
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from parser.parsing.model import Model
from parser.parsing.parse import parse
from parser.system.machine import tune_process
from parser.treebank.conllu import read_treebank
from parser.treebank.sentence import Sentence

Scores = NDArray[np.float64]
"""[words, words + 1] Of each word its scores of all heads; column 0 is ROOT."""
Heads = tuple[int, ...]
BONUSES = (0.5, 1.0, 2.0, 4.0)
GROUPS = 20
BATCH_SIZE = 256


def log_probabilities(model: Model, sentences: Sequence[Sentence]) -> list[Scores]:
    """Of each sentence, by the model's scorer of arcs."""
    network = model.network
    assert network.arcs is not None
    found = []
    for start in range(0, len(sentences), BATCH_SIZE):
        tokens = model.vocabulary.encode_tokens(sentences[start : start + BATCH_SIZE])
        with torch.inference_mode():
            table = network.word_table(tokens.to(model.device))
            found += network.arcs.log_probabilities(table, tokens.lengths)
    return [each.double().numpy() for each in found]


def eisner(scores: Scores) -> Heads:
    """The projective tree of greatest sum, with one word below ROOT (Eisner 1996)."""
    words = len(scores)
    arc = scores[:, 1:].T  # [head, dependent]
    complete = np.full((2, words, words), -np.inf)  # [the head is the right or the left end, start, end]
    incomplete = np.full((2, words, words), -np.inf)
    split, split_incomplete = np.zeros((2, words, words), int), np.zeros((words, words), int)
    for word in range(words):
        complete[:, word, word] = 0
    for length in range(1, words):
        for start in range(words - length):
            end = start + length
            joined = complete[1, start, start:end] + complete[0, start + 1 : end + 1, end]
            best = int(joined.argmax())
            split_incomplete[start, end] = start + best
            incomplete[0, start, end] = joined[best] + arc[end, start]
            incomplete[1, start, end] = joined[best] + arc[start, end]
            to_left = complete[0, start, start:end] + incomplete[0, start:end, end]
            to_right = incomplete[1, start, start + 1 : end + 1] + complete[1, start + 1 : end + 1, end]
            split[0, start, end] = start + int(to_left.argmax())
            split[1, start, end] = start + 1 + int(to_right.argmax())
            complete[0, start, end], complete[1, start, end] = to_left.max(), to_right.max()
    root = int((complete[0, 0, :] + complete[1, :, words - 1] + scores[:, 0]).argmax())
    heads = [0] * words
    spans = [(0, 0, root, True), (1, root, words - 1, True)]
    while spans:
        direction, start, end, is_complete = spans.pop()
        if start == end:
            continue
        if not is_complete:
            head, dependent = (end, start) if direction == 0 else (start, end)
            heads[dependent] = head + 1
            middle = int(split_incomplete[start, end])
            spans += [(1, start, middle, True), (0, middle + 1, end, True)]
            continue
        middle = int(split[direction, start, end])
        parts = [(0, start, middle, True), (0, middle, end, False)]
        spans += parts if direction == 0 else [(1, start, middle, False), (1, middle, end, True)]
    return tuple(heads)


def chu_liu_edmonds(scores: Scores) -> Heads:
    """The tree of greatest sum, with one word below ROOT; arcs may cross."""
    from ufal.chu_liu_edmonds import chu_liu_edmonds as best_tree

    words = len(scores)
    finite = np.where(np.isfinite(scores), scores, -1e4)
    square = np.full((words + 1, words + 1), np.nan)  # [dependent, head]
    square[1:] = finite
    square[1:, 0] -= 1e6  # so that ROOT has as few dependents as it can, which is one
    square[np.arange(words + 1), np.arange(words + 1)] = np.nan
    heads, _ = best_tree(square)
    return tuple(int(head) for head in heads[1:])


def with_bonus(scores: Scores, heads: Heads, bonus: float) -> Scores:
    changed = scores.copy()
    changed[np.arange(len(heads)), heads] += bonus
    return changed


def right_share(gold: Sequence[Sentence], found: Sequence[Heads]) -> float:
    """UAS."""
    right = sum(
        head == own
        for sentence, heads in zip(gold, found, strict=True)
        for head, own in zip(sentence.heads, heads, strict=True)
    )
    return right / sum(map(len, found))


def calibration_error(probabilities: Scores, is_right: NDArray[np.bool_]) -> float:
    order = probabilities.argsort(kind="stable")
    parts = zip(*(np.array_split(each[order], GROUPS) for each in (probabilities, is_right)), strict=True)
    return float(sum(len(own) * abs(own.mean() - right.mean()) for own, right in parts) / len(order))


def area_of_errors(probabilities: Scores, is_right: NDArray[np.bool_]) -> float:
    """The probability that a wrong arc is less probable than a right one."""
    values, rank_of = np.unique(probabilities, return_inverse=True)
    counts = np.bincount(rank_of, minlength=len(values))
    ranks = (counts.cumsum() - (counts - 1) / 2)[rank_of]  # equal values share their mean rank
    right = int(is_right.sum())
    wrong = len(is_right) - right
    return float((ranks[is_right].sum() - right * (right + 1) / 2) / (right * wrong))


def measure(model: Model, sentences: Sequence[Sentence], decode: Callable[[Scores], Heads]) -> None:
    """Print all figures of a model."""
    trees = parse(model, sentences, probabilities=True)
    scores = log_probabilities(model, sentences)
    parsed = [tree.heads for tree in trees]
    decoded = list(map(decode, scores))
    equal = np.concatenate([np.equal(a, b) for a, b in zip(parsed, decoded, strict=True)])
    is_right = np.concatenate([np.equal(s.heads, own) for s, own in zip(sentences, parsed, strict=True)])
    print(f"parser: UAS {right_share(sentences, parsed):.2%}")
    print(f"greatest sum: UAS {right_share(sentences, decoded):.2%}")
    print(f"equal heads: {equal.mean():.2%}, of which are right {is_right[equal].mean():.2%}")
    for bonus in BONUSES:
        both = [decode(with_bonus(*pair, bonus)) for pair in zip(scores, parsed, strict=True)]
        print(f"both, bonus {bonus:g}: UAS {right_share(sentences, both):.2%}")
    of_transitions = np.concatenate([tree.probabilities for tree in trees if tree.probabilities])
    of_scorer = np.exp(
        np.concatenate([own[np.arange(len(heads)), heads] for own, heads in zip(scores, parsed, strict=True)])
    )
    for name, own in {
        "transitions": of_transitions,
        "scorer": of_scorer,
        "mean of both": (of_transitions + of_scorer) / 2,
        "geometric mean of both": np.sqrt(of_transitions * of_scorer),
    }.items():
        print(
            f"probabilities of {name}: calibration error {calibration_error(own, is_right):.4f}, "
            f"area of errors {area_of_errors(own, is_right):.4f}"
        )


def main() -> None:
    arguments = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    arguments.add_argument("models", nargs="+", type=Path)
    arguments.add_argument("--treebank", required=True, type=Path)
    arguments.add_argument("--crossing", action="store_true", help="trees in which arcs may cross")
    given = arguments.parse_args()
    tune_process()
    sentences = read_treebank(str(given.treebank))
    for path in given.models:
        try:
            model = Model.load(path, torch.device("cpu"))
        except ValueError as error:
            sys.exit(str(error))
        if model.network.arcs is None:
            sys.exit(f"{path}: has no scorer of arcs (parser.network.arcs)")
        print(path)
        measure(model, sentences, chu_liu_edmonds if given.crossing else eisner)


if __name__ == "__main__":
    main()
