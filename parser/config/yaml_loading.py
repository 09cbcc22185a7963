"""Loading YAML safely: within bounds of time and memory, and without numbers that are read as other ones."""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Any

import yaml
from yaml.constructor import ConstructorError
from yaml.scanner import ScannerError

from parser.system.console import quoted

DEPTHS = {"[": 1, "{": 1, "]": -1, "}": -1}
MAX_DEPTH = 100
"""Maximum depth of nested brackets. The time that the library takes grows with its square."""
MAX_VALUES = 100_000
"""Maximum number of keys and values, if each alias is replaced by what it stands for."""
INTEGER = "tag:yaml.org,2002:int"
FLOAT = "tag:yaml.org,2002:float"
DECIMAL_INTEGER = re.compile(r"[-+]?(0|[1-9][0-9_]*)")


class RefusedYAMLError(yaml.MarkedYAMLError):
    """A value that YAML allows and that is refused here; `problem` says why, and what to write."""


class BoundedLoader(yaml.SafeLoader):
    """A safe loader for texts from anywhere.

    Raises yaml.YAMLError, RefusedYAMLError for aliases that stand for too much, and RecursionError for text
    that is nested too deeply.
    """

    def __init__(self, text: str):
        # Brackets within strings are counted as well, but in a config these are balanced.
        if max(accumulate(DEPTHS.get(character, 0) for character in text), default=0) > MAX_DEPTH:
            raise RecursionError
        super().__init__(text)

    def get_single_node(self) -> yaml.Node | None:
        node = super().get_single_node()
        if node is not None:
            _count(node, {})
        return node


class ConfigLoader(BoundedLoader):
    """A loader of YAML 1.1, extended to read 1e-3 as a number, that refuses numbers of other bases.

    A value that Python cannot construct, such as the date 2001-99-99, raises a YAML error, too.
    """

    def construct_object(self, node: yaml.Node, deep: bool = False) -> Any:
        try:
            value = super().construct_object(node, deep)
        except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError):
            shown = quoted(node.value) if isinstance(node, yaml.ScalarNode) else "this"
            message = f"{shown} is not a valid {node.tag.rpartition(':')[2]}"
            raise ConstructorError(None, None, message, node.start_mark) from None
        if isinstance(node, yaml.ScalarNode) and not _is_decimal(node):
            message = f"YAML reads {quoted(node.value)} as {value}; write a decimal number, or quote a text"
            raise RefusedYAMLError(problem=message, problem_mark=node.start_mark)
        return value

    def fetch_more_tokens(self) -> None:
        try:
            super().fetch_more_tokens()
        except (ValueError, ArithmeticError):
            message = "an escape sequence that is not a character"
            raise ScannerError(None, None, message, self.get_mark()) from None


ConfigLoader.add_implicit_resolver(
    FLOAT, re.compile(r"[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+"), list("-+0123456789")
)


def load(text: str) -> Any:
    """Parse the YAML of a config. Raises yaml.YAMLError, and RecursionError if it is nested too deeply."""
    return yaml.load(text, Loader=ConfigLoader)


def _is_decimal(node: yaml.ScalarNode) -> bool:
    """Whether a scalar is no number, or one that means what it looks like: not 010 (8), 1:30 (90) or 0x1F."""
    if node.tag == INTEGER:
        return DECIMAL_INTEGER.fullmatch(node.value) is not None
    return node.tag != FLOAT or ":" not in node.value


def _count(node: yaml.Node, counts: dict[int, int | None]) -> int:
    """The number of keys and values in a node, with those of aliases.

    Raises RefusedYAMLError and RecursionError. counts: those of nodes that are known, by their identities;
    None for nodes that contain this one.
    """
    if id(node) in counts:
        if (known := counts[id(node)]) is None:
            raise RecursionError
        return known
    counts[id(node)] = None
    count = 1
    if isinstance(node, yaml.CollectionNode):
        for inner in node.value:
            count += sum(_count(one, counts) for one in (inner if isinstance(inner, tuple) else (inner,)))
    if count > MAX_VALUES:
        message = f"with its aliases (*), this is more than {MAX_VALUES:,} values; write fewer"
        raise RefusedYAMLError(problem=message, problem_mark=node.start_mark)
    counts[id(node)] = count
    return count
