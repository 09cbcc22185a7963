"""What runs the sentences that an engine has taken: arrays on a CPU, or PyTorch on a GPU.

A runner encodes sentences, lets them join those that run, and advances them until some are done. On a CPU, a
group of sentences is parsed at once: a sentence gets the same tree in each group, and large groups gain
nothing. On a GPU, a batch runs continuously, and sentences join and leave it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from parser.models.model import Model, labelled_transitions, numbers_in
from parser.networks.stack_parser import EncodedSentences
from parser.parsing.constrained_steps import ConstrainedSentence, TransitionArrays
from parser.parsing.constraints import ConstraintReader, LabelChoices, SentenceConstraints
from parser.parsing.parsed_tree import Arcs
from parser.parsing.predicted_tags import Vote, predicted_tags, votes_of, votes_on_host
from parser.parsing.probabilities import arc_probabilities
from parser.parsing.reparsing import Reparser, SecondOpinion
from parser.parsing.running_batch import RunningBatch
from parser.parsing.scheduler import Request
from parser.runtime.kernels import kernels
from parser.runtime.parser import RuntimeModel, RuntimeParser
from parser.runtime.reference import Floats
from parser.system.machine import is_of_memory
from parser.treebank.sentence import Sentence
from parser.treebank.tokens import encode_tokens

GROUP_ON_CPU, GROUP_ON_GPU = 32, 256
"""Most sentences that are encoded together. More gain little, and let others wait longer."""
GROUP_WORDS = 4_096
"""Most words that are encoded together, unless a single sentence has more."""
Tags = Mapping[str, tuple[str, ...]]


class Running(NamedTuple):
    """A sentence that is encoded: what is known of it before the first transition."""

    request: Request
    tags: Tags
    opinion: SecondOpinion | None
    constraints: SentenceConstraints | None


class Encoded(NamedTuple):
    words: Any
    """The words of all sentences as each model encodes them: `EncodedArrays`, or `EncodedSentences`."""
    running: list[Running]


class Done(NamedTuple):
    running: Running
    arcs: Arcs | Exception


class Encoding:
    """Tags, constraints and opinions of sentences, whatever encodes their words."""

    def __init__(self, model: Model, reparser: Reparser | None):
        self._read, self._reparser = ConstraintReader(model).read, reparser

    def __call__(
        self,
        requests: Sequence[Request],
        words: Any,
        votes: Sequence[Mapping[str, Vote]],
        opinions_of: Callable[[Reparser], Sequence[SecondOpinion | None]],
    ) -> Encoded:
        tags = predicted_tags(votes, [request.sentence for request in requests])
        constraints = [
            self._read(request.sentence, request.options, tags_of_words)
            if request.options.are_constrained
            else None
            for request, tags_of_words in zip(requests, tags, strict=True)
        ]
        opinions: Sequence[SecondOpinion | None] = [None] * len(requests)
        is_asked = any(request.options.needs_scorers for request in requests)
        if self._reparser and (self._reparser.changes_trees or is_asked):
            opinions = [
                opinion.among(constraint.possible_heads()) if opinion and constraint else opinion
                for opinion, constraint in zip(opinions_of(self._reparser), constraints, strict=True)
            ]
        return Encoded(words, list(map(Running, requests, tags, opinions, constraints)))


class HostRunner:
    """Parses each group at once, in arrays."""

    waiting = 0
    """Sentences that have joined and do not run yet."""

    def __init__(self, model: Model, encoding: Encoding, batch_size: int):
        self._encoding, self.group = encoding, min(batch_size, GROUP_ON_CPU)
        self._labelled = labelled_transitions(model)
        self._parser = RuntimeParser([_runtime_model(each, model) for each in model.members], self._labelled)
        self._transitions = TransitionArrays(self._labelled, LabelChoices.of(model.vocabulary))
        self._encoded: list[Encoded] = []

    def encode(self, requests: Sequence[Request]) -> Encoded:
        words = self._parser.encode([request.sentence for request in requests])
        is_only = len(words) == 1
        votes = [
            votes_on_host(model.vocabulary, of_model.tag_scores, is_only)
            for model, of_model in zip(self._parser.models, words, strict=True)
        ]
        scoring = [
            (model.arcs, of_model)
            for model, of_model in zip(self._parser.models, words, strict=True)
            if model.arcs
        ]
        return self._encoding(requests, words, votes, lambda reparser: reparser.opinions_on_host(scoring))

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


def _runtime_model(model: Model, first: Model) -> RuntimeModel:
    weights = {
        name: weight.detach().float().cpu().numpy() for name, weight in model.network.state_dict().items()
    }
    numbers = None if model is first else numbers_in(model, first).tolist()
    transform = None
    if transformer := model.network.tokens.transformer:

        @torch.inference_mode()
        def transform(sentences: Sequence[Sentence]) -> Floats:
            vectors: Floats = transformer(encode_tokens(model.vocabulary, sentences)).float().numpy()
            return vectors

    return RuntimeModel.of(
        *(model.settings, model.vocabulary, labelled_transitions(model), weights, kernels()),
        is_int8=model.settings.int8,
        numbers=numbers,
        transform=transform,
    )


class DeviceRunner:
    """Parses a batch on the model's device, a GPU, which sentences join and leave."""

    def __init__(self, model: Model, encoding: Encoding, batch_size: int):
        self._model, self._encoding, self._batch_size = model, encoding, batch_size
        self.group = GROUP_ON_GPU
        self._batch: RunningBatch | None = None
        self._running: dict[int, Running] = {}
        """Keyed by the slot in the batch."""

    @property
    def waiting(self) -> int:
        return self._batch.waiting if self._batch else 0

    def encode(self, requests: Sequence[Request]) -> Encoded:
        return encode_by_pytorch(self._model, self._encoding, requests)

    def join(self, encoded: Encoded) -> None:
        if not self._batch:
            in_graph = self._model.device.type == "cuda"
            self._batch = RunningBatch(self._model.members, self._batch_size, in_graph)
        wants_probabilities = any(each.request.options.probabilities for each in encoded.running)
        constraints = [each.constraints for each in encoded.running]
        slots = self._batch.join(encoded.words, wants_probabilities, constraints)
        self._running |= dict(zip(slots, encoded.running, strict=True))

    def advance(self) -> list[Done]:
        """Take some steps. Returns the sentences that are done."""
        if not self._batch or not self._running:
            return []
        for slot, running in self._running.items():
            if running.request.state == "cancelled":
                self._batch.cancel(slot)
        self._batch.work()
        done = self._batch.done()
        return [Done(self._running.pop(slot), arcs) for slot, arcs in done.items()]

    def start_over(self) -> None:
        self._batch, self._running = None, {}


def encode_by_pytorch(model: Model, encoding: Encoding, requests: Sequence[Request]) -> Encoded:
    """The sentences as the models encode them on their device."""
    sentences = [request.sentence for request in requests]
    by_model, votes, scoring = [], [], []
    for member in model.members:
        tokens = encode_tokens(member.vocabulary, sentences)
        words, tag_scores = member.network.encode_distinct(tokens)
        by_model.append(EncodedSentences(tokens, words))
        votes.append(votes_of(member.vocabulary, words, tag_scores, len(model.members) == 1))
        if member.network.arcs:
            scoring.append(words)
    lengths = by_model[0].tokens.lengths
    return encoding(requests, by_model, votes, lambda reparser: reparser.opinions(lengths, scoring))
