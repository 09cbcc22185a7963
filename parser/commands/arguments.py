"""The arguments of all commands. PyTorch is not imported here, so that help and errors appear at once.

Each command names the function that runs it, which is imported when the command is selected.
"""

from __future__ import annotations

import argparse
import pkgutil
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import parser.commands
from parser.commands.shared_arguments import (
    MODEL_HELP,
    add_computing,
    add_config,
    add_deps,
    add_ensemble,
    add_model,
    add_models,
    add_overrides,
    add_parse_options,
    add_processes,
    add_punctuation,
    add_roots,
    add_tags,
    add_text,
    add_treebank_name,
    config_path,
    model_path,
    named_output,
    output,
    positive,
)
from parser.evaluation.measures import MEASURES
from parser.system.console import printable
from parser.system.version import __version__

OF_TREEBANK = ""
"""The value of `evaluate --text` that stands for the text of the treebank itself."""
Commands = Any
"""The type that `argparse.ArgumentParser.add_subparsers` returns, which has no public name."""


class _Arguments(argparse.ArgumentParser):
    """An argument parser with printable messages, see `console`. Options cannot be abbreviated.

    Otherwise a new option could make abbreviations ambiguous.
    """

    def __init__(self, **options: Any):
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        super().error(printable(f"{message}; {self.prog} --help tells more"))


def argument_parser() -> argparse.ArgumentParser:
    """Return the argument parser. Its result contains `run`, the command's function as "module:function"."""
    parser = _Arguments(prog="stack-parser", description="Train and use StackLSTM dependency parsers.")
    parser.add_argument("--version", action="version", version=f"%(prog)s {__version__}")
    commands = parser.add_subparsers(required=True, dest="command", metavar="COMMAND")
    _add_train(commands)
    _add_evaluate(commands)
    _add_parse(commands)
    _add_parse_corpus(commands)
    _add_select(commands)
    _add_serve(commands)
    _add_draw(commands)
    _add_compare(commands)
    _add_pack(commands)
    _add_check(commands)
    _add_table(commands)
    _add_train_all(commands)
    _add_models_of_folder(commands)
    _add_from_other_modules(commands)
    return parser


def command_parser(name: str) -> argparse.ArgumentParser:
    """Return the argument parser of one command."""
    [commands] = [action for action in argument_parser()._actions if action.dest == "command"]
    parsers: dict[str, argparse.ArgumentParser] = dict(commands.choices or {})
    return parsers[name]


def _add_train(commands: Commands) -> None:
    command = commands.add_parser("train", help="train a parser from a config")
    add_config(command, "configs", "runs", needed=False)
    add_overrides(command, "training.batch_size=32")
    command.add_argument(
        "--from",
        dest="initial_model",
        metavar="MODEL",
        help="start from the weights of a model, and add to its vocabulary and labels (fine-tuning)",
    )
    command.add_argument(
        "--resume",
        nargs="?",
        const=True,
        type=Path,
        metavar="RUN",
        help="continue the run in a folder, with the config kept there; without RUN, the folder of --run or "
        "CONFIG",
    )
    command.add_argument(
        "--processes",
        type=positive,
        default=1,
        metavar="N",
        help="share each batch among N processes on this machine (default: %(default)s)",
    )
    command.set_defaults(run="parser.commands.train:train_parser")


def _add_evaluate(commands: Commands) -> None:
    command = commands.add_parser("evaluate", help="score a trained parser on a treebank")
    add_models(command)
    add_processes(command)
    command.add_argument("treebank", metavar="FILE", help="CoNLL file with gold trees, optionally .gz")
    add_roots(command)
    command.add_argument("--json", action="store_true", help="print one JSON object instead of a report")
    add_punctuation(command)
    command.add_argument(
        "--text",
        metavar="RAW",
        nargs="?",
        const=OF_TREEBANK,
        help="parse the raw text of the treebank, from RAW or its comments, and score as in CoNLL 2018",
    )
    command.add_argument(
        "--report",
        type=named_output,
        metavar="FILE",
        help="write a page with scores, learning curves, kinds of errors and the worst sentences; "
        "or the scores and errors as JSON, if FILE ends with .json",
    )
    command.set_defaults(run="parser.commands.evaluate:evaluate_model")


