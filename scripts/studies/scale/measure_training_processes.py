"""What several processes gain in training, beside what they gain in plain matrix products, in turns.

Each process has one thread. Training is the second epoch of a run: in the first one memory grows and kernels
are compiled. The gains are medians over the turns, with 95 % intervals.

python scripts/studies/scale/measure_training_processes.py CONFIG [--set KEY=VALUE ...] [--processes 2] \\
    [--turns 5]
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from measure_processes import measure_gains

EPOCHS = 2


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("config")
    parser.add_argument("--set", dest="overrides", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--turns", type=int, default=5)
    given = parser.parse_args()
    training = partial(trained_per_second, given.config, given.overrides)
    measure_gains("training", training, given.processes, given.turns)


def trained_per_second(config: str, overrides: Sequence[str], processes: int) -> float:
    """Sentences."""
    with tempfile.TemporaryDirectory() as folder:
        run = Path(folder) / "run"
        changes = [f"training.epochs={EPOCHS}", "treebank.test=null", "threads=1", *overrides]
        arguments = ["train", config, "--run", str(run), "--processes", str(processes)]
        arguments += [f"--set={change}" for change in changes]
        subprocess.run([sys.executable, "-m", "parser", *arguments], check=True, stdout=subprocess.DEVNULL)
        last = (run / "metrics.jsonl").read_text(encoding="utf-8").splitlines()[-1]
        speed: float = json.loads(last)["sentences_per_second"]
        return speed


if __name__ == "__main__":
    main()
