"""Train from Python, like the command."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from parser.batching.device import compute_alone_after_fork
from parser.system.console import LinesError
from parser.system.settings import fault_lines
from parser.training.config import Config, read_config
from parser.training.record import BEST_MODEL
from parser.training.run import train_and_score


@dataclass(frozen=True)
class TrainingResult:
    """The result of a training run."""

    model: Path
    """The folder of the best model, for `parser.load`; without a dev set, of the model of the last epoch."""
    dev: dict[str, Any] | None
    """Scores of the best model on the dev set, as in `stack-parser evaluate --json`; None if the config has
    no dev set."""
    test: dict[str, Any] | None
    """The same scores on the test set; None if the config has no test set."""
    text: dict[str, Any] | None
    """Scores on the raw text of the test set, as in `stack-parser evaluate --text --json`; None if the model
    has no tokenizer."""
    best_epoch: int
    epochs: int
    seconds: float
    """The time of training and of the evaluations on dev."""


def train(
    config: str | os.PathLike[str] | Mapping[str, Any] | Config,
    run: str | os.PathLike[str] | None = None,
    resume: bool = False,
) -> TrainingResult:
    """Train a parser, like `stack-parser train`. The process keeps the number of threads from the config, and
    the random state that follows its seed.

    config: the path of a YAML file, or its content. run: the folder of the run; the default is runs/NAME for
    NAME.yaml. resume: whether to continue the run in that folder. Raises ValueError for errors in the
    config or a treebank, or if there is nothing to resume; OSError; and StoppedError after a signal.
    """
    if isinstance(config, Config | Mapping):
        settings = config if isinstance(config, Config) else _validate(config)
        if run is None:
            raise ValueError("a config that is no file needs the folder of its run: run=")
    else:
        settings = read_config(Path(config))
    compute_alone_after_fork()
    folder = Path(run) if run is not None else Path("runs") / Path(str(config)).stem
    scores = train_and_score(settings, folder, resume)
    assert scores  # this is the only process
    shown = ("dev", "test", "text", "best_epoch", "epochs", "seconds")
    return TrainingResult(folder / BEST_MODEL, **{name: scores[name] for name in shown})


def _validate(content: Mapping[str, Any]) -> Config:
    try:
        return Config.model_validate(content)
    except ValidationError as error:
        raise LinesError(*fault_lines(error)) from None
