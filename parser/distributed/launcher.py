"""Starting a command several times on one machine, as torchrun does, with one message at its end."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Sequence

SECONDS_TO_SAVE = "600"
"""After a signal, before a process is killed."""
SIGNALLED = 128


def launch(arguments: Sequence[str], count: int) -> int:
    """Run `python -m parser` with the arguments in `count` processes, to which signals are passed.

    Returns the exit code of the first failure, or 0.
    """
    logging.disable(logging.CRITICAL)  # the launcher would say, too, that processes have failed
    os.environ.setdefault("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", SECONDS_TO_SAVE)
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import LaunchConfig, elastic_launch

    config = LaunchConfig(
        min_nodes=1,
        max_nodes=1,
        nproc_per_node=count,
        rdzv_backend="c10d",
        rdzv_endpoint="localhost:0",
        run_id=str(os.getpid()),
        max_restarts=0,
    )
    try:
        elastic_launch(config, sys.executable)("-m", "parser", *arguments)
    except ChildFailedError as error:
        _, failure = error.get_first_failure()
        return failure.exitcode if failure.exitcode >= 0 else SIGNALLED - failure.exitcode
    except SignalException as stopped:
        return SIGNALLED + stopped.sigval
    return 0
