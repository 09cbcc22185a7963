"""`stack-parser evaluate`: score a trained parser on a treebank."""

from __future__ import annotations

import argparse
import json

from parser.commands.options import (
    Commands,
    add_model,
    add_processes,
    add_punctuation,
    add_roots,
    loaded,
    warning_of,
    watched,
)
from parser.evaluation.evaluate import evaluate
from parser.evaluation.part_evaluator import PartEvaluator
from parser.evaluation.report import report
from parser.evaluation.scores import Scores
from parser.parsing.model import Model
from parser.parsing.worker_processes import answers, started
from parser.training.interruption import interruptible
from parser.treebank.conllu import NO_SENTENCE, read_treebank
from parser.treebank.faults import Faults, TreebankError
from parser.treebank.parts import stream_parts


def add_evaluate(commands: Commands) -> None:
    command = commands.add_parser("evaluate", help="score a trained parser on a treebank")
    add_model(command)
    add_processes(command)
    command.add_argument("treebank", metavar="FILE", help="CoNLL file with gold trees, optionally .gz")
    add_roots(command)
    command.add_argument("--json", action="store_true", help="print one JSON object instead of a report")
    add_punctuation(command)
    command.set_defaults(command=evaluate_model)


def evaluate_model(options: argparse.Namespace) -> None:
    scores = (_by_one_process if options.processes == 1 else _by_processes)(options, loaded(options))
    print(json.dumps(scores.as_dict()) if options.json else report(scores))


def _by_one_process(options: argparse.Namespace, model: Model) -> Scores:
    gold = list(watched(model, read_treebank(options.treebank, options.roots), options.treebank))
    return evaluate(model, gold, options.batch_size, punctuation=not options.no_punct)


def _by_processes(options: argparse.Namespace, model: Model) -> Scores:
    scores, faults, check = Scores(), Faults(), model.watch()
    arguments = (
        options.model,
        options.threads,
        options.precision,
        options.batch_size,
        options.roots,
        not options.no_punct,
    )
    with interruptible(), started(PartEvaluator, arguments, options.processes) as workers:
        for part in answers(workers, stream_parts(options.treebank)):
            scores += part.scores
            faults.merge(part.faults)
            check.add(part.columns, warning_of(options.treebank))
    faults.check(options.treebank)
    if not scores.sentences:
        raise TreebankError(options.treebank, [NO_SENTENCE])
    return scores
