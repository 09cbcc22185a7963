"""Embedding tables with sparse gradients."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import torch
from torch import Tensor, nn
from torch.optim import Adam, Optimizer, SparseAdam

from parser.treebank.embeddings import read_vectors


def sparse_table(entries: int, width: int) -> nn.Embedding:
    """An embedding whose gradient contains only the rows that were read, so that updates skip the rest."""
    table = nn.Embedding(entries, width, sparse=True)
    nn.init.normal_(table.weight, std=0.1)
    return table


@torch.no_grad()
def copy_vectors(table: nn.Embedding, words: Mapping[str, int], path: str) -> int:
    """Start a table with the vectors of a file. A word without a vector gets that of its lowercase form.

    words: the row of each word. Returns the number of words that were found. Raises ValueError if the vectors
    and the table differ in size, and for a broken file.
    """
    known, vectors = read_vectors(path)
    if vectors.shape[1] != table.embedding_dim:
        raise ValueError(
            f"embeddings: the vectors of {path} have {vectors.shape[1]} numbers, and those of the table "
            f"{table.embedding_dim}: set word_size to {vectors.shape[1]}"
        )
    place = {word: number for number, word in enumerate(known)}
    found = {row: place.get(word, place.get(word.lower())) for word, row in words.items()}
    pairs = [(row, number) for row, number in found.items() if number is not None]
    if pairs:
        rows, numbers = torch.tensor(pairs).unbind(1)
        table.weight[rows.to(table.weight.device)] = vectors[numbers].to(table.weight.device)
    return len(pairs)


def table_optimizer(weights: Iterable[Tensor], rate: float) -> Optimizer:
    """Adam that updates only the rows that were read."""
    return SparseAdam(list(weights), lr=rate)


def optimizers(network: nn.Module, rate: float) -> list[Optimizer]:
    """Adam for dense parameters, and SparseAdam for sparse tables if there are any."""
    tables = [part.weight for part in network.modules() if isinstance(part, nn.Embedding) and part.sparse]
    sparse = set(tables)
    others = [weight for weight in network.parameters() if weight.requires_grad and weight not in sparse]
    found: list[Optimizer] = [Adam(others, lr=rate, fused=True)]
    if tables:
        found.append(table_optimizer(tables, rate))
    return found