def _add_parse(commands: Commands) -> None:
    command = commands.add_parser("parse", help="write trees into a CoNLL file")
    add_models(command)
    add_processes(command)
    command.add_argument(
        "input", metavar="IN", help="CoNLL or text file, optionally .gz; - for standard input"
    )
    command.add_argument(
        "-o",
        "--output",
        type=output,
        default="-",
        metavar="OUT",
        help="output file (default: standard output)",
    )
    add_parse_options(command, "probabilities", "alternatives", "trees")
    add_tags(command)
    add_parse_options(command, "keep", "non_projective", "at_most_one", "not_root", "constraints")
    add_deps(command)
    add_text(command, "IN is")
    command.set_defaults(run="parser.commands.parse:parse_file")


def _add_parse_corpus(commands: Commands) -> None:
    command = commands.add_parser("parse-corpus", help="parse all files of a folder with Ray workers")
    add_models(command)
    command.add_argument("source", type=Path, metavar="IN_FOLDER", help="folder of CoNLL or text files")
    command.add_argument("target", type=named_output, metavar="OUT_FOLDER", help="folder for the trees")
    command.add_argument(
        "--workers", type=positive, metavar="N", help="number of parsing processes (default: one per CPU)"
    )
    command.add_argument(
        "--address",
        help="address of a Ray cluster whose machines share the folders (default: only this machine)",
    )
    add_parse_options(command, "probabilities", "alternatives", "trees")
    add_tags(command)
    add_parse_options(command, "keep", "non_projective", "at_most_one", "not_root", "constraints")
    add_deps(command)
    add_text(command, "the files are")
    command.set_defaults(run="parser.commands.parse_corpus:parse_folder")


def _add_serve(commands: Commands) -> None:
    command = commands.add_parser(
        "serve", help="parse over HTTP", description="Parse over HTTP until stopped by SIGTERM or Ctrl-C."
    )
    command.add_argument(
        "models",
        nargs="*",
        default=[],
        metavar="MODEL",
        help="folder, file or name of a model, or NAME=MODEL; the first one is the default",
    )
    command.add_argument(
        "--config",
        type=config_path,
        metavar="FILE",
        help="YAML file with settings, named like these options; options and environment variables such as "
        "STACK_PARSER_SERVE_MAX_BYTES take precedence",
    )
    command.add_argument(
        "--print-config", action="store_true", help="print all settings and where each is from, and exit"
    )
    add_computing(command)
    add_processes(command, "serve one port with N processes on CPUs, each with its own copy of the models")
    command.add_argument(
        "--host", default="127.0.0.1", help="address to listen on (default: %(default)s, this machine)"
    )
    command.add_argument(
        "--port", type=_port, default=8001, help="TCP port; 0 takes a free one (default: %(default)s)"
    )
    command.add_argument("--default", metavar="NAME", help="model for requests that name none")
    for option, default, what in (
        ("--max-bytes", 1 << 22, "maximum bytes per request"),
        ("--max-total-bytes", 1 << 25, "maximum bytes of all requests together; others are asked to retry"),
        ("--max-words", 1_000_000, "maximum words per request"),
        ("--max-sentence-words", 1_000, "maximum words per sentence"),
        ("--max-requests", 128, "maximum requests parsed at the same time; others are asked to retry"),
        ("--timeout", 300, "seconds for a request, from the end of its headers to the end of its answer"),
        ("--keep-alive", 30, "seconds that a connection may wait for its next request"),
    ):
        command.add_argument(
            option, type=positive, default=default, metavar="N", help=f"{what} (default: %(default)s)"
        )
    command.add_argument(
        "--grace",
        type=positive,
        default=30,
        metavar="N",
        help="seconds that running requests have to finish after SIGTERM (default: %(default)s)",
    )
    command.add_argument(
        "--token-file", type=Path, metavar="FILE", help="one token per line; requests need one of them"
    )
    command.add_argument(
        "--cors",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="allow pages of this origin, such as https://example.org, to use the service, or '*' for all; "
        "may be given several times",
    )
    command.set_defaults(run="parser.commands.serve:serve")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number up to 65535")
    return int(text)


