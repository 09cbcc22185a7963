"""Exact execution of programs on scenes: the targets of learning."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from parser.benchmarks.programs.clevr.programs import Program, parts, spoken
from parser.benchmarks.programs.clevr.scenes import Scene


class One(NamedTuple):
    """A single thing, by its number in the scene."""

    thing: int


Result: TypeAlias = "frozenset[int] | One | bool | int | str"
"""The numbers of several things, a single thing, a boolean, a number, or the value of an attribute."""


class NotUniqueError(ValueError):
    """`unique` is applied to no thing, or to several."""


def answer(program: Program, scene: Scene) -> str:
    """One of ANSWERS.

    Raises NotUniqueError, and ValueError for a function with inputs of the wrong type.
    """
    return in_words(results(program, scene)[-1], program.modules[-1])


def in_words(result: Result, module: str) -> str:
    """The result of a module as a word. Raises ValueError if it consists of things."""
    if isinstance(result, frozenset | One):
        raise ValueError(f"{module} gives things, and no answer")
    return spoken(result)


def results(program: Program, scene: Scene) -> list[Result]:
    """The result of each node. Raises as `answer`."""
    found: list[Result] = []
    for module, inputs in zip(program.modules, program.inputs, strict=True):
        found.append(apply(module, [found[node] for node in inputs], scene))
    return found


def apply(module: str, inputs: Sequence[Result], scene: Scene) -> Result:
    """The result of a module. Raises as `answer`."""
    function, value = parts(module)
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
