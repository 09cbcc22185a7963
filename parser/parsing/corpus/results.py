"""The results of the workers of a Ray cluster for the files of a corpus."""

from __future__ import annotations

import logging
from collections.abc import Generator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from parser.parsing.corpus.files import CorpusFile
from parser.parsing.corpus.workers import CorpusWorker, Row, cut_into_parts
from parser.parsing.part_parser import PartSettings
from parser.system.ray_cluster import library

BLOCK_BYTES = 1 << 20
"""A block is parsed by one worker. A larger part is its own block; smaller parts share a block and are parsed
together."""
MOST_LISTS, LISTS_OF_WORKER = 1000, 4
"""Number of lists into which the files are divided: in total at most, and at least for each worker. Each list
yields one or more blocks."""
CUTTERS, WORKERS_OF_CUTTER = 2, 100
"""Number of files that are cut at the same time: at least, plus one for this many workers. A cutter with its
own core can supply about twice as many workers."""


def results(files: Sequence[CorpusFile], settings: PartSettings, workers: int) -> Generator[Row]:
    """A row for each part when a worker finishes it; see `CorpusWorker.__call__`.

    A worker that dies is replaced, and its work is repeated. Close the generator before leaving the cluster,
    which would otherwise wait forever.
    """
    ray = library()
    context = ray.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.target_max_block_size = BLOCK_BYTES
    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # it would also log signals
    rows: list[dict[str, Any]] = [file._asdict() for file in files]
    lists = _lists(files, workers)
    cutters = min(lists, CUTTERS + workers // WORKERS_OF_CUTTER)
    dataset = (
        ray.data.from_items(rows, override_num_blocks=lists)
        # These tasks reserve no CPU: otherwise they could wait for workers, and workers for them.
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
    """The number of lists of files. Lists with less than a block each would make batches small."""
    blocks = sum(file.size for file in files) // BLOCK_BYTES
    return min(len(files), MOST_LISTS, max(blocks, LISTS_OF_WORKER * workers))
