"""The arguments of all commands. Nothing here imports PyTorch, so that help and wrong arguments cost no time.

Each command names the function that runs it, which is imported when the command is chosen.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any, NoReturn

from parser.commands.shared_arguments import (
    MODEL_HELP,
    add_alternatives,
    add_computing,
    add_config,
    add_constraints,
    add_deps,
    add_ensemble,
    add_model,
    add_models,
    add_overrides,
    add_processes,
    add_punctuation,
    add_roots,
    add_text,
    add_treebank_name,
    model_path,
    positive,
)
from parser.config.measures import MEASURES
from parser.system.console import printable
from parser.system.version import __version__

PAGE = "trees.html"
OF_TREEBANK = ""
"""Of `evaluate --text`: stands for the text of the treebank itself."""
SPEED_SETTINGS = (
    "Settings of a config: experiments, external, external_turns, learning, devices, threads, precisions, "
    "seed, seconds, relative_error, turn, warmup, together, timeout. Each experiments.NAME has plugin, "
    "methods, modes, batch_sizes and settings, which are those of the plugin: `stack-parser plugins` lists "
    "all, `stack-parser plugins NAME` the methods and settings of one. docs/settings.md explains them."
)
"""What `speed --help` ends with."""
Commands = Any
"""What `argparse.ArgumentParser.add_subparsers` returns, a class that it does not name."""


class _Arguments(argparse.ArgumentParser):
    """Its messages are printable, as those of `console`. Names of options may not be abbreviated.

    Else one that is added could make others ambiguous.
    """

    def __init__(self, **options: Any):
        super().__init__(**{"allow_abbrev": False, **options})

    def error(self, message: str) -> NoReturn:
        super().error(printable(f"{message}; {self.prog} --help tells more"))


def argument_parser() -> argparse.ArgumentParser:
    """Its result has `run`: the module and the function of the command, as "module:function"."""
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
    _add_speed(commands)
    _add_plots(commands)
    _add_plugins(commands)
    return parser


def _add_train(commands: Commands) -> None:
    command = commands.add_parser("train", help="train a parser as a config says")
    add_config(command, "configs", "runs", needed=False)
    add_overrides(command, "training.batch_size=32")
    command.add_argument(
        "--from",
        dest="initial_model",
        metavar="MODEL",
        help="begin with the weights of a model, and add to its vocabulary and labels (fine-tuning)",
    )
    command.add_argument(
        "--resume",
        nargs="?",
        const=True,
        type=Path,
        metavar="RUN",
        help="continue the run in a folder, as its own config says; without RUN, that of --run or of CONFIG",
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
        help="parse the raw text of the treebank, from a file or from its comments, and score as CoNLL 2018",
    )
    command.add_argument(
        "--report",
        type=Path,
        metavar="HTML",
        help="write a page with scores, learning curves, kinds of errors and the worst sentences",
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
        "-o", "--output", default="-", metavar="OUT", help="output file (default: standard output)"
    )
    command.add_argument(
        "--probabilities", action="store_true", help="write the probability of each arc and its label to MISC"
    )
    add_alternatives(command)
    command.add_argument(
        "--retag",
        action="store_true",
        help="replace tags and lemmas of the input by predicted ones",
    )
    add_constraints(command)
    add_deps(command)
    add_text(command, "IN is")
    command.set_defaults(run="parser.commands.parse:parse_file")


def _add_parse_corpus(commands: Commands) -> None:
    command = commands.add_parser("parse-corpus", help="parse all files of a folder, by workers of Ray")
    add_models(command)
    command.add_argument("source", type=Path, metavar="IN_FOLDER", help="folder of CoNLL or text files")
    command.add_argument("target", type=Path, metavar="OUT_FOLDER", help="folder for the trees")
    command.add_argument(
        "--workers", type=positive, metavar="N", help="processes that parse (default: one for each CPU)"
    )
    command.add_argument(
        "--address", help="of a Ray cluster, whose machines share the folders (default: this machine alone)"
    )
    command.add_argument("--probabilities", action="store_true", help="as of parse")
    add_alternatives(command)
    command.add_argument("--retag", action="store_true", help="as of parse")
    add_constraints(command)
    add_deps(command)
    add_text(command, "the files are")
    command.set_defaults(run="parser.commands.parse_corpus:parse_folder")


def _add_serve(commands: Commands) -> None:
    command = commands.add_parser(
        "serve", help="parse over HTTP", description="Parse over HTTP, until SIGTERM or Ctrl-C ends it."
    )
    command.add_argument(
        "models",
        nargs="+",
        metavar="MODEL",
        help="folder, file or name of a model, or NAME=MODEL; the first one is the default",
    )
    add_computing(command)
    add_processes(command, "serve by N processes with one port, each with its models and on a CPU")
    command.add_argument(
        "--host", default="127.0.0.1", help="address that is listened at (default: %(default)s, this machine)"
    )
    command.add_argument(
        "--port", type=_port, default=8001, help="of TCP; 0 takes a free one (default: %(default)s)"
    )
    command.add_argument("--default", metavar="NAME", help="the model of requests that name none")
    for option, default, what in (
        ("--max-bytes", 1 << 22, "bytes of a request"),
        ("--max-words", 1_000_000, "words of a request"),
        ("--max-sentence-words", 1_000, "words of a sentence"),
        ("--max-requests", 128, "requests that are parsed at the same time; others are told to try again"),
        ("--timeout", 300, "seconds for a request, from the end of its headers to that of its answer"),
    ):
        command.add_argument(
            option, type=positive, default=default, metavar="N", help=f"{what} (default: %(default)s)"
        )
    command.add_argument(
        "--grace",
        type=positive,
        default=30,
        metavar="N",
        help="seconds in which running requests may end after SIGTERM (default: %(default)s)",
    )
    command.add_argument(
        "--token-file", type=Path, metavar="FILE", help="a token in each line; requests need one of them"
    )
    command.add_argument(
        "--cors",
        action="append",
        default=[],
        metavar="ORIGIN",
        help="pages of this origin may use the service, such as https://example.org, or '*' for all; may be "
        "given several times",
    )
    command.set_defaults(run="parser.commands.serve:serve")


def _port(text: str) -> int:
    if not text.isdecimal() or int(text) > 65_535:
        raise argparse.ArgumentTypeError(f"{text!r} is not a port: a number up to 65535")
    return int(text)


def _add_select(commands: Commands) -> None:
    command = commands.add_parser(
        "select",
        help="select sentences that people should annotate",
        description="Select the sentences from which a parser may learn most, and write them with the arcs "
        "of which the model is sure; the others are _.",
    )
    add_models(command)
    command.add_argument("treebanks", nargs="+", metavar="FILE", help="CoNLL file, optionally .gz")
    command.add_argument(
        "--words",
        type=positive,
        default=5_000,
        metavar="N",
        help="select sentences until they have so many words together (default: %(default)s)",
    )
    command.add_argument(
        "--by",
        choices=("confidence", "disagreement", "random"),
        default="confidence",
        help="those in which most arcs are expected to be wrong, for their length; those on which the models "
        "of --ensemble disagree; or any (default: %(default)s)",
    )
    command.add_argument(
        "--doubtful",
        type=float,
        default=0.8,
        metavar="P",
        help="leave out arcs that are less probable, or that a smaller share of the models makes "
        "(default: %(default)s)",
    )
    command.add_argument("--seed", type=positive, default=1, help="of --by random (default: %(default)s)")
    command.add_argument(
        "-o", "--output", required=True, metavar="OUT", help="output file, the most valuable sentence first"
    )
    command.set_defaults(run="parser.commands.select:select_sentences")


def _add_draw(commands: Commands) -> None:
    command = commands.add_parser("draw", help="draw trees: as a page for a browser, or in text")
    command.add_argument(
        "treebank", metavar="FILE", help="CoNLL file with trees, optionally .gz; - for standard input"
    )
    command.add_argument(
        "--gold", metavar="FILE", help="CoNLL file with gold trees of the same sentences: shows errors"
    )
    command.add_argument("--text", action="store_true", help="draw in text instead of HTML")
    command.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help=f"output file, or - for standard output (default: {PAGE}; with --text standard output)",
    )
    add_roots(command)
    command.set_defaults(run="parser.commands.draw:draw_trees")


def _add_compare(commands: Commands) -> None:
    command = commands.add_parser("compare", help="say whether one parser is better than another")
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
        help="the score that is compared (default: %(default)s)",
    )
    command.add_argument(
        "--report", type=Path, metavar="HTML", help="write a page with what changed, and trees of both"
    )
    command.set_defaults(run="parser.commands.compare:compare_models")


def _add_pack(commands: Commands) -> None:
    command = commands.add_parser(
        "pack", help="put a model's folder into one file, or make of a model what can be given to others"
    )
    command.add_argument(
        "model",
        type=model_path,
        metavar="MODEL",
        help="folder of a trained model; with --ensemble, --precision, --wheel or --hub also a package",
    )
    add_ensemble(command)
    command.add_argument(
        "--precision",
        choices=["float16"],
        help="store the weights in 16 bits, at half the size (default: as they are)",
    )
    forms = command.add_mutually_exclusive_group()
    forms.add_argument(
        "--wheel", action="store_true", help="make a wheel for pip, which installs the model by its name"
    )
    forms.add_argument(
        "--hub", action="store_true", help="make a folder that can be uploaded to Hugging Face's hub"
    )
    command.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="OUT",
        help="the package (default: MODEL.stackparser); with --wheel the folder that it is put into "
        "(default: dist), with --hub the new folder",
    )
    command.set_defaults(run="parser.commands.pack:pack_model")


def _add_check(commands: Commands) -> None:
    command = commands.add_parser(
        "check",
        help="validate treebanks, describe them, and compare dev and test with train",
        description="Validate treebanks, count what is in them, and compare dev and test with train. Which "
        "file is train, dev or test is seen in its name; if no name says so, by the order of the files.",
    )
    command.add_argument(
        "treebanks", nargs="+", metavar="FILE", help="CoNLL file, optionally .gz: as train, dev and test"
    )
    add_roots(command)
    command.add_argument(
        "--partial",
        action="store_true",
        help="HEAD and DEPREL may be `_` but in dev and test, as with the setting treebank.partial",
    )
    command.add_argument(
        "--transitions",
        action="store_true",
        help="also say how deep the stacks of the transition systems get, and how long their oracles take",
    )
    command.set_defaults(run="parser.commands.check:check_treebanks")


def _add_table(commands: Commands) -> None:
    command = commands.add_parser("table", help="train the runs of a table, and write the table")
    add_config(command, "configs/tables", "runs/tables")
    command.set_defaults(run="parser.commands.table:make_table")


def _add_train_all(commands: Commands) -> None:
    command = commands.add_parser(
        "train-all",
        help="train a parser of each treebank of a folder, and write a table of all",
        description="Train a parser of each treebank of Universal Dependencies in a folder. What a treebank "
        "lacks, such as dev or lemmas, changes the config for it; the table says how. The same command "
        "goes on after an interruption.",
    )
    command.add_argument(
        "source", type=Path, metavar="FOLDER", help="folder of folders such as UD_English-EWT"
    )
    command.add_argument("config", type=Path, metavar="CONFIG", help="YAML file like those in configs/")
    command.add_argument(
        "-o", "--output", type=Path, required=True, metavar="OUT", help="folder for models, table and runs"
    )
    command.add_argument(
        "--only",
        action="append",
        default=[],
        metavar="PATTERN",
        help="train these treebanks alone, such as 'UD_French-*'; may be given several times",
    )
    place = command.add_mutually_exclusive_group()
    place.add_argument(
        "--processes",
        type=positive,
        default=1,
        metavar="N",
        help="train N parsers at the same time (default: %(default)s)",
    )
    place.add_argument(
        "--address",
        help="of a Ray cluster, whose machines share the folders: train as many as it has CPUs or GPUs for",
    )
    command.add_argument(
        "--published",
        type=Path,
        metavar="FILE",
        help="scores of another parser, which the table and its picture then have, too, such as "
        "docs/measurements/accuracy/udpipe-ud-2.5.json",
    )
    command.set_defaults(run="parser.commands.train_all:train_all")


def _add_models_of_folder(commands: Commands) -> None:
    command = commands.add_parser("models", help="list the models of a folder, with their scores")
    command.add_argument(
        "folder", type=Path, metavar="DIR", help="folder of files that train-all, or pack, has made"
    )
    command.set_defaults(run="parser.commands.models:list_models")


def _add_speed(commands: Commands) -> None:
    command = commands.add_parser(
        "speed",
        help="measure batching methods side by side, as a config says",
        description="Measure batching methods side by side, as a config says, and write a report.",
        epilog=SPEED_SETTINGS,
    )
    add_config(command, "configs/speed", "runs/speed")
    add_overrides(command, "seconds=4 or --set experiments.quick.batch_sizes=[1,64]")
    command.add_argument(
        "--only",
        default="",
        metavar="KEY=VALUE|VALUE,…",
        help="measure only these cells, such as method=step,batch_size=1|64",
    )
    command.add_argument(
        "--ratio",
        action="append",
        default=[],
        metavar="A/B",
        help="print this ratio of speeds, such as method=replay/method=step, or over one by one: "
        "method=replay,batch_size=64/method=none,batch_size=1; may be given several times",
    )
    command.add_argument(
        "--minutes",
        type=positive,
        metavar="N",
        help="begin no further cells after N minutes, and omit external and learning; the same command "
        "continues",
    )
    command.set_defaults(run="parser.commands.speed:measure")


def _inches(text: str) -> float:
    for unit, inches in (("in", 1.0), ("cm", 1 / 2.54), ("mm", 1 / 25.4)):
        number = text.removesuffix(unit)
        if number != text:
            try:
                value = float(number) * inches
            except ValueError:
                break
            if 1 <= value <= 30:
                return value
            break
    raise argparse.ArgumentTypeError(f"{text!r}: write a width of 1 to 30 inches, as 3.3in, 8.4cm or 84mm")


def _add_plots(commands: Commands) -> None:
    command = commands.add_parser("plots", help="draw the plots and write the report of a speed run again")
    command.add_argument("folder", type=Path, metavar="RUN", help="folder of the run, as runs/speed/quick")
    command.add_argument(
        "--only",
        default="",
        metavar="KEY=VALUE|VALUE,…",
        help="draw only these cells, such as method=step|replay; with this or one of the following options "
        "the plots alone are written, from the rows alone",
    )
    command.add_argument(
        "-o",
        "--output",
        type=Path,
        metavar="OUT",
        help="folder in which report and plots are written, the plots in OUT/plots (default: RUN)",
    )
    command.add_argument(
        "--plot",
        default="",
        metavar="NAME",
        help="write only this plot, as its file is called, or ends: speed-up",
    )
    command.add_argument("--format", choices=("svg", "pdf", "png"), default="svg", help="of the files")
    command.add_argument("--width", type=_inches, help="of a figure, as 3.3in or 8.4cm")
    command.add_argument("--font-size", type=float, metavar="POINTS", help="of all text")
    command.add_argument("--scale", choices=("linear", "log"), help="of the values over batch sizes")
    command.add_argument(
        "--style", metavar="FILE", help="style of Matplotlib, by its file (.mplstyle) or name"
    )
    command.set_defaults(run="parser.commands.speed:draw")


def _add_plugins(commands: Commands) -> None:
    command = commands.add_parser("plugins", help="list what can be measured, or show or check a plugin")
    command.add_argument("name", nargs="?", metavar="NAME", help="show methods and settings of this plugin")
    command.add_argument(
        "--check", action="store_true", help="test whether the plugin does what every plugin must"
    )
    command.set_defaults(run="parser.commands.speed:about")
