"""CLEVR questions, read or generated, as examples for the program executor."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from pydantic import Field, model_validator

from parser.batching.levels import Integers, depths
from parser.config.data_folder import data_path
from parser.speed.tasks.programs.answers import Lesson
from parser.speed.tasks.programs.generated_questions import make_questions
from parser.speed.tasks.programs.images import Features, Images, PaintedImages, RandomImages
from parser.speed.tasks.programs.program_executor import ExecutorSizes, ProgramCalls
from parser.speed.tasks.programs.questions import (
    ANSWERS,
    MODULES,
    PROGRAM_FUNCTIONS,
    SCENE,
    Program,
    Question,
    module_parts,
    read_questions,
)
from parser.speed.tasks.programs.scenes import read_scenes
from parser.system.settings import Settings

UNARY = sum(PROGRAM_FUNCTIONS[module_parts(module)[0]].inputs == 1 for module in MODULES)
"""The number of modules with one input, which are the first in MODULES."""


class MadeQuestions(Settings):
    """Generated questions about random scenes."""

    questions: int = Field(64, gt=0)
    scenes: int = Field(16, gt=0)


class ProgramExecutorSettings(Settings):
    """The default sizes are small; those of the paper are 1,024, 14, 128, 512 and 1,024."""

    questions: str | None = None
    """File of questions in CLEVR's questions.json format; ${PARSER_DATA} stands for the data folder. null:
    generated questions, see `made`."""
    made: MadeQuestions = MadeQuestions()
    examples: int | None = Field(None, gt=0)
    """Number of questions to measure, from the first on. null: all questions."""
    features: str | None = None
    """File of image features, in HDF5. null: the features are rendered from `scenes`."""
    scenes: str | None = None
    """File of scenes in CLEVR's scenes.json format. null: the scenes of `made`, or random features for
    `questions`."""
    feature_channels: int = Field(32, gt=0)
    side: int = Field(14, gt=1)
    channels: int = Field(16, gt=0)
    projected: int = Field(32, gt=0)
    hidden: int = Field(64, gt=0)
    learning_rate: float = Field(1e-4, gt=0)

    @model_validator(mode="after")
    def _one_kind_of_images(self) -> ProgramExecutorSettings:
        for name, path in (("features", self.features), ("scenes", self.scenes)):
            if path and not self.questions:
                raise ValueError(f"{name}: {path} needs `questions`; without, scenes are generated")
        if self.features and self.scenes:
            raise ValueError("features and scenes: give only one of them")
        return self


def executor_sizes(settings: ProgramExecutorSettings) -> ExecutorSizes:
    return ExecutorSizes(
        features=settings.feature_channels,
        side=settings.side,
        channels=settings.channels,
        projected=settings.projected,
        hidden=settings.hidden,
        unary=UNARY,
        binary=len(MODULES) - UNARY,
        answers=len(ANSWERS),
    )


class ProgramExample(NamedTuple):
    calls: ProgramCalls
    answers: tuple[int, ...]
    """The answer for each result."""
    image: int


def load_questions(settings: ProgramExecutorSettings, seed: int) -> tuple[list[Question], Images]:
    """Read or generate questions and images.

    Raises ValueError for broken files, and for images that are missing or of another size.
    """
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


def prepare_question(question: Question) -> ProgramExample:
    return prepare_lesson(
        Lesson(question.program, (len(question.program) - 1,), (question.answer,), question.image)
    )


def prepare_lesson(lesson: Lesson) -> ProgramExample:
    answers = tuple(ANSWERS.index(answer) for answer in lesson.answers)
    return ProgramExample(prepare_program(lesson.program, lesson.asked), answers, lesson.image)


def prepare_program(program: Program, asked: Sequence[int]) -> ProgramCalls:
    """The calls of a program. asked: the nodes whose results are classified. Scene nodes become no calls."""
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