def _add_select(commands: Commands) -> None:
    command = commands.add_parser(
        "select",
        help="select sentences for people to annotate",
        description="Select the sentences from which a parser may learn most, and write them with the arcs "
        "that the model is sure of; the other arcs are written as _.",
    )
    add_models(command)
    command.add_argument("treebanks", nargs="+", metavar="FILE", help="CoNLL file, optionally .gz")
    command.add_argument(
        "--words",
        type=positive,
        default=5_000,
        metavar="N",
        help="select sentences until they contain N words in total (default: %(default)s)",
    )
    command.add_argument(
        "--by",
        choices=("confidence", "disagreement", "random"),
        default="confidence",
        help="select sentences in which most arcs are expected to be wrong, for their length; sentences "
        "on which the models of --ensemble disagree; or random sentences (default: %(default)s)",
    )
    command.add_argument(
        "--doubtful",
        type=float,
        default=0.8,
        metavar="P",
        help="leave out arcs that are less probable than P, or that a smaller share of the models than P "
        "predicts (default: %(default)s)",
    )
    command.add_argument(
        "--seed", type=positive, default=1, help="random seed for --by random (default: %(default)s)"
    )
    command.add_argument(
        "-o",
        "--output",
        type=named_output,
        required=True,
        metavar="OUT",
        help="output file, with the most valuable sentence first",
    )
    command.set_defaults(run="parser.commands.select:select_sentences")


def _add_draw(commands: Commands) -> None:
    command = commands.add_parser("draw", help="draw trees as an HTML page or as text")
    command.add_argument(
        "treebank", metavar="FILE", help="CoNLL file with trees, optionally .gz; - for standard input"
    )
    command.add_argument(
        "--gold", metavar="FILE", help="CoNLL file with gold trees of the same sentences, to show errors"
    )
    command.add_argument("--text", action="store_true", help="draw as text instead of HTML")
    command.add_argument(
        "-o",
        "--output",
        type=output,
        metavar="OUT",
        help="output file, or - for standard output, which is the default with --text; a page needs a name",
    )
    add_roots(command)
    command.set_defaults(run="parser.commands.draw:draw_trees")


def _add_compare(commands: Commands) -> None:
    command = commands.add_parser("compare", help="test whether one parser is better than another")
    command.add_argument("first", type=model_path, metavar="MODEL_A", help=MODEL_HELP)
    add_model(command, "MODEL_B")
    command.add_argument("treebank", metavar="FILE", help="CoNLL file with gold trees, optionally .gz")
    add_treebank_name(command)
    add_roots(command)
    add_punctuation(command)
    command.add_argument(
        "--by",
        choices=list(MEASURES),
        default="las",
        help="score to compare (default: %(default)s)",
    )
    command.add_argument(
        "--report",
        type=named_output,
        metavar="HTML",
        help="write a page with the differences and trees of both parsers",
    )
    command.set_defaults(run="parser.commands.evaluate:compare_models")


def _add_pack(commands: Commands) -> None:
    command = commands.add_parser(
        "pack", help="pack a model's folder into one file, or prepare a model for distribution"
    )
    command.add_argument(
        "model",
        type=model_path,
        metavar="MODEL",
        help="folder of a trained model; with --ensemble, --precision, --learn-from, --wheel or --hub, also "
        "a package",
    )
    add_ensemble(command)
    command.add_argument(
        "--precision",
        choices=["float16", "int8"],
        help="float16: store the weights in 16 bits, at half the size. int8: also round products to 8 bits "
        "on a CPU, which is faster, if the trees of --dev stay as good (default: unchanged)",
    )
    command.add_argument("--dev", metavar="FILE", help="treebank for --precision int8 and --learn-from")
    command.add_argument(
        "--learn-from",
        metavar="FILE",
        help="add what is learned from the trees of this treebank, which the model should have been trained "
        "on: constraints, and enhanced dependencies if it has them; and with --dev, calibrated probabilities "
        "of tags",
    )
    forms = command.add_mutually_exclusive_group()
    forms.add_argument(
        "--wheel", action="store_true", help="make a wheel, so that pip can install the model by its name"
    )
    forms.add_argument(
        "--hub", action="store_true", help="make a folder that can be uploaded to the Hugging Face hub"
    )
    command.add_argument(
        "-o",
        "--output",
        type=named_output,
        metavar="OUT",
        help="the package (default: MODEL.stackparser); with --wheel, the folder for the wheel (default: "
        "dist); with --hub, the new folder",
    )
    command.set_defaults(run="parser.commands.models:pack_model")


