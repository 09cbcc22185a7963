"""`stack-parser evaluate`: score a trained parser on a treebank."""

from __future__ import annotations

import argparse
import json

from parser.commands.arguments import OF_TREEBANK
from parser.commands.options import model_of, models_of, warning_of, with_column_warnings
from parser.commands.reports import curves_of, known_forms, refuse_unwritable_page, write_page
from parser.evaluation.calibration import confidence_of
from parser.evaluation.errors import find_errors
from parser.evaluation.evaluate import PartEvaluator, evaluate, evaluate_text
from parser.evaluation.report import report, text_report
from parser.evaluation.scores import Scores
from parser.evaluation.text_scores import OtherTextError, TextScores
from parser.models.model import Model
from parser.models.text_input import text_reader
from parser.pages.report_page import report_page
from parser.parsing.engine import parse_stream
from parser.parsing.options import ParseOptions
from parser.parsing.probabilities import Calibration, with_calibration
from parser.parsing.worker_processes import answers, start_workers
from parser.system.console import say
from parser.treebank.conllu import NO_SENTENCE, read_treebank, stream_parts
from parser.treebank.conllu_faults import Faults, TreebankError
from parser.treebank.text.reading import TextPart, read_parts, stream_text


def evaluate_model(options: argparse.Namespace) -> None:
    _refuse_combinations(options)
    model = model_of(options)
    scores: Scores | TextScores
    if options.text is not None:
        scores = _of_text(options, model)
    elif options.report:
        scores = _with_report(options, model)
    else:
        scores = (_by_one_process if options.processes == 1 else _by_processes)(options, model)
    if options.json:
        say(json.dumps(scores.as_dict()))
    elif isinstance(scores, TextScores):
        say(*text_report(scores))
    else:
        say(*report(scores, model.predicted_columns))


def _refuse_combinations(options: argparse.Namespace) -> None:
    """Raises ValueError for options that cannot be combined."""
    if options.text is not None and (options.no_punct or options.processes > 1 or options.report):
        others = "--no-punct, --processes and --report"
        raise ValueError(f"--text scores all words, in one process: leave out {others}")
    if options.report and options.processes > 1:
        raise ValueError("--report is written by one process: leave out --processes")
    sources = filter(None, (options.treebank, options.text))
    refuse_unwritable_page(options.report, sources, models_of(options).paths)


def _of_text(options: argparse.Namespace, model: Model) -> TextScores:
    """Parse raw text, and return its scores."""
    reader = text_reader(options.model, "raw")
    gold = read_treebank(options.treebank, options.roots)
    if options.text == OF_TREEBANK:
        source, text = options.treebank, iter([TextPart(0, reader.text_of(gold))])
    else:
        source, text = options.text, stream_text(options.text)
    sentences = with_column_warnings(model, read_parts(reader, text), source, is_text=True)
    try:
        return evaluate_text(model, sentences, gold, options.batch_size)
    except OtherTextError as error:
        raise ValueError(f"{source}: {error}; give the text of {options.treebank}") from None


def _with_report(options: argparse.Namespace, model: Model) -> Scores:
    """Write the page of the report, and return the scores."""
    gold = list(with_column_warnings(model, read_treebank(options.treebank, options.roots), options.treebank))
    parsed = parse_stream(
        with_calibration(model, None), gold, options.batch_size, ParseOptions(probabilities=True)
    )
    trees = [tree for _, tree in parsed]
    errors = find_errors(gold, trees, known_forms(model), not options.no_punct)
    title = f"{', '.join(map(str, models_of(options).paths))} on {options.treebank}"
    calibration, confidence = Calibration.of(model), confidence_of(gold, trees, not options.no_punct)
    if calibration.settings is None:
        confidences = {"not calibrated": confidence}
    else:
        confidences = {"before": confidence, "calibrated": confidence.calibrated(calibration)}
    curves = curves_of(options.model)
    page = report_page(title, errors, gold, trees, model.predicted_columns, curves, confidences)
    write_page(options.report, page)
    return errors.scores


def _by_one_process(options: argparse.Namespace, model: Model) -> Scores:
    gold = list(with_column_warnings(model, read_treebank(options.treebank, options.roots), options.treebank))
    return evaluate(model, gold, options.batch_size, punctuation=not options.no_punct)


def _by_processes(options: argparse.Namespace, model: Model) -> Scores:
    scores, faults, check = Scores(), Faults(), model.watch()
    arguments = (
        models_of(options),
        options.threads,
        options.precision,
        options.batch_size,
        options.roots,
        not options.no_punct,
    )
    with start_workers(PartEvaluator, arguments, options.processes) as workers:
        for part in answers(workers, stream_parts(options.treebank)):
            scores += part.scores
            faults.merge(part.faults)
            check.add(part.columns, warning_of(options.treebank))
    faults.check(options.treebank)
    if not scores.sentences:
        raise TreebankError(options.treebank, [NO_SENTENCE])
    return scores
