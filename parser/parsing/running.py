"""What runs the sentences that an engine has taken, on a CPU in arrays.

A runner encodes sentences, lets them join those that run, and advances them until some are done. On a CPU, a
group of sentences is parsed at once: a sentence gets the same tree in each group, and large groups gain
nothing. On a GPU, a batch runs continuously, see `parser.parsing.pytorch.runner`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from parser.models.model import ArrayModel, Model, numbers_in
from parser.networks.transformer.architecture import NeedsPyTorchError
from parser.parsing.constrained_steps import ConstrainedSentence, TransitionArrays
from parser.parsing.constraints import ConstraintReader, LabelChoices, SentenceConstraints
from parser.parsing.parsed_tree import Arcs
from parser.parsing.predicted_tags import TagChoice, TagScores
from parser.parsing.probabilities import arc_probabilities
from parser.parsing.reparsing import Reparser, opinions
from parser.parsing.scheduler import Request
from parser.runtime.arcs import SecondOpinion
from parser.runtime.kernels import kernels
from parser.runtime.parser import RuntimeModel, RuntimeParser
from parser.runtime.reference import Floats
from parser.runtime.transformer import TransformerVectors
from parser.runtime.words import Transform
from parser.system.console import warn
from parser.system.machine import is_of_memory

GROUP_ON_CPU = 32
"""Most sentences that are encoded together. More gain little, and let others wait longer."""
SHARED_GROUP = 8
"""Most sentences of long sources that are encoded together while others wait: a short one has its turn soon.
Encoding 8 at a time takes a few percent longer than 32."""
GROUP_WORDS = 4_096
"""Most words that are encoded together, unless a single sentence has more."""
Tags = Mapping[str, tuple[str, ...]]


class Running(NamedTuple):
    """A sentence that is encoded: what is known of it before the first transition."""

    request: Request
    tags: Tags
    opinion: SecondOpinion | None
    constraints: SentenceConstraints | None
    tag_probabilities: Mapping[str, Sequence[float]]
    """Those of the tags of all words, by column, before they are calibrated; empty unless requested."""


class Encoded(NamedTuple):
    words: Any
    """The words of all sentences as each model encodes them: `EncodedArrays`, or `EncodedSentences` in
    PyTorch."""
    running: list[Running]


class Done(NamedTuple):
    running: Running
    arcs: Arcs | Exception


class Encoding:
    """Tags, constraints and opinions of sentences, whatever encodes their words."""

    def __init__(self, model: Model, reparser: Reparser | None):
        self._read, self._reparser = ConstraintReader(model).read, reparser
        self._choose_tags = TagChoice([each.vocabulary for each in model.members])

    def __call__(
        self,
        requests: Sequence[Request],
        words: Any,
        tag_scores: Sequence[TagScores],
        opinions_of: Callable[[], Sequence[SecondOpinion | None]],
    ) -> Encoded:
        tags = self._choose_tags(tag_scores, [request.sentence for request in requests])
        constraints = [
            self._read(request.sentence, request.options, tags_of_words)
            if request.options.are_constrained
            else None
            for request, tags_of_words in zip(requests, tags, strict=True)
        ]
        found: Sequence[SecondOpinion | None] = [None] * len(requests)
        is_asked = any(request.options.needs_scorers for request in requests)
        if self._reparser and (self._reparser.changes_trees or is_asked):
            found = [
                opinion.among(constraint.possible_heads()) if opinion and constraint else opinion
                for opinion, constraint in zip(opinions_of(), constraints, strict=True)
            ]
        probabilities: Sequence[Mapping[str, Sequence[float]]] = [{}] * len(requests)
        if any(request.options.probabilities for request in requests):
            sentences = [request.sentence for request in requests]
            probabilities = self._choose_tags.probabilities(tag_scores, sentences, tags)
        return Encoded(words, list(map(Running, requests, tags, found, constraints, probabilities)))


class HostRunner:
    """Parses each group at once, in arrays."""

    waiting = 0
    """Sentences that have joined and do not run yet."""

    def __init__(self, model: ArrayModel, encoding: Encoding, batch_size: int):
        self._encoding, self.group = encoding, min(batch_size, GROUP_ON_CPU)
        self.shared_group = min(batch_size, SHARED_GROUP)
        self._labelled = model.transitions
        self._parser = RuntimeParser([_runtime_model(each, model) for each in model.members], self._labelled)
        self._transitions = TransitionArrays(self._labelled, LabelChoices.of(model.vocabulary))
        self._encoded: list[Encoded] = []

    def encode(self, requests: Sequence[Request]) -> Encoded:
        words = self._parser.encode([request.sentence for request in requests])
        scoring = [
            (model.arcs, of_model)
            for model, of_model in zip(self._parser.models, words, strict=True)
            if model.arcs
        ]
        tag_scores = [of_model.tag_scores for of_model in words]
        return self._encoding(requests, words, tag_scores, lambda: opinions(scoring))

    def join(self, encoded: Encoded) -> None:
        self._encoded.append(encoded)

    def advance(self) -> list[Done]:
        """Parse all sentences. If that fails, each is parsed alone, so that each fails alone."""
        done: list[Done] = []
        for encoded in self._encoded:
            try:
                done += self._parsed(encoded)
            except Exception as error:
                if is_of_memory(error):
                    raise
                done += [self._parsed_alone(running) for running in encoded.running]
        self._encoded = []
        return done

    def _parsed_alone(self, running: Running) -> Done:
        try:
            [done] = self._parsed(self.encode([running.request]))
        except Exception as error:
            if is_of_memory(error):
                raise
            return Done(running, error)
        return done

    def _parsed(self, encoded: Encoded) -> Iterator[Done]:
        wants_probabilities = [each.request.options.probabilities for each in encoded.running]
        restrictions = [
            ConstrainedSentence(self._transitions, each.constraints) if each.constraints else None
            for each in encoded.running
        ]
        parsed = self._parser.parse(encoded.words, restrictions, any(wants_probabilities))
        for running, steps, wanted in zip(encoded.running, parsed, wants_probabilities, strict=True):
            probabilities: list[float] = []
            if wanted and steps.scores is not None:
                words = len(steps.heads)
                probabilities = arc_probabilities(self._labelled, steps.transitions, steps.scores, words)
            yield Done(running, Arcs(steps.heads, steps.labels, probabilities))

    def start_over(self) -> None:
        """Forget all sentences."""
        self._encoded = []


def _runtime_model(model: ArrayModel, first: ArrayModel) -> RuntimeModel:
    weights = _exact(model.weights)
    return RuntimeModel.of(
        *(model.settings, model.vocabulary, model.transitions, weights, kernels()),
        is_int8=model.settings.int8,
        numbers=None if model is first else numbers_in(model, first),
        transform=_transform(model, weights),
    )


def _transform(model: ArrayModel, weights: Mapping[str, Floats]) -> Transform | None:
    """What computes the vectors of a transformer."""
    settings, files = model.settings.network.transformer, model.transformer
    if model.transform or not settings or not files:
        return model.transform
    try:
        architecture = files.architecture
    except NeedsPyTorchError as error:
        warn(f"PyTorch computes the transformer, which takes longer: {error}")
        from parser.models.network_model import as_network

        return as_network(replace(model, others=())).as_arrays().transform
    frozen = _exact(files.weights)
    return TransformerVectors(
        *(settings, architecture, files.pieces, frozen, weights, kernels()), model.settings.int8
    )


def _exact(weights: Mapping[str, Any]) -> dict[str, Floats]:
    return {name: np.asarray(weight, np.float32) for name, weight in weights.items()}
