"""What the workers of a Ray cluster make of the files of a corpus."""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from parser.corpus.files import CorpusFile
from parser.corpus.workers import CorpusWorker, Row, WorkerSettings, cut_into_parts
from parser.distributed.ray_cluster import library

BLOCK_BYTES = 1 << 20
"""A block is parsed by one worker. A part that is larger is a block of its own, smaller ones are parsed
together."""
MOST_LISTS, LISTS_OF_WORKER = 1000, 4
"""Into which the list of files is divided: at most, and at least for each worker. Each gives one block or
more."""
CUTTERS, WORKERS_OF_CUTTER = 2, 100
"""Files that are cut at the same time: at least, and one more for so many workers. One that has a core gives
work to about twice as many."""


def results(files: Sequence[CorpusFile], settings: WorkerSettings, workers: int) -> Generator[Row]:
    """A row for each part, as the workers finish it; those of `CorpusWorker.__call__`.

    A worker that dies is replaced, and what it was doing is done again. To be closed before the cluster is
    left, which would else wait forever.
    """
    ray = library()
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = BLOCK_BYTES
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # it would tell of a signal, too
    rows: list[dict[str, Any]] = [file._asdict() for file in files]
    lists = _lists(files, workers)
    cutters = min(lists, CUTTERS + workers // WORKERS_OF_CUTTER)
    dataset = (
        ray.data.from_items(rows, override_num_blocks=lists)
        # They use no CPU that a worker could have, else they would wait for workers, and these for them.
        .flat_map(
            partial(cut_into_parts, form=settings.form),
            num_cpus=0,
            compute=ray.data.TaskPoolStrategy(cutters),
        )
        .map_batches(
            CorpusWorker,
            fn_constructor_args=(settings,),
            compute=ray.data.ActorPoolStrategy(size=workers),
            num_cpus=settings.threads,
            batch_size=None,
            batch_format="numpy",
        )
    )
    with closing(iter(dataset.iter_rows())) as found:
        yield from found


def _lists(files: Sequence[CorpusFile], workers: int) -> int:
    """Into how many lists the files are divided: with less than a block in each, batches would be small."""
    blocks = sum(file.size for file in files) // BLOCK_BYTES
    return min(len(files), MOST_LISTS, max(blocks, LISTS_OF_WORKER * workers))
