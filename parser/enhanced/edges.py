"""Which edges a graph has beside those of the tree, and which of the tree's it lacks.

An added edge is found by the path through the tree from the word to its new head: in `she wants to go`, `she`
is a dependent of `go` by the path `nsubj^ xcompv`, up to `wants` and down to `go`. For each path of train, a
log-linear model chooses among the labels that train has there, and none. The label is that of a word on the
path, that of a word whose own edge is left out, or a fixed one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain, islice
from typing import NamedTuple

from parser.enhanced.augmented_labels import LabelAugmenter
from parser.enhanced.graph import Edge, augmentation, beside_tree
from parser.enhanced.log_linear import Choice, best, fitted
from parser.enhanced.tree import LONGEST_KEPT, ROOT, AnnotatedTree
from parser.treebank.sentence import BLANK

LONGEST_PATH = 4
LEAST_COUNT = 3
"""Paths that train has less often are not followed."""
MOST_PATHS = 50
"""For each word, on average; further ones are not followed."""
MOST_KEPT = 65_536
"""Most kinds of words that are kept."""
TAB = "\t"
"""Separates parts of a feature's name: no column contains it."""
MOST_WITHOUT = 0.95
"""Paths that have no edge more often are not followed, and words that stay more often are not left out."""
NO_EDGE = "no edge"
ON_PATH, LEFT_OUT, LABEL = "on path", "left out", "label"
"""The kinds of labels: that of the word with this number on the path; that of a word whose edge is left out,
in whose place the word stands; or this one."""
SUBJECTS = "nsubj", "csubj"
ABOUT_SENTENCE = "case", "mark", "cop", "nsubj", "aux", "det", "cc"
"""Relations of dependents of a word that a path begins with, as far as they decide."""


class Path(NamedTuple):
    """From a word up to the common ancestor, and down to another word."""

    up: Sequence[int]
    """Words below the common ancestor, the first one included."""
    down: Sequence[int]
    """Words below the common ancestor, the last one included."""
    top: int
    """The common ancestor."""

    @property
    def start(self) -> int:
        return self.up[0] if self.up else self.top

    @property
    def end(self) -> int:
        return self.down[-1] if self.down else self.top

    @property
    def words(self) -> Sequence[int]:
        return *self.up, *self.down

    @property
    def between(self) -> Sequence[int]:
        """The words between the first and the last."""
        inner = [*self.up[1:], *([self.top] if self.down and self.up else []), *self.down[:-1]]
        return [word for word in inner if word != ROOT]

    def pattern(self, tree: AnnotatedTree) -> str:
        return " ".join(
            [*(f"{tree.labels[word]}^" for word in self.up), *(f"{tree.labels[word]}v" for word in self.down)]
        )


def path_between(tree: AnnotatedTree, word: int, head: int) -> Path:
    up = [*tree.ancestors(word), ROOT]
    down = []
    while head not in up:
        down.append(head)
        head = tree.heads[head]
    return Path(up[: up.index(head)], down[::-1], head)


class Trie(dict[str, "Trie"]):
    """The steps of patterns."""

    is_end = False

    @classmethod
    def of(cls, patterns: Sequence[str]) -> Trie:
        root = cls()
        for pattern in patterns:
            node = root
            for step in pattern.split():
                node = node.setdefault(step, cls())
            node.is_end = True
        return root


GraphExample = tuple[AnnotatedTree, Sequence[Sequence[Edge]]]
"""A tree, and the edges of its words in the graph."""


