"""The contents of treebanks: counts of sentences, words, tags and labels, and repeated sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import NamedTuple

from parser.treebank.partial_trees import can_be_projective
from parser.treebank.sentence import BLANK, NO_HEAD, NO_SPACE, Sentence, without_subtype

UPOS, XPOS, FEATURES, LABELS = "UPOS tags", "XPOS tags", "features", "labels"
DIGEST_BYTES = 16


@dataclass(frozen=True)
class TreebankCounts:
    sentences: int
    words: int
    longest: int
    """Number of words in the longest sentence."""
    multiword_tokens: int
    empty_nodes: int
    joined: int
    """Tokens not followed by a space (`SpaceAfter=No`). A tokenizer learns from them where to divide."""
    non_projective: int
    """Sentences whose trees are not projective."""
    without_heads: int
    """Words whose heads are not known."""
    forms: Counter[str]
    values: Mapping[str, Counter[str]]
    """How often each tag, feature and label occurs, by UPOS, XPOS, FEATURES and LABELS, without blanks."""

    @classmethod
    def of(cls, sentences: Sequence[Sentence]) -> TreebankCounts:
        lengths = [len(sentence) for sentence in sentences]
        ids = [
            line.split("\t", 1)[0] for sentence in sentences for line in sentence.lines if line[:1].isdigit()
        ]
        feats = _occurrences(sentence.feats for sentence in sentences)
        features: Counter[str] = Counter()
        for together, count in feats.items():
            features.update(dict.fromkeys(together.split("|"), count))
        return cls(
            sentences=len(sentences),
            words=sum(lengths),
            longest=max(lengths, default=0),
            multiword_tokens=sum("-" in identifier for identifier in ids),
            empty_nodes=sum("." in identifier for identifier in ids),
            joined=sum(
                NO_SPACE in line.rstrip().rpartition("\t")[2].split("|")
                for sentence in sentences
                for line in sentence.lines
                if NO_SPACE in line
            ),
            non_projective=sum(not can_be_projective(sentence.heads) for sentence in sentences),
            without_heads=sum(sentence.heads.count(NO_HEAD) for sentence in sentences),
            forms=Counter(form for sentence in sentences for form in sentence.forms),
            values={
                UPOS: _occurrences(sentence.upos for sentence in sentences),
                XPOS: _occurrences(sentence.xpos for sentence in sentences),
                FEATURES: features,
                LABELS: _occurrences(sentence.labels for sentence in sentences),
            },
        )

    @property
    def universal_labels(self) -> int:
        """The number of labels without their subtypes."""
        return len(set(map(without_subtype, self.values[LABELS])))

    def unknown_share(self, train: TreebankCounts) -> float:
        """The share of words whose forms do not occur in `train`."""
        known = sum(count for form, count in self.forms.items() if form in train.forms)
        return 1 - known / self.words

    def lacking(self, train: TreebankCounts, kind: str) -> Counter[str]:
        """The tags, features or labels that do not occur in `train`, with their counts in this treebank."""
        known = train.values[kind]
        return Counter({value: count for value, count in self.values[kind].items() if value not in known})


def total(treebanks: Sequence[TreebankCounts]) -> TreebankCounts:
    """The counts of all treebanks together."""
    kinds = UPOS, XPOS, FEATURES, LABELS
    return TreebankCounts(
        sentences=sum(counts.sentences for counts in treebanks),
        words=sum(counts.words for counts in treebanks),
        longest=max((counts.longest for counts in treebanks), default=0),
        multiword_tokens=sum(counts.multiword_tokens for counts in treebanks),
        empty_nodes=sum(counts.empty_nodes for counts in treebanks),
        joined=sum(counts.joined for counts in treebanks),
        non_projective=sum(counts.non_projective for counts in treebanks),
        without_heads=sum(counts.without_heads for counts in treebanks),
        forms=_sum(counts.forms for counts in treebanks),
        values={kind: _sum(counts.values[kind] for counts in treebanks) for kind in kinds},
    )


def _occurrences(columns: Iterable[Sequence[str]]) -> Counter[str]:
    """Count the values of one column in all sentences, without blanks."""
    counts = Counter(value for column in columns for value in column)
    del counts[BLANK]
    return counts


def _sum(counters: Iterable[Counter[str]]) -> Counter[str]:
    total: Counter[str] = Counter()
    for counter in counters:
        total.update(counter)
    return total


class SentenceStart(NamedTuple):
    """Where a sentence begins."""

    file: str
    line: int
    identifier: str


class Repetition(NamedTuple):
    """A sentence, and where the same words or the same `sent_id` occurred before."""

    here: SentenceStart
    before: SentenceStart
    text: str
    words: int

    @property
    def is_across_files(self) -> bool:
        return self.here.file != self.before.file


@dataclass
class Repetitions:
    """Repeated sentences and repeated `sent_id`s. Files are added one after the other."""

    sentences: list[Repetition] = field(default_factory=list)
    identifiers: list[Repetition] = field(default_factory=list)
    _starts: dict[bytes, SentenceStart] = field(default_factory=dict)
    """Where each sentence occurs first, by a hash of its words."""
    _identifiers: dict[str, SentenceStart] = field(default_factory=dict)

    def add(self, file: str, sentences: Iterable[Sentence]) -> None:
        for ordinal, sentence in enumerate(sentences, 1):
            here = SentenceStart(file, sentence.line, sentence.identifier)
            words = "\t".join(sentence.forms)
            digest = blake2b(words.encode(errors="surrogatepass"), digest_size=DIGEST_BYTES).digest()
            first = self._starts.setdefault(digest, here)
            if first is not here:
                self.sentences.append(Repetition(here, first, words, len(sentence)))
            if sentence.identifier == f"#{ordinal}":  # it has no `sent_id`
                continue
            first = self._identifiers.setdefault(sentence.identifier, here)
            if first is not here:
                self.identifiers.append(Repetition(here, first, words, len(sentence)))
