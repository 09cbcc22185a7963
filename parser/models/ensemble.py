"""Several models that parse together: their scores are averaged at every transition.

They may read and predict different columns and know different words, but have the same transition system and
labels. The tokenizer of the first model divides texts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from parser.models.model import Model, load_model
from parser.models.model_files import MEMBER, ModelFiles, member_folder, members_of, model_files
from parser.models.model_format import DOCUMENTS, FILES
from parser.system.console import listed, quoted
from parser.transitions.inventory import Inventory
from parser.treebank.vocabulary import TREEBANK, Vocabulary

Transition = tuple[int, str]
"""Kind and label."""


def numbered_transitions(inventory: Inventory, vocabulary: Vocabulary) -> dict[Transition, int]:
    """The number of each labelled transition, in order."""
    kinds, labels = (column[:-1].tolist() for column in (inventory.kind, inventory.label))
    named = zip(kinds, map(vocabulary.labels.string, labels), strict=True)
    return {transition: number for number, transition in enumerate(named)}


def numbers_in(model: Model, source: Model) -> Tensor:
    """[transitions + 1] The number in `model` of each labelled transition of `source`, and of `no_op`.

    On the device of `model`, which has all of these transitions.
    """
    number = numbered_transitions(model.inventory, model.vocabulary)
    numbers = [number[each] for each in numbered_transitions(source.inventory, source.vocabulary)]
    return torch.tensor([*numbers, model.inventory.no_op], device=model.device)


SHOWN = 3
"""Transitions shown in a message."""


class ModelChoice(NamedTuple):
    """Which models parse together."""

    paths: tuple[Path, ...]
    """Folders and packages."""
    treebank: str | None = None
    """The treebank to parse for, if models were trained on several; by default the first one."""


def load_models(models: ModelChoice, device: torch.device) -> Model:
    """Load the models in folders and packages as one; a package can contain several.

    Raises ValueError if one is missing or broken, if they do not fit together, or if they do not know the
    treebank.
    """
    (name, first), *others = load_each(models.paths, device)
    for other_name, other in others:
        if fault := _contradiction(first, other):
            raise ValueError(f"{other_name}: cannot parse together with {name}: {fault}")
    [loaded] = of_treebank([replace(first, others=tuple(other for _, other in others))], models.treebank)
    return loaded


def load_each(paths: Sequence[Path], device: torch.device) -> list[tuple[str, Model]]:
    """Load the models in folders and packages, which need not fit together. Returns names for messages, too.

    Raises ValueError if one is missing or broken.
    """
    return [(files.name, load_model(files, device)) for files in _files_of_all(paths)]


def of_treebank(models: Sequence[Model], treebank: str | None) -> list[Model]:
    """The models as parsers of a treebank; those without an embedding of treebanks stay as they are.

    Raises ValueError if one does not know the treebank, or if none has an embedding.
    """
    if treebank is None:
        return list(models)
    members = [member for model in models for member in model.members]
    if not any(TREEBANK in member.vocabulary.columns for member in members):
        raise ValueError(
            f"{quoted(treebank)}: no model has an embedding of the treebank (parser.network.treebank_size)"
        )

    def own(model: Model) -> Model:
        if TREEBANK not in model.vocabulary.columns:
            return model
        return replace(model, vocabulary=model.vocabulary.for_treebank(treebank))

    return [replace(own(model), others=tuple(map(own, model.others))) for model in models]


def contents(paths: Sequence[Path]) -> dict[str, bytes]:
    """The files of models in folders and packages, as names and contents for a package of all.

    With several models, the documents of the first also become those of the package.
    """
    models = _files_of_all(paths)
    folders = [f"{member_folder(number)}/" for number in range(1, len(models) + 1)] if models[1:] else [""]
    places: list[tuple[str, ModelFiles, Sequence[str]]]
    places = [(folder, files, (*FILES, *DOCUMENTS)) for folder, files in zip(folders, models, strict=True)]
    if models[1:]:
        places.append(("", models[0], DOCUMENTS))
    return {
        f"{folder}{name}": files.content(name)
        for folder, files, names in places
        for name in names
        if files.has(name)
    }


def _files_of_all(paths: Sequence[Path]) -> list[ModelFiles]:
    """The files of each model."""
    return [files for path in paths for files in members_of(model_files(path))]


def model_paths(folder: Path) -> list[Path]:
    """The files of a folder that belong to a model or to an ensemble."""
    folders = folder, *folder.glob(f"{MEMBER}*")
    names = *FILES, *DOCUMENTS
    return [path for each in folders for path in (each / name for name in names) if path.is_file()]


def _contradiction(first: Model, other: Model) -> str:
    """The reason why two models cannot parse together; empty if they can."""
    systems = [model.settings.system for model in (first, other)]
    if systems[0] != systems[1]:
        return f"its transition system is {systems[1]}, not {systems[0]}"
    ours, theirs = (
        numbered_transitions(model.inventory, model.vocabulary).keys() for model in (first, other)
    )
    if different := ours ^ theirs:
        transitions = first.inventory.system.transitions
        named = sorted({f"{label} ({transitions[kind].name})" for kind, label in different})
        return f"only one of them has the transitions {listed(named, SHOWN)}"
    return ""
