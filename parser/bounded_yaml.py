"""Loading untrusted YAML with limits on size, nesting and numbers, so that time and memory are bounded."""

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
"""Characters. The configs of the project have a few thousand."""
MAX_DEPTH = 50
"""Nesting of sections and lists."""
MAX_NODES = 50_000
"""Keys, values and lists, after the expansion of aliases."""
MAX_NUMBER_LENGTH = 100
"""Characters."""
NUMBERS = ("tag:yaml.org,2002:int", "tag:yaml.org,2002:float")


class BoundedLoader(yaml.SafeLoader):
    """A safe loader of YAML 1.1, extended to read 1e-3 as a number."""

    def __init__(self, text: str):
        super().__init__(text)
        self._depth = 0
        self._sizes: dict[yaml.Node, int] = {}  # number of nodes below each complete node

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        mark = self.peek_event().start_mark
        if self._depth == MAX_DEPTH:
            raise ComposerError(
                None, None, f"sections and lists are nested more than {MAX_DEPTH} levels deep", mark
            )
        is_alias = self.check_event(yaml.AliasEvent)
        self._depth += 1
        node = super().compose_node(parent, index)
        self._depth -= 1
        if is_alias and node not in self._sizes:
            raise ComposerError(None, None, "an alias inside the section that it refers to", mark)
        if node is not None and not is_alias:
            self._sizes[node] = 1 + sum(self._sizes[child] for child in _children(node))
            if self._sizes[node] > MAX_NODES:
                message = f"more than {MAX_NODES:,} keys and values after the expansion of aliases"
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
            message = (
                f"{shown} is not a valid {node.tag.rpartition(':')[2]}"  # such as the timestamp 2001-99-99
            )
            raise ConstructorError(None, None, message, node.start_mark) from None

    def fetch_more_tokens(self) -> None:
        try:
            super().fetch_more_tokens()
        except (ValueError, ArithmeticError):
            raise ScannerError(
                None, None, "an escape sequence that is not a character", self.get_mark()
            ) from None


BoundedLoader.add_implicit_resolver(
    "tag:yaml.org,2002:float", re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+"), list("-+0123456789")
)


def _children(node: yaml.Node) -> list[yaml.Node]:
    if isinstance(node, yaml.MappingNode):
        return [part for pair in node.value for part in pair]
    return node.value if isinstance(node, yaml.SequenceNode) else []


def read_text(path: Path) -> str:
    """Read a YAML file. Raises ValueError if it is too long or not UTF-8, and OSError."""
    with path.open(encoding="utf-8") as file:
        text = file.read(MAX_TEXT_LENGTH + 1)
    if len(text) > MAX_TEXT_LENGTH:
        raise ValueError(f"{path}: longer than {MAX_TEXT_LENGTH:,} characters")
    return text


def load(text: str) -> Any:
    """Parse YAML. Raises yaml.YAMLError."""
    return yaml.load(text, Loader=BoundedLoader)
