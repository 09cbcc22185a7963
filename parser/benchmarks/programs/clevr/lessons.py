"""Lessons: programs that combine questions about one image with questions about their intermediate results.

A question is a weak training signal: one answer for eleven modules. A lesson also asks about all intermediate
results, and shares common subprograms.
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
    """It has several roots if questions share no nodes."""
    asked: tuple[int, ...]
    """Its nodes whose results are answers."""
    answers: tuple[str, ...]
    image: int


def make_lesson(questions: Sequence[Question], scene: Scene, draw: random.Random) -> Lesson:
    """The questions, and one more about each of their intermediate results.

    questions: about one image; scene: of that image. Raises ValueError for several images, and as `answer`.
    """
    if len({question.image for question in questions}) != 1:
        raise ValueError("all questions of a lesson must be about one image")
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
    """A function that turns an intermediate result into an answer."""
    if isinstance(found, One):
        return f"query_{draw.choice(tuple(ATTRIBUTES))}"
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
