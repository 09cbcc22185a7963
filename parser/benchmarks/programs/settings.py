"""Settings of the program executor."""

from __future__ import annotations

from pydantic import Field, model_validator

from parser.benchmarks.programs.clevr.programs import ANSWERS, FUNCTIONS, MODULES, parts
from parser.benchmarks.programs.network import ExecutorSizes
from parser.settings import Settings

UNARY = sum(FUNCTIONS[parts(module)[0]].inputs == 1 for module in MODULES)
"""The number of modules with one input, which are the first in MODULES."""


class MadeQuestions(Settings):
    """Generated questions about random scenes."""

    questions: int = Field(64, gt=0)
    scenes: int = Field(16, gt=0)


class ProgramExecutorSettings(Settings):
    """The defaults of sizes are small; the paper's are 1,024, 14, 128, 512 and 1,024."""

    questions: str | None = None
    """In CLEVR's questions.json format; ${PARSER_DATA} stands for the data folder. null: `made`."""
    made: MadeQuestions = MadeQuestions()
    examples: int | None = Field(None, gt=0)
    """Measure this number of questions, the first ones; null: all."""
    features: str | None = None
    """Image features, in HDF5. null: rendered from `scenes`."""
    scenes: str | None = None
    """In CLEVR's scenes.json format. null: those of `made`, or for `questions` random features."""
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


def sizes_of(settings: ProgramExecutorSettings) -> ExecutorSizes:
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
