"""Counts and memory of training steps with a transformer that has random weights and a known size."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from measuring import least_seconds
from pretrain_small import save, train_tokenizer
from simulated_cuda.device import SimulatedCuda
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from transformers import AutoModel, BertConfig, PreTrainedConfig, XLMRobertaConfig

from parser.config.data_folder import data_path
from parser.training import data
from parser.training.batches import epoch_batches, training_batch
from parser.training.config import Config, read_config
from parser.training.optimizer import make_optimizer
from parser.training.training_step import TrainingStep
from parser.treebank.conllu import read_treebank
from prediction.counting import PERCENTILES, counted_functions
from prediction.model import Step

KNOWN: dict[str, PreTrainedConfig] = {
    "FacebookAI/xlm-roberta-base": XLMRobertaConfig(
        vocab_size=250_002,
        max_position_embeddings=514,
        hidden_size=768,
        num_hidden_layers=12,
        num_attention_heads=12,
        intermediate_size=3072,
    ),
    "google-bert/bert-base-cased": BertConfig(vocab_size=28_996),
}
"""Sizes by the names of transformers; nothing is downloaded."""
PIECES = 20_000
"""Vocabulary size of a tokenizer that is trained on the treebank and replaces the transformer's own."""
SENTENCES = 2000
COPIES = 4
"""Copies of each weight: the weight, its gradient and the two averages of Adam."""


class TransformerStep(NamedTuple):
    sentences: int
    words: int
    step: Step
    kept_for_backward: int
    """Bytes of the tensors that the forward pass keeps for the backward pass, in float32."""


class CountedTransformer(NamedTuple):
    bytes_of_weights: int
    """Bytes of the weights with gradients and the optimizer's state, in float32."""
    steps: list[TransformerStep]


def count_transformer(path: Path) -> CountedTransformer:
    """Count steps of a config, from short to long sentences. Raises ValueError for an unknown transformer."""
    config = read_config(path, [f"treebank.train_sentences={SENTENCES}", "training.precision=float32"])
    settings = config.parser.network.transformer
    if settings is None or settings.model not in KNOWN:
        raise ValueError(f"{path}: its transformer should be one of {', '.join(KNOWN)}")
    with tempfile.TemporaryDirectory() as folder:
        _write(Path(folder), KNOWN[settings.model], config)
        own = read_config(
            path,
            [
                f"treebank.train_sentences={SENTENCES}",
                "training.precision=float32",
                f"parser.network.transformer.model={folder}",
                "tokenizer=null",
            ],
        )
        # For the real tensors under the simulated ones, PyTorch would choose an attention kernel of CPUs.
        with sdpa_kernel(SDPBackend.MATH), SimulatedCuda(records=True) as cuda:
            return _counted(own, cuda)


def _write(folder: Path, sizes: PreTrainedConfig, config: Config) -> None:
    sentences = read_treebank(data_path(config.treebank.train_files[0]), config.treebank.roots)
    tokenizer = train_tokenizer([" ".join(sentence.forms) for sentence in sentences], PIECES)
    save(AutoModel.from_config(sizes), tokenizer, folder)


def _counted(config: Config, cuda: SimulatedCuda) -> CountedTransformer:
    model, loaded = data.load(config, cuda.name)
    optimizer = make_optimizer(model.network, config.training.optimizer)
    step = TrainingStep(model.network, model.inventory, optimizer, config.training.max_grad_norm)
    model.network.train()
    lengths = loaded.train.tokens.lengths
    by_length = sorted(
        epoch_batches(loaded, config.training, 1), key=lambda rows: float(lengths[rows].float().mean())
    )
    chosen = [by_length[int(share * len(by_length))] for share in PERCENTILES]

    def run(rows: Tensor) -> None:
        step.gradients([training_batch(step, loaded, rows)])
        step.update()

    run(chosen[0])  # makes the optimizer's state
    found = []
    assert cuda.recorded is not None
    for rows in chosen:
        preparation = least_seconds(partial(loaded.train.batch, rows))
        cuda.recorded.clear()
        with counted_functions() as functions, _kept_for_backward() as kept:
            run(rows)
        counts = Step(list(cuda.recorded), len(functions), preparation)
        found.append(TransformerStep(len(rows), int(lengths[rows].sum()), counts, sum(kept.values())))
    copies = ((COPIES if weight.requires_grad else 1, weight) for weight in model.network.parameters())
    return CountedTransformer(sum(count * weight.nbytes for count, weight in copies), found)


@contextmanager
def _kept_for_backward() -> Iterator[dict[int, int]]:
    """Yields the bytes of each storage that a forward pass keeps, without weights, by address."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if not isinstance(tensor, torch.nn.Parameter):
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        yield kept