def _add_check(commands: Commands) -> None:
    command = commands.add_parser(
        "check",
        help="validate and describe treebanks, and compare dev and test with train",
        description="Validate treebanks, count what they contain, and compare dev and test with train. The "
        "names of the files determine which is train, dev or test; if no name does, their order.",
    )
    command.add_argument(
        "treebanks", nargs="+", metavar="FILE", help="CoNLL files, optionally .gz: train, dev and test"
    )
    add_roots(command)
    command.add_argument(
        "--partial",
        action="store_true",
        help="allow `_` as HEAD and DEPREL except in dev and test, as with the setting treebank.partial",
    )
    command.add_argument(
        "--transitions",
        action="store_true",
        help="also show how deep the stacks of the transition systems get, and how long their oracles take",
    )
    command.set_defaults(run="parser.commands.check:check_treebanks")


def _add_table(commands: Commands) -> None:
    command = commands.add_parser("table", help="train the runs of a table and write the table")
    add_config(command, "configs/tables", "runs/tables")
    command.set_defaults(run="parser.commands.table:make_table")


def _add_train_all(commands: Commands) -> None:
    command = commands.add_parser(
        "train-all",
        help="train a parser for each treebank in a folder, and write a table of all",
        description="Train a parser for each treebank of Universal Dependencies in a folder. If a treebank "
        "lacks something, such as dev or lemmas, its config is changed accordingly; the table shows how. "
        "The same command continues after an interruption.",
    )
    command.add_argument(
        "source", type=Path, metavar="FOLDER", help="folder of folders such as UD_English-EWT"
    )
    command.add_argument(
        "config", type=config_path, metavar="CONFIG", help="YAML file like those in configs/"
    )
    command.add_argument(
        "-o",
        "--output",
        type=named_output,
        required=True,
        metavar="OUT",
        help="folder for models, table and runs",
    )
    command.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="train only these treebanks, such as 'UD_French-*'; may be given several times",
    )
    where = command.add_mutually_exclusive_group()
    where.add_argument(
        "--processes",
        type=positive,
        default=1,
        metavar="N",
        help="train N parsers at the same time (default: %(default)s)",
    )
    where.add_argument(
        "--address",
        help="address of a Ray cluster whose machines share the folders: train as many parsers as it has "
        "CPUs or GPUs for",
    )
    command.add_argument(
        "--published",
        type=Path,
        metavar="FILE",
        help="scores of another parser, which are added to the table and its picture, such as "
        "docs/measurements/accuracy/udpipe-ud-2.5.json",
    )
    command.set_defaults(run="parser.commands.table:train_all")


def _add_models_of_folder(commands: Commands) -> None:
    command = commands.add_parser("models", help="list the models in a folder with their scores")
    command.add_argument("folder", type=Path, metavar="DIR", help="folder of files made by train-all or pack")
    command.set_defaults(run="parser.commands.models:list_models")


def _add_from_other_modules(commands: Commands) -> None:
    """Add the commands of each module NAME_arguments of this package, so that none of them must exist."""
    for module in pkgutil.iter_modules(parser.commands.__path__, f"{parser.commands.__name__}."):
        if module.name.endswith("_arguments"):
            add_commands = getattr(import_module(module.name), "add_commands", None)
            if add_commands:
                add_commands(commands)
