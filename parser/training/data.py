"""From treebank files to a fresh model and its training data.

A network that does not fit into memory is refused, with the name of the setting that makes it large.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from parser.config.data_folder import data_path
from parser.config.file import flat, set_in
from parser.models.column_shares import column_shares
from parser.models.model import numbered_transitions, system_of
from parser.models.model_files import digest_of
from parser.models.network_model import NetworkModel, new_network
from parser.models.settings import ParserSettings
from parser.networks.replay.examples import BatchSource, Examples
from parser.networks.stack_parser import StackParser
from parser.networks.without_values import without_values
from parser.system.pytorch import device_memory
from parser.training.config import Config, TrainingSettings
from parser.training.initial_model import copy_weights, freeze, initial_path, load_initial
from parser.training.prepared import Prepared, cache_file, load_prepared, save_prepared
from parser.training.teachers import load_teachers, refuse_missing_teachers, teacher_paths, with_teachers
from parser.training.transformer import KnownVectors, pretrained_transformer, with_frozen_vectors, word_source
from parser.training.trees import (
    Mixture,
    TreebankSettings,
    projective,
    projective_rows,
    read_held_out,
    read_training_trees,
)
from parser.training.word_dropout import WordDropout
from parser.transitions.inventory import Inventory
from parser.treebank.batches import length_buckets
from parser.treebank.conllu import stream_sentences
from parser.treebank.embeddings import read_vectors
from parser.treebank.sentence import Sentence
from parser.treebank.tokens import encode_tokens
from parser.treebank.ud_folders import TreebankVersion, provenance
from parser.treebank.vocabulary import PRETRAINED, Vocabulary

if TYPE_CHECKING:
    from parser.networks.transformer.pretrained import PretrainedTransformer


@dataclass(frozen=True)
class TrainingData:
    train: Examples
    dev: Examples
    dev_sentences: list[Sentence]
    """Empty if the run has no dev set."""
    source: BatchSource
    """Of the batches of `train`."""
    word_dropout: WordDropout
    mixture: Mixture
    crossing: int
    """The number of non-projective trees in the training treebanks."""
    digest: str
    """A hash of everything that the parser learns from, the same on all machines."""


def epoch_batches(training_data: TrainingData, settings: TrainingSettings, epoch: int) -> list[Tensor]:
    """The numbers of the sentences of each batch [batch]. They depend only on the seed and the epoch."""
    generator = torch.Generator().manual_seed((settings.seed * 1_000_003 + epoch) % 2**63)
    drawn = training_data.mixture.draw(epoch, generator)
    lengths, by_words = training_data.train.tokens.lengths[drawn], settings.batch_unit == "words"
    batches = length_buckets(lengths, settings.batch_size, by_words, generator, settings.max_batch_words)
    return [drawn[batch] for batch in batches]


def load(
    config: Config, device: torch.device, cache: Path | None = None
) -> tuple[NetworkModel, TrainingData]:
    """Read the treebanks and build a fresh model for them.

    cache: the folder of preprocessed treebanks. Raises TreebankError, FileNotFoundError, and ValueError if
    no training tree is left or the network does not fit into memory.
    """
    teachers = teacher_paths(config.training.distillation)
    refuse_missing_teachers(teachers)
    network = config.parser.network
    initial = load_initial(initial_path(config.initial_model), config.parser)
    transformer = pretrained_transformer(network.transformer, initial, partial(_forms, config.treebank))
    kept = cache_file(config, cache, transformer) if cache else None
    dev_sentences = read_held_out(config.treebank.dev_files, config.treebank.roots)
    prepared = load_prepared(kept, config.parser) if kept else None
    if prepared is None:
        prepared = _prepare(config, teachers, dev_sentences, initial, transformer, device)
        if kept:
            save_prepared(prepared, kept)
    vector_size = 0 if prepared.vectors is None else prepared.vectors.shape[1]
    has_average = bool(config.training.average)
    refuse_too_large(config.parser, prepared.vocabulary, vector_size, transformer, device, has_average)
    model = NetworkModel.build(config.parser, prepared.vocabulary, device, prepared.vectors, transformer)
    if dev_sentences:
        model = replace(model, dev_shares=column_shares(model.read_lexicons, dev_sentences))
    if initial:
        copy_weights(initial, model)
    freeze(model.network, config.training.frozen)
    digest = prepared.digest() + (digest_of(teachers) if teachers else "")
    digest += transformer.digest if transformer else ""
    if model.network.tokens.transformer and model.network.tokens.transformer.is_frozen:
        model, prepared = _with_frozen_vectors(
            model, prepared, dev_sentences, config.treebank.non_projective == "lift", cache
        )
    return model, TrainingData(
        train=prepared.train,
        dev=prepared.dev,
        dev_sentences=dev_sentences,
        source=BatchSource(prepared.train, device),
        word_dropout=WordDropout(prepared.vocabulary, prepared.train.tokens, config.training, device),
        mixture=Mixture(prepared.sizes, prepared.silver, config.treebank),
        crossing=prepared.crossing,
        digest=digest,
    )


def _forms(treebank: TreebankSettings) -> Iterator[str]:
    """The forms of all files that are trained on."""
    for path in (*treebank.train_files, *treebank.silver_files):
        for sentence in stream_sentences(data_path(path), tree=False):
            yield from sentence.forms


def _with_frozen_vectors(
    model: NetworkModel,
    prepared: Prepared,
    dev_sentences: Sequence[Sentence],
    lifts: bool,
    cache: Path | None,
) -> tuple[NetworkModel, Prepared]:
    """The model and the data, with the vectors that a frozen transformer computes for the words of train and
    dev.

    lifts: whether non-projective trees are lifted.
    """
    encoder, vocabulary = model.network.tokens.transformer, model.vocabulary
    assert encoder
    parts = [prepared.train.tokens, encode_tokens(vocabulary, dev_sentences, gold=True)]
    train, dev = with_frozen_vectors(encoder, parts, cache)
    rows = torch.tensor(projective_rows(dev_sentences, lifts), dtype=torch.long)
    known = KnownVectors(dev_sentences, dev, encoder.source)
    return replace(model, vocabulary=replace(vocabulary, for_transformer=known)), replace(
        prepared,
        train=replace(prepared.train, tokens=train),
        dev=replace(prepared.dev, tokens=dev.select(rows)),
    )


def provenances(config: Config) -> dict[str, TreebankVersion | None]:
    """The provenance of each treebank, by its name in the config. Raises OSError."""
    return {path: provenance(data_path(path)) for path in config.treebank.files}


def files_needed(config: Config) -> list[Path]:
    """The treebanks, vectors and models that training reads; the models may be folders."""
    return [*(Path(data_path(path)) for path in config.treebank.files), *other_files_needed(config)]


def other_files_needed(config: Config) -> list[Path]:
    """The files of `files_needed` except the treebanks."""
    network = config.parser.network
    named = network.pretrained, network.transformer and network.transformer.model
    return [*(Path(data_path(path)) for path in named if path), *models_needed(config)]


def models_needed(config: Config) -> list[Path]:
    """The model that training starts from, if any, and the teachers."""
    initial = initial_path(config.initial_model)
    return [*([initial] if initial else []), *teacher_paths(config.training.distillation)]


def _prepare(
    config: Config,
    teacher_paths: Sequence[Path],
    dev_sentences: list[Sentence],
    initial: NetworkModel | None,
    transformer: PretrainedTransformer | None,
    device: torch.device,
) -> Prepared:
    network, distillation = config.parser.network, config.training.distillation
    teachers = load_teachers(teacher_paths, config.parser.system, device)
    treebanks = read_training_trees(config.treebank)
    trees = treebanks.all
    words, vectors = _pretrained(network.pretrained, initial)
    gold = [tree for own in treebanks.gold.values() for tree in own]
    vocabulary = Vocabulary.build(
        trees, network.columns, words, network.fold_case, network.tags.predict, analysed=gold
    )
    if initial:
        vocabulary = initial.vocabulary.extended(vocabulary)
    if len(config.treebank.dev_files) > 1:  # no treebank is the main one
        vocabulary = replace(vocabulary, treebank="")
    vocabulary = replace(vocabulary, for_transformer=word_source(transformer))
    if not (vocabulary.word_labels and vocabulary.root_labels):
        where = "from ROOT" if vocabulary.word_labels else "between two words"
        files = ", ".join(config.treebank.train_files)
        raise ValueError(f"{files}: no arc {where} with a label to learn from")
    inventory = Inventory.of(system_of(config.parser), vocabulary)
    train = Examples.of(inventory, vocabulary, trees)
    if distillation:
        train = with_teachers(train, trees, vocabulary, teachers, distillation.weight)
    dev_trees = projective(dev_sentences, config.treebank.non_projective == "lift")
    dev = Examples.of(inventory, vocabulary, dev_trees)
    sizes = {name: len(trees) for name, trees in treebanks.gold.items()}
    return Prepared(vocabulary, vectors, train, dev, sizes, treebanks.crossing)


def _pretrained(path: str | None, initial: NetworkModel | None) -> tuple[Sequence[str], Tensor | None]:
    """The words with pretrained vectors, and the vectors [words, size]; both from the initial model if there
    is one.
    """
    if initial is None:
        return read_vectors(data_path(path)) if path else ((), None)
    if PRETRAINED not in initial.vocabulary.columns:
        return (), None
    [weight] = initial.network.tokens.pretrained_weights()
    return initial.vocabulary.columns[PRETRAINED].strings, weight.detach()[1:]


COPIES = 4
"""Tensors for each trained weight: the weight, its gradient, and the two moving averages of Adam."""
BYTES = 4


def refuse_too_large(
    settings: ParserSettings,
    vocabulary: Vocabulary,
    vector_size: int,
    transformer: PretrainedTransformer | None,
    device: torch.device,
    has_average: bool,
) -> None:
    """Raises ValueError, with the setting to lower, if the weights do not fit into the device's memory.

    vector_size: size of the pretrained vectors, 0 if there are none. transformer: the one in the settings.
    has_average: whether training keeps the moving average of the weights.
    """

    def network_of(wanted: ParserSettings) -> StackParser:
        """The network without values."""
        words = len(vocabulary.columns[PRETRAINED]) - 1 if PRETRAINED in vocabulary.columns else 0
        transitions = len(numbered_transitions(system_of(wanted), vocabulary))
        with without_values():
            vectors = torch.empty(words, vector_size) if words else None
            return new_network(wanted.network, vocabulary, transitions, vectors, transformer)

    def bytes_of(weights: Iterable[Tensor]) -> int:
        copies = COPIES + has_average
        return BYTES * sum(weight.numel() * (copies if weight.requires_grad else 1) for weight in weights)

    network = network_of(settings)
    needed, there = bytes_of(network.parameters()), device_memory(device)
    if needed > there:
        weights = sum(weight.numel() for weight in network.parameters())
        heaviest = _heaviest(settings, network_of, bytes_of)
        raise ValueError(
            f"parser.network.{heaviest} is too large: {weights:,} weights take {needed / 2**30:,.1f} GiB to "
            f"train, and there are {there / 2**30:,.1f} GiB"
        )


def _heaviest(
    settings: ParserSettings,
    network_of: Callable[[ParserSettings], StackParser],
    bytes_of: Callable[[Iterable[Tensor]], int],
) -> str:
    """The setting that needs more than half of the memory, or else the one that saves most when halved."""
    network = network_of(settings)
    tokens, half = network.tokens, bytes_of(network.parameters()) / 2
    if tokens.transformer and bytes_of(tokens.transformer.parameters()) > half:
        return "transformer.model"
    if bytes_of(tokens.pretrained_weights()) > half:
        return "pretrained"
    sizes = {
        key: value
        for key, value in flat(settings.network.model_dump()).items()
        if isinstance(value, int)
        and not isinstance(value, bool)
        and value > 1
        and not key.startswith("transformer.")  # these hardly change the size of the transformer
    }

    def halved(key: str) -> int:
        smaller = settings.network.model_dump()
        set_in(smaller, key, sizes[key] // 2)
        wanted = ParserSettings.model_validate({"system": settings.system, "network": smaller})
        return bytes_of(network_of(wanted).parameters())

    return min(sizes, key=halved)
