"""Questions as programs: trees of functions, each executed by a neural module."""

from __future__ import annotations

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

from parser.speed.tasks.json_records import checked_type, field, image_index, read_records, record_index

THING_ATTRIBUTES: Mapping[str, tuple[str, ...]] = {
    "color": ("gray", "red", "blue", "green", "brown", "purple", "cyan", "yellow"),
    "shape": ("cube", "sphere", "cylinder"),
    "material": ("rubber", "metal"),
    "size": ("small", "large"),
}
RELATIONS = ("left", "right", "front", "behind")
SCENE = "scene"
"""The first function of a program: all things in the image."""


class Function(NamedTuple):
    inputs: int
    values: tuple[str, ...] = ()
    """The values of which the function takes one; it takes none if this is empty."""


def _of_each_attribute(family: str, inputs: int) -> dict[str, Function]:
    return {f"{family}_{attribute}": Function(inputs) for attribute in THING_ATTRIBUTES}


PROGRAM_FUNCTIONS: Mapping[str, Function] = {
    SCENE: Function(0),
    **{f"filter_{attribute}": Function(1, values) for attribute, values in THING_ATTRIBUTES.items()},
    "unique": Function(1),
    "relate": Function(1, RELATIONS),
    **_of_each_attribute("same", 1),
    **_of_each_attribute("query", 1),
    "exist": Function(1),
    "count": Function(1),
    "union": Function(2),
    "intersect": Function(2),
    **_of_each_attribute("equal", 2),
    "equal_integer": Function(2),
    "less_than": Function(2),
    "greater_than": Function(2),
}

MODULES = tuple(
    f"{name}[{value}]" if value else name
    for name, function in PROGRAM_FUNCTIONS.items()
    if function.inputs
    for value in function.values or ("",)
)
"""The names of modules. Modules with one input come before those with two."""

ANSWERS = (
    "yes",
    "no",
    *map(str, range(11)),
    *(value for values in THING_ATTRIBUTES.values() for value in values),
)


def module_parts(module: str) -> tuple[str, str]:
    """The function of a module, and its value or an empty string."""
    function, _, value = module.removesuffix("]").partition("[")
    return function, value


def answer_word(result: bool | int | str) -> str:
    """An answer in the form of the files."""
    if isinstance(result, bool):
        return "yes" if result else "no"
    return str(result)


@dataclass(frozen=True)
class Program:
    """Nodes in topological order; the root is the last."""

    modules: tuple[str, ...]
    """The module of each node: one of MODULES, or SCENE."""
    inputs: tuple[tuple[int, ...], ...]

    def __len__(self) -> int:
        return len(self.modules)


@dataclass(frozen=True)
class Question:
    program: Program
    answer: str
    image: int

    @property
    def kind(self) -> str:
        """The function at the root, such as query_color or count."""
        return module_parts(self.program.modules[-1])[0]


def compose(module: str, *inputs: Program) -> Program:
    """Apply a module to the results of other programs: `compose("count", compose(SCENE))`."""
    modules: list[str] = []
    edges: list[tuple[int, ...]] = []
    roots = []
    for given in inputs:
        first = len(modules)
        modules.extend(given.modules)
        edges.extend(tuple(first + node for node in nodes) for nodes in given.inputs)
        roots.append(len(modules) - 1)
    return Program((*modules, module), (*edges, tuple(roots)))


def read_questions(path: Path) -> list[Question]:
    """Read CLEVR's format. Raises ValueError, with the question and node, for malformed files."""
    records = read_records(path, "questions")
    if not records:
        raise ValueError(f"{path}: no questions")
    return [_question(record, path, position) for position, record in enumerate(records)]


class _ProgramNode(NamedTuple):
    module: str
    inputs: list[int]


def _question(record: object, path: Path, position: int) -> Question:
    given = record.get("question_index") if isinstance(record, dict) else None
    place = f"{path}: question {given if type(given) is int else position}"
    records = field(record, "program", list, place)
    if not records:
        raise ValueError(f"{place}: the program has no nodes")
    nodes = [_node(node, len(records), f"{place}, node {number}") for number, node in enumerate(records)]
    return Question(_program(nodes, place), _answer(record, place), image_index(record, place))


def _answer(record: object, place: str) -> str:
    given = checked_type(record, dict, "this", place).get("answer")
    answer = answer_word(given) if isinstance(given, int | str) else ""
    if answer not in ANSWERS:
        raise ValueError(f"{place}: the answer {reprlib.repr(given)} is none of {', '.join(ANSWERS)}")
    return answer


def _node(record: object, nodes: int, place: str) -> _ProgramNode:
    """nodes: the number of nodes in the program."""
    holder = checked_type(record, dict, "this", place)
    name = field(holder, "type" if "type" in holder else "function", str, place)
    if name not in PROGRAM_FUNCTIONS:
        raise ValueError(f"{place}: there is no function {name!r}")
    function, inputs = PROGRAM_FUNCTIONS[name], field(holder, "inputs", list, place)
    if len(inputs) != function.inputs:
        raise ValueError(f"{place}: {name} takes {function.inputs} inputs, not {len(inputs)}")
    value = _value(holder, name, place)
    module = f"{name}[{value}]" if value else name
    return _ProgramNode(module, [record_index(node, nodes, "input", place) for node in inputs])


def _value(holder: dict, name: str, place: str) -> str:
    """The value of a function. Generators omit the key if there is no value."""
    key = "value_inputs" if "value_inputs" in holder else "side_inputs"
    given = field(holder, key, list, place) if key in holder else []
    allowed = PROGRAM_FUNCTIONS[name].values
    if len(given) != bool(allowed):
        raise ValueError(f"{place}: {name} takes {'one value' if allowed else 'no value'}, not {len(given)}")
    if not allowed:
        return ""
    if given[0] not in allowed:
        choices, shown = ", ".join(allowed), reprlib.repr(given[0])
        raise ValueError(f"{place}: the value of {name} must be one of {choices}, not {shown}")
    return given[0]


def _program(nodes: Sequence[_ProgramNode], place: str) -> Program:
    order = _inputs_first(nodes, place)
    unused = sorted(set(order).difference(*(node.inputs for node in nodes)))
    if len(unused) > 1:
        raise ValueError(f"{place}: no node uses {_listed(unused)}; only the root may be unused")
    places = {number: position for position, number in enumerate(order)}
    return Program(
        tuple(nodes[number].module for number in order),
        tuple(tuple(places[node] for node in nodes[number].inputs) for number in order),
    )


def _inputs_first(nodes: Sequence[_ProgramNode], place: str) -> list[int]:
    """A topological order, which is the given order if possible."""
    if all(max(node.inputs, default=-1) < number for number, node in enumerate(nodes)):
        return list(range(len(nodes)))
    try:
        return list(TopologicalSorter(dict(enumerate(node.inputs for node in nodes))).static_order())
    except CycleError as error:
        raise ValueError(f"{place}: {_listed(error.args[1])} use each other in a cycle") from None


def _listed(nodes: Sequence[int]) -> str:
    return f"nodes {', '.join(map(str, nodes))}"
