"""`stack-parser parse`: parse into a CoNLL file, in bounded memory."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import BinaryIO, NamedTuple

from parser.commands.options import (
    model_of,
    models_of,
    parse_options,
    part_settings,
    refuse_parse_options,
    refuse_to_write_tags,
    tell_dropped,
    tell_filled,
    warning_of,
    with_column_warnings,
)
from parser.models.model import Model
from parser.models.text_input import text_reader
from parser.parsing.constraints import ConstraintReader
from parser.parsing.engine import parse_stream
from parser.parsing.options import ParseOptions
from parser.parsing.part_parser import PartParser, output_of
from parser.parsing.worker_processes import answers, start_workers
from parser.system.console import LinesError, counted, lines_of, warn
from parser.system.files import STANDARD, atomic_file, refuse_to_overwrite
from parser.system.progress_bar import PROGRESS_BAR, ProgressBar
from parser.system.remote import Remote
from parser.treebank.conllu import NO_SENTENCE, sentences_as_they_come, stream_parts
from parser.treebank.conllu_faults import NO_COLUMNS, Faults, TreebankError
from parser.treebank.conllu_output import numbered_from
from parser.treebank.text.reading import read_parts_as_they_come, stream_text, text_as_it_comes


class _Parsed(NamedTuple):
    """The output for one or more sentences."""

    content: bytes
    sentences: int
    words: int
    dropped: int
    """Number of sentences whose enhanced dependencies were dropped."""
    filled: Counter[str]
    """See `SentenceOutput`."""


def parse_file(options: argparse.Namespace) -> None:
    refuse_to_overwrite(options.output, [options.input, *models_of(options).paths])
    wanted = parse_options(options)
    model = model_of(options)
    refuse_to_write_tags(options, model)
    refuse_parse_options(wanted, model)
    try:
        _parse(options, wanted, model)
    except TreebankError as error:
        hint = ["if this is raw text, add --text"] if NO_COLUMNS in str(error) else []
        raise LinesError(*lines_of(error), *hint) from None


def _parse(options: argparse.Namespace, wanted: ParseOptions, model: Model) -> None:
    sentences = words = dropped = 0
    filled: Counter[str] = Counter()
    settings = part_settings(options, models_of(options), wanted)
    with start_workers(PartParser, [settings], options.processes if options.processes > 1 else 0) as workers:
        began = time.monotonic()
        parse = _by_processes(options, model, workers) if workers else _by_one_process(options, wanted, model)
        with _open_output(options.output) as output, _bar(options) as bar:
            for parsed in parse:
                output.write(parsed.content)
                if options.output == STANDARD:  # a reader may wait for it
                    output.flush()
                sentences += parsed.sentences
                words += parsed.words
                dropped += parsed.dropped
                filled += parsed.filled
                bar.update(len(parsed.content))
        seconds = time.monotonic() - began
    if not sentences:
        warning_of(options.input)(NO_SENTENCE.message)
        return
    tell_dropped(dropped, options.input)
    tell_filled(filled, options)
    speed = sentences / seconds
    warn(
        f"{counted(sentences, 'sentence')}, {counted(words, 'word')} in {seconds:.2f} s: "
        f"{speed:,.0f} sentences/s"
    )


def _by_one_process(options: argparse.Namespace, wanted: ParseOptions, model: Model) -> Iterator[_Parsed]:
    if options.form:
        reader = text_reader(options.model, options.form)
        text = text_as_it_comes(options.input, one_sentence_per_line=options.form != "raw")
        sentences = read_parts_as_they_come(reader, text)
    else:
        check = ConstraintReader(model).check(wanted)
        sentences = sentences_as_they_come(options.input, tree=check is not None, partial=check)
    checked = with_column_warnings(model, sentences, options.input, bool(options.form))
    for sentence, tree in parse_stream(model, checked, options.batch_size, wanted):
        content, is_dropped, filled = output_of(sentence, tree, options.tags, options.deps)
        yield _Parsed(content, 1, len(sentence), int(is_dropped), filled)


def _by_processes(options: argparse.Namespace, model: Model, workers: Sequence[Remote]) -> Iterator[_Parsed]:
    """Like `_by_one_process`, but all parts are parsed, and nothing after a fault is written."""
    faults, check = Faults(), model.watch(bool(options.form))
    by_lines = options.form != "raw"
    parts = stream_text(options.input, by_lines) if options.form else stream_parts(options.input)
    sentences = 0
    for part in answers(workers, parts):
        if not faults.total:
            content = numbered_from(sentences, part.content) if options.form else part.content
            yield _Parsed(content, part.sentences, part.words, part.dropped, part.filled)
            check.add(part.columns, warning_of(options.input))
        faults.merge(part.faults)
        sentences += part.sentences
    faults.check(options.input)


def _bar(options: argparse.Namespace) -> ProgressBar:
    """Return a progress bar of the bytes of output, which are about those of a treebank. It shows an estimate
    if their number is known.
    """
    path, hidden = options.input, {"disable": True} if options.output == STANDARD else {}
    is_treebank = not options.form and os.path.isfile(path) and not path.endswith(".gz")
    total = os.path.getsize(path) if is_treebank else None
    return ProgressBar(desc="parsing", total=total, unit="B", unit_scale=True, **{**PROGRESS_BAR, **hidden})


@contextmanager
def _open_output(path: str) -> Iterator[BinaryIO]:
    """Open a file that appears under its name when it is complete, or standard output."""
    if path == STANDARD:
        if sys.stdout is None:
            raise ValueError("standard output is closed")
        yield sys.stdout.buffer
        return
    with atomic_file(path) as file:
        yield file
