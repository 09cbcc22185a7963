"""The folder of a run: its lock, its config, and what happens to an earlier run in it."""

from __future__ import annotations

import shlex
import shutil
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import yaml

from parser.config.file import flat
from parser.system.console import LinesError
from parser.system.files import file_lock, real_path, refuse_folder_of_others, write_atomically
from parser.training.config import Config, read_config
from parser.training.record import METRICS

CONFIG, CHECKPOINT, LOCK = "config.yaml", "checkpoint.safetensors", "lock"
MAY_CHANGE = (
    *("training.epochs", "training.early_stopping_patience", "training.cuda_graphs"),
    *("parser.enhanced", "tokenizer"),
)
"""Settings, and sections of settings, that can be changed when a run is resumed."""
TOKENIZER_TRAINING = ".tokenizer-training-"
"""Prefix of the name of a temporary folder in the run's folder, used while a tokenizer is trained."""


@contextmanager
def claim(run: Path, resume: bool) -> Iterator[Path | None]:
    """Lock the folder, and remove temporary files that a killed run has left there.

    Yields the folder to which an earlier run was moved, if there was one.

    resume: keep an earlier run in place. Raises ValueError if another process trains there, or if the folder
    contains something else.
    """
    with ExitStack() as stack:
        refuse_folder_of_others(run, (run / METRICS).is_file(), LOCK)
        _lock(run, stack)
        for left in run.glob(f"{TOKENIZER_TRAINING}*"):
            shutil.rmtree(left, ignore_errors=True)
        moved = None
        if not resume and (run / METRICS).is_file():
            number, place = 1, real_path(run.parent) / run.name  # if the folder is a link, that is renamed
            while (aside := place.with_name(f"{run.name}.{number}")).exists():
                number += 1
            moved = place.rename(aside)
            _lock(run, stack)
        (run / METRICS).touch()
        yield moved


def refuse_taken(run: Path) -> None:
    """Raises ValueError if another process trains there now, or if the folder contains something else."""
    refuse_folder_of_others(run, (run / METRICS).is_file(), LOCK)
    if (run / LOCK).is_file():
        with ExitStack() as stack:
            _lock(run, stack)


def resuming(run: Path) -> str:
    """The command that resumes a run."""
    return shlex.join(["stack-parser", "train", "--resume", str(run)])


def refuse_without_checkpoint(run: Path) -> None:
    """Raises ValueError if there is nothing to resume."""
    if not (run / CHECKPOINT).is_file():
        advice = (
            "name the folder of the run, as in stack-parser train --resume runs/NAME, "
            "or train without --resume"
        )
        if (run.parent / CHECKPOINT).is_file():
            advice = f"did you mean {run.parent}?"
        missing = f"there is no {CHECKPOINT} to resume from" if run.is_dir() else "there is no such folder"
        raise ValueError(f"{run}: {missing}; {advice}")


def refuse_other_config(run: Path, config: Config) -> None:
    """Raises ValueError with all differences if the run was started with another config.

    Only the settings in `MAY_CHANGE` may differ.
    """
    earlier = earlier_config(run)
    if earlier is None:
        return
    before, now = flat(earlier.model_dump()), flat(config.model_dump())
    changes = [
        f"  {key}: was {before.get(key)!r}, is now {now.get(key)!r}"
        for key in dict.fromkeys([*before, *now])
        if before.get(key) != now.get(key)
        if not any(f"{key}.".startswith(f"{changeable}.") for changeable in MAY_CHANGE)
    ]
    if changes:
        raise LinesError(
            f"{run}: was started with another config:",
            *changes,
            f"resume with that one ({resuming(run)}), or train without --resume",
        )


def earlier_config(run: Path) -> Config | None:
    """The config with which a run was started or last resumed; None if there is none."""
    return read_config(run / CONFIG) if (run / CONFIG).is_file() else None


def write_config(run: Path, config: Config) -> str:
    """Write the config of the run; returns its text."""
    text = yaml.safe_dump(config.model_dump(), sort_keys=False)
    write_atomically(run / CONFIG, text.encode())
    return text


def _lock(run: Path, stack: ExitStack) -> None:
    """Lock the folder until the stack is closed. Raises ValueError if another process holds the lock."""
    run.mkdir(parents=True, exist_ok=True)
    otherwise = f"{run}: another process is training there; choose another folder with --run"
    stack.enter_context(file_lock(run / LOCK, otherwise))
