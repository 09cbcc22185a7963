"""Trained parsers: one, or several whose scores are averaged at each transition.

Those of an ensemble may read and predict different columns and know different words, but have the same
transition system and labels. The tokenizer of the first model divides texts.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from parser.enhanced.transducer import Transducer
from parser.models.column_shares import ColumnShares, InputColumnCheck
from parser.models.learned_constraints import LearnedConstraints
from parser.models.settings import Calibrations, ParserSettings
from parser.networks.transformer.architecture import Architecture, architecture_of
from parser.system.console import quoted
from parser.transitions import transition_system
from parser.transitions.labelled import LabelledTransitions
from parser.transitions.system import TransitionSystem
from parser.treebank.sentence import Sentence
from parser.treebank.vocabulary import TREEBANK, Lexicon, Vocabulary

if TYPE_CHECKING:
    from parser.networks.transformer.tokenizer import PieceTokenizer

AnyModel = TypeVar("AnyModel", bound="Model")
Floats = NDArray[np.floating[Any]]
Transition = tuple[int, str]
"""Kind and label."""


@dataclass(frozen=True)
class Model(ABC):
    """What is known of a parser besides its weights: in arrays (`ArrayModel`), or in a network of PyTorch."""

    settings: ParserSettings
    vocabulary: Vocabulary
    _: KW_ONLY
    dev_shares: Mapping[str, ColumnShares] = field(default_factory=dict)
    """The shares of blank and of unknown values in the dev treebank, by column; empty without dev."""
    transducer: Transducer | None = None
    """From trees to enhanced dependencies, if the model has learned that; the first one of an ensemble's."""
    constraints: LearnedConstraints | None = None
    """What trees of train never have; the first one of an ensemble's."""
    calibrations: Calibrations = field(default_factory=dict)
    """Empty until they are fitted; the first one's of an ensemble."""
    others: tuple[Self, ...] = ()
    """The other models of an ensemble, whose scores are averaged with those of this one."""

    @property
    @abstractmethod
    def is_on_cpu(self) -> bool:
        """Whether the weights are in the memory of the host."""

    @abstractmethod
    def as_arrays(self) -> ArrayModel:
        """The model, or each model of an ensemble, in arrays."""

    @abstractmethod
    def weight(self, name: str) -> Floats:
        """A weight, by its name in the model's file."""

    @cached_property
    def transitions(self) -> LabelledTransitions:
        """The labelled transitions, in the order of the scores."""
        vocabulary = self.vocabulary
        return LabelledTransitions.of(
            system_of(self.settings), vocabulary.word_labels, vocabulary.root_labels
        )

    @property
    def members(self) -> tuple[Self, ...]:
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
        """A check that warns about input that lacks what the model reads, see `InputColumnCheck`."""
        shares = {name: of_dev for each in reversed(self.members) for name, of_dev in each.dev_shares.items()}
        return InputColumnCheck(self.read_lexicons, shares, is_text)


@dataclass(frozen=True)
class TransformerFiles:
    """The pretrained transformer of a model."""

    config: str
    """JSON, with `model_type`."""
    tokenizer: str
    """The content of a `tokenizer.json`."""
    weights: Mapping[str, Floats]
    """Those that the parser has not trained, by their names in Hugging Face's library."""

    @cached_property
    def architecture(self) -> Architecture:
        """Raises what `architecture_of` raises."""
        return architecture_of(json.loads(self.config))

    @cached_property
    def pieces(self) -> PieceTokenizer:
        """Raises ValueError if it is broken."""
        from parser.networks.transformer.tokenizer import (
            PieceTokenizer,  # with a library that few models need
        )

        return PieceTokenizer(self.tokenizer)


@dataclass(frozen=True)
class ArrayModel(Model):
    """A parser that needs no PyTorch to parse on a CPU."""

    weights: Mapping[str, Floats]
    """By their names in the model's file; float32."""
    _: KW_ONLY
    transformer: TransformerFiles | None = None
    transform: Callable[[Sequence[Sentence]], Any] | None = None
    """[W, size] The vectors that a transformer gives words; None if the model has none, or if they are to be
    computed from its files."""

    @property
    def is_on_cpu(self) -> bool:
        return True

    def as_arrays(self) -> ArrayModel:
        return self

    def weight(self, name: str) -> Floats:
        return self.weights[name]


def system_of(settings: ParserSettings) -> TransitionSystem:
    """The transition system of a parser."""
    return transition_system(settings.system, settings.network.composition)


def numbered_transitions(system: TransitionSystem, vocabulary: Vocabulary) -> dict[Transition, int]:
    """The number of each labelled transition, in order."""
    transitions = LabelledTransitions.of(system, vocabulary.word_labels, vocabulary.root_labels)
    kinds, labels = (column[:-1].tolist() for column in (transitions.kind, transitions.label))
    named = zip(kinds, map(vocabulary.labels.string, labels), strict=True)
    return {transition: number for number, transition in enumerate(named)}


def numbers_in(model: Model, source: Model) -> list[int]:
    """[transitions + 1] The number in `model` of each labelled transition of `source`, and of `no_op`.

    `model` has all of these transitions.
    """
    number, wanted = (
        numbered_transitions(each.transitions.system, each.vocabulary) for each in (model, source)
    )
    return [*(number[each] for each in wanted), len(number)]


def with_int8(model: ArrayModel, int8: bool) -> ArrayModel:
    """The parser, or each parser of an ensemble, with another `ParserSettings.int8`."""
    others = tuple(with_int8(each, int8) for each in model.others)
    return replace(model, settings=model.settings.model_copy(update={"int8": int8}), others=others)


def of_treebank(models: Sequence[AnyModel], treebank: str | None) -> list[AnyModel]:
    """The models as parsers of a treebank; those without an embedding of treebanks stay as they are.

    treebank: None for the first one of those that a model was trained on. Raises ValueError if a model does
    not know the treebank, if none has an embedding, or if a model has none that is the first.
    """
    members = [member for model in models for member in model.members]
    if treebank is None:
        for vocabulary in (member.vocabulary for member in members):
            if TREEBANK in vocabulary.columns and not vocabulary.treebank:
                known = ", ".join(vocabulary.columns[TREEBANK].strings)
                raise ValueError(f"the model parses several treebanks; name one by --treebank: {known}")
        return list(models)
    if not any(TREEBANK in member.vocabulary.columns for member in members):
        raise ValueError(
            f"{quoted(treebank)}: no model has an embedding of the treebank (parser.network.treebank_size)"
        )

    def as_parser_of_it(model: Any) -> Any:
        others = tuple(as_parser_of_it(each) for each in model.others)
        knows = TREEBANK in model.vocabulary.columns
        vocabulary = model.vocabulary.for_treebank(treebank) if knows else model.vocabulary
        return replace(model, vocabulary=vocabulary, others=others)

    return list(map(as_parser_of_it, models))
