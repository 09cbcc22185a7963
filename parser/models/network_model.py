"""A trained parser whose weights are in a network of PyTorch: to train it, save it, and run it on a GPU."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from safetensors.torch import save
from torch import Tensor

from parser.batching.device import compute_alone_after_fork
from parser.models.column_shares import shares_as_json
from parser.models.loading import load_each, load_model
from parser.models.model import ArrayModel, Floats, Model, system_of
from parser.models.model_files import (
    CALIBRATIONS_FILE,
    COLUMN_SHARES,
    CONSTRAINTS,
    ENHANCED,
    SCORES,
    SETTINGS,
    VOCABULARY,
    WEIGHTS,
    settings_as_json,
)
from parser.models.settings import ParserSettings, calibrations_as_json
from parser.models.transformer_files import make_encoder, pretrained_transformer, write_transformer
from parser.models.weight_shapes import VECTORS
from parser.networks.settings import NetworkSettings
from parser.networks.stack_parser import StackParser
from parser.system.files import write_atomically
from parser.transitions.inventory import Inventory
from parser.treebank.sentence import Sentence
from parser.treebank.tokens import encode_tokens
from parser.treebank.vocabulary import Vocabulary

if TYPE_CHECKING:
    from parser.networks.transformer.pretrained import PretrainedTransformer


@dataclass(frozen=True)
class NetworkModel(Model):
    inventory: Inventory
    """On the device of the network."""
    network: StackParser
    _: KW_ONLY
    transform: Callable[[Sequence[Sentence]], Floats] | None = None
    """[W, size] The vectors that the transformer gives words on a CPU; None if the network computes them."""

    @classmethod
    def build(
        cls,
        settings: ParserSettings,
        vocabulary: Vocabulary,
        device: torch.device,
        vectors: Tensor | None = None,
        transformer: PretrainedTransformer | None = None,
    ) -> NetworkModel:
        """Returns a model with new weights.

        vectors: [words, size], pretrained vectors of the vocabulary's words. transformer: the one that the
        settings name, if any. Raises ValueError if it does not suit the settings.
        """
        inventory = Inventory.of(system_of(settings), vocabulary)
        network = new_network(settings.network, vocabulary, len(inventory), vectors, transformer)
        if encoder := network.tokens.transformer:
            vocabulary = replace(vocabulary, for_transformer=encoder.source)
        return cls(settings, vocabulary, inventory.to(device), network.to(device))

    @classmethod
    def of(cls, model: ArrayModel, device: torch.device) -> NetworkModel:
        """The model, or each model of an ensemble, in networks. Raises what `build` raises."""
        compute_alone_after_fork()
        weights = {name: torch.tensor(weight).float() for name, weight in model.weights.items()}
        vectors = weights[VECTORS][1:] if VECTORS in weights else None
        transformer = pretrained_transformer(model.transformer) if model.transformer else None
        built = cls.build(model.settings, model.vocabulary, device, vectors, transformer)
        built.network.load_state_dict(weights)
        built.network.eval()
        others = tuple(cls.of(each, device) for each in model.others)
        return replace(
            built,
            dev_shares=model.dev_shares,
            transducer=model.transducer,
            constraints=model.constraints,
            calibrations=model.calibrations,
            others=others,
        )

    @property
    def device(self) -> torch.device:
        return self.network.tokens.root.device

    @property
    def is_on_cpu(self) -> bool:
        return self.device.type == "cpu"

    def weight(self, name: str) -> Floats:
        return _on_host(self.network.state_dict()[name])

    def as_arrays(self) -> ArrayModel:
        weights = {name: _on_host(weight) for name, weight in self.network.state_dict().items()}
        encoder = self.network.tokens.transformer
        return ArrayModel(
            self.settings,
            self.vocabulary,
            weights,
            dev_shares=self.dev_shares,
            transducer=self.transducer,
            constraints=self.constraints,
            calibrations=self.calibrations,
            others=tuple(each.as_arrays() for each in self.others),
            transform=self.transform or (partial(_transformed, self) if encoder else None),
        )

    def save(self, folder: Path, scores: Mapping[str, Any]) -> None:
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
        for name, text in (
            (ENHANCED, self.transducer and self.transducer.as_json()),
            (CONSTRAINTS, self.constraints and self.constraints.as_json()),
            (CALIBRATIONS_FILE, self.calibrations and calibrations_as_json(self.calibrations)),
        ):
            if text:
                write_atomically(folder / name, text.encode())
            else:
                (folder / name).unlink(missing_ok=True)
        if encoder := self.network.tokens.transformer:
            write_transformer(folder, encoder)


def _on_host(weight: Tensor) -> Floats:
    array: Floats = weight.detach().float().cpu().numpy()
    return array


class KeptVectors:
    """Vectors of a transformer that are computed once for each sentence, for parsing the same ones again."""

    def __init__(self, transform: Callable[[Sequence[Sentence]], Floats]):
        self._transform = transform
        self._kept: dict[tuple[str, ...], Floats] = {}
        """[words, size] By the forms of a sentence."""

    def __call__(self, sentences: Sequence[Sentence]) -> Floats:
        """[W, size]"""
        new = {each.forms: each for each in sentences if each.forms not in self._kept}
        if new:
            ends = list(accumulate(map(len, new.values())))
            self._kept |= zip(new, np.split(self._transform(list(new.values())), ends[:-1]), strict=True)
        return np.concatenate([self._kept[each.forms] for each in sentences])


def with_kept_vectors(model: NetworkModel) -> NetworkModel:
    """The model, on a CPU with a transformer whose vectors are kept for each sentence."""
    transform = model.as_arrays().transform if model.is_on_cpu else None
    return replace(model, transform=KeptVectors(transform)) if transform else model


@torch.inference_mode()
def _transformed(model: NetworkModel, sentences: Sequence[Sentence]) -> Floats:
    """[W, size] The vectors that the transformer of a model gives words."""
    compute_alone_after_fork()
    assert model.network.tokens.transformer
    return _on_host(model.network.tokens.transformer(encode_tokens(model.vocabulary, sentences)))


def new_network(
    settings: NetworkSettings,
    vocabulary: Vocabulary,
    transitions: int,
    vectors: Tensor | None,
    transformer: PretrainedTransformer | None,
) -> StackParser:
    """A network with new weights; see `NetworkModel.build`. transitions: their number."""
    lexicon_sizes = {name: len(lexicon) for name, lexicon in vocabulary.columns.items()}
    predicted_sizes = {name: len(lexicon) for name, lexicon in vocabulary.predicted.items()}
    encoder = None
    if settings.transformer:
        assert transformer
        encoder = make_encoder(settings.transformer, transformer)
    return StackParser(
        settings, lexicon_sizes, transitions, vectors, predicted_sizes, encoder, len(vocabulary.labels)
    )


def as_network(model: Model) -> NetworkModel:
    """The model, or each model of an ensemble, in networks; on the CPU if they are in arrays."""
    return (
        model if isinstance(model, NetworkModel) else NetworkModel.of(model.as_arrays(), torch.device("cpu"))
    )


def load_network(path: Path, device: torch.device) -> NetworkModel:
    """Load the model in a folder or package onto a device. Raises what `load_model` raises."""
    return NetworkModel.of(load_model(path), device)


def load_each_network(paths: Sequence[Path], device: torch.device) -> list[tuple[str, NetworkModel]]:
    """Like `load_each`, onto a device."""
    return [(name, NetworkModel.of(model, device)) for name, model in load_each(paths)]
