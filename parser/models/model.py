"""Trained parsers: one, or several whose scores are averaged at each transition. Saved and loaded.

Those of an ensemble may read and predict different columns and know different words, but have the same
transition system and labels. The tokenizer of the first model divides texts.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import save
from torch import Tensor

from parser.batching.device import compute_alone_after_fork
from parser.models.column_shares import ColumnShares, InputColumnCheck, shares_as_json, shares_from_json
from parser.models.model_files import (
    COLUMN_SHARES,
    SCORES,
    SETTINGS,
    VOCABULARY,
    WEIGHTS,
    ModelFiles,
    OtherFormatError,
    Shapes,
    files_of_all,
    member_folder,
    missing_files,
    model_files,
    refuse_without_model,
    settings_as_json,
    settings_from_json,
    text_of,
)
from parser.models.settings import ParserSettings
from parser.models.transformer_files import (
    make_encoder,
    read_transformer,
    refuse_missing_libraries,
    write_transformer,
)
from parser.networks.settings import NetworkSettings
from parser.networks.stack_parser import StackParser
from parser.networks.without_values import without_values
from parser.system.console import listed, quoted
from parser.system.files import write_atomically
from parser.system.settings import FAULTS_SHOWN, fault_lines, more_faults
from parser.transitions import transition_system
from parser.transitions.inventory import Inventory
from parser.transitions.labelled import LabelledTransitions
from parser.transitions.system import TransitionSystem
from parser.treebank.vocabulary import PRETRAINED, TREEBANK, Lexicon, Vocabulary

if TYPE_CHECKING:
    from parser.networks.transformer.pretrained import PretrainedTransformer

WEIGHT_TYPES = torch.float32, torch.float16
"""The types in which weights can be stored."""
Transition = tuple[int, str]
"""Kind and label."""
TRANSITIONS_SHOWN = 3
"""Transitions shown in a message."""
VECTORS = f"tokens.embeddings.{PRETRAINED}.weight"
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


@dataclass(frozen=True)
class Model:
    """Everything that parsing needs: settings, vocabulary, transitions and weights."""

    settings: ParserSettings
    vocabulary: Vocabulary
    inventory: Inventory
    network: StackParser
    dev_shares: Mapping[str, ColumnShares] = field(default_factory=dict)
    """The shares of blank and of unknown values in the dev treebank, by column; empty without dev."""
    others: tuple[Model, ...] = ()
    """The other models of an ensemble, whose scores are averaged with those of this one."""

    @classmethod
    def build(
        cls,
        settings: ParserSettings,
        vocabulary: Vocabulary,
        device: torch.device,
        vectors: Tensor | None = None,
        transformer: PretrainedTransformer | None = None,
    ) -> Model:
        """Returns a model with new weights.

        vectors: [words, size], pretrained vectors of the vocabulary's words. transformer: the one that the
        settings name, if any. Raises ValueError if it does not suit the settings.
        """
        inventory = Inventory.of(system_of(settings), vocabulary)
        network = new_network(settings.network, vocabulary, len(inventory), vectors, transformer)
        if encoder := network.tokens.transformer:
            vocabulary = replace(vocabulary, for_transformer=encoder.source)
        return cls(settings, vocabulary, inventory.to(device), network.to(device))

    @property
    def device(self) -> torch.device:
        return self.network.tokens.root.device

    @property
    def members(self) -> tuple[Model, ...]:
        """All models of the ensemble."""
        return (self, *self.others)

    @property
    def read_lexicons(self) -> dict[str, Lexicon]:
        """The lexicons of the columns of a file that any model of the ensemble reads."""
        lexicons: dict[str, Lexicon] = {}
        for each in self.members:
            for name in each.settings.network.read_columns:
                lexicons.setdefault(name, each.vocabulary.columns[name])
        return lexicons

    @property
    def predicted_columns(self) -> list[str]:
        """The columns that any model of the ensemble predicts."""
        return list(dict.fromkeys(name for each in self.members for name in each.vocabulary.predicted))

    def watch(self, is_text: bool = False) -> InputColumnCheck:
        """Returns a check that warns about input that lacks what the model reads, see `InputColumnCheck`."""
        shares = {name: of_dev for each in reversed(self.members) for name, of_dev in each.dev_shares.items()}
        return InputColumnCheck(self.read_lexicons, shares, is_text)

    def save(self, folder: Path, scores: dict[str, Any]) -> None:
        """Write the files of the folder, each atomically. scores: the model's scores, for people to read."""
        folder.mkdir(parents=True, exist_ok=True)
        weights = {name: tensor.contiguous() for name, tensor in self.network.state_dict().items()}
        for name, content in (
            (SETTINGS, settings_as_json(self.settings).encode()),
            (VOCABULARY, self.vocabulary.as_json().encode()),
            (WEIGHTS, save(weights)),
            (COLUMN_SHARES, shares_as_json(self.dev_shares).encode()),
            (SCORES, (json.dumps(scores, indent=2) + "\n").encode()),
        ):
            write_atomically(folder / name, content)
        if encoder := self.network.tokens.transformer:
            write_transformer(folder, encoder)

    @classmethod
    def load(cls, path: Path, device: torch.device) -> Model:
        """Load a model from a folder or a package, like `load_model`."""
        return load_model(model_files(path), device)

    @classmethod
    def read(cls, files: ModelFiles, device: torch.device) -> Model:
        """Read a model from its files. Raises OtherFormatError, or one of the exceptions `BROKEN`."""
        with _naming(SETTINGS):
            settings = settings_from_json(text_of(files, SETTINGS))
        if missing := missing_files(files):
            raise ValueError(missing)
        with _naming(VOCABULARY):
            vocabulary = Vocabulary.from_json(text_of(files, VOCABULARY))
        with _naming(COLUMN_SHARES):
            shares = shares_from_json(text_of(files, COLUMN_SHARES))
        _refuse_other_columns(settings, vocabulary)
        transformer = read_transformer(files, settings.network)
        _refuse_other_sizes(settings, vocabulary, transformer, files.shapes(WEIGHTS))
        weights = read_weights(files)
        vectors = weights[VECTORS][1:] if PRETRAINED in vocabulary.columns else None
        model = replace(cls.build(settings, vocabulary, device, vectors, transformer), dev_shares=shares)
        model.network.load_state_dict(weights)
        model.network.eval()
        return model


