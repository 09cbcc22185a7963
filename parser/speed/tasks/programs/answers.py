"""Exact execution of programs on scenes, for training targets; and lessons, which contain more questions.

A question is a weak training signal: one answer for eleven modules. A lesson combines questions about one
image with questions about all their intermediate results, and shares common subprograms.

Generated scenes, and questions about them, have the kinds, lengths and depths of CLEVR's questions.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias, TypeVar

from parser.speed.tasks.programs.questions import (
    RELATIONS,
    SCENE,
    THING_ATTRIBUTES,
    Program,
    Question,
    Scene,
    Thing,
    answer_word,
    compose,
    module_parts,
)


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
    results: list[NodeResult] = []
    for module, inputs in zip(program.modules, program.inputs, strict=True):
        results.append(apply(module, [results[node] for node in inputs], scene))
    return results


def apply(module: str, inputs: Sequence[NodeResult], scene: Scene) -> NodeResult:
    """The result of a module. Raises the same errors as `answer`."""
    function, value = module_parts(module)
    match function.split("_"), inputs:
        case ["scene"], []:
            return frozenset(range(len(scene.things)))
        case ["filter", attribute], [frozenset(things)]:
            return frozenset(thing for thing in things if _look(scene, thing, attribute) == value)
        case ["unique"], [frozenset(things)]:
            if len(things) != 1:
                raise NotUniqueError(f"unique needs one thing, and is given {len(things)}")
            return One(*things)
        case ["relate"], [One(thing)]:
            return frozenset(scene.relationships[value][thing])
        case ["same", attribute], [One(thing)]:
            wanted, others = _look(scene, thing, attribute), set(range(len(scene.things))) - {thing}
            return frozenset(other for other in others if _look(scene, other, attribute) == wanted)
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


def _look(scene: Scene, thing: int, attribute: str) -> str:
    return getattr(scene.things[thing], attribute)


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
    for node, result in enumerate(node_results(merged.program(), scene)):
        if isinstance(result, One):
            asked.append(merged.node(f"query_{draw.choice(tuple(THING_ATTRIBUTES))}", (node,)))
        elif isinstance(result, frozenset):
            asked.append(merged.node(draw.choice(("exist", "count")), (node,)))
    asked = sorted(set(asked))
    program = merged.program()
    answers = node_results(program, scene)
    spoken = tuple(in_words(answers[node], program.modules[node]) for node in asked)
    return Lesson(program, tuple(asked), spoken, questions[0].image)


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
    """Generate scenes and questions, determined by the seed. A question's image is the index of its scene.

    Programs are drawn until one is short enough, and its descriptions are unique.
    """
    draw = random.Random(seed)
    made_scenes = [_scene(draw) for _ in range(scenes)]
    made: list[Question] = []
    while len(made) < questions:
        image = len(made) * scenes // questions
        try:
            program = _Asker(made_scenes[image], draw).ask()
        except NotUniqueError:
            continue
        if len(program) <= LONGEST_PROGRAM:
            made.append(Question(program, answer(program, made_scenes[image]), image))
    return made_scenes, made


def _scene(draw: random.Random) -> Scene:
    cells = draw.sample(range(GRID_SIDE * GRID_SIDE), draw.randint(FEWEST_THINGS, MOST_THINGS))
    things = []
    for cell in cells:
        color, shape, material, size = (draw.choice(values) for values in THING_ATTRIBUTES.values())
        row, column = divmod(cell, GRID_SIDE)
        # Not near the borders, so that rounding does not change the cell.
        x, y = ((place + draw.uniform(0.1, 0.9)) / GRID_SIDE for place in (column, row))
        things.append(Thing(color, shape, material, size, x, y))
    return Scene(
        tuple(things),
        {
            "left": _all_pairs(things, lambda thing, other: other.x < thing.x),
            "right": _all_pairs(things, lambda thing, other: other.x > thing.x),
            "front": _all_pairs(things, lambda thing, other: other.y > thing.y),
            "behind": _all_pairs(things, lambda thing, other: other.y < thing.y),
        },
    )


def _all_pairs(things: list[Thing], related: Callable[[Thing, Thing], bool]) -> tuple[tuple[int, ...], ...]:
    return tuple(
        tuple(number for number, other in enumerate(things) if related(thing, other)) for thing in things
    )


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
        kinds = {"chain": 28, "alike": 31, "either": 9, "both": 6, "things": 18, "counts": 8}
        match self._weighted(kinds):
            case "chain":
                draft = self._step(SCENE)
                for _ in range(self._draw.randint(0, 3)):
                    draft = self._related(draft)
                draft = self._asked(draft)
            case "alike":
                draft = self._asked(self._step(f"same_{self._attribute()}", self._one(self._step(SCENE))))
            case "either":
                draft = self._step("union", *(self._filtered(self._start()) for _ in range(2)))
                draft = self._step("count", self._draw.choice((draft, self._filtered(draft))))
            case "both":
                related = (self._related(self._step(SCENE)) for _ in range(2))
                draft = self._asked(self._step("intersect", *related))
            case "things":
                attribute = self._attribute()
                values = (self._queried(self._start(), attribute) for _ in range(2))
                draft = self._step(f"equal_{attribute}", *values)
            case _:
                counts = [self._step("count", self._filtered(self._start())) for _ in range(2)]
                comparison = self._draw.choice(("equal_integer", "less_than", "greater_than"))
                draft = self._step(comparison, *counts)
        return draft.program

    def _asked(self, draft: _PartialProgram) -> _PartialProgram:
        """A query, an existence question, or a count."""
        match self._weighted({"query": 60, "exist": 20, "count": 20}):
            case "query":
                return self._queried(draft, self._attribute())
            case module:
                return self._step(module, self._filtered(draft))

    def _queried(self, draft: _PartialProgram, attribute: str) -> _PartialProgram:
        return self._step(f"query_{attribute}", self._one(draft, hidden=attribute))

    def _start(self) -> _PartialProgram:
        """All things, or the things that are related to one thing."""
        everything = self._step(SCENE)
        return self._related(everything) if self._draw.random() < 0.5 else everything

    def _related(self, draft: _PartialProgram) -> _PartialProgram:
        return self._step(f"relate[{self._draw.choice(RELATIONS)}]", self._one(draft))

    def _one(self, draft: _PartialProgram, hidden: str = "") -> _PartialProgram:
        """One of the things, described by attributes other than `hidden` until the description is unique."""
        if not draft.things():
            raise NotUniqueError("there is nothing to describe")
        thing = self._scene.things[self._draw.choice(draft.things())]
        least = self._weighted(FILTERS)
        for used, attribute in enumerate(self._attributes(hidden)):
            if used >= least and len(draft.things()) == 1:
                break
            draft = self._filter(draft, attribute, thing)
        return self._step("unique", draft)

    def _filtered(self, draft: _PartialProgram) -> _PartialProgram:
        """Filter by attributes of a random thing in the scene; often no thing is left."""
        thing = self._draw.choice(self._scene.things)
        for attribute in self._attributes()[: self._weighted(FILTERS)]:
            draft = self._filter(draft, attribute, thing)
        return draft

    def _filter(self, draft: _PartialProgram, attribute: str, like: Thing) -> _PartialProgram:
        return self._step(f"filter_{attribute}[{getattr(like, attribute)}]", draft)

    def _step(self, module: str, *inputs: _PartialProgram) -> _PartialProgram:
        result = apply(module, [draft.result for draft in inputs], self._scene)
        return _PartialProgram(compose(module, *(draft.program for draft in inputs)), result)

    def _attribute(self) -> str:
        return self._draw.choice(list(THING_ATTRIBUTES))

    def _attributes(self, hidden: str = "") -> list[str]:
        """All attributes except the hidden one, in random order."""
        shown = [attribute for attribute in THING_ATTRIBUTES if attribute != hidden]
        return self._draw.sample(shown, len(shown))

    def _weighted(self, weights: Mapping[Drawn, int]) -> Drawn:
        return self._draw.choices(list(weights), list(weights.values()))[0]
