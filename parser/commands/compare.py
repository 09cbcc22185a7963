"""`stack-parser compare`: whether one parser is significantly better than another."""

from __future__ import annotations

import argparse

from parser.commands.options import prepared_device, with_column_warnings
from parser.commands.reports import curves_of, known_forms, refuse_unwritable_page, write_page
from parser.evaluation.errors import find_errors
from parser.evaluation.report import comparison_report, copied_by
from parser.evaluation.significance import compare
from parser.models.model import ModelChoice, load_models, of_treebank
from parser.pages.comparison_page import Parsed, comparison_page
from parser.parsing.engine import parse_stream
from parser.system.console import say
from parser.treebank.conllu import read_treebank


def compare_models(options: argparse.Namespace) -> None:
    refuse_unwritable_page(options.report, [options.treebank], [options.first, options.model])
    device = prepared_device(options)
    gold = read_treebank(options.treebank, options.roots)
    folders = options.first, options.model
    loaded = [load_models(ModelChoice((folder,)), device) for folder in folders]
    models = of_treebank(loaded, options.treebank_name)
    for folder, model in zip(folders, models, strict=True):
        gold = list(with_column_warnings(model, gold, f"{folder}: {options.treebank}"))
    first, second = ([tree for _, tree in parse_stream(model, gold, options.batch_size)] for model in models)
    comparison = compare(gold, first, second, not options.no_punct, options.by)
    copied = copied_by(*(model.predicted_columns for model in models))
    if options.report:
        parsed = [
            Parsed(
                str(folder),
                find_errors(gold, trees, known_forms(*models), not options.no_punct),
                trees,
                curves_of(folder),
            )
            for folder, trees in zip(folders, (first, second), strict=True)
        ]
        page = comparison_page(options.treebank, gold, parsed[0], parsed[1], comparison, copied)
        write_page(options.report, page)
    say(*comparison_report(comparison, str(options.first), str(options.model), copied))
