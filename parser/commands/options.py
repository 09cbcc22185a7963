"""Processes the options that commands with a model share."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import fields

from parser.batching import Precision
from parser.models.column_shares import AnySentence
from parser.models.loading import ModelChoice, load_on
from parser.models.model import Model
from parser.parsing.constraints import ConstraintReader
from parser.parsing.options import ParseOptions
from parser.parsing.part_parser import PartSettings
from parser.parsing.reparsing import refuse_without_scorer
from parser.system.console import counted, warn
from parser.system.device_choice import choose_device, warn_of_unused_gpu
from parser.system.remote import start_server
from parser.text.of_model import tokenizer_of

WORKER_MODULES = ("parser.parsing.part_parser", "parser.evaluation.evaluate")
"""Modules of processes that parse."""


def models_of(options: argparse.Namespace) -> ModelChoice:
    """Return the models of a command with `--ensemble` and `--treebank`."""
    return ModelChoice((options.model, *options.ensemble), options.treebank_name, rounds_to_int8(options))


def rounds_to_int8(options: argparse.Namespace) -> bool | None:
    """Return `ModelChoice.int8` of a command with `--precision`."""
    return None if options.precision == "auto" else options.precision == "int8"


def prepared_device(options: argparse.Namespace) -> str:
    """Return the device of a command with a model. On a GPU, PyTorch is prepared. Raises ValueError."""
    warn_of_unused_gpu(options.device)
    device = choose_device(options.device)
    for_gpus = options.precision in ("tf32", "bfloat16")
    if for_gpus and device == "cpu":
        raise ValueError(f"--precision {options.precision} is for GPUs, not for a CPU: leave it out")
    if options.precision == "int8" and device != "cpu":
        raise ValueError(f"--precision int8 is for CPUs, not for {device}: add --device cpu")
    if device != "cpu":
        prepare_gpu(device, options.precision if for_gpus else "float32")
    return device


def prepare_gpu(device: str, precision: Precision) -> None:
    import torch

    from parser.batching.functional import set_precision
    from parser.system.pytorch import tune_process

    tune_process()
    torch.set_num_threads(1)
    set_precision(precision, torch.device(device))


def device_of_processes(options: argparse.Namespace) -> str:
    """Return the device of a command with `--processes`. Raises ValueError, also for several on a GPU."""
    device = prepared_device(options)
    if options.processes > 1 and device != "cpu":
        raise ValueError(f"--processes is for CPUs, not for {device}: use --device cpu, or one process")
    return device


def model_of(options: argparse.Namespace) -> Model:
    """Return the model of a command with `--processes`. Raises ValueError."""
    device = device_of_processes(options)
    if options.processes > 1:
        start_server(WORKER_MODULES)  # imports the modules while the model is loaded
    return load_on(models_of(options), device)


def refuse_to_write_tags(options: argparse.Namespace, model: Model) -> None:
    """Raises ValueError for `--tags all` if the model predicts no columns that could be replaced."""
    if options.tags == "all" and not model.predicted_columns:
        raise ValueError(f"{options.model}: predicts neither tags nor lemmas; leave out --tags all")


def parse_options(options: argparse.Namespace) -> ParseOptions:
    """Return the parse options of a command that writes trees. Raises ValueError for conflicting ones."""
    if options.keep and options.form:
        raise ValueError("--keep given is for treebanks: raw text has no heads")
    if options.non_projective == "given" and not options.keep:
        raise ValueError("--non-projective given is for arcs that are kept: add --keep given")
    return ParseOptions(**{option.name: getattr(options, option.name) for option in fields(ParseOptions)})


def part_settings(options: argparse.Namespace, models: ModelChoice, wanted: ParseOptions) -> PartSettings:
    """Return the settings of processes that parse. Raises ValueError if a tokenizer is missing."""
    return PartSettings(
        models=models,
        precision=options.precision,
        batch_size=options.batch_size,
        options=wanted,
        tags=options.tags,
        deps=options.deps,
        form=options.form,
        tokenizer=tokenizer_of(models.paths[0], options.form, models.treebank) if options.form else None,
    )


def refuse_parse_options(wanted: ParseOptions, model: Model) -> None:
    """Raises ValueError for options that the model does not support."""
    ConstraintReader(model).refuse_unable(wanted, wanted.keep is not None)
    if wanted.alternatives:
        refuse_without_scorer(model)


def with_column_warnings(
    model: Model, sentences: Iterable[AnySentence], source: str, is_text: bool = False
) -> Iterator[AnySentence]:
    """Return the sentences; warns about them, see `Model.watch`. source: where they come from."""
    return model.watch(is_text).check(sentences, warning_of(source))


def tell_dropped(sentences: int, source: str) -> None:
    """Warn if sentences have lost their enhanced dependencies."""
    if sentences:
        warning_of(source)(
            f"the enhanced dependencies (DEPS and empty nodes) of {counted(sentences, 'sentence')} were "
            "dropped, since they were derived from other trees; --deps keep leaves them as they are, --deps "
            "drop-changed where the tree is the same"
        )


def tell_filled(filled: Mapping[str, int], options: argparse.Namespace) -> None:
    """Say how many missing values were written into the columns of a treebank. Text has no columns."""
    if any(filled.values()) and options.tags == "missing" and not options.form:
        counts = ", ".join(f"{title} {count:,}" for title, count in filled.items() if count)
        warn(f"filled in where `_` stood: {counts} (--tags none leaves these columns as they are)")


def warning_of(source: str) -> Callable[[str], None]:
    """Return a function that writes a warning about a source of sentences."""
    return lambda text: warn(f"warning: {source}: {text}")
