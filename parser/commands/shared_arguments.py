"""Arguments that several commands share, and their types."""

from __future__ import annotations

import argparse
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args, get_type_hints

from parser.batching import PRECISIONS
from parser.models.named_models import FOLDER, find_model
from parser.parsing import BATCH_SIZE
from parser.parsing.options import ParseOptions
from parser.system.files import STANDARD
from parser.treebank.conllu import Roots
from parser.treebank.conllu_output import Deps, TagsToWrite

MODEL_HELP = (
    "folder or package of a trained model, or the name of one that is installed, in the folder given by "
    f"{FOLDER}, or in models/ of the checkout"
)
PARTS = "parse parts of the input in N processes at the same time, on CPUs"


def add_config(command: argparse.ArgumentParser, examples: str, runs: str, needed: bool = True) -> None:
    """Add the config. examples: the folder of such configs; runs: the default folder of their runs."""
    command.add_argument(
        "config",
        type=config_path,
        nargs=None if needed else "?",
        metavar="CONFIG",
        help=f"YAML file like those in {examples}/",
    )
    command.add_argument(
        "--run",
        dest="folder",
        type=named_output,
        help=f"folder of the run (default: {runs}/NAME for {examples}/NAME.yaml)",
    )


def add_overrides(command: argparse.ArgumentParser, example: str) -> None:
    command.add_argument(
        "--set",
        dest="overrides",
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help=f"change a setting of the config, such as --set {example}; may be given several times",
    )


def add_roots(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--roots",
        choices=get_args(Roots),
        default="refuse",
        help="what to do with trees that have several roots (default: %(default)s)",
    )


def add_punctuation(command: argparse.ArgumentParser) -> None:
    command.add_argument("--no-punct", action="store_true", help="exclude punctuation from the scores")


def add_model(command: argparse.ArgumentParser, name: str = "MODEL") -> None:
    command.add_argument("model", type=model_path, metavar=name, help=MODEL_HELP)
    add_computing(command)


def add_computing(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--device", default="auto", help="cpu, cuda, cuda:1, ... (default: CUDA if available)"
    )
    command.add_argument(
        "--batch-size",
        type=positive,
        default=BATCH_SIZE,
        help="most sentences parsed at the same time, for GPUs (default: %(default)s); a CPU takes fewer",
    )
    command.add_argument(
        "--precision",
        choices=["auto", "int8", *PRECISIONS],
        default="auto",
        help="precision of matrix products (default: int8 on a CPU if the model was packed for it, else "
        "float32); tf32 and bfloat16 are for GPUs, and int8 for CPUs",
    )


def add_models(command: argparse.ArgumentParser) -> None:
    """Add the argument for one or more models, which parse together."""
    add_model(command)
    add_ensemble(command)
    add_treebank_name(command)


def add_ensemble(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--ensemble",
        type=model_path,
        action="append",
        default=[],
        metavar="MODEL",
        help="another model, whose scores are averaged with those of the first model at every transition; "
        "may be given several times",
    )


def add_treebank_name(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--treebank",
        dest="treebank_name",
        metavar="NAME",
        help="parse as one of the treebanks that the model was trained on, such as en_ewt "
        "(default: the first one)",
    )


def add_processes(command: argparse.ArgumentParser, what: str = PARTS) -> None:
    """Add the number of processes. what: the work that they do."""
    command.add_argument(
        "--processes", type=positive, default=1, metavar="N", help=f"{what} (default: %(default)s)"
    )


def add_parse_options(command: argparse.ArgumentParser, *names: str) -> None:
    """Add the flags of some options of a parse, see `ParseOptions`."""
    options, types = {option.name: option for option in fields(ParseOptions)}, get_type_hints(ParseOptions)
    for name in names:
        option, kind = options[name], types[name]
        how: dict[str, Any] = {"default": option.default, "help": option.metadata["flag"]}
        if kind is bool:
            how["action"] = "store_true"
        elif choices := _literals(kind):
            how["choices"] = choices
        else:
            how |= {"type": positive if kind is int else _names, "metavar": option.metadata["metavar"]}
        command.add_argument(f"--{name.replace('_', '-')}", **how)


def _literals(annotation: Any) -> list[str]:
    """The values of a literal type, which may be optional."""
    parts = get_args(annotation)
    return [one for part in parts for one in ([part] if isinstance(part, str) else _literals(part))]


def _names(text: str) -> tuple[str, ...]:
    """The type of an option that is a list of names."""
    names = tuple(text.split(","))
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of names, separated by commas")
    return names


def add_tags(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--tags",
        choices=get_args(TagsToWrite),
        default="missing",
        help="which predicted tags, features and lemmas to write: those that are _ in the input (features "
        "only where UPOS is _, too), all, or none (default: %(default)s)",
    )


def add_deps(command: argparse.ArgumentParser) -> None:
    command.add_argument(
        "--deps",
        choices=get_args(Deps),
        default="predict",
        help="enhanced dependencies (DEPS): write what the model predicts, if it does; drop those of the "
        "input, or only those of trees that change; or keep them (default: %(default)s)",
    )


def add_text(command: argparse.ArgumentParser, what_is: str) -> None:
    """Add the options for text input. what_is: the start of their descriptions, such as "IN is"."""
    forms = command.add_mutually_exclusive_group()
    for option, form, text in (
        ("--text", "raw", "raw text, whose paragraphs end at blank lines, and where a line ends early"),
        ("--wrapped-text", "wrapped", "raw text, whose paragraphs end at blank lines alone"),
        ("--one-paragraph-per-line", "one-paragraph-per-line", "raw text with one paragraph per line"),
        ("--one-sentence-per-line", "one-sentence-per-line", "raw text with one sentence per line"),
        ("--tokenized", "tokenized", "text with one sentence per line, and blanks between its words"),
    ):
        forms.add_argument(option, dest="form", action="store_const", const=form, help=f"{what_is} {text}")


def model_path(text: str) -> Path:
    """The type of an argument that is a path or a name of a model, see `find_model`."""
    try:
        return find_model(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def output(text: str) -> str:
    """The type of an argument that is the name of an output, or - for standard output."""
    if not text:
        raise argparse.ArgumentTypeError("is empty; give the name of a file, or - for standard output")
    return text


def config_path(text: str) -> Path:
    """The type of an argument that is the path of a config, which may be read several times."""
    if text in ("", STANDARD):
        fault = "standard input cannot be a config" if text else "is empty"
        raise argparse.ArgumentTypeError(f"{fault}; give the name of a file")
    return Path(text)


def named_output(text: str) -> Path:
    """The type of an argument that is the path of an output, which cannot be standard output."""
    if text in ("", STANDARD):
        fault = "standard output cannot be used here" if text else "is empty"
        raise argparse.ArgumentTypeError(f"{fault}; give a name")
    return Path(text)


def positive(text: str) -> int:
    """The type of an option that is a number from 1."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least 1")
    return int(text)
