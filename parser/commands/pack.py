"""`stack-parser pack`: a model's folder, or the models of an ensemble, as one file."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from parser.commands.options import Commands, add_ensemble
from parser.parsing.ensemble import ModelChoice, contents, load_models
from parser.parsing.model_files import SUFFIX, pack


def add_pack(commands: Commands) -> None:
    command = commands.add_parser("pack", help="put a model's folder into one file")
    command.add_argument(
        "model", type=Path, metavar="MODEL", help="folder of a trained model; with --ensemble also a package"
    )
    add_ensemble(command)
    command.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help=f"the package (default: MODEL{SUFFIX})"
    )
    command.set_defaults(command=pack_model)


def pack_model(options: argparse.Namespace) -> None:
    if options.model.is_file() and not options.ensemble:
        raise ValueError(f"{options.model}: is a file; only the folder of a model is packed")
    if options.ensemble and not options.output:
        raise ValueError("a package of several models needs a name: -o FILE")
    paths = (options.model, *options.ensemble)
    load_models(ModelChoice(paths), torch.device("cpu"))  # which checks them
    folder = options.model.resolve()
    output = options.output or folder.with_name(folder.name + SUFFIX)
    pack(contents(paths), output)
    print(f"{output}: {output.stat().st_size:,} bytes")
