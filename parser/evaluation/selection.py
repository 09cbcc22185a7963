"""Selecting sentences to annotate: those from which a parser is likely to learn most per word.

These are the sentences in which most arcs are expected to be wrong (uncertainty sampling, Lewis & Gale 1994),
or on which the models of an ensemble disagree (query by committee, Seung et al. 1992). A sentence is compared
with others of about the same length: a parser doubts more of the words in long sentences, so that otherwise
only long ones would be selected. The selected sentences are about as long as random ones, and cost as much.
They are written with the arcs that the parser is sure of.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from itertools import islice
from typing import Literal, NamedTuple

from parser.models.model import Model
from parser.parsing import BATCH_SIZE
from parser.parsing.engine import parse
from parser.parsing.options import ParseOptions
from parser.parsing.parsed_tree import ParsedTree
from parser.system.console import counted, printable
from parser.treebank.conllu_output import (
    TAG_PROBABILITIES,
    with_its_end,
    with_tag_probabilities,
    with_tags,
    with_tree,
    without_enhanced,
    without_marks,
)
from parser.treebank.partial_trees import with_known
from parser.treebank.sentence import Sentence

By = Literal["confidence", "disagreement", "random"]
WIDTH = 5
"""Width of a length group in words: sentences of 1 to 5 words are compared, those of 6 to 10, and so on."""
REASON = "# selected = "
CHUNK = 2_000
"""Number of sentences that are parsed together, by each model of an ensemble."""


class FileSentence(NamedTuple):
    file: str
    sentence: Sentence


class Candidate(NamedTuple):
    file: str
    sentence: Sentence
    tree: ParsedTree
    confidence: tuple[float, ...]
    """For each arc its probability, or with `disagreement` the share of the models that also predict it."""
    value: float
    """Candidates with the highest values are selected, first within a length group, then among all."""

    @property
    def doubts(self) -> float:
        """The expected number of wrong arcs."""
        return len(self.confidence) - sum(self.confidence)


@dataclass
class _LengthGroup:
    """Sentences that are compared with each other."""

    number: int = 0
    best: list[Candidate] = field(default_factory=list)
    """The candidates that can still be selected."""
    words: int = 0
    """The number of words in `best`."""

    def add(self, candidate: Candidate, limit: int) -> None:
        """Add a candidate. limit: the number of words to select."""
        self.number += 1
        self.best.append(candidate)
        self.words += len(candidate.sentence)
        if self.words > 2 * limit:
            self.best = _first(self.best, limit)
            self.words = sum(len(each.sentence) for each in self.best)

    def ranked(self) -> Iterator[Candidate]:
        """The best candidates; the value of each becomes the share of the group that is less valuable.

        This value is too high for a candidate that is less valuable than some that were left out. Such a
        candidate is not selected: the group has as many better words as are selected in all.
        """
        for rank, candidate in enumerate(sorted(self.best, key=lambda each: -each.value)):
            yield candidate._replace(value=1 - (rank + 0.5) / self.number)


def select(
    model: Model,
    sources: Iterable[FileSentence],
    words: int,
    by: By = "confidence",
    seed: int = 1,
    batch_size: int = BATCH_SIZE,
) -> list[Candidate]:
    """Select sentences until they have `words` words, the most valuable of their length first.

    Memory holds about twice as many words of each length. Of several sentences with the same words, only the
    first one counts. seed: for random selection. Raises ValueError for `disagreement` with a single model,
    and what `parse` raises.
    """
    if by == "disagreement" and not model.others:
        raise ValueError("a single model cannot disagree: give others with --ensemble")

    def distinct() -> Iterator[FileSentence]:
        seen: set[bytes] = set()
        for source in sources:
            forms = "\t".join(source.sentence.forms).encode(errors="surrogateescape")
            digest = blake2b(forms, digest_size=16).digest()
            if digest not in seen:
                seen.add(digest)
                yield source

    candidates = _candidates(model, distinct(), by, random.Random(seed), batch_size)
    return most_valuable(candidates, words, by)


def most_valuable(candidates: Iterable[Candidate], words: int, by: By) -> list[Candidate]:
    """The selected candidates. Random ones are drawn from all lengths together."""
    groups: defaultdict[int, _LengthGroup] = defaultdict(_LengthGroup)
    for candidate in candidates:
        group = 0 if by == "random" else (len(candidate.sentence) - 1) // WIDTH
        groups[group].add(candidate, words)
    return _first((each for group in groups.values() for each in group.ranked()), words)


def _first(candidates: Iterable[Candidate], words: int) -> list[Candidate]:
    """The most valuable candidates, until they have at least `words` words."""
    selected, total = [], 0
    for candidate in sorted(candidates, key=lambda each: -each.value):
        if total >= words:
            break
        selected.append(candidate)
        total += len(candidate.sentence)
    return selected


def _candidates(
    model: Model, sources: Iterator[FileSentence], by: By, drawing: random.Random, batch_size: int
) -> Iterator[Candidate]:
    while chunk := list(islice(sources, CHUNK)):
        sentences = [source.sentence for source in chunk]
        trees = parse(model, sentences, batch_size, ParseOptions(probabilities=by != "disagreement"))
        if by == "disagreement":
            of_arcs = _agreement(model, sentences, trees, batch_size)
        else:
            of_arcs = [tree.probabilities or () for tree in trees]
        for source, tree, confidence in zip(chunk, trees, of_arcs, strict=True):
            candidate = Candidate(*source, tree, confidence, 0.0)
            value = drawing.random() if by == "random" else candidate.doubts / len(candidate.sentence)
            yield candidate._replace(value=value)


def _agreement(
    model: Model, sentences: Sequence[Sentence], trees: Sequence[ParsedTree], batch_size: int
) -> list[tuple[float, ...]]:
    """For each arc of each tree, the share of the models that predict it on their own."""
    of_models = [parse(replace(each, others=()), sentences, batch_size) for each in model.members]
    return [
        tuple(
            sum(each.heads[word] == head and each.labels[word] == label for each in alone) / len(alone)
            for word, (head, label) in enumerate(zip(tree.heads, tree.labels, strict=True))
        )
        for tree, *alone in zip(trees, *of_models, strict=True)
    ]


def lines_of(candidate: Candidate, position: int, by: By, least: float) -> tuple[str, ...]:
    """The lines of a sentence, with the tags that the model predicts where it has none, and a comment.

    position: in the selection, from 1. Arcs whose confidence is less than `least` are left out: HEAD and
    DEPREL are `_`. Predicted tags, features and lemmas with a lower probability stay, with it in MISC.
    Enhanced dependencies, and entries of MISC about an earlier tree, are dropped. The comment gives the
    reason of the selection, and replaces that of an earlier one.
    """
    tree, confidence = candidate.tree, candidate.confidence
    sentence, _ = with_tags(without_marks(with_its_end(candidate.sentence)), tree.tags, "missing")
    sentence = with_tag_probabilities(sentence, tree.tags, tree.tag_probabilities, below=least)
    parsed = replace(sentence, heads=tuple(tree.heads), labels=tuple(tree.labels))
    sure = with_known(parsed, [each >= least for each in confidence])
    lines = without_enhanced(with_tree(sentence, sure.heads, sure.labels), sentence.word_lines)

    arcs, left_out = len(confidence), sum(each < least for each in confidence)
    doubtful = f"{left_out} left out, with a confidence below {least:g}"
    if by == "random":
        reason = f"at random; {doubtful}, of {arcs} arcs"
    elif by == "disagreement":
        differing = sum(each < 1 for each in confidence)
        reason = f"models disagree on {differing} of {arcs} arcs; {doubtful}"
    else:
        reason = f"{candidate.doubts:.1f} of {arcs} arcs are expected to be wrong; {doubtful}"
    keys = [f"{key}=" for key in TAG_PROBABILITIES.values()]
    if tags := sum(key in line for line in sentence.lines for key in keys):
        reason += f"; {counted(tags, 'tag')} with a probability below it, in MISC"

    kept = [line for line in lines if not line.startswith(REASON)]
    first = next(index for index, line in enumerate(kept) if not line.startswith("#"))
    line_end = kept[first][len(kept[first].rstrip("\r\n")) :]
    comment = f"{REASON}{position}, {printable(candidate.file)}:{sentence.line}: {reason}{line_end}"
    return (*kept[:first], comment, *kept[first:])
