"""Questions about one image, and what can be asked on the way to their answers, as one program.

A question says little: one answer for eleven modules. A lesson asks about everything that its questions find
before they answer, and what they have in common is in it once.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import NamedTuple

from parser.benchmarks.programs.clevr.answers import One, Result, in_words, results
from parser.benchmarks.programs.clevr.programs import ATTRIBUTES, Program, Question
from parser.benchmarks.programs.clevr.scenes import Scene


class Lesson(NamedTuple):
    program: Program
    """With as many roots as there are questions without anything in common."""
    asked: tuple[int, ...]
    """Its nodes whose results are answers."""
    answers: tuple[str, ...]
    image: int


def make_lesson(questions: Sequence[Question], scene: Scene, draw: random.Random) -> Lesson:
    """The questions, and one more about whatever each of them finds on its way.

    questions: about one image; scene: what is in it. Raises ValueError if they are not, and as `answer` does.
    """
    if len({question.image for question in questions}) != 1:
        raise ValueError("a lesson is of questions about one image")
    merged = _Merged()
    asked = [merged.add(question.program) for question in questions]
    for node, found in enumerate(results(merged.program(), scene)):
        if isinstance(found, frozenset | One):
            asked.append(merged.node(_about(found, draw), (node,)))
    asked = sorted(set(asked))
    program = merged.program()
    answers = results(program, scene)
    spoken = tuple(in_words(answers[node], program.modules[node]) for node in asked)
    return Lesson(program, tuple(asked), spoken, questions[0].image)


def _about(found: Result, draw: random.Random) -> str:
    """A function that asks about it."""
    if isinstance(found, One):
        return f"query_{draw.choice(tuple(ATTRIBUTES))}"
    return draw.choice(("exist", "count"))


class _Merged:
    """Programs of which nodes with the same module and inputs are one."""

    def __init__(self) -> None:
        self._nodes: dict[tuple[str, tuple[int, ...]], int] = {}

    def add(self, program: Program) -> int:
        """Its root's node."""
        nodes: list[int] = []
        for module, inputs in zip(program.modules, program.inputs, strict=True):
            nodes.append(self.node(module, tuple(nodes[node] for node in inputs)))
        return nodes[-1]

    def node(self, module: str, inputs: tuple[int, ...]) -> int:
        return self._nodes.setdefault((module, inputs), len(self._nodes))

    def program(self) -> Program:
        modules, inputs = zip(*self._nodes, strict=True)
        return Program(modules, inputs)