def read_weights(files: ModelFiles) -> dict[str, Tensor]:
    """The weights as float32. Raises ValueError for types outside the format and for infinite values."""
    weights = files.weights(WEIGHTS)
    for name, weight in weights.items():
        if weight.dtype not in WEIGHT_TYPES:
            raise ValueError(f"{name} is of {weight.dtype}, not of {' or '.join(map(str, WEIGHT_TYPES))}")
        if not weight.isfinite().all():
            raise ValueError(f"{name} has values that are not finite")
    return {name: weight.float() for name, weight in weights.items()}


def load_model(files: ModelFiles, device: torch.device) -> Model:
    """Load a model from its files, onto a device.

    Raises ValueError if there is no model, if it is broken or of another format, or if a library that it
    needs is missing. Safe for untrusted models: nothing in them is executed, and the sizes are checked
    before memory is allocated.
    """
    if files.has(f"{member_folder(1)}/{SETTINGS}"):
        raise ValueError(f"{files.name}: holds several models, where one is needed")
    refuse_without_model(files)
    refuse_missing_libraries(files)
    compute_alone_after_fork()
    try:
        return Model.read(files, device)
    except OtherFormatError as error:
        raise ValueError(f"{files.name}: {error}") from None
    except BROKEN as error:
        raise ValueError(f"{files.name}: the model's files are broken or not of one model: {error}") from None


def system_of(settings: ParserSettings) -> TransitionSystem:
    """The transition system of a parser."""
    return transition_system(settings.system, settings.network.composition)


