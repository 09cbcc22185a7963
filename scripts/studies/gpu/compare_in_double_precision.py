"""A stage: training steps in double precision with and without CUDA graphs: how losses and weights differ.

There is no word dropout, so that both train on the same words. Padding changes the rounding of sums, which in
double precision stays small for so many steps; the consequences of a wrong step do not.
"""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts

from gpu_visit.device import counted_replays, visited_device
from gpu_visit.runner import report
from gpu_visit.training import GRAPHS, Run, config_maker

STEPS, REHEARSED_STEPS = 50, 8
TOLERANCE = 1e-8


def main(rehearse: bool) -> None:
    torch.set_default_dtype(torch.float64)
    steps = REHEARSED_STEPS if rehearse else STEPS
    size = f"training.batch_size={8 if rehearse else 256}"
    runs, losses, replays = [], [], []
    with visited_device(rehearse) as visited, config_maker(rehearse) as config_of:
        for graphs in (False, True):
            config = config_of(size, "training.unknown_probability=0", GRAPHS.format(str(graphs).lower()))
            runs.append(Run.begin(config, visited.device, torch.float64))
            with counted_replays() as counted:
                losses.append(_losses(runs[-1], steps))
            replays.append(len(counted))
        separate, graphed = (run.model.network.state_dict() for run in runs)
        weights = max(float((separate[name] - graphed[name]).abs().max()) for name in separate)
    loss = max(abs(one - other) / max(one, 1.0) for one, other in zip(*losses, strict=True))
    report(steps=steps, replays=replays[1], relative_difference_of_losses=loss, difference_of_weights=weights)
    if not replays[1]:
        sys.exit("no step was a graph")
    if not max(loss, weights) < TOLERANCE:
        sys.exit(f"losses differ by a share of {loss:.1e}, weights by {weights:.1e}: more than {TOLERANCE}")


def _losses(run: Run, steps: int) -> list[float]:
    """The sum of the losses of an epoch up to each step, for so many steps."""
    return [float(run.training.totals[0]) for _ in islice(run.many_steps(), steps)]


if __name__ == "__main__":
    main(rehearse="--rehearse" in sys.argv)
