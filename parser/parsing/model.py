"""A trained parser, and saving it to and loading it from a folder."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import yaml
from pydantic import ValidationError
from safetensors import SafetensorError
from safetensors.torch import save
from torch import Tensor

from parser import bounded_yaml
from parser.config import NetworkSettings, ParserSettings
from parser.files import write_atomically
from parser.former_names import with_new_names
from parser.networks.shapes import without_values
from parser.networks.stack_parser import StackParser
from parser.parsing.input_columns import ColumnShares, InputColumnCheck, as_json, from_json
from parser.parsing.model_files import SETTINGS, TOKENIZER, ModelFiles, Shapes, member_folder, model_files
from parser.parsing.transformer_files import (
    TRANSFORMER_FILES,
    make_encoder,
    read_transformer,
    refuse_missing_libraries,
    write_transformer,
)
from parser.quoting import shortened
from parser.transitions import transition_system
from parser.transitions.inventory import Inventory
from parser.transitions.system import TransitionSystem
from parser.treebank.vocabulary import PRETRAINED, Vocabulary
from parser.validation_errors import FAULTS_SHOWN, fault_lines, more_faults

if TYPE_CHECKING:
    from parser.transformer.pretrained import PretrainedTransformer

VOCABULARY, WEIGHTS, SCORES = "vocabulary.json", "weights.safetensors", "scores.json"
COLUMN_SHARES = "columns.json"
FILES = SETTINGS, VOCABULARY, WEIGHTS, COLUMN_SHARES, SCORES, TOKENIZER, *TRANSFORMER_FILES
VECTORS = f"tokens.embeddings.{PRETRAINED}.weight"
FORMAT = 6
"""Of the folder. It is increased when older programs could not read what newer ones write. Format 1 had other
names of settings and weights; until format 2 the vocabulary had the predicted columns among the others; in
format 3 nothing read the predicted tags; in format 4 there was no embedding of the treebank, in format 5 no
transformer. All are read."""
WITH_PREDICTED = 3
"""The first format whose vocabulary has the predicted columns apart."""
FORMER_WEIGHTS = {
    "actions.": "transition_embeddings.",
    "tokens.sentence.": "tokens.sentence_encoder.",
}
"""Beginnings of names of weights in format 1, and the present ones."""
BROKEN = (
    SafetensorError,
    ValueError,
    RuntimeError,
    LookupError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
    yaml.YAMLError,
)
"""Exceptions that reading broken files can raise."""


@dataclass(frozen=True)
class Model:
    """All that is needed to parse: settings, vocabulary, transitions and weights."""

    settings: ParserSettings
    vocabulary: Vocabulary
    inventory: Inventory
    network: StackParser
    dev_shares: Mapping[str, ColumnShares] = field(default_factory=dict)
    """By column: shares of blank and of unknown values in the dev treebank. Older models have none."""
    others: tuple[Model, ...] = ()
    """The other models of an ensemble, whose scores are averaged with its own."""

    @classmethod
    def build(
        cls,
        settings: ParserSettings,
        vocabulary: Vocabulary,
        device: torch.device,
        vectors: Tensor | None = None,
        transformer: PretrainedTransformer | None = None,
    ) -> Model:
        """A model with new weights.

        vectors: [words, size], pretrained vectors of the vocabulary's words. transformer: the one of the
        settings, if they have one. Raises ValueError if it does not suit them.
        """
        inventory = Inventory.of(system_of(settings), vocabulary)
        network = new_network(settings.network, vocabulary, len(inventory), vectors, transformer)
        if encoder := network.tokens.transformer:
            vocabulary = replace(vocabulary, for_transformer=encoder.tokenizer)
        return cls(settings, vocabulary, inventory.to(device), network.to(device))

    @property
    def device(self) -> torch.device:
        return self.network.tokens.root.device

    @property
    def members(self) -> tuple[Model, ...]:
        """All models of the ensemble."""
        return (self, *self.others)

    @property
    def read_columns(self) -> list[str]:
        """The columns of a file that it or another model of the ensemble reads."""
        names = (name for each in self.members for name in each.settings.network.read_columns)
        return list(dict.fromkeys(names))

    def watch(self) -> InputColumnCheck:
        """Warns about input that lacks what the model reads."""
        return InputColumnCheck(self.vocabulary, self.settings.network.read_columns, self.dev_shares)

    def save(self, folder: Path, scores: dict[str, Any]) -> None:
        """Write the files of the folder, each atomically. scores: of the model, for people to read."""
        folder.mkdir(parents=True, exist_ok=True)
        settings = yaml.safe_dump({"format": FORMAT, **self.settings.model_dump()}, sort_keys=False)
        weights = {name: tensor.contiguous() for name, tensor in self.network.state_dict().items()}
        for name, content in (
            (SETTINGS, settings.encode()),
            (VOCABULARY, self.vocabulary.as_json().encode()),
            (WEIGHTS, save(weights)),
            (COLUMN_SHARES, as_json(self.dev_shares).encode()),
            (SCORES, (json.dumps(scores, indent=2) + "\n").encode()),
        ):
            write_atomically(folder / name, content)
        if encoder := self.network.tokens.transformer:
            write_transformer(folder, encoder)

    @classmethod
    def load(cls, path: Path, device: torch.device) -> Model:
        """As `load_model`, from a folder or a package."""
        return load_model(model_files(path), device)

    @classmethod
    def read(cls, files: ModelFiles, device: torch.device) -> Model:
        """Raises one of the exceptions `BROKEN`."""
        content = bounded_yaml.load(files.text(SETTINGS, bounded_yaml.MAX_TEXT_LENGTH))
        if not isinstance(content, dict):
            raise ValueError(f"{SETTINGS}: no keys and values")
        form = content.pop("format", 1)  # the oldest models do not say theirs
        if not isinstance(form, int) or not 0 < form <= FORMAT:
            form = shortened(repr(form))
            raise ValueError(f"made by a newer program (format {form}, this one reads {FORMAT}): update it")
        if form < FORMAT:
            content = with_new_names({"parser": content})["parser"]
        with _naming(SETTINGS, "parser"):
            settings = ParserSettings.model_validate(content)
        with _naming(VOCABULARY):
            vocabulary = Vocabulary.from_json(files.text(VOCABULARY))
            if form < WITH_PREDICTED:
                vocabulary = vocabulary.with_predicted(settings.network.tags.predict)
        with _naming(COLUMN_SHARES):
            shares = from_json(files.text(COLUMN_SHARES)) if files.has(COLUMN_SHARES) else {}
        _refuse_other_columns(settings, vocabulary)
        transformer = read_transformer(files, settings.network)
        _refuse_other_sizes(settings, vocabulary, transformer, files.shapes(WEIGHTS))
        weights = {_weight_name(name): weight for name, weight in files.weights(WEIGHTS).items()}
        for name, weight in weights.items():
            if not weight.isfinite().all():
                raise ValueError(f"{name} has values that are not finite")
        vectors = weights[VECTORS][1:] if PRETRAINED in vocabulary.columns else None
        model = replace(cls.build(settings, vocabulary, device, vectors, transformer), dev_shares=shares)
        model.network.load_state_dict(weights)
        model.network.eval()
        return model


def load_model(files: ModelFiles, device: torch.device) -> Model:
    """Raises ValueError if there is no model, a broken or a newer one, or a library that it needs is missing.

    Safe for untrusted models: nothing in them is executed, and the sizes are checked before memory is
    allocated.
    """
    if files.has(f"{member_folder(1)}/{SETTINGS}"):
        raise ValueError(f"{files.name}: holds several models, where one is needed")
    missing = [name for name in (SETTINGS, VOCABULARY, WEIGHTS) if not files.has(name)]
    if missing:
        raise ValueError(f"{files.name}: not a model's folder, {', '.join(missing)} missing")
    refuse_missing_libraries(files)
    try:
        return Model.read(files, device)
    except BROKEN as error:
        raise ValueError(f"{files.name}: the model's files are broken or not of one model: {error}") from None


def _weight_name(name: str) -> str:
    """The present name of a weight in a file."""
    for former, now in FORMER_WEIGHTS.items():
        if name.startswith(former):
            return now + name.removeprefix(former)
    return name


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
    """A network with new weights; see `Model.build`. transitions: how many there are."""
    lexicon_sizes = {name: len(lexicon) for name, lexicon in vocabulary.columns.items()}
    predicted_sizes = {name: len(lexicon) for name, lexicon in vocabulary.predicted.items()}
    encoder = None
    if settings.transformer:
        assert transformer
        encoder = make_encoder(settings.transformer, transformer)
    return StackParser(settings, lexicon_sizes, transitions, vectors, predicted_sizes, encoder)


@contextmanager
def _naming(file: str, section: str = "") -> Iterator[None]:
    """Raises ValueError with the name of the file for what is wrong in it. section: see `fault_lines`."""
    try:
        yield
    except ValidationError as error:
        raise ValueError(f"{file}: {'; '.join(fault_lines(error, section))}") from None
    except ValueError as error:
        raise ValueError(f"{file}: {error}") from None


def _refuse_other_columns(settings: ParserSettings, vocabulary: Vocabulary) -> None:
    """Raises ValueError if the vocabulary does not have the columns of the settings."""
    network = settings.network
    found = [*(name for name in vocabulary.columns if name != PRETRAINED), *vocabulary.predicted]
    wanted = [*network.columns, *network.tags.predict]
    if found != wanted:
        raise ValueError(f"{VOCABULARY}: holds the columns {', '.join(found)}, not {', '.join(wanted)}")


def _refuse_other_sizes(
    settings: ParserSettings,
    vocabulary: Vocabulary,
    transformer: PretrainedTransformer | None,
    shapes: Shapes,
) -> None:
    """Raises ValueError with the names of weights whose sizes do not fit settings and vocabulary.

    shapes: of the weights by their names in the file.
    """
    found = {_weight_name(name): shape for name, shape in shapes.items()}
    vectors = None
    if PRETRAINED in vocabulary.columns:
        vectors = torch.empty(len(vocabulary.columns[PRETRAINED]) - 1, found[VECTORS][1], device="meta")
    transitions = len(Inventory.of(system_of(settings), vocabulary))
    with without_values():
        network = new_network(settings.network, vocabulary, transitions, vectors, transformer)
    wanted = {name: tuple(weight.shape) for name, weight in network.state_dict().items()}
    if transformer and (encoder := network.tokens.transformer):
        found |= {name: tuple(weight.shape) for name, weight in transformer.weights.items()}
        wanted |= {name: tuple(weight.shape) for name, weight in encoder.frozen_weights().items()}
    wrong = [
        f"{name} is {found.get(name, 'missing')}, not {wanted.get(name, 'there')}"
        for name in sorted({*found, *wanted})
        if found.get(name) != wanted.get(name)
    ]
    if wrong:
        raise ValueError("; ".join([*wrong[:FAULTS_SHOWN], *more_faults(len(wrong) - FAULTS_SHOWN)]))
