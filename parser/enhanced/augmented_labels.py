"""Labels augmented by prepositions, conjunctions and cases, such as `obl:in`, `conj:and` and `nmod:gen`.

What follows the label is chosen by a log-linear model among candidates: the expressions of certain dependents
of the word, or of the word in whose place it stands; the coordinators of later conjuncts; and values of its
features. Which dependents and features these are is counted in train.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple
from unicodedata import category

from parser.enhanced.log_linear import Choice, best, fitted
from parser.enhanced.tree import ROOT, AnnotatedTree
from parser.treebank.sentence import BLANK

NOTHING = ""
COORDINATOR = "cc"
LETTERS = {"Ll", "Lm", "Lo", "Mn", "Mc", "Me"}
"""Categories of Unicode: letters except capital ones, and marks."""
FOLLOWING = "following"
"""The kind of a candidate from a conjunct that follows."""
LEAST_SHARE = 0.005
"""Of all augmented labels: relations that give fewer, and features that do, are no sources."""
MOST_FOLLOWING = 8
"""Most coordinators of later conjuncts that are candidates."""
MOST_KEPT = 65_536
"""Most situations of which the choice is kept."""


class Situation(NamedTuple):
    """All that decides how the label of an edge is augmented."""

    label: str
    upos: str
    own: tuple[tuple[str, str, str], ...]
    """The relations of the dependents that are sources, with their expressions as lemmas and as forms."""
    following: tuple[str, ...]
    """The coordinators of the later words with the same head and label."""
    inherited: tuple[tuple[str, str], ...]
    """Like `own`, as lemmas, of the word in whose place this one stands."""
    features: tuple[tuple[str, str], ...]
    """Values of the features that are sources, in lower case."""


class TextCandidate(NamedTuple):
    text: str
    """What follows the label; empty for nothing."""
    kind: str
    """Where it is from."""


@dataclass
class LabelAugmenter:
    sources: frozenset[str] = frozenset()
    """Relations of dependents that augment labels."""
    keys: tuple[str, ...] = ()
    """Features that do."""
    counts: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """How often each label was augmented by each text in train, for labels that are augmented at all."""
    weights: dict[str, float] = field(default_factory=dict)
    _kept: dict[Situation, str] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        self._in_all = _summed(self.counts)

    def label(self, tree: AnnotatedTree, word: int, label: str, stands_for: int | None = None) -> str:
        """The label of an edge to a word, augmented. stands_for: the word in whose place it stands."""
        if label not in self.counts:
            return label
        situation = self.situation(tree, word, label, stands_for)
        text = self._kept.get(situation)
        if text is None:
            candidates = self.candidates(situation)
            text = candidates[best(self.weights, self.features(situation, candidates))].text
            if len(self._kept) >= MOST_KEPT:
                self._kept.clear()
            self._kept[situation] = text
        return f"{label}:{text}" if text else label

    def situation(
        self, tree: AnnotatedTree, word: int, label: str, stands_for: int | None = None
    ) -> Situation:
        own: list[tuple[str, str, str]] = []
        following: list[str] = []
        for child in tree.children[word]:
            if tree.labels[child] in self.sources:
                lemma, form = (tree.expression(child, column) for column in (tree.lemmas, tree.forms))
                own.append((tree.labels[child], lemma, form))
        if tree.labels[word] == label and tree.heads[word] != ROOT:
            for other in tree.children[tree.heads[word]]:
                if len(following) >= MOST_FOLLOWING:
                    break
                if other > word and tree.labels[other] == label:
                    following += [
                        tree.expression(child, tree.lemmas)
                        for child in tree.children[other]
                        if tree.labels[child] == COORDINATOR
                    ]
        inherited = [
            (tree.labels[child], tree.expression(child, tree.lemmas))
            for child in (tree.children[stands_for] if stands_for not in (None, word) else ())
            if tree.labels[child] in self.sources
        ]
        features = ((key, tree.feature(word, key).lower()) for key in self.keys)
        return Situation(
            label,
            tree.upos[word],
            tuple(own),
            tuple(following),
            tuple(inherited),
            tuple(f for f in features if f[1]),
        )

    def candidates(self, situation: Situation) -> list[TextCandidate]:
        found = [TextCandidate(NOTHING, "nothing")]
        of_relation: dict[str, list[tuple[str, str]]] = {}
        for relation, lemma, form in situation.own:
            of_relation.setdefault(relation, []).append((lemma, form))
        for relation, each in of_relation.items():
            for number, (lemma, form) in enumerate(each):
                place = f"{min(number, 2)}{' last' if number == len(each) - 1 else ''}"
                found.append(TextCandidate(lemma, f"{relation} lemma {place}"))
                if form != lemma:
                    found.append(TextCandidate(form, f"{relation} form {place}"))
            if len(each) > 1:
                found.append(TextCandidate("_".join(lemma for lemma, _ in each), f"{relation} all"))
        found += [
            TextCandidate(text, f"{FOLLOWING} {min(n, 1)}") for n, text in enumerate(situation.following)
        ]
        found += [TextCandidate(text, f"inherited {relation}") for relation, text in situation.inherited]
        for key, value in situation.features:
            found += [
                TextCandidate(f"{text}:{value}" if text else value, f"{kind} {key}") for text, kind in found
            ]
        return [each for each in found if is_valid(each.text)]

    def features(
        self, situation: Situation, candidates: Sequence[TextCandidate], own: str | None = None
    ) -> list[list[str]]:
        """The features of candidates. own: the text of this example in train, which is not counted."""
        label, counts = situation.label, self.counts.get(situation.label, {})
        relations = "+".join(sorted({relation for relation, *_ in situation.own}))
        found = []
        for text, kind in candidates:
            with_label = _rounded(counts.get(text, 0) - (text == own))
            in_all = _rounded(self._in_all[text] - (text == own))
            features = [f"{label} {kind}", kind, f"seen {with_label}", f"seen {with_label} {kind}"]
            features += [f"seen {with_label} {label}", f"known {in_all}", f"{label} {kind} of {relations}"]
            features.append(f"{label} {kind} {situation.upos}")
            if text:
                features.append(f"{label}:{text}")
            found.append(features)
        return found

    @classmethod
    def learned(cls, examples: Sequence[LabelExample]) -> LabelAugmenter:
        counts: dict[str, Counter[str]] = {}
        for each in examples:
            counts.setdefault(each.label, Counter())[each.text] += 1
        counts = {label: own for label, own in counts.items() if set(own) != {NOTHING}}
        examples = [each for each in examples if each.label in counts]
        sources, keys = _sources(examples)
        known = cls(sources, keys, counts)
        choices = []
        for each in examples:
            situation = known.situation(each.tree, each.word, each.label, each.stands_for)
            candidates = known.candidates(situation)
            right = [number for number, candidate in enumerate(candidates) if candidate.text == each.text]
            if right and len(candidates) > 1:
                choices.append(Choice(known.features(situation, candidates, each.text), right))
        return cls(sources, keys, counts, fitted(choices))


class LabelExample(NamedTuple):
    """An edge of train."""

    tree: AnnotatedTree
    word: int
    label: str
    text: str
    """What augments the label; empty for nothing."""
    stands_for: int | None = None
    """The word in whose place this one stands."""


def _sources(examples: Iterable[LabelExample]) -> tuple[frozenset[str], tuple[str, ...]]:
    """The relations of dependents, and the features, from which the texts of examples are."""
    relations: Counter[str] = Counter()
    keys: Counter[str] = Counter()
    augmented_labels = 0
    for tree, word, _, text, _ in examples:
        if not text:
            continue
        augmented_labels += 1
        first, _, last = text.rpartition(":")
        for child in tree.children[word]:
            expressions = {tree.expression(child, column) for column in (tree.lemmas, tree.forms)}
            if expressions & {text, first}:
                relations[tree.labels[child]] += 1
        for each in tree.feats[word].split("|") if tree.feats[word] != BLANK else ():
            key, _, value = each.partition("=")
            keys[key] += value.lower() == last
    least = max(1, LEAST_SHARE * augmented_labels)
    return (
        frozenset(relation for relation, count in relations.items() if count >= least),
        tuple(sorted(key for key, count in keys.items() if count >= 10 * least)),
    )


def is_valid(text: str) -> bool:
    """Whether Universal Dependencies allow this in a label: letters in lower case, joined by `_` and `:`."""
    words = text.replace(":", "_").split("_") if text else ()
    return all(word and all(category(character) in LETTERS for character in word) for word in words)


def _summed(counts: Mapping[str, Mapping[str, int]]) -> Counter[str]:
    """How often each text occurs with any label."""
    summed: Counter[str] = Counter()
    for own in counts.values():
        summed.update(own)
    return summed


def _rounded(count: int) -> int:
    """0, 1, 2 for a few, or 10 for many."""
    return 10 if count >= 10 else min(max(count, 0), 2)