@dataclass
class EdgeFinder:
    labels: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """By pattern, how new edges can be labelled, such as `on path 1`."""
    weights: dict[str, float] = field(default_factory=dict)
    leaving: frozenset[str] = frozenset()
    """What words are like whose own edge may be left out: label and PronType, see `_kind`."""
    weights_of_leaving: dict[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self._trie = Trie.of(list(self.labels))
        steps = chain.from_iterable(pattern.split() for pattern in self.labels)
        self._downward = {step[:-1] for step in steps if step.endswith("v")}
        self._weights: dict[str, dict[str, float]] = {}
        """By the part of a feature's name before the tab."""
        for name, weight in self.weights.items():
            start, _, end = name.partition(TAB)
            self._weights.setdefault(start, {})[end] = weight
        self._may_leave: dict[tuple[str, str], bool] = {}

    def left_out(self, tree: AnnotatedTree) -> set[int]:
        """The words whose edge in the tree is not in the graph."""
        known = self._may_leave
        candidates = []
        for word, columns in enumerate(zip(tree.labels, tree.feats, strict=True)):
            may_leave = known.get(columns)
            if may_leave is None:
                may_leave = word != ROOT and _kind(tree, word) in self.leaving
                if len(known) >= MOST_KEPT:
                    known.clear()
                if len(columns[1]) <= LONGEST_KEPT:
                    known[columns] = may_leave
            if may_leave:
                candidates.append(word)
        weights = self.weights_of_leaving
        return {word for word in candidates if best(weights, _features_of_leaving(tree, word))}

    def paths(self, tree: AnnotatedTree) -> Iterator[Path]:
        """The paths whose patterns are known, between words that are not head and dependent in this order."""
        labels, heads, trie = tree.labels, tree.heads, self._trie
        downward: dict[int, list[int]] = {}
        for word, label in enumerate(labels):
            if label in self._downward and word != ROOT:
                downward.setdefault(heads[word], []).append(word)
        for word in range(1, len(labels)):
            node: Trie | None = trie
            up: list[int] = []
            top = word
            while node is not None:
                for child in downward.get(top, ()):
                    if not up or child != up[-1]:
                        yield from self._down(tree, downward, node, up, [child], top)
                if top == ROOT:
                    break
                node = node.get(f"{labels[top]}^")
                up, top = [*up, top], heads[top]
                if node is not None and node.is_end and len(up) > 1 and top != ROOT:
                    yield Path(up, (), top)

    def _down(
        self,
        tree: AnnotatedTree,
        downward: Mapping[int, Sequence[int]],
        node: Trie,
        up: Sequence[int],
        down: Sequence[int],
        top: int,
    ) -> Iterator[Path]:
        following = node.get(f"{tree.labels[down[-1]]}v")
        if following is None:
            return
        if following.is_end:
            yield Path(up, down, top)
        for child in downward.get(down[-1], ()):
            yield from self._down(tree, downward, following, up, [*down, child], top)

    def added(
        self, tree: AnnotatedTree, left_out: set[int], augmenter: LabelAugmenter
    ) -> Iterator[tuple[int, int, str]]:
        """The word, the head and the label of each added edge. left_out: see there."""
        for path in islice(self.paths(tree), MOST_PATHS * len(tree)):
            pattern = path.pattern(tree)
            chosen = self._chosen(pattern, _about(tree, path, left_out))
            if chosen == NO_EDGE:
                continue
            kind, _, which = chosen.rpartition(" ")
            word, stands_for = path.start, None
            if kind == ON_PATH:
                stands_for = path.words[int(which)]
            elif chosen == LEFT_OUT:
                stands_for = next((each for each in tree.children[path.end] if each in left_out), None)
                if stands_for is None:
                    continue
            label = which if stands_for is None else tree.labels[stands_for]
            yield word, path.end, augmenter.label(tree, word, label, stands_for)

    def _chosen(self, pattern: str, about: Sequence[str]) -> str:
        """The label with the greatest sum of weights, or no edge. about: see `_about`."""
        chosen, greatest = NO_EDGE, self.weights.get(NO_EDGE, 0.0)
        for label in self.labels[pattern]:
            score = 0.0
            for start in _starts(pattern, label):
                weights = self._weights.get(start, {})
                score += sum([weights[each] for each in about if each in weights])
            if score > greatest:
                chosen, greatest = label, score
        return chosen

    @classmethod
    def learned(cls, examples: Sequence[GraphExample], augmenter: LabelAugmenter) -> EdgeFinder:
        """examples: words without edges are not learned from."""
        missing = [_left_out_of(tree, edges) for tree, edges in examples]
        return cls(
            *_learned_added(examples, missing, augmenter),
            *_learned_left_out(examples, missing),
        )


def _learned_left_out(
    examples: Sequence[GraphExample], missing: Sequence[set[int]]
) -> tuple[frozenset[str], dict[str, float]]:
    """`leaving` and its weights. missing: the words of each example whose edge is left out."""
    kinds, gone = Counter[str](), Counter[str]()
    for (tree, edges), own in zip(examples, missing, strict=True):
        kinds.update(_kind(tree, word) for word, of_word in enumerate(edges, 1) if of_word)
        gone.update(_kind(tree, word) for word in own)
    leaving = frozenset(
        kind
        for kind, count in gone.items()
        if count >= LEAST_COUNT and kinds[kind] - count <= MOST_WITHOUT * kinds[kind]
    )
    choices = [
        Choice(_features_of_leaving(tree, word), [int(word in own)])
        for (tree, edges), own in zip(examples, missing, strict=True)
        for word, of_word in enumerate(edges, 1)
        if of_word and _kind(tree, word) in leaving
    ]
    return leaving, fitted(choices)


def _learned_added(
    examples: Sequence[GraphExample], missing: Sequence[set[int]], augmenter: LabelAugmenter
) -> tuple[dict[str, list[str]], dict[str, float]]:
    """`labels` and their weights. missing: as above."""
    added = [dict(added_to(tree, edges)) for tree, edges in examples]
    patterns = Counter(
        path.pattern(tree)
        for (tree, _), own in zip(examples, added, strict=True)
        for path in (path_between(tree, *pair) for pair in own)
        if len(path.words) <= LONGEST_PATH
    )
    known = EdgeFinder(labels={pattern: () for pattern, count in patterns.items() if count >= LEAST_COUNT})
    found = [
        (tree, path, path.pattern(tree), left_out, own.get((path.start, path.end)))
        for (tree, edges), own, left_out in zip(examples, added, missing, strict=True)
        for path in known.paths(tree)
        if edges[path.start - 1] and path.end != tree.heads[path.start]
    ]
    right = [
        NO_EDGE if label is None else _how(tree, path, label, left_out, augmenter)
        for tree, path, _, left_out, label in found
    ]
    counts: dict[str, Counter[str]] = {}
    for (_, _, pattern, _, _), how in zip(found, right, strict=True):
        counts.setdefault(pattern, Counter())[how] += 1
    labels = {
        pattern: [how for how, count in own.most_common() if how != NO_EDGE and count > 1]
        for pattern, own in counts.items()
        if own[NO_EDGE] <= MOST_WITHOUT * own.total()
    }
    labels = {pattern: own for pattern, own in labels.items() if own}
    choices = []
    for (tree, path, pattern, left_out, _), how in zip(found, right, strict=True):
        candidates = [NO_EDGE, *labels.get(pattern, ())]
        if how in candidates and len(candidates) > 1:
            features = _features(pattern, candidates[1:], _about(tree, path, left_out))
            choices.append(Choice(features, [candidates.index(how)]))
    return labels, fitted(choices)


def _left_out_of(tree: AnnotatedTree, edges: Sequence[Sequence[Edge]]) -> set[int]:
    """The words with edges, but without that of the tree."""
    return {
        word
        for word, own in enumerate(edges, 1)
        if own and all(head != str(tree.heads[word]) for head, _ in own)
    }


def added_to(tree: AnnotatedTree, edges: Sequence[Sequence[Edge]]) -> Iterator[tuple[tuple[int, int], str]]:
    """The word and head, and the label, of each edge that is not from the head in the tree, an empty node, or
    ROOT."""
    return (((word, head), label) for word, head, label in beside_tree(edges, tree.heads[1:]) if head != ROOT)


def _how(tree: AnnotatedTree, path: Path, label: str, left_out: set[int], augmenter: LabelAugmenter) -> str:
    """How the label of an added edge is found."""

    def is_from(relation: str) -> bool:
        text = augmentation(label, relation)
        return text == "" or (text is not None and relation in augmenter.counts)

    if any(is_from(tree.labels[each]) for each in tree.children[path.end] if each in left_out):
        return LEFT_OUT
    for number, word in enumerate(path.words):
        if is_from(tree.labels[word]):
            return f"{ON_PATH} {number}"
    plain = label.partition(":")[0]
    return f"{LABEL} {plain if plain in augmenter.counts else label}"


def _kind(tree: AnnotatedTree, word: int) -> str:
    return f"{tree.labels[word]} {tree.feature(word, 'PronType')}"


def _features_of_leaving(tree: AnnotatedTree, word: int) -> list[list[str]]:
    """Of leaving a word's edge as it is, and of leaving it out."""
    kind, lemma, upos = _kind(tree, word), tree.lemmas[word], tree.upos[word]
    above = [tree.labels[each] for each in tree.ancestors(word)][1:4]
    known = (
        kind,
        *(f"{kind} {'/'.join(above[:count])}" for count in (1, 2, 3)),
        f"{kind} {lemma}",
        f"{lemma} {upos}",
    )
    return [["stays"], ["goes", *known]]


def _about(tree: AnnotatedTree, path: Path, left_out: set[int]) -> list[str]:
    """What may decide whether there is an edge from the end of a path to its start."""
    word, head = path.start, path.end
    relations = tree.relations[head]
    subject = any(relation.startswith(SUBJECTS) for relation in relations)
    moved = next((tree.labels[each] for each in tree.children[head] if each in left_out), BLANK)
    form, voice = tree.feature(head, "VerbForm"), tree.feature(head, "Voice")
    own = sorted(tree.relations[word].intersection(ABOUT_SENTENCE))
    about = [
        "",
        f"word {tree.upos[word]}",
        f"before {word < head}",
        f"form {form} {tree.upos[word]} {subject}",
        f"pronoun {tree.feature(word, 'PronType')}",
        f"arguments {subject} {'obj' in relations} {moved} {voice}",
        f"lemma {tree.lemmas[head]}",
        f"with {'+'.join(own)}",
    ]
    for number, each in enumerate(path.between):
        below = tree.relations[each]
        about.append(f"lemma {number} {tree.lemmas[each]}")
        about.append(f"objects {number} {'obj' in below} {'iobj' in below} {tree.feature(each, 'Voice')}")
    return about


def _starts(pattern: str, label: str) -> tuple[str, str]:
    """The starts of names of features: of the label by this path, and by any path."""
    return f"{pattern} {label}", label


def _features(pattern: str, labels: Sequence[str], about: Sequence[str]) -> list[list[str]]:
    """The features of no edge, and of an edge with each of the labels. about: see `_about`."""
    return [
        [NO_EDGE],
        *([f"{start}{TAB}{each}" for start in _starts(pattern, label) for each in about] for label in labels),
    ]
