"""`stack-parser evaluate`: score a trained parser on a treebank."""

from __future__ import annotations

import argparse
import json

import torch

from parser.commands.options import Commands, add_model, add_punctuation, add_roots, watched
from parser.evaluation.evaluate import evaluate
from parser.evaluation.report import report
from parser.machine import choose_device
from parser.parsing.model import Model
from parser.treebank.conllu import read_treebank


def add_evaluate(commands: Commands) -> None:
    command = commands.add_parser("evaluate", help="score a trained parser on a treebank")
    add_model(command)
    command.add_argument("treebank", metavar="FILE", help="CoNLL file with gold trees, optionally .gz")
    add_roots(command)
    command.add_argument("--json", action="store_true", help="print one JSON object instead of a report")
    add_punctuation(command)
    command.set_defaults(command=evaluate_model)


def evaluate_model(options: argparse.Namespace) -> None:
    torch.set_num_threads(options.threads)
    model = Model.load(options.model, choose_device(options.device))
    gold = list(watched(model, read_treebank(options.treebank, options.roots), options.treebank))
    scores = evaluate(model, gold, options.batch_size, punctuation=not options.no_punct)
    print(json.dumps(scores.as_dict()) if options.json else report(scores))
