"""Exact execution of programs on scenes, for training targets; and lessons, which contain more questions.

A question is a weak training signal: one answer for eleven modules. A lesson combines questions about one
image with questions about all their intermediate results, and shares common subprograms.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from parser.speed.tasks.programs.questions import (
    THING_ATTRIBUTES,
    Program,
    Question,
    answer_word,
    module_parts,
)
from parser.speed.tasks.programs.scenes import Scene


class One(NamedTuple):
    """A single thing, by its number in the scene."""

    thing: int


NodeResult: TypeAlias = "frozenset[int] | One | bool | int | str"
"""The numbers of several things, a single thing, a boolean, a number, or the value of an attribute."""


class NotUniqueError(ValueError):
    """`unique` is not applied to exactly one thing."""


def answer(program: Program, scene: Scene) -> str:
    """The answer to a program, one of ANSWERS.

    Raises NotUniqueError, and ValueError for a function with inputs of the wrong type.
    """
    return in_words(node_results(program, scene)[-1], program.modules[-1])


def in_words(result: NodeResult, module: str) -> str:
    """The result of a module as a word. Raises ValueError if it consists of things."""
    if isinstance(result, frozenset | One):
        raise ValueError(f"{module} gives things, and no answer")
    return answer_word(result)


def node_results(program: Program, scene: Scene) -> list[NodeResult]:
    """The result of each node. Raises the same errors as `answer`."""
    found: list[NodeResult] = []
    for module, inputs in zip(program.modules, program.inputs, strict=True):
        found.append(apply(module, [found[node] for node in inputs], scene))
    return found


def apply(module: str, inputs: Sequence[NodeResult], scene: Scene) -> NodeResult:
    """The result of a module. Raises the same errors as `answer`."""
    function, value = module_parts(module)
    match function.split("_"), inputs:
        case ["scene"], []:
            return frozenset(range(len(scene.things)))
        case ["filter", attribute], [frozenset(things)]:
            return frozenset(thing for thing in things if _look(scene, thing, attribute) == value)
        case ["unique"], [frozenset(things)]:
            return _only(things)
        case ["relate"], [One(thing)]:
            return frozenset(scene.relationships[value][thing])
        case ["same", attribute], [One(thing)]:
            return _alike(scene, thing, attribute)
        case ["query", attribute], [One(thing)]:
            return _look(scene, thing, attribute)
        case ["exist"], [frozenset(things)]:
            return bool(things)
        case ["count"], [frozenset(things)]:
            return len(things)
        case ["union"], [frozenset(left), frozenset(right)]:
            return left | right
        case ["intersect"], [frozenset(left), frozenset(right)]:
            return left & right
        case ["equal", "integer"], [int(left), int(right)]:
            return left == right
        case ["less", "than"], [int(left), int(right)]:
            return left < right
        case ["greater", "than"], [int(left), int(right)]:
            return left > right
        case ["equal", _], [str(left), str(right)]:
            return left == right
    raise ValueError(f"{module} can do nothing with {', '.join(map(repr, inputs)) or 'no input'}")


def _only(things: frozenset[int]) -> One:
    if len(things) != 1:
        raise NotUniqueError(f"unique needs one thing, and is given {len(things)}")
    return One(*things)


def _look(scene: Scene, thing: int, attribute: str) -> str:
    return getattr(scene.things[thing], attribute)


def _alike(scene: Scene, thing: int, attribute: str) -> frozenset[int]:
    """The other things with the same value of the attribute."""
    wanted = _look(scene, thing, attribute)
    every = range(len(scene.things))
    return frozenset(other for other in every if other != thing and _look(scene, other, attribute) == wanted)


class Lesson(NamedTuple):
    program: Program
    """The merged program. It has several roots if questions share no nodes."""
    asked: tuple[int, ...]
    """The nodes of the program whose results are answers."""
    answers: tuple[str, ...]
    image: int


def make_lesson(questions: Sequence[Question], scene: Scene, draw: random.Random) -> Lesson:
    """Combine questions about one image with one more about each of their intermediate results.

    scene: that of the image. Raises ValueError for several images, and the same errors as `answer`.
    """
    if len({question.image for question in questions}) != 1:
        raise ValueError("all questions of a lesson must be about one image")
    merged = _Merged()
    asked = [merged.add(question.program) for question in questions]
    for node, found in enumerate(node_results(merged.program(), scene)):
        if isinstance(found, frozenset | One):
            asked.append(merged.node(_about(found, draw), (node,)))
    asked = sorted(set(asked))
    program = merged.program()
    answers = node_results(program, scene)
    spoken = tuple(in_words(answers[node], program.modules[node]) for node in asked)
    return Lesson(program, tuple(asked), spoken, questions[0].image)


def _about(found: NodeResult, draw: random.Random) -> str:
    """Draw a function that turns an intermediate result into an answer."""
    if isinstance(found, One):
        return f"query_{draw.choice(tuple(THING_ATTRIBUTES))}"
    return draw.choice(("exist", "count"))


class _Merged:
    """Merges programs: nodes with the same module and inputs are shared."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[str, tuple[int, ...]], int] = {}

    def add(self, program: Program) -> int:
        """Add a program, and return its root."""
        nodes: list[int] = []
        for module, inputs in zip(program.modules, program.inputs, strict=True):
            nodes.append(self.node(module, tuple(nodes[node] for node in inputs)))
        return nodes[-1]

    def node(self, module: str, inputs: tuple[int, ...]) -> int:
        return self._nodes.setdefault((module, inputs), len(self._nodes))

    def program(self) -> Program:
        modules, inputs = zip(*self._nodes, strict=True)
        return Program(modules, inputs)
