"""Generated scenes, and questions about them with the kinds, lengths and depths of CLEVR's questions."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import NamedTuple, TypeVar

from parser.speed.tasks.programs.answers import NodeResult, NotUniqueError, answer, apply
from parser.speed.tasks.programs.questions import (
    RELATIONS,
    SCENE,
    THING_ATTRIBUTES,
    Program,
    Question,
    compose,
)
from parser.speed.tasks.programs.scenes import Scene, Thing

Drawn = TypeVar("Drawn")

GRID_SIDE = 14
"""Things are in different cells of a grid with this number of rows and columns."""
FEWEST_THINGS, MOST_THINGS = 3, 10
"""The number of things in a scene."""
LONGEST_PROGRAM = 24
"""The maximum number of nodes in a program, as in files of the original generator."""
FILTERS = {0: 3, 1: 42, 2: 40, 3: 13, 4: 2}
"""Distribution of the number of filters, in percent. A description of a single thing may need more."""


def make_questions(questions: int, scenes: int, seed: int) -> tuple[list[Scene], list[Question]]:
    """Generate scenes and questions, determined by the seed. A question's image is the index of its scene."""
    draw = random.Random(seed)
    made = [_scene(draw) for _ in range(scenes)]
    images = [number * scenes // questions for number in range(questions)]
    return made, [_question(made[image], image, draw) for image in images]


def _scene(draw: random.Random) -> Scene:
    cells = draw.sample(range(GRID_SIDE * GRID_SIDE), draw.randint(FEWEST_THINGS, MOST_THINGS))
    things = [_thing(cell, draw) for cell in cells]
    return Scene(
        tuple(things),
        {
            "left": _all_pairs(things, lambda thing, other: other.x < thing.x),
            "right": _all_pairs(things, lambda thing, other: other.x > thing.x),
            "front": _all_pairs(things, lambda thing, other: other.y > thing.y),
            "behind": _all_pairs(things, lambda thing, other: other.y < thing.y),
        },
    )


def _thing(cell: int, draw: random.Random) -> Thing:
    color, shape, material, size = (draw.choice(values) for values in THING_ATTRIBUTES.values())
    row, column = divmod(cell, GRID_SIDE)
    # Not near the borders, so that rounding does not change the cell.
    x, y = ((place + draw.uniform(0.1, 0.9)) / GRID_SIDE for place in (column, row))
    return Thing(color, shape, material, size, x, y)


def _all_pairs(things: list[Thing], related: Callable[[Thing, Thing], bool]) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(number for number, other in enumerate(things) if related(thing, other)) for thing in things
    )


def _question(scene: Scene, image: int, draw: random.Random) -> Question:
    """Draw programs until one is short enough, and its descriptions are unique."""
    while True:
        try:
            drawn = _Asker(scene, draw).ask()
        except NotUniqueError:
            continue
        if len(drawn) <= LONGEST_PROGRAM:
            return Question(drawn, answer(drawn, scene), image)


class _PartialProgram(NamedTuple):
    """An incomplete program, and its result so far."""

    program: Program
    result: NodeResult

    def things(self) -> list[int]:
        return sorted(self.result) if isinstance(self.result, frozenset) else []


class _Asker:
    """Draws programs about a scene. Raises NotUniqueError if a draw fails."""

    def __init__(self, scene: Scene, draw: random.Random) -> None:
        self._scene = scene
        self._draw = draw

    def ask(self) -> Program:
        """Draw a program. Its kinds are as frequent as in the original generator."""
        kinds: dict[Callable[[], _PartialProgram], int] = {
            self._chain: 28,
            self._alike: 31,
            self._either: 9,
            self._both: 6,
            self._compared_things: 18,
            self._compared_counts: 8,
        }
        return self._weighted(kinds)().program

    def _chain(self) -> _PartialProgram:
        found = self._step(SCENE)
        for _ in range(self._draw.randint(0, 3)):
            found = self._related(found)
        return self._asked(found)

    def _alike(self) -> _PartialProgram:
        return self._asked(self._step(f"same_{self._attribute()}", self._one(self._step(SCENE))))

    def _either(self) -> _PartialProgram:
        found = self._step("union", *(self._filtered(self._start()) for _ in range(2)))
        return self._step("count", self._draw.choice((found, self._filtered(found))))

    def _both(self) -> _PartialProgram:
        return self._asked(self._step("intersect", *(self._related(self._step(SCENE)) for _ in range(2))))

    def _compared_things(self) -> _PartialProgram:
        attribute = self._attribute()
        return self._step(f"equal_{attribute}", *(self._queried(self._start(), attribute) for _ in range(2)))

    def _compared_counts(self) -> _PartialProgram:
        counts = [self._step("count", self._filtered(self._start())) for _ in range(2)]
        return self._step(self._draw.choice(("equal_integer", "less_than", "greater_than")), *counts)

    def _asked(self, found: _PartialProgram) -> _PartialProgram:
        """A query, an existence question, or a count."""
        match self._weighted({"query": 60, "exist": 20, "count": 20}):
            case "query":
                return self._queried(found, self._attribute())
            case module:
                return self._step(module, self._filtered(found))

    def _queried(self, found: _PartialProgram, attribute: str) -> _PartialProgram:
        return self._step(f"query_{attribute}", self._one(found, hidden=attribute))

    def _start(self) -> _PartialProgram:
        """All things, or the things that are related to one thing."""
        everything = self._step(SCENE)
        return self._related(everything) if self._draw.random() < 0.5 else everything

    def _related(self, found: _PartialProgram) -> _PartialProgram:
        return self._step(f"relate[{self._draw.choice(RELATIONS)}]", self._one(found))

    def _one(self, found: _PartialProgram, hidden: str = "") -> _PartialProgram:
        """One of the things, described by attributes other than `hidden` until the description is unique."""
        if not found.things():
            raise NotUniqueError("there is nothing to describe")
        thing = self._scene.things[self._draw.choice(found.things())]
        least = self._weighted(FILTERS)
        for used, attribute in enumerate(self._attributes(hidden)):
            if used >= least and len(found.things()) == 1:
                break
            found = self._filter(found, attribute, thing)
        return self._step("unique", found)

    def _filtered(self, found: _PartialProgram) -> _PartialProgram:
        """Filter by attributes of a random thing in the scene; often no thing is left."""
        thing = self._draw.choice(self._scene.things)
        for attribute in self._attributes()[: self._weighted(FILTERS)]:
            found = self._filter(found, attribute, thing)
        return found

    def _filter(self, found: _PartialProgram, attribute: str, like: Thing) -> _PartialProgram:
        return self._step(f"filter_{attribute}[{getattr(like, attribute)}]", found)

    def _step(self, module: str, *found: _PartialProgram) -> _PartialProgram:
        result = apply(module, [draft.result for draft in found], self._scene)
        return _PartialProgram(compose(module, *(draft.program for draft in found)), result)

    def _attribute(self) -> str:
        return self._draw.choice(list(THING_ATTRIBUTES))

    def _attributes(self, hidden: str = "") -> list[str]:
        """All attributes except the hidden one, in random order."""
        shown = [attribute for attribute in THING_ATTRIBUTES if attribute != hidden]
        return self._draw.sample(shown, len(shown))

    def _weighted(self, weights: Mapping[Drawn, int]) -> Drawn:
        return self._draw.choices(list(weights), list(weights.values()))[0]
