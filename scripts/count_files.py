"""Print the files that one training step and one parse pass through, with their numbers of lines.

    python scripts/count_files.py [CONFIG] [--set KEY=VALUE ...]

A training step leads from a batch, with its known trajectories, to the updated weights; a parse leads from a
sentence to its tree. A file counts if one of its functions runs. Without CONFIG the parser is that of Ding &
Koehn 2019, trained on the treebank that ships with the project.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

import torch

from parser.parsing.engine import Engine
from parser.training import data
from parser.training.config import read_config
from parser.training.epoch import train_epoch
from parser.training.run import new_training

ROOT = Path(__file__).parent.parent / "parser"
PAPER = "configs/ding-koehn-2019-ewt.yaml"
SHIPPED = [f"treebank.{name}=data/quickstart/{name}.conllu" for name in ("train", "dev")]


@contextmanager
def recorded() -> Iterator[set[Path]]:
    """Yields the project's files whose functions are called in the block, including its backward pass."""
    files: set[Path] = set()

    def note(frame: FrameType, event: str, argument: object) -> None:
        path = Path(frame.f_code.co_filename)
        if event == "call" and path.is_relative_to(ROOT):
            files.add(path)

    sys.setprofile(note)
    try:
        yield files
    finally:
        sys.setprofile(None)


def report(title: str, files: set[Path]) -> None:
    lines = {
        path.relative_to(ROOT.parent): len(path.read_text(encoding="utf-8").splitlines()) for path in files
    }
    print(f"{title}: {len(files)} files, {sum(lines.values()):,} lines")
    for path in sorted(lines):
        print(f"  {lines[path]:4}  {path}")


def passed(work: Callable[[], object]) -> set[Path]:
    """The files that the second call of `work` passes through: the first call fills caches."""
    work()
    with recorded() as files:
        work()
    return files


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("config", nargs="?", type=Path, help="YAML file like those in configs/")
    arguments.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    given = arguments.parse_args()
    shipped = [] if given.config else [*SHIPPED, "treebank.test=null", "training.batch_size=32"]
    config = read_config(given.config or Path(PAPER), [*shipped, *given.overrides])
    model, loaded = data.load(config, torch.device("cpu"))
    steps = train_epoch(loaded, config.training, new_training(model, loaded, config))
    report("training step", passed(lambda: next(steps)))
    model.network.eval()
    engine, sentence = Engine(model), loaded.dev_sentences[0]
    report("parse", passed(lambda: engine.result(engine.add(sentence))))


if __name__ == "__main__":
    main()
