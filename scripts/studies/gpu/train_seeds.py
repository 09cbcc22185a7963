"""A stage: short training runs on English EWT with several seeds: losses, dev LAS and speeds of each epoch.

python scripts/studies/gpu/train_seeds.py float32 5 false true      # without and with CUDA graphs
python scripts/studies/gpu/train_seeds.py tf32 3 true
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from gpu_visit.device import counted_replays, visited_device
from gpu_visit.runner import report
from gpu_visit.training import GRAPHS, Run, config_maker

from parser.system.pytorch import memory_use, reset_peak_memory

EPOCHS = 3


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("precision")
    options.add_argument("seeds", type=int)
    options.add_argument("graphs", nargs="+", choices=("false", "true"))
    options.add_argument("--rehearse", action="store_true")
    given = options.parse_args()
    small = ("training.batch_size=16",) if given.rehearse else ()
    with visited_device(given.rehearse) as visited, config_maker(given.rehearse) as config_of:
        for seed in range(1, (1 if given.rehearse else given.seeds) + 1):
            for graphs in given.graphs:
                changes = (
                    f"training.seed={seed}",
                    f"training.precision={given.precision}",
                    GRAPHS.format(graphs),
                )
                run = Run.begin(config_of(*changes, *small), visited.device)
                report(seed=seed, precision=given.precision, cuda_graphs=graphs == "true", **_trained(run))
                del run  # with its graphs


def _trained(run: Run) -> dict[str, Any]:
    """The figures of a run, and those of each epoch."""
    reset_peak_memory(run.model.device)
    replays, epochs = 0, []
    for _ in range(EPOCHS):
        with counted_replays() as counted:  # parsing has its own
            metrics = run.epoch()
        replays += len(counted)
        figures = {name: metrics[name] for name in ("loss", "sentences_per_second")}
        epochs.append({**figures, "dev_las": run.dev_las()})
    reserved = memory_use(run.model.device).device_reserved
    return {"replays": replays, "reserved_gib": round(reserved / 2**30, 2), "epochs": epochs}


if __name__ == "__main__":
    main()
