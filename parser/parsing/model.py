"""A trained parser and the folder that it lives in."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import yaml
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor

from parser.config import ParserSettings
from parser.files import replace_file
from parser.networks.stack_parser import StackParser
from parser.transitions import SYSTEMS
from parser.transitions.inventory import Inventory
from parser.treebank.vocabulary import PRETRAINED, Vocabulary

SETTINGS, VOCABULARY, WEIGHTS, SCORES = "config.yaml", "vocabulary.json", "weights.safetensors", "scores.json"


@dataclass(frozen=True)
class Model:
    """What is needed to parse: names, transitions and weights."""

    settings: ParserSettings
    vocabulary: Vocabulary
    inventory: Inventory
    network: StackParser

    @classmethod
    def build(
        cls,
        settings: ParserSettings,
        vocabulary: Vocabulary,
        device: torch.device,
        vectors: Tensor | None = None,
    ) -> Model:
        """A model with fresh weights. vectors: [words, size], those of the vocabulary's pretrained words."""
        inventory = Inventory.of(SYSTEMS[settings.system], vocabulary)
        lexicon_sizes = {name: len(lexicon) for name, lexicon in vocabulary.columns.items()}
        network = StackParser(settings.network, lexicon_sizes, len(inventory), vectors)
        return cls(settings, vocabulary, inventory.to(device), network.to(device))

    @property
    def device(self) -> torch.device:
        return self.network.tokens.root.device

    def save(self, folder: Path, scores: dict[str, Any]) -> None:
        """Write the folder's files, each whole or not at all.

        scores: what the model reached, for people to read.
        """
        folder.mkdir(parents=True, exist_ok=True)
        settings = yaml.safe_dump(self.settings.model_dump(), sort_keys=False)
        weights = {name: tensor.contiguous() for name, tensor in self.network.state_dict().items()}
        for name, content in (
            (SETTINGS, settings.encode()),
            (VOCABULARY, self.vocabulary.as_json().encode()),
            (WEIGHTS, save(weights)),
            (SCORES, (json.dumps(scores, indent=2) + "\n").encode()),
        ):
            replace_file(folder / name, content)

    @classmethod
    def load(cls, folder: Path, device: torch.device) -> Model:
        """Raises ValueError if the folder is not a model's."""
        missing = [name for name in (SETTINGS, VOCABULARY, WEIGHTS) if not (folder / name).is_file()]
        if missing:
            raise ValueError(f"{folder}: not a model's folder, {', '.join(missing)} missing")
        try:
            return cls._read(folder, device)
        except (SafetensorError, RuntimeError, KeyError, json.JSONDecodeError, yaml.YAMLError) as error:
            raise ValueError(f"{folder}: the model's files are broken or not of one model: {error}") from None

    @classmethod
    def _read(cls, folder: Path, device: torch.device) -> Model:
        content = yaml.safe_load((folder / SETTINGS).read_text(encoding="utf-8"))
        settings = ParserSettings.model_validate(content)
        vocabulary = Vocabulary.load(folder / VOCABULARY)
        weights = load_file(folder / WEIGHTS)
        vectors = None
        if PRETRAINED in vocabulary.columns:
            vectors = weights[f"tokens.embeddings.{PRETRAINED}.weight"][1:]
        model = cls.build(settings, vocabulary, device, vectors)
        model.network.load_state_dict(weights)
        model.network.eval()
        return model
