"""`stack-parser parse`: parse into a CoNLL file, in bounded memory."""

from __future__ import annotations

import argparse
import os
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, BinaryIO, NamedTuple

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
from parser.parsing.constraints import ConstraintReader
from parser.parsing.engine import parse_stream
from parser.parsing.input_parts import InputParts, Part, Position, name_of
from parser.parsing.options import ParseOptions
from parser.parsing.part_parser import ParsedPart, PartParser, PartSettings, output_of, what_decides
from parser.parsing.totals import Totals
from parser.parsing.worker_processes import answers, start_workers
from parser.system.console import LinesError, counted, lines_of, warn
from parser.system.files import STANDARD, atomic_file, refuse_to_overwrite
from parser.system.progress_bar import PROGRESS_BAR, ProgressBar
from parser.system.unfinished_file import UnfinishedFile, names_of_unfinished, unfinished_file
from parser.system.version import __version__
from parser.text.of_model import text_reader
from parser.text.reading import BY_LINES, read_parts_as_they_come, text_as_it_comes
from parser.treebank.conllu import NO_SENTENCE, SentenceCheck, TreebankPart, read_part, sentences_as_they_come
from parser.treebank.conllu_faults import NO_COLUMNS, Faults, TreebankError
from parser.treebank.conllu_output import numbered_from


class _Parsed(NamedTuple):
    """The output for one or more sentences."""

    content: bytes
    totals: Totals
    end: Position | None = None
    """Where the sentences end in the input, if a later start could go on from there."""


def parse_file(options: argparse.Namespace) -> None:
    for written in (options.output, *(names_of_unfinished(options.output) if _is_kept(options) else ())):
        refuse_to_overwrite(written, [options.input, *models_of(options).paths])
    wanted = parse_options(options)
    model = model_of(options)
    refuse_to_write_tags(options, model)
    refuse_parse_options(wanted, model)
    try:
        _parse(options, wanted, model)
    except TreebankError as error:
        hint = ["if this is raw text, add --text"] if NO_COLUMNS in str(error) else []
        raise LinesError(*lines_of(error), *hint) from None


def _is_kept(options: argparse.Namespace) -> bool:
    """Whether a later start goes on with the output: it is a file, and the input can be read again."""
    output = options.output
    is_file = os.path.isfile(output) or (output != STANDARD and not os.path.exists(output))
    return is_file and os.path.isfile(options.input)


def _parse(options: argparse.Namespace, wanted: ParseOptions, model: Model) -> None:
    settings, parts, totals = part_settings(options, models_of(options), wanted), None, Totals()
    decides = _what_decides(settings, model) if _is_kept(options) else {}
    with (
        start_workers(PartParser, [settings], options.processes if options.processes > 1 else 0) as workers,
        _open_output(options) as output,
    ):
        began = time.monotonic()
        if isinstance(output, UnfinishedFile):
            parts, totals = _after_what_is_kept(options, output, decides)
        before = totals.sentences
        if parts or workers:
            parts = parts or InputParts(options.input, options.form, options.processes)
            name = partial(name_of, path=options.input)
            parse = partial(answers, workers, name_of=name) if workers else PartParser(settings, model).parse
            check = ConstraintReader(model).check(wanted)
            parsed = _by_parts(options, model, check, parts, parse, totals)
        else:
            parsed = _as_they_come(options, wanted, model)
        with _bar(options, parts.length if parts else 0) as bar:
            for each in parsed:
                output.write(each.content)
                if options.output == STANDARD:  # a reader may wait for it
                    sys.stdout.flush()
                totals.add(each.totals)
                if isinstance(output, UnfinishedFile) and each.end:
                    output.keep({"of": decides, "end": each.end, "totals": totals.as_json()})
                bar.update(len(each.content))
        seconds = time.monotonic() - began
    _tell(options, totals, before, seconds)


def _what_decides(settings: PartSettings, model: Model) -> dict[str, Any]:
    """What the trees depend on, by names for messages."""
    of_settings = what_decides(settings)
    model_digest = of_settings.pop("model")
    choice = {**of_settings, "device": "CPU" if model.is_on_cpu else "GPU"}
    return {"version": __version__, "model": model_digest, "choice of options": choice}


