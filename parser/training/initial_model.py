"""Fine-tuning: training that starts from the weights of a model, on another treebank or more of the same.

The vocabulary and the labels of the model are kept, and those of the treebank are added. New entries start
with random weights.
"""

from __future__ import annotations

from pathlib import Path

import torch

from parser.config.data_folder import data_path
from parser.config.file import flat
from parser.models.model import numbers_in
from parser.models.named_models import find_model
from parser.models.network_model import NetworkModel, load_network
from parser.models.settings import ParserSettings
from parser.networks.stack_parser import StackParser
from parser.networks.transformer.architecture import MODEL
from parser.system.console import LinesError
from parser.system.settings import FAULTS_SHOWN, more_faults
from parser.treebank.vocabulary import CHARACTERS, PRETRAINED

OF_TRANSITIONS = (
    *("transition_embeddings.weight", "scores.weight", "scores.bias"),
    "composition.transitions.weight",
)
"""Weights with a row for each labelled transition; some have another row for `no_op`."""
OF_CHARACTERS = f"tokens.embeddings.{CHARACTERS}.characters.weight"
"""Weight whose last row belongs to the padding character."""
FREE = {
    *("network.dropout", "network.embedding_dropout", "network.characters.dropout"),
    *("network.tags.loss_weight", "network.arcs.loss_weight", "network.arcs.bonus"),
    *("enhanced", "calibration", "calibration.right", "calibration.wrong", "calibration.offset"),
    *("network.pretrained", "network.train_pretrained"),
    *(f"network.transformer.{name}" for name in ("model", "learning_rate", "warmup_epochs", "layer_decay")),
    *(f"network.transformer.{name}" for name in ("dropout", "gradient_checkpointing", "max_pieces", "prune")),
}
"""Settings that can differ from those of the model."""
MISSING = "not there"


def load_initial(path: Path | None, wanted_settings: ParserSettings) -> NetworkModel | None:
    """The model that training starts from, if there is one. wanted_settings: those of the config.

    Raises ValueError if the model is missing or broken, or has a different network.
    """
    if path is None:
        return None
    model = load_network(path, torch.device("cpu"))
    both = wanted_settings, model.settings
    wanted, there = (flat(settings.model_dump()) for settings in both)
    different = [
        f"parser.{name} is {wanted.get(name, MISSING)} in the config, {there.get(name, MISSING)} in the model"
        for name in sorted({*wanted, *there} - FREE)
        if wanted.get(name) != there.get(name)
    ]
    columns = [[*settings.network.columns, *settings.network.tags.predict] for settings in both]
    if not different and columns[0] != columns[1]:
        different = ["parser.network.tag_sizes or tags.predict have another order than in the model"]
    if wanted_settings.network.pretrained and PRETRAINED not in model.vocabulary.columns:
        different.append("parser.network.pretrained: the model has no pretrained vectors")
    if different:
        more = more_faults(len(different) - FAULTS_SHOWN)
        raise LinesError(f"{path}: has another network:", *different[:FAULTS_SHOWN], *more)
    return model


def initial_path(name: str | None) -> Path | None:
    return None if name is None else find_model(data_path(name))


@torch.no_grad()
def copy_weights(source: NetworkModel, target: NetworkModel) -> None:
    """Copy the weights of `source` into `target`, whose vocabulary extends that of `source`."""
    rows = numbers_in(target, source)
    weights = target.network.state_dict()
    for name, old in source.network.state_dict().items():
        weight, old = weights[name], old.to(target.device)
        if name in OF_TRANSITIONS:
            weight[rows[: len(old)]] = old
        elif name == OF_CHARACTERS:
            weight[: len(old) - 1] = old[:-1]
            weight[-1] = old[-1]
        elif not (
            name.startswith(MODEL) and len(weight) < len(old)
        ):  # pruned, so those that are left are there
            weight[tuple(map(slice, old.shape))] = old  # new entries are appended to lexicons


def freeze(network: StackParser, names: tuple[str, ...]) -> None:
    """Exclude weights from training. names: prefixes of their names. Raises ValueError for an unknown one."""
    weights = dict(network.named_parameters())
    for name in names:
        frozen = [weight for key, weight in weights.items() if key == name or key.startswith(f"{name}.")]
        if not frozen:
            parts = sorted({key.partition(".")[0] for key in weights})
            raise ValueError(
                f"training.frozen: no weight's name begins with {name}; parts are {', '.join(parts)}"
            )
        for weight in frozen:
            weight.requires_grad_(False)
    if not any(weight.requires_grad for weight in weights.values()):
        raise ValueError("training.frozen: nothing is left to train")
