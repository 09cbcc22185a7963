"""From a tree to its enhanced graph: a transducer that is learned from trees and their DEPS."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from pydantic import BaseModel, ConfigDict

from parser.enhanced.augmented_labels import LabelAugmenter, LabelExample
from parser.enhanced.edges import LABEL, LEFT_OUT, ON_PATH, EdgeFinder, added_to, path_between
from parser.enhanced.graph import Edge, Graph, augmentation, cut_off, given_edges
from parser.enhanced.tree import AnnotatedTree
from parser.system.console import quoted
from parser.treebank.sentence import Sentence, label_fault


@dataclass
class Transducer:
    augmenter: LabelAugmenter = field(default_factory=LabelAugmenter)
    finder: EdgeFinder = field(default_factory=EdgeFinder)

    def __call__(self, tree: AnnotatedTree) -> Graph:
        """The graph of a tree, in which a path leads from ROOT to each word."""
        left_out = self.finder.left_out(tree)
        edges: list[dict[int, str]] = [{} for _ in range(len(tree))]
        for word, head, label in self.finder.added(tree, left_out, self.augmenter):
            edges[word - 1].setdefault(head, label)
        augmented = self.augmenter.counts
        for word, (own, head, label) in enumerate(
            zip(edges, tree.heads[1:], tree.labels[1:], strict=True), 1
        ):
            if word not in left_out or not own:
                own[head] = self.augmenter.label(tree, word, label) if label in augmented else label
        graph = [[*own.items()] if len(own) == 1 else sorted(own.items()) for own in edges]
        if lost := left_out and cut_off(graph):
            for word in lost:
                edges[word - 1][tree.heads[word]] = self.augmenter.label(tree, word, tree.labels[word])
            graph = [sorted(own.items()) for own in edges]
        return graph

    @classmethod
    def learned(cls, sentences: Iterable[Sentence]) -> Transducer | None:
        """The transducer of a treebank; None if no word of it has DEPS. Raises what `given_edges` raises."""
        examples = []
        for sentence in sentences:
            edges = given_edges(sentence)
            if any(edges):
                examples.append((AnnotatedTree.of(sentence, sentence.heads, sentence.labels), edges))
        if not examples:
            return None
        own = [example for each in examples for example in _own_edges(*each)]
        augmented = {example.label for example in own if example.text}
        added = [example for each in examples for example in _added_edges(*each, augmented)]
        augmenter = LabelAugmenter.learned([*own, *added])
        return cls(augmenter, EdgeFinder.learned(examples, augmenter))

    def as_json(self) -> str:
        augmenter, finder = self.augmenter, self.finder
        content = _TransducerContent(
            sources=sorted(augmenter.sources),
            keys=list(augmenter.keys),
            counts={label: dict(own) for label, own in augmenter.counts.items()},
            weights_of_texts=augmenter.weights,
            labels={pattern: list(labels) for pattern, labels in finder.labels.items()},
            weights_of_edges=finder.weights,
            leaving=sorted(finder.leaving),
            weights_of_leaving=finder.weights_of_leaving,
        )
        return content.model_dump_json()

    @classmethod
    def from_json(cls, text: str) -> Transducer:
        """Inverse of `as_json`. Raises ValueError for another text."""
        content = _TransducerContent.model_validate_json(text)
        for pattern, labels in content.labels.items():
            steps = pattern.split()
            if not steps or not all(re.fullmatch(r".+[\^v]", step) for step in steps):
                raise ValueError(f"{quoted(pattern)} is no path")
            for label in labels:
                known = HOW.fullmatch(label)
                if not known or int(known["number"] or 0) >= len(steps):
                    raise ValueError(f"{quoted(label)} is no label of an edge by the path {quoted(pattern)}")
                if known["label"] and (fault := label_fault(known["label"])):
                    raise ValueError(fault)
        return cls(
            LabelAugmenter(
                frozenset(content.sources), tuple(content.keys), content.counts, content.weights_of_texts
            ),
            EdgeFinder(
                content.labels,
                content.weights_of_edges,
                frozenset(content.leaving),
                content.weights_of_leaving,
            ),
        )


def _own_edges(tree: AnnotatedTree, edges: Sequence[Sequence[Edge]]) -> Iterator[LabelExample]:
    """The edges from the words' heads in the tree."""
    for word, of_word in enumerate(edges, 1):
        for head, label in of_word:
            relation = tree.labels[word]
            text = augmentation(label, relation)
            if head == str(tree.heads[word]) and text is not None:
                yield LabelExample(tree, word, relation, text)


def _added_edges(
    tree: AnnotatedTree, edges: Sequence[Sequence[Edge]], augmented: set[str]
) -> Iterator[LabelExample]:
    """The edges from other words whose labels are those of words on the way, if these can be augmented."""
    for (word, head), label in added_to(tree, edges):
        for other in path_between(tree, word, head).words:
            relation = tree.labels[other]
            text = augmentation(label, relation)
            if relation in augmented and text is not None:
                yield LabelExample(tree, word, relation, text, other)
                break


HOW = re.compile(rf"{ON_PATH} (?P<number>\d)|{LEFT_OUT}|{LABEL} (?P<label>.+)")
"""How the label of an added edge is found, see `EdgeFinder.labels`."""
Weights = dict[str, float]


class _TransducerContent(BaseModel):
    """The JSON of a transducer."""

    model_config = ConfigDict(strict=True, extra="forbid", allow_inf_nan=False)

    sources: list[str]
    keys: list[str]
    counts: dict[str, dict[str, int]]
    weights_of_texts: Weights
    labels: dict[str, list[str]]
    weights_of_edges: Weights
    leaving: list[str]
    weights_of_leaving: Weights
