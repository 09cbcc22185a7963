"""`stack-parser select`: write sentences for manual annotation, with the arcs that a parser is sure of."""

from __future__ import annotations

import argparse
import os
from collections.abc import Iterator

from parser.commands.options import models_of, prepared_device, warning_of, with_column_warnings
from parser.evaluation.selection import FileSentence, lines_of, select
from parser.models.loading import load_on
from parser.system.console import counted, warn
from parser.system.files import atomic_file, refuse_to_overwrite
from parser.treebank.conllu import NO_SENTENCE, stream_sentences


def select_sentences(options: argparse.Namespace) -> None:
    """Select sentences. Raises ValueError for files with faults."""
    if not 0 <= options.doubtful <= 1:
        raise ValueError(f"--doubtful {options.doubtful:g}: give a probability, from 0 to 1")
    models = models_of(options)
    refuse_to_overwrite(options.output, [*options.treebanks, *models.paths])
    model = load_on(models, prepared_device(options))

    def sources() -> Iterator[FileSentence]:
        for path in options.treebanks:
            is_empty, name = True, os.path.basename(path)
            for sentence in with_column_warnings(model, stream_sentences(path, tree=False), path):
                is_empty = False
                yield FileSentence(name, sentence)
            if is_empty:
                warning_of(path)(NO_SENTENCE.message)

    with atomic_file(str(options.output)) as file:  # opened before hours of parsing
        selected = select(model, sources(), options.words, options.by, options.seed, options.batch_size)
        for rank, candidate in enumerate(selected, 1):
            lines = lines_of(candidate, rank, options.by, options.doubtful)
            file.write("".join(lines).encode("utf-8", "surrogateescape"))
    words = sum(len(candidate.sentence) for candidate in selected)
    arcs = sum(arc < options.doubtful for candidate in selected for arc in candidate.confidence)
    warn(
        f"{options.output}: {counted(len(selected), 'sentence')}, {counted(words, 'word')}, "
        f"{counted(arcs, 'arc')} left out"
    )
