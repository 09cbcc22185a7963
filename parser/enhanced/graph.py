"""The enhanced dependencies of a sentence, as in the column DEPS."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from parser.system.console import quoted
from parser.treebank.sentence import BLANK, DEPS, EMPTY_ID, ID, WORD_ID, Sentence

Edge = tuple[str, str]
"""The ID of the head, such as `8`, `0` for ROOT, or `8.1` for an empty node, and the label."""
Graph = Sequence[Sequence[tuple[int, str]]]
"""For each word, from the first on, the heads (0 for ROOT) and labels of its edges."""


def given_edges(sentence: Sentence) -> list[list[Edge]]:
    """The edges of each word in DEPS; empty for `_`. Raises ValueError for another value, or
    for a head that is not a word of the sentence."""
    return [_edges_in(sentence, index) for index in sentence.word_lines]


def collapsed_edges(sentence: Sentence) -> list[set[tuple[int, str]]]:
    """Like `given_edges`, but without empty nodes, as in the IWPT shared tasks: the edges from 3 to 8.1 and
    from 8.1 to 5 become one from 3 to 5 with both labels, joined by `>`."""
    of_empty = {
        line.split("\t", 1)[ID]: _edges_in(sentence, index)
        for index, line in enumerate(sentence.lines)
        if EMPTY_ID.fullmatch(line.split("\t", 1)[ID])
    }
    return [
        {pair for edge in edges for pair in _collapsed(edge, of_empty, ())} for edges in given_edges(sentence)
    ]


def _collapsed(
    edge: Edge, of_empty: Mapping[str, Sequence[Edge]], passed: tuple[str, ...]
) -> Iterator[tuple[int, str]]:
    """passed: the empty nodes on the way, each of which is passed once. One that is missing has no edges."""
    head, label = edge
    if not EMPTY_ID.fullmatch(head):
        yield int(head), label
    elif head not in passed:
        for other in of_empty.get(head, ()):
            for found, above in _collapsed(other, of_empty, (*passed, head)):
                yield found, f"{above}>{label}"


def beside_tree(edges: Sequence[Sequence[Edge]], heads: Sequence[int]) -> Iterator[tuple[int, int, str]]:
    """The word, the head and the label of each edge from a word, or ROOT, that is not the head in the tree.

    edges, heads: of each word.
    """
    for word, (own, in_tree) in enumerate(zip(edges, heads, strict=True), 1):
        for head, label in own:
            if head.isdigit() and int(head) not in (in_tree, word):
                yield word, int(head), label


def _edges_in(sentence: Sentence, index: int) -> list[Edge]:
    """The edges in a line."""
    deps = sentence.lines[index].rstrip("\r\n").split("\t")[DEPS]
    edges = []
    is_given = deps != BLANK and not deps.isdigit()  # a number is the PHEAD of CoNLL-X
    for each in deps.split("|") if is_given else ():
        head, _, label = each.partition(":")
        if not (label and (head == "0" or WORD_ID.fullmatch(head) or EMPTY_ID.fullmatch(head))):
            raise ValueError(f"line {sentence.line + index}: DEPS: {quoted(each)} is not HEAD:LABEL")
        if WORD_ID.fullmatch(head) and int(head) > len(sentence):
            raise ValueError(f"line {sentence.line + index}: DEPS: there is no word {head}")
        edges.append((head, label))
    return edges


def universal(label: str) -> str:
    """The label without what augments it, and without its subtype."""
    return ">".join(each.partition(":")[0] for each in label.split(">"))


def augmentation(label: str, relation: str) -> str | None:
    """What follows the relation in a label, such as `in` in `obl:in`; empty if nothing does, and None if the
    label is that of another relation."""
    if label == relation:
        return ""
    return label.removeprefix(f"{relation}:") if label.startswith(f"{relation}:") else None


def as_deps(edges: Iterable[tuple[int, str]]) -> str:
    """The edges of a word as in DEPS: sorted by head, then by label."""
    return "|".join(f"{head}:{label}" for head, label in sorted(edges)) or BLANK


def cut_off(edges: Graph) -> list[int]:
    """The words, from 1, to which no path leads from ROOT."""
    dependents: list[list[int]] = [[] for _ in range(len(edges) + 1)]
    for word, own in enumerate(edges, 1):
        for head, _ in own:
            dependents[head].append(word)
    reached, left = {0}, [0]
    while left:
        new = set(dependents[left.pop()]) - reached
        reached |= new
        left += new
    return [word for word in range(1, len(edges) + 1) if word not in reached]


@dataclass
class EdgeCounts:
    """Edges of graphs, in all and in common."""

    gold: int = 0
    parsed: int = 0
    right: int = 0
    right_universal: int = 0
    """Of the labels, only the part is compared that is the same in all languages."""

    @classmethod
    def of(
        cls, gold: Iterable[Collection[tuple[int, str]]], parsed: Iterable[Collection[tuple[int, str]]]
    ) -> EdgeCounts:
        """gold, parsed: the edges of each word."""
        counts = cls()
        for of_gold, of_parsed in zip(gold, parsed, strict=True):
            universals = ({(head, universal(label)) for head, label in each} for each in (of_gold, of_parsed))
            counts.gold += len(of_gold)
            counts.parsed += len(of_parsed)
            counts.right += len({*of_gold} & {*of_parsed})
            counts.right_universal += len(set.intersection(*universals))
        return counts

    @property
    def elas(self) -> float:
        """F1 of edges with their labels, in percent."""
        return self._f1(self.right)

    @property
    def eulas(self) -> float:
        """F1 of edges with the universal part of their labels, in percent."""
        return self._f1(self.right_universal)

    def _f1(self, right: int) -> float:
        return 200 * right / (self.gold + self.parsed) if self.gold + self.parsed else 0.0
