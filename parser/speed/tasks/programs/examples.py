"""CLEVR questions, read or generated, as examples for the program executor, with features of their images.

The features are from a file, painted from scenes, or random.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import torch
from pydantic import Field, model_validator
from torch import Tensor

from parser.batching.levels import depths
from parser.config.data_folder import data_path
from parser.speed.tasks.programs.answers import Lesson, make_questions
from parser.speed.tasks.programs.network import ExecutorSizes, ProgramCalls
from parser.speed.tasks.programs.questions import (
    ANSWERS,
    MODULES,
    PROGRAM_FUNCTIONS,
    SCENE,
    Program,
    Question,
    Scene,
    module_parts,
    paint,
    read_questions,
    read_scenes,
)
from parser.system.settings import Settings
from parser.system.version import to_install

DATASET = "features"


class PaintedImages:
    """Features rendered from scene annotations, as a perfect feature extractor would produce them."""

    def __init__(self, scenes: Mapping[int, Scene], channels: int, side: int, seed: int):
        self._scenes, self._channels, self._side, self._seed = scenes, channels, side, seed

    def of(self, images: Sequence[int]) -> Tensor:
        """[len(images), channels, side, side] The features of these images."""
        return paint([self._scenes[image] for image in images], self._channels, self._side, self._seed)


class RandomImages:
    """Noise, for measuring speed only."""

    DIFFERENT = 16

    def __init__(self, channels: int, side: int, seed: int):
        generator = torch.Generator().manual_seed(seed)
        self._features = torch.randn(self.DIFFERENT, channels, side, side, generator=generator)

    def of(self, images: Sequence[int]) -> Tensor:
        return self._features[torch.tensor(images) % self.DIFFERENT]


class Features:
    """Reads features on demand, because a whole data set does not fit into memory."""

    def __init__(self, path: Path) -> None:
        """Raises ValueError if the file or its dataset is missing or malformed."""
        try:
            import h5py
        except ImportError:
            raise ValueError(f"{path}: reading it takes h5py: {to_install('clevr')}") from None
        try:
            file = h5py.File(path, "r")
        except OSError as error:
            raise ValueError(f"{path}: not a readable HDF5 file: {error}") from None
        if not isinstance(dataset := file.get(DATASET), h5py.Dataset):
            raise ValueError(f"{path}: there is no dataset {DATASET!r} in it")
        self._path = path
        self._features: Any = dataset  # keeps its file open
        if self._features.ndim != 4 or self._features.dtype.kind != "f":
            raise ValueError(
                f"{path}: {DATASET!r} must be numbers [images, channels, height, width], and is "
                f"{self._features.dtype} {list(self._features.shape)}"
            )

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """The numbers of images and channels, the height, and the width."""
        return self._features.shape

    def of(self, images: Sequence[int]) -> Tensor:
        """[len(images), channels, height, width] Raises ValueError for an image that is not in the file."""
        # HDF5 requires increasing indices without repetitions.
        distinct, places = np.unique(np.array(images, dtype=np.int64), return_inverse=True)
        for image in distinct:
            if not 0 <= image < len(self._features):
                raise ValueError(f"{self._path}: there is no image {image}: it holds {len(self._features)}")
        features = self._features[distinct].astype(np.float32, copy=False)
        return torch.from_numpy(features)[torch.from_numpy(places)]


Images: TypeAlias = PaintedImages | RandomImages | Features
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

    def sizes(self) -> ExecutorSizes:
        return ExecutorSizes(
            features=self.feature_channels,
            side=self.side,
            channels=self.channels,
            projected=self.projected,
            hidden=self.hidden,
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
    user, used = np.tile(np.arange(len(first)), 2), np.concatenate([first, second]) - 1
    is_call = used >= 0
    depth = depths(len(first), used[is_call], user[is_call])
    results = np.array([value[node] for node in asked], np.int64)
    return ProgramCalls(np.array(module, np.int64), first, second, depth, results)
