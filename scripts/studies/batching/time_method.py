"""Time one batching method on the batches of an experiment, in the same way as other programs.

python scripts/studies/batching/time_method.py configs/speed/on-the-fly.yaml trees agenda --batch-size 64

The script prints sentences, or other examples, per second; see `scripts/same_work.py`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))  # modules shared by scripts
sys.path.insert(0, str(Path(__file__).parent))

from same_work import add_arguments, print_speed
from write_problem import prepared


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("config", type=Path, help="a speed config")
    arguments.add_argument("experiment", help="one of its experiments")
    arguments.add_argument("method", help="one of its plugin's methods")
    arguments.add_argument("--batch-size", type=int, required=True)
    arguments.add_argument("--threads", type=int, default=1)
    add_arguments(arguments)
    given = arguments.parse_args()
    plugin, _ = prepared(given.config, given.experiment, given.method, given.batch_size, given.threads)
    print_speed(plugin.run, plugin.batches(), lambda batch: plugin.work(batch).sentences, given)


if __name__ == "__main__":
    main()
