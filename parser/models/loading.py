"""Loading models: safe for files from strangers.

Nothing in them is executed, and sizes are checked before memory is allocated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import numpy as np
from safetensors import SafetensorError

from parser.enhanced.transducer import Transducer
from parser.models.column_shares import ColumnShares, shares_from_json
from parser.models.learned_constraints import LearnedConstraints
from parser.models.model import (
    ArrayModel,
    Floats,
    Model,
    TransformerFiles,
    numbered_transitions,
    of_treebank,
    system_of,
    with_int8,
)
from parser.models.model_files import (
    CALIBRATIONS_FILE,
    COLUMN_SHARES,
    CONSTRAINTS,
    ENHANCED,
    SETTINGS,
    VOCABULARY,
    WEIGHTS,
    ModelFiles,
    OtherFormatError,
    files_of_all,
    member_folder,
    missing_files,
    model_files,
    refuse_without_model,
    settings_from_json,
    text_of,
)
from parser.models.settings import CALIBRATIONS, Calibrations, ParserSettings
from parser.models.transformer_files import (
    TransformerShapes,
    read_transformer,
    refuse_missing_library,
    transformer_shapes,
)
from parser.models.weight_shapes import VECTORS, weight_shapes
from parser.system.console import listed
from parser.system.settings import FAULTS_SHOWN, more_faults, naming
from parser.treebank.vocabulary import PRETRAINED, Vocabulary

WEIGHT_TYPES = "F32", "F16"
"""The types in which weights can be stored, by their names in safetensors."""
TRANSITIONS_SHOWN = 3
"""Transitions shown in a message."""
BROKEN = (
    SafetensorError,
    ValueError,
    RuntimeError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""Exceptions that reading broken files can raise."""


class ModelChoice(NamedTuple):
    """Which models parse together."""

    paths: tuple[Path, ...]
    """Folders and packages."""
    treebank: str | None = None
    """The treebank to parse for, if models were trained on several; by default the first one."""
    int8: bool | None = None
    """`ParserSettings.int8`; None leaves it as it is saved."""


def load_models(models: ModelChoice) -> ArrayModel:
    """Load the models in folders and packages as one; a package can contain several.

    Raises ValueError if one is missing or broken, if they do not fit together, or if they do not know the
    treebank.
    """
    (name, first), *others = load_each(models.paths)
    for other_name, other in others:
        if fault := _contradiction(first, other):
            raise ValueError(f"{other_name}: cannot parse together with {name}: {fault}")
    [loaded] = of_treebank([replace(first, others=tuple(other for _, other in others))], models.treebank)
    return loaded if models.int8 is None else with_int8(loaded, models.int8)


def load_on(models: ModelChoice, device: str) -> Model:
    """Load models as one, like `load_models`. device: see `choose_device`."""
    loaded = load_models(models)
    if device == "cpu":
        return loaded
    import torch

    from parser.models.network_model import NetworkModel

    return NetworkModel.of(loaded, torch.device(device))


def load_each(paths: Sequence[Path]) -> list[tuple[str, ArrayModel]]:
    """Load the models in folders and packages, which need not fit together. Returns names for messages, too.

    Raises ValueError if one is missing or broken.
    """
    return [(files.name, load_model(files)) for files in files_of_all(paths)]


def load_model(source: ModelFiles | Path) -> ArrayModel:
    """Load the model in a folder or package.

    Raises ValueError if there is no model, if it is broken or of another format, or if a library that it
    needs is missing.
    """
    files = model_files(source) if isinstance(source, Path) else source
    if files.has(f"{member_folder(1)}/{SETTINGS}"):
        raise ValueError(f"{files.name}: holds several models, where one is needed")
    refuse_without_model(files)
    refuse_missing_library(files)
    try:
        return _read(files)
    except OtherFormatError as error:
        raise ValueError(f"{files.name}: {error}") from None
    except BROKEN as error:
        raise ValueError(f"{files.name}: the model's files are broken or not of one model: {error}") from None