def _after_what_is_kept(
    options: argparse.Namespace, output: UnfinishedFile, decides: dict[str, Any]
) -> tuple[InputParts, Totals]:
    """The parts of the input whose trees are missing, and the totals of the others.

    decides: what the trees depend on.
    """
    where = options.input, options.form, options.processes
    if kept := output.state:
        differs = next((name for name in decides if kept["of"].get(name) != decides[name]), "input")
        if differs == "input":
            totals = Totals.from_json(kept["totals"])
            if parts := InputParts.after(*where, Position(*kept["end"]), totals.sentences):
                warn(f"{output.part}: goes on after {counted(totals.sentences, 'sentence')}")
                return parts, totals
        warn(f"{output.part}: is of another {differs}, so this begins anew")
        output.begin_anew()
    return InputParts(*where), Totals()


def _as_they_come(options: argparse.Namespace, wanted: ParseOptions, model: Model) -> Iterator[_Parsed]:
    """Parse sentence by sentence, those that are there already if others must be waited for."""
    if options.form:
        reader = text_reader(options.model, options.form, options.treebank_name)
        text = text_as_it_comes(options.input, by_lines=options.form in BY_LINES)
        sentences = read_parts_as_they_come(reader, text)
    else:
        check = ConstraintReader(model).check(wanted)
        sentences = sentences_as_they_come(options.input, tree=check is not None, partial=check)
    checked = with_column_warnings(model, sentences, options.input, bool(options.form))
    for sentence, tree in parse_stream(model, checked, options.batch_size, wanted):
        content, is_dropped, filled = output_of(sentence, tree, options.tags, options.deps)
        yield _Parsed(content, Totals(1, len(sentence), int(is_dropped), filled))


def _by_parts(
    options: argparse.Namespace,
    model: Model,
    check: SentenceCheck | None,
    parts: InputParts,
    parse: Callable[[Iterable[Part]], Iterator[ParsedPart]],
    before: Totals,
) -> Iterator[_Parsed]:
    """Like `_as_they_come`, but part by part. check: see `read_part`. before: of the sentences before."""
    faults, faults_of_rest = Faults(), Faults()
    columns, warning = model.watch(bool(options.form)), warning_of(options.input)
    sentences = before.sentences

    def until_fault() -> Iterator[Part]:
        """The parts to parse. After the first fault, nothing is written, but the rest is read for faults."""
        for part in parts:
            if faults.total and isinstance(part, TreebankPart):
                faults_of_rest.merge(read_part(part, tree=check is not None, partial=check)[1])
            else:
                yield part

    if before.columns:
        columns.add(before.columns, warning)
    for part in parse(until_fault()):
        end = parts.end()
        if not faults.total:
            content = numbered_from(sentences, part.content) if options.form else part.content
            yield _Parsed(content, part.totals, None if part.faults.total else end)
            columns.add(part.totals.columns, warning)
        faults.merge(part.faults)
        sentences += part.totals.sentences
    faults.merge(faults_of_rest)
    faults.check(options.input)


def _tell(options: argparse.Namespace, totals: Totals, before: int, seconds: float) -> None:
    """Say what was done. before: the sentences of earlier starts."""
    if not totals.sentences:
        warning_of(options.input)(NO_SENTENCE.message)
        return
    tell_dropped(totals.dropped, options.input)
    tell_filled(totals.filled, options)
    earlier = f", of which {counted(before, 'sentence')} by an earlier start," if before else ""
    warn(
        f"{counted(totals.sentences, 'sentence')}, {counted(totals.words, 'word')}{earlier} "
        f"in {seconds:.2f} s: {(totals.sentences - before) / seconds:,.0f} sentences/s"
    )


def _bar(options: argparse.Namespace, done: int) -> ProgressBar:
    """Return a progress bar of the bytes of output, which are about those of a treebank. It shows an estimate
    if their number is known. done: those of an earlier start.
    """
    path, more = options.input, {"disable": True} if options.output == STANDARD else {"initial": done}
    is_treebank = not options.form and os.path.isfile(path) and not path.endswith(".gz")
    total = os.path.getsize(path) if is_treebank else None
    return ProgressBar(desc="parsing", total=total, unit="B", unit_scale=True, **{**PROGRESS_BAR, **more})


@contextmanager
def _open_output(options: argparse.Namespace) -> Iterator[BinaryIO | UnfinishedFile]:
    """Open a file that appears under its name when it is complete, or standard output."""
    if options.output == STANDARD:
        if sys.stdout is None:
            raise ValueError("standard output is closed")
        yield sys.stdout.buffer
    elif _is_kept(options):
        with unfinished_file(options.output) as unfinished:
            yield unfinished
    else:
        with atomic_file(options.output) as file:
            yield file
