"""`stack-parser pack`: a model's folder as one file."""

from __future__ import annotations

import argparse
from pathlib import Path

import torch

from parser.commands.options import Commands
from parser.parsing.model import FILES, Model
from parser.parsing.model_files import SUFFIX, pack, read_all


def add_pack(commands: Commands) -> None:
    command = commands.add_parser("pack", help="put a model's folder into one file")
    command.add_argument("model", type=Path, metavar="MODEL", help="folder of a trained model")
    command.add_argument(
        "-o", "--output", type=Path, metavar="FILE", help=f"the package (default: MODEL{SUFFIX})"
    )
    command.set_defaults(command=pack_model)


def pack_model(options: argparse.Namespace) -> None:
    if options.model.is_file():
        raise ValueError(f"{options.model}: is a file; only the folder of a model is packed")
    Model.load(options.model, torch.device("cpu"))  # which checks it
    folder = options.model.resolve()
    output = options.output or folder.with_name(folder.name + SUFFIX)
    pack(dict(read_all(options.model, FILES)), output)
    print(f"{output}: {output.stat().st_size:,} bytes")
