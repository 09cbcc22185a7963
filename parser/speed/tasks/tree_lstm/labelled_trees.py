"""Binary trees with a label at every node, one per line: `(3 (2 It) (4 (2 works) (2 .)))`."""

from __future__ import annotations

import re
from pathlib import Path
from typing import NamedTuple

from parser.system.files import utf8_lines

TOKEN = re.compile(r"[()]|[^() \n]+")
"""Brackets within words are escaped, and words can contain white space other than a blank."""


class LabelledTree(NamedTuple):
    """Nodes are numbered: leaves from left to right, then inner nodes, children before their parents."""

    words: list[str]
    """The words of the leaves."""
    labels: list[int]
    """The labels of all nodes."""
    left: list[int]
    """The left children of the inner nodes; right: their right children."""
    right: list[int]


def read_labelled_trees(path: Path) -> list[LabelledTree]:
    """Read the trees of a file. Raises ValueError, with the line, for anything that is not a binary tree."""
    trees = []
    for number, line in enumerate(utf8_lines(path), start=1):
        if line:
            try:
                trees.append(parse_tree(line))
            except ValueError as error:
                raise ValueError(f"{path}:{number}: {error}") from None
    if not trees:
        raise ValueError(f"{path}: no trees")
    return trees


def parse_tree(text: str) -> LabelledTree:
    """Parse one tree. Raises ValueError for anything that is not a binary tree."""
    builder, open_nodes, done = _Builder(), [], False
    tokens = iter(TOKEN.findall(text))
    for token in tokens:
        if done:
            raise ValueError(f"{token!r} after the tree's end")
        if token == "(":
            label = next(tokens, "")
            if not label.isdecimal():
                raise ValueError(f"a ( must be followed by its label, a number, not by {label!r}")
            open_nodes.append(_OpenNode(int(label), []))
        elif not open_nodes:
            raise ValueError(f"{token!r} where a tree must begin with (")
        elif token == ")":
            node = builder.close(open_nodes.pop())
            done = not open_nodes
            if open_nodes:
                open_nodes[-1].children.append(node)
        else:
            open_nodes[-1].children.append(token)
    if not done:
        raise ValueError(f"{len(open_nodes)} ( without their )" if open_nodes else "no tree")
    return builder.tree()


class _OpenNode(NamedTuple):
    label: int
    children: list[str | int]
    """Words, or the numbers of closed nodes from `_Builder.close`."""


class _Builder:
    def __init__(self) -> None:
        self._words: list[str] = []
        self._word_labels: list[int] = []
        self._labels: list[int] = []
        self._children: list[tuple[int, int]] = []

    def close(self, node: _OpenNode) -> int:
        """Add the node and return its number: leaves from -1 downwards, inner nodes from 0 upwards."""
        match node.children:
            case [str(word)]:
                self._words.append(word)
                self._word_labels.append(node.label)
                return -len(self._words)
            case [int(left), int(right)]:
                self._children.append((left, right))
                self._labels.append(node.label)
                return len(self._labels) - 1
        raise ValueError(f"a node must hold a word or two nodes, not {len(node.children)} things")

    def tree(self) -> LabelledTree:
        left, right = ([self._number(pair[side]) for pair in self._children] for side in (0, 1))
        return LabelledTree(self._words, self._word_labels + self._labels, left, right)

    def _number(self, node: int) -> int:
        return -1 - node if node < 0 else len(self._words) + node
