"""Questions as programs: trees of functions, each executed by a neural module; and the scenes they are about.

A scene holds the things in an image and their positions, and can be painted as a feature map.
"""

from __future__ import annotations

import math
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

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
    questions = []
    for position, record in enumerate(records):
        given = record.get("question_index") if isinstance(record, dict) else None
        place = f"{path}: question {given if type(given) is int else position}"
        nodes = field(record, "program", list, place)
        if not nodes:
            raise ValueError(f"{place}: the program has no nodes")
        parts = [_node(node, len(nodes), f"{place}, node {number}") for number, node in enumerate(nodes)]
        program = _program(parts, place)
        given = checked_type(record, dict, "this", place).get("answer")
        answer = answer_word(given) if isinstance(given, int | str) else ""
        if answer not in ANSWERS:
            raise ValueError(f"{place}: the answer {reprlib.repr(given)} is none of {', '.join(ANSWERS)}")
        questions.append(Question(program, answer, image_index(record, place)))
    return questions


class _ProgramNode(NamedTuple):
    module: str
    inputs: list[int]


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
    order = list(range(len(nodes)))  # if possible
    if any(max(node.inputs, default=-1) >= number for number, node in enumerate(nodes)):
        try:
            order = list(TopologicalSorter(dict(enumerate(node.inputs for node in nodes))).static_order())
        except CycleError as error:
            raise ValueError(f"{place}: {_listed(error.args[1])} use each other in a cycle") from None
    unused = sorted(set(order).difference(*(node.inputs for node in nodes)))
    if len(unused) > 1:
        raise ValueError(f"{place}: no node uses {_listed(unused)}; only the root may be unused")
    places = {number: position for position, number in enumerate(order)}
    return Program(
        tuple(nodes[number].module for number in order),
        tuple(tuple(places[node] for node in nodes[number].inputs) for number in order),
    )


def _listed(nodes: Sequence[int]) -> str:
    return f"nodes {', '.join(map(str, nodes))}"


IMAGE_WIDTH, IMAGE_HEIGHT = 480, 320
"""The size of images, in pixels."""

MARKS = {
    value: number
    for number, value in enumerate(value for values in THING_ATTRIBUTES.values() for value in values)
}
"""The index of each attribute value in the feature vector of a thing."""
PRESENCE = len(MARKS)
"""The index of the feature that is 1 for every thing."""


class Thing(NamedTuple):
    color: str
    shape: str
    material: str
    size: str
    x: float
    """The position from left to right, from 0 to below 1."""
    y: float
    """The position from top to bottom, from 0 to below 1."""


@dataclass(frozen=True)
class Scene:
    things: tuple[Thing, ...]
    relationships: Mapping[str, tuple[tuple[int, ...], ...]]
    """`relationships["left"][i]` lists the things to the left of thing i."""


def read_scenes(path: Path) -> dict[int, Scene]:
    """Read scenes, by image. Raises ValueError, with the scene, for malformed files."""
    scenes: dict[int, Scene] = {}
    for position, record in enumerate(read_records(path, "scenes")):
        place = f"{path}: scene {position}"
        image = image_index(record, place)
        if image in scenes:
            raise ValueError(f"{place}: image {image} has a scene already")
        objects = field(record, "objects", list, place)
        things = tuple(_thing(thing, f"{place}, object {number}") for number, thing in enumerate(objects))
        given = field(record, "relationships", dict, place)
        related = {name: _relationship(given, name, len(things), place) for name in RELATIONS}
        scenes[image] = Scene(things, related)
    return scenes


def _thing(record: object, place: str) -> Thing:
    values = []
    for attribute, allowed in THING_ATTRIBUTES.items():
        values.append(value := field(record, attribute, str, place))
        if value not in allowed:
            raise ValueError(f"{place}: the {attribute} {value!r} is none of {', '.join(allowed)}")
    pixels = field(record, "pixel_coords", list, place)
    if len(pixels) < 2:
        raise ValueError(f"{place}: 'pixel_coords' must hold x and y, and has {len(pixels)} numbers")
    x, y = _fraction(pixels[0], IMAGE_WIDTH, place), _fraction(pixels[1], IMAGE_HEIGHT, place)
    color, shape, material, size = values
    return Thing(color, shape, material, size, x, y)


def _fraction(pixel: object, pixels: int, place: str) -> float:
    if not isinstance(pixel, float):
        pixel = checked_type(pixel, int, "a pixel", place)
    if not 0 <= pixel < pixels:
        raise ValueError(f"{place}: pixel {pixel} lies outside the image of {IMAGE_WIDTH} by {IMAGE_HEIGHT}")
    return pixel / pixels


def _relationship(given: object, name: str, things: int, place: str) -> tuple[tuple[int, ...], ...]:
    rows = field(given, name, list, place)
    if len(rows) != things:
        raise ValueError(f"{place}: {name!r} must have a list for each of {things} objects, not {len(rows)}")
    lists = [checked_type(row, list, repr(name), place) for row in rows]
    return tuple(
        tuple(record_index(other, things, f"the {name} object", place) for other in row) for row in lists
    )


def paint(scenes: Sequence[Scene], channels: int, side: int, seed: int) -> Tensor:
    """[scenes, channels, side, side] The features of each thing in its cell, projected by a random matrix.

    The elements for a thing have about unit variance. Things in the same cell are summed. seed: determines
    the matrix.
    """
    at = torch.tensor(
        [
            (number, mark, int(thing.y * side) * side + int(thing.x * side))
            for number, scene in enumerate(scenes)
            for thing in scene.things
            for mark in (*(MARKS[getattr(thing, name)] for name in THING_ATTRIBUTES), PRESENCE)
        ],
        dtype=torch.long,
    ).view(-1, 3)
    canvas = torch.zeros(len(scenes), PRESENCE + 1, side * side)
    canvas.index_put_(tuple(at.unbind(1)), torch.ones(len(at)), accumulate=True)
    generator = torch.Generator().manual_seed(seed)
    # A thing has a mark for each attribute, and that of its presence.
    matrix = torch.randn(channels, PRESENCE + 1, generator=generator) / math.sqrt(len(THING_ATTRIBUTES) + 1)
    return (matrix @ canvas).view(len(scenes), channels, side, side)
