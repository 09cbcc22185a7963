"""`stack-parser evaluate` and `compare`: score trained parsers on a treebank, also as a page (`--report`)."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from parser.commands.arguments import OF_TREEBANK
from parser.commands.options import (
    model_of,
    models_of,
    prepared_device,
    rounds_to_int8,
    warning_of,
    with_column_warnings,
)
from parser.evaluation.calibration import confidence_in_column, confidence_of
from parser.evaluation.errors import find_errors
from parser.evaluation.evaluate import PartEvaluator, evaluate, evaluate_text
from parser.evaluation.known import KnownValues
from parser.evaluation.report import comparison_report, copied_by, report, text_report
from parser.evaluation.scores import Scores
from parser.evaluation.significance import compare
from parser.evaluation.text_scores import OtherTextError, TextScores
from parser.models.loading import ModelChoice, load_on
from parser.models.model import Model, of_treebank
from parser.pages.comparison_page import Parsed, comparison_page
from parser.pages.report_page import ARCS, report_page
from parser.pages.text_report_page import text_report_page
from parser.parsing.engine import parse_stream
from parser.parsing.input_parts import name_of, shared
from parser.parsing.options import ParseOptions
from parser.parsing.probabilities import Calibration, with_calibration
from parser.parsing.worker_processes import answers, start_workers
from parser.system.console import say, warn
from parser.system.files import STANDARD, atomic_file, real_path, refuse_to_overwrite, refuse_unwritable
from parser.system.version import MissingPackageError
from parser.text.of_model import text_reader
from parser.text.reading import TextPart, read_parts, stream_text
from parser.training.record import CURVES, METRICS, drawn_curves, epochs_of
from parser.treebank.conllu import NO_SENTENCE, read_treebank, stream_parts
from parser.treebank.conllu_faults import Faults, TreebankError
from parser.treebank.sentence import Sentence

JSON = ".json"


def evaluate_model(options: argparse.Namespace) -> None:
    if options.text is not None and (options.no_punct or options.processes > 1):
        raise ValueError("--text scores all words, in one process: leave out --no-punct and --processes")
    if options.report and options.processes > 1:
        raise ValueError("--report is written by one process: leave out --processes")
    sources = filter(None, (options.treebank, options.text))
    _refuse_unwritable_page(options.report, sources, models_of(options).paths)
    model = model_of(options)
    scores: Scores | TextScores
    if options.text is not None:
        scores = _of_text(options, model)
    elif options.processes > 1:
        scores = _by_processes(options, model)
    else:
        gold = read_treebank(options.treebank, options.roots)
        gold = list(with_column_warnings(model, gold, options.treebank))
        if options.report:
            scores = _with_report(options, model, gold)
        else:
            scores = evaluate(model, gold, options.batch_size, punctuation=not options.no_punct)
    if options.json:
        say(json.dumps(scores.as_dict()))
    elif isinstance(scores, TextScores):
        say(*text_report(scores))
    else:
        say(*report(scores, model.predicted_columns))


def _of_text(options: argparse.Namespace, model: Model) -> TextScores:
    reader = text_reader(options.model, "raw", options.treebank_name)
    gold = read_treebank(options.treebank, options.roots)
    if options.text == OF_TREEBANK:
        source, text = options.treebank, iter([TextPart(0, reader.text_of(gold))])
    else:
        source, text = options.text, stream_text(options.text)
    sentences = with_column_warnings(model, read_parts(reader, text), source, is_text=True)
    try:
        scores = evaluate_text(model, sentences, gold, options.batch_size)
    except OtherTextError as error:
        raise ValueError(f"{source}: {error}; give the text of {options.treebank}") from None
    if options.report:
        page = partial(text_report_page, f"{_title(options)}, from raw text", scores)
        _write_report(options.report, page, partial(scores.as_dict, examples=True))
    return scores


def _with_report(options: argparse.Namespace, model: Model, gold: Sequence[Sentence]) -> Scores:
    """Write the report, and return the scores."""
    uncalibrated = replace(with_calibration(model, None), calibrations={})
    parsed = parse_stream(uncalibrated, gold, options.batch_size, ParseOptions(probabilities=True))
    trees = [tree for _, tree in parsed]
    errors = find_errors(gold, trees, KnownValues.of(model), not options.no_punct)

    def page() -> str:
        with_and_without = {ARCS: (confidence_of(gold, trees, not options.no_punct), Calibration.of(model))}
        for column in trees[0].tag_probabilities if trees else ():
            calibration = Calibration(model.calibrations.get(column))
            with_and_without[column] = confidence_in_column(gold, trees, column), calibration
        confidences = {
            what: {"before": confidence, "calibrated": confidence.calibrated(calibration)}
            if calibration.settings
            else {"not calibrated": confidence}
            for what, (confidence, calibration) in with_and_without.items()
            if len(confidence.labels)
        }
        curves, predicted = curves_of(options.model), model.predicted_columns
        return report_page(_title(options), errors, gold, trees, predicted, curves, confidences)

    _write_report(options.report, page, errors.as_dict)
    return errors.scores


def _title(options: argparse.Namespace) -> str:
    return f"{', '.join(map(str, models_of(options).paths))} on {options.treebank}"


def _by_processes(options: argparse.Namespace, model: Model) -> Scores:
    scores, faults, check = Scores(), Faults(), model.watch()
    make = partial(
        PartEvaluator,
        models=models_of(options),
        batch_size=options.batch_size,
        roots=options.roots,
        punctuation=not options.no_punct,
    )
    with start_workers(make, (), options.processes) as workers:
        parts = shared(stream_parts(options.treebank), options.processes, None)
        for part in answers(workers, parts, partial(name_of, path=options.treebank)):
            scores += part.scores
            faults.merge(part.faults)
            check.add(part.columns, warning_of(options.treebank))
    faults.check(options.treebank)
    if not scores.sentences:
        raise TreebankError(options.treebank, [NO_SENTENCE])
    return scores


def compare_models(options: argparse.Namespace) -> None:
    if options.report and _is_json(options.report):
        raise ValueError(f"--report {options.report}: a comparison is a page; only evaluate writes JSON")
    _refuse_unwritable_page(options.report, [options.treebank], [options.first, options.model])
    device = prepared_device(options)
    gold = read_treebank(options.treebank, options.roots)
    folders = options.first, options.model
    loaded = [load_on(ModelChoice((folder,), int8=rounds_to_int8(options)), device) for folder in folders]
    models = of_treebank(loaded, options.treebank_name)
    for folder, model in zip(folders, models, strict=True):
        gold = list(with_column_warnings(model, gold, f"{folder}: {options.treebank}"))
    first, second = ([tree for _, tree in parse_stream(model, gold, options.batch_size)] for model in models)
    comparison = compare(gold, first, second, not options.no_punct, options.by)
    copied = copied_by(*(model.predicted_columns for model in models))
    if options.report:
        known = KnownValues.of(*models)
        parsed = [
            Parsed(
                str(folder),
                find_errors(gold, trees, known, not options.no_punct),
                trees,
                curves_of(folder),
            )
            for folder, trees in zip(folders, (first, second), strict=True)
        ]
        page = comparison_page(options.treebank, gold, parsed[0], parsed[1], comparison, copied)
        _write_page(options.report, page)
    say(*comparison_report(comparison, str(options.first), str(options.model), copied))


def curves_of(model: Path) -> bytes | str:
    """Return the learning curves of a model in the folder of its run, which may be unfinished, as SVG; or the
    reason why there are none.
    """
    if not model.is_dir():
        return "The model is a package, which has no learning curves."
    metrics, curves = _beside(model)
    if metrics.is_file():
        try:
            epochs = epochs_of(metrics.parent)
            return drawn_curves(epochs) if epochs else "Its training run has not finished an epoch."
        except MissingPackageError as missing:
            return f"{missing}."
        except (ValueError, LookupError, TypeError, AttributeError, OSError):
            return f"{METRICS} of its training run is broken, so there are no learning curves."
    if curves.is_file():
        return curves.read_bytes()
    return f"The model does not lie in the folder of its training run, which would have {METRICS}."


def _beside(model: Path) -> tuple[Path, Path]:
    """Return the paths where the metrics and the curves of a model's run would be."""
    run = real_path(model).parent
    return run / METRICS, run / CURVES


def _refuse_unwritable_page(page: Path | None, sources: Iterable[str], models: Sequence[Path]) -> None:
    """Raises ValueError or PermissionError, before work is done, if the page or the printed output cannot be
    written.
    """
    read: list[str | Path] = [*sources, *models, *chain.from_iterable(map(_beside, models))]
    refuse_to_overwrite(STANDARD, read)
    if page is None:
        return
    refuse_unwritable(page)
    if not page.parent.is_dir():
        raise ValueError(f"--report {page}: give the name of a file in a folder that exists")
    refuse_to_overwrite(page, read)


def _write_report(path: Path, page: Callable[[], str], figures: Callable[[], dict[str, Any]]) -> None:
    """Write the page; or the figures, if the name of the file asks for JSON."""
    _write_page(path, json.dumps(figures()) + "\n" if _is_json(path) else page())


def _is_json(path: Path) -> bool:
    return path.suffix.lower() == JSON


def _write_page(path: Path, page: str) -> None:
    with atomic_file(str(path)) as file:
        file.write(page.encode(errors="replace"))
    warn(f"report: {path}")
