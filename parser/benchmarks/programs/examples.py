"""CLEVR questions, read or generated, as examples for the program executor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from parser.batching.levels import Integers, depths
from parser.benchmarks.programs.clevr.features import Features
from parser.benchmarks.programs.clevr.images import Images, PaintedImages, RandomImages
from parser.benchmarks.programs.clevr.lessons import Lesson
from parser.benchmarks.programs.clevr.made import make_questions
from parser.benchmarks.programs.clevr.programs import (
    ANSWERS,
    MODULES,
    SCENE,
    Program,
    Question,
    read_questions,
)
from parser.benchmarks.programs.clevr.scenes import read_scenes
from parser.benchmarks.programs.network import ProgramCalls
from parser.benchmarks.programs.settings import ProgramExecutorSettings
from parser.config import data_path


class Example(NamedTuple):
    calls: ProgramCalls
    answers: tuple[int, ...]
    """The answer for each result."""
    image: int


def load(settings: ProgramExecutorSettings, seed: int) -> tuple[list[Question], Images]:
    """Raises ValueError for broken files, and for images that are missing or of another size."""
    channels, side = settings.feature_channels, settings.side
    if settings.questions is None:
        scenes, questions = make_questions(settings.made.questions, settings.made.scenes, seed)
        scene_of_image = dict(enumerate(scenes))
    else:
        questions = read_questions(Path(data_path(settings.questions)))
        scene_of_image = read_scenes(Path(data_path(settings.scenes))) if settings.scenes else {}
    if settings.features:
        given = Features(Path(data_path(settings.features)))
        if given.shape[1:] != (channels, side, side):
            wanted = f"feature_channels and side ask for {channels} x {side} x {side}"
            raise ValueError(f"{settings.features}: features of {given.shape[1:]}, but {wanted}")
        last = max(question.image for question in questions)
        if last >= given.shape[0]:
            raise ValueError(f"{settings.features}: {given.shape[0]} images, but questions are about {last}")
        return questions, given
    if not scene_of_image and not settings.scenes:
        return questions, RandomImages(channels, side, seed)
    absent = {question.image for question in questions} - scene_of_image.keys()
    if absent:
        raise ValueError(f"{settings.scenes}: no scene of image {min(absent)}, which questions are about")
    return questions, PaintedImages(scene_of_image, channels, side, seed)


def prepare_question(question: Question) -> Example:
    return prepare_lesson(
        Lesson(question.program, (len(question.program) - 1,), (question.answer,), question.image)
    )


def prepare_lesson(lesson: Lesson) -> Example:
    answers = tuple(ANSWERS.index(answer) for answer in lesson.answers)
    return Example(prepare_program(lesson.program, lesson.asked), answers, lesson.image)


def prepare_program(program: Program, asked: Sequence[int]) -> ProgramCalls:
    """asked: the nodes whose results are classified. Scene nodes are the image, not calls."""
    value: dict[int, int] = {}  # of each node
    module: list[int] = []
    given: list[list[int]] = []
    for node, (name, inputs) in enumerate(zip(program.modules, program.inputs, strict=True)):
        value[node] = 0 if name == SCENE else len(module) + 1
        if name != SCENE:
            module.append(MODULES.index(name))
            given.append([*(value[other] for other in inputs), -1][:2])
    first, second = np.array(given, np.int64).reshape(-1, 2).T
    results = np.array([value[node] for node in asked], np.int64)
    return ProgramCalls(np.array(module, np.int64), first, second, _depths(first, second), results)


def _depths(first: Integers, second: Integers) -> Integers:
    """See `ProgramCalls.depth`."""
    user = np.tile(np.arange(len(first)), 2)
    used = np.concatenate([first, second]) - 1
    is_call = used >= 0
    return depths(len(first), used[is_call], user[is_call])