def _read(files: ModelFiles) -> ArrayModel:
    """Read a model from its files. Raises OtherFormatError, or one of the exceptions `BROKEN`."""
    with naming(SETTINGS):
        settings = settings_from_json(text_of(files, SETTINGS))
    if missing := missing_files(files):
        raise ValueError(missing)
    with naming(VOCABULARY):
        vocabulary = Vocabulary.from_json(text_of(files, VOCABULARY))
    with naming(COLUMN_SHARES):
        shares: Mapping[str, ColumnShares] = shares_from_json(text_of(files, COLUMN_SHARES))
    _refuse_other_columns(settings, vocabulary)
    transformer = read_transformer(files, settings.network)
    _refuse_other_sizes(settings, vocabulary, transformer, files)
    transducer = constraints = None
    if files.has(ENHANCED):
        with naming(ENHANCED):
            transducer = Transducer.from_json(text_of(files, ENHANCED))
    if files.has(CONSTRAINTS):
        with naming(CONSTRAINTS):
            constraints = LearnedConstraints.from_json(text_of(files, CONSTRAINTS))
    calibrations: Calibrations = {}
    if files.has(CALIBRATIONS_FILE):
        with naming(CALIBRATIONS_FILE):
            calibrations = CALIBRATIONS.validate_json(text_of(files, CALIBRATIONS_FILE))
    return ArrayModel(
        settings,
        vocabulary,
        _weights(files),
        dev_shares=shares,
        transducer=transducer,
        constraints=constraints,
        calibrations=calibrations,
        transformer=transformer,
    )


def _weights(files: ModelFiles) -> dict[str, Floats]:
    """The weights as they are stored. Raises ValueError for values that are not finite."""
    weights = files.weights(WEIGHTS)
    for name, weight in weights.items():
        if not np.isfinite(weight).all():
            raise ValueError(f"{name} has values that are not finite")
    return weights


def _refuse_other_columns(settings: ParserSettings, vocabulary: Vocabulary) -> None:
    """Raises ValueError if the vocabulary's columns are not those of the settings."""
    network = settings.network
    held = [*(name for name in vocabulary.columns if name != PRETRAINED), *vocabulary.predicted]
    wanted = [*network.columns, *network.tags.predict]
    if held != wanted:
        raise ValueError(f"{VOCABULARY}: holds the columns {', '.join(held)}, not {', '.join(wanted)}")


def _refuse_other_sizes(
    settings: ParserSettings,
    vocabulary: Vocabulary,
    transformer: TransformerFiles | None,
    files: ModelFiles,
) -> None:
    """Raises ValueError that names the weights whose types are outside the format, or whose sizes do not fit
    settings and vocabulary.
    """
    stored = files.stored(WEIGHTS)
    for name, array in stored.items():
        if array.type not in WEIGHT_TYPES:
            raise ValueError(f"{name} is of type {array.type}, not {' or '.join(WEIGHT_TYPES)}")
    held = {name: array.shape for name, array in stored.items()}
    transitions = len(numbered_transitions(system_of(settings), vocabulary))
    vectors = held[VECTORS][1] if PRETRAINED in vocabulary.columns else 0
    of_transformer = TransformerShapes({}, {}, 0)
    if transformer and settings.network.transformer:
        of_transformer = transformer_shapes(settings.network.transformer, transformer)
        held |= {name: weight.shape for name, weight in transformer.weights.items()}
    wanted = weight_shapes(
        settings.network, vocabulary, transitions, vectors, of_transformer.trained, of_transformer.size
    )
    wanted |= of_transformer.frozen
    wrong = [
        f"{name} is {held.get(name, 'missing')}, not {wanted.get(name, 'there')}"
        for name in sorted({*held, *wanted})
        if held.get(name) != wanted.get(name)
    ]
    if wrong:
        raise ValueError("; ".join([*wrong[:FAULTS_SHOWN], *more_faults(len(wrong) - FAULTS_SHOWN)]))


def _contradiction(first: Model, other: Model) -> str:
    """The reason why two models cannot parse together; empty if they can."""
    systems = [model.settings.system for model in (first, other)]
    if systems[0] != systems[1]:
        return f"its transition system is {systems[1]}, not {systems[0]}"
    ours, theirs = (
        numbered_transitions(model.transitions.system, model.vocabulary).keys() for model in (first, other)
    )
    if different := ours ^ theirs:
        transitions = first.transitions.system.transitions
        named = sorted({f"{label} ({transitions[kind].name})" for kind, label in different})
        return f"only one of them has the transitions {listed(named, TRANSITIONS_SHOWN)}"
    return ""
