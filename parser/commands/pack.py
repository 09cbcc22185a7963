"""`stack-parser pack`: a model's folder, or the models of an ensemble, as one file."""

from __future__ import annotations

import argparse

import torch

from parser.parsing.ensemble import ModelChoice, contents, load_models
from parser.parsing.model_files import SUFFIX, pack
from parser.system.console import say
from parser.system.files import refuse_to_overwrite


def pack_model(options: argparse.Namespace) -> None:
    if options.model.is_file() and not options.ensemble:
        raise ValueError(f"{options.model}: is a file; only the folder of a model is packed")
    if options.ensemble and not options.output:
        raise ValueError("a package of several models needs a name: -o FILE")
    paths = (options.model, *options.ensemble)
    folder = options.model.resolve()
    output = options.output or folder.with_name(folder.name + SUFFIX)
    refuse_to_overwrite(output, paths)
    load_models(ModelChoice(paths), torch.device("cpu"))  # which checks them
    pack(contents(paths), output)
    say(f"{output}: {output.stat().st_size:,} bytes")
