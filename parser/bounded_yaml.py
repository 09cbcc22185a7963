"""YAML from anybody: what would take endless time or memory to read is refused."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml
from yaml.composer import ComposerError
from yaml.constructor import ConstructorError
from yaml.scanner import ScannerError

from parser.quoting import quoted

MAX_TEXT_LENGTH = 1 << 18
"""Characters. The longest config of the project has some thousand."""
MAX_DEPTH = 50
"""Sections and lists within each other."""
MAX_NODES = 50_000
"""Keys, values and lists, with each alias counted as all that it stands for."""
MAX_NUMBER_LENGTH = 100
"""Characters."""
NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class BoundedLoader(yaml.SafeLoader):
    """YAML 1.1, but 1e-3 is a number, as everybody expects."""

    def __init__(self, text: str):
        super().__init__(text)
        self._depth = 0
        self._sizes: dict[yaml.Node, int] = {}  # of the nodes that are complete

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        mark = self.peek_event().start_mark
        if self._depth == MAX_DEPTH:
            raise ComposerError(None, None, f"more than {MAX_DEPTH} sections and lists within each other", mark)
        is_alias = self.check_event(yaml.AliasEvent)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if is_alias and node not in self._sizes:
            raise ComposerError(None, None, "an alias within what it stands for", mark)
        if node is not None and not is_alias:
            self._sizes[node] = 1 + sum(self._sizes[child] for child in _children(node))
            if self._sizes[node] > MAX_NODES:
                message = f"more than {MAX_NODES:,} keys and values, aliases replaced by what they stand for"
                raise ComposerError(None, None, message, mark)
        return node

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        if node.tag in NUMBERS and len(node.value) > MAX_NUMBER_LENGTH:
            message = f"a number of more than {MAX_NUMBER_LENGTH} characters"
            raise ConstructorError(None, None, message, node.start_mark)
        try:
            return super().construct_object(node, deep)
        except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError):
            shown = quoted(node.value) if isinstance(node, yaml.ScalarNode) else "this"
            message = f"{shown} is no {node.tag.rpartition(':')[2]}"  # as 2001-99-99 is no timestamp
            raise ConstructorError(None, None, message, node.start_mark) from None

    def fetch_more_tokens(self) -> None:
        try:
            super().fetch_more_tokens()
        except (ValueError, ArithmeticError):
            raise ScannerError(None, None, "an escape that is no character", self.get_mark()) from None


BoundedLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+"), list("-+0123456789")
)


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def read_text(path: Path) -> str:
    """Of a file of YAML. Raises ValueError for one that is too long or not UTF-8, OSError."""
    with path.open(encoding="utf-8") as file:
        text = file.read(MAX_TEXT_LENGTH + 1)
    if len(text) > MAX_TEXT_LENGTH:
        raise ValueError(f"{path}: longer than {MAX_TEXT_LENGTH:,} characters")
    return text


def load(text: str) -> Any:
    """What a text says. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=BoundedLoader)