def new_network(
    settings: NetworkSettings,
    vocabulary: Vocabulary,
    transitions: int,
    vectors: Tensor | None,
    transformer: PretrainedTransformer | None,
) -> StackParser:
    """A network with new weights; see `Model.build`. transitions: their number."""
    lexicon_sizes = {name: len(lexicon) for name, lexicon in vocabulary.columns.items()}
    predicted_sizes = {name: len(lexicon) for name, lexicon in vocabulary.predicted.items()}
    encoder = None
    if settings.transformer:
        assert transformer
        encoder = make_encoder(settings.transformer, transformer)
    return StackParser(
        settings, lexicon_sizes, transitions, vectors, predicted_sizes, encoder, len(vocabulary.labels)
    )


@contextmanager
def _naming(file: str) -> Iterator[None]:
    """Add the name of the file to each ValueError of the block."""
    try:
        yield
    except ValidationError as error:
        raise ValueError(f"{file}: {'; '.join(fault_lines(error))}") from None
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


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
    transformer: PretrainedTransformer | None,
    shapes: Shapes,
) -> None:
    """Raises ValueError that names the weights whose sizes do not fit settings and vocabulary.

    shapes: the sizes of the weights, by their names in the file.
    """
    held = dict(shapes)
    vectors = None
    if PRETRAINED in vocabulary.columns:
        vectors = torch.empty(len(vocabulary.columns[PRETRAINED]) - 1, held[VECTORS][1], device="meta")
    transitions = len(Inventory.of(system_of(settings), vocabulary))
    with without_values():
        network = new_network(settings.network, vocabulary, transitions, vectors, transformer)
    wanted = {name: tuple(weight.shape) for name, weight in network.state_dict().items()}
    if transformer and (encoder := network.tokens.transformer):
        held |= {name: tuple(weight.shape) for name, weight in transformer.weights.items()}
        wanted |= {name: tuple(weight.shape) for name, weight in encoder.frozen_weights().items()}
    wrong = [
        f"{name} is {held.get(name, 'missing')}, not {wanted.get(name, 'there')}"
        for name in sorted({*held, *wanted})
        if held.get(name) != wanted.get(name)
    ]
    if wrong:
        raise ValueError("; ".join([*wrong[:FAULTS_SHOWN], *more_faults(len(wrong) - FAULTS_SHOWN)]))


def labelled_transitions(model: Model) -> LabelledTransitions:
    """The labelled transitions of a parser, in the order of its inventory."""
    vocabulary = model.vocabulary
    return LabelledTransitions.of(model.inventory.system, vocabulary.word_labels, vocabulary.root_labels)


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


class ModelChoice(NamedTuple):
    """Which models parse together."""

    paths: tuple[Path, ...]
    """Folders and packages."""
    treebank: str | None = None
    """The treebank to parse for, if models were trained on several; by default the first one."""
    int8: bool | None = None
    """`ParserSettings.int8`; None leaves it as it is saved."""


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
    return loaded if models.int8 is None else with_int8(loaded, models.int8)


def with_int8(model: Model, int8: bool) -> Model:
    """The parser, or each parser of an ensemble, with another `ParserSettings.int8`."""
    others = tuple(with_int8(each, int8) for each in model.others)
    return replace(model, settings=model.settings.model_copy(update={"int8": int8}), others=others)


def load_each(paths: Sequence[Path], device: torch.device) -> list[tuple[str, Model]]:
    """Load the models in folders and packages, which need not fit together. Returns names for messages, too.

    Raises ValueError if one is missing or broken.
    """
    return [(files.name, load_model(files, device)) for files in files_of_all(paths)]


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

    def as_parser_of_it(model: Model) -> Model:
        others = tuple(map(as_parser_of_it, model.others))
        knows = TREEBANK in model.vocabulary.columns
        vocabulary = model.vocabulary.for_treebank(treebank) if knows else model.vocabulary
        return replace(model, vocabulary=vocabulary, others=others)

    return list(map(as_parser_of_it, models))


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
        return f"only one of them has the transitions {listed(named, TRANSITIONS_SHOWN)}"
    return ""
