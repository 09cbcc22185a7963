"""Programs run on scenes, function by function: what a network is to learn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from parser.benchmarks.programs.clevr.programs import Program, parts, spoken
from parser.benchmarks.programs.clevr.scenes import Scene


class One(NamedTuple):
    """A thing, by its number in the scene."""

    thing: int


Result: TypeAlias = "frozenset[int] | One | bool | int | str"
"""The numbers of some things; a single thing; a truth, a number, or an attribute's value."""


class NotUniqueError(ValueError):
    """A program asks for the one thing where there is none, or where there are several."""


def answer(program: Program, scene: Scene) -> str:
    """One of ANSWERS.

    Raises NotUniqueError as `unique` does, and ValueError for a function that can do nothing with its inputs.
    """
    return in_words(results(program, scene)[-1], program.modules[-1])


def in_words(result: Result, module: str) -> str:
    """The answer that the module gives; raises ValueError if it gives things."""
    if isinstance(result, frozenset | One):
        raise ValueError(f"{module} gives things, and no answer")
    return spoken(result)


def results(program: Program, scene: Scene) -> list[Result]:
    """Of each node; raises as `answer` does."""
    found: list[Result] = []
    for module, inputs in zip(program.modules, program.inputs, strict=True):
        found.append(apply(module, [found[node] for node in inputs], scene))
    return found


def apply(module: str, inputs: Sequence[Result], scene: Scene) -> Result:
    """A module's result; raises as `answer` does."""
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
    """The others that have what the thing has."""
    wanted = _look(scene, thing, attribute)
    every = range(len(scene.things))
    return frozenset(other for other in every if other != thing and _look(scene, other, attribute) == wanted)
