"""What runs the sentences that an engine has taken, on a GPU in PyTorch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor

from parser.batching.device import to_device
from parser.models.network_model import NetworkModel
from parser.networks.scorers import LengthGroup, groups_of
from parser.networks.stack_parser import EncodedSentences, StackParser, WordVectors
from parser.parsing.predicted_tags import TagScores
from parser.parsing.pytorch.running_batch import RunningBatch
from parser.parsing.reparsing import MAX_WORDS
from parser.parsing.running import Done, Encoded, Encoding, Running
from parser.parsing.scheduler import Request
from parser.runtime.arcs import SecondOpinion
from parser.runtime.reference import Floats
from parser.treebank.tokens import encode_tokens
from parser.treebank.vocabulary import Vocabulary

GROUP = 256
"""Most sentences that are encoded together. More gain little, and let others wait longer."""


class DeviceRunner:
    """Parses a batch on the model's device, a GPU, which sentences join and leave."""

    def __init__(self, model: NetworkModel, encoding: Encoding, batch_size: int):
        self._model, self._encoding, self._batch_size = model, encoding, batch_size
        self.group = self.shared_group = GROUP  # a short sentence leaves the batch early anyway
        self._batch: RunningBatch | None = None
        self._running: dict[int, Running] = {}
        """Keyed by the slot in the batch."""

    @property
    def waiting(self) -> int:
        return self._batch.waiting if self._batch else 0

    @torch.inference_mode()
    def encode(self, requests: Sequence[Request]) -> Encoded:
        return encoded(self._model, self._encoding, requests)

    @torch.inference_mode()
    def join(self, encoded: Encoded) -> None:
        if not self._batch:
            in_graph = self._model.device.type == "cuda"
            self._batch = RunningBatch(self._model.members, self._batch_size, in_graph)
        wants_probabilities = any(each.request.options.probabilities for each in encoded.running)
        constraints = [each.constraints for each in encoded.running]
        slots = self._batch.join(encoded.words, wants_probabilities, constraints)
        self._running |= dict(zip(slots, encoded.running, strict=True))

    @torch.inference_mode()
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
        """Forget all sentences."""
        self._batch, self._running = None, {}
        torch.cuda.empty_cache()  # CUDA's libraries cannot use what PyTorch keeps


def encoded(model: NetworkModel, encoding: Encoding, requests: Sequence[Request]) -> Encoded:
    """The sentences as the models encode them on their device."""
    sentences = [request.sentence for request in requests]
    by_model, by_column, scoring = [], [], []
    for member in model.members:
        tokens = encode_tokens(member.vocabulary, sentences)
        words, tag_scores = member.network.encode_distinct(tokens)
        by_model.append(EncodedSentences(tokens, words))
        by_column.append(_on_host_by_column(member.vocabulary, words, tag_scores))
        if member.network.arcs:
            scoring.append((member.network, words))
    lengths = by_model[0].tokens.lengths
    return encoding(requests, by_model, by_column, lambda: opinions(scoring, lengths))


def _on_host_by_column(vocabulary: Vocabulary, words: WordVectors, tag_scores: Sequence[Tensor]) -> TagScores:
    """tag_scores: see `StackParser.encode_distinct`."""
    row = to_device(words.row[:-2], words.table.device)
    of_words = [scores.float().index_select(0, row) for scores in tag_scores]
    return dict(zip(vocabulary.predicted, _on_host(of_words), strict=True))


@torch.inference_mode()
def opinions(
    scoring: Sequence[tuple[StackParser, WordVectors]], lengths: Tensor
) -> list[SecondOpinion | None]:
    """The opinion on each sentence; None if the sentence is longer than `MAX_WORDS`.

    scoring: the network of each model that scores arcs, and its words. lengths: [sentences] in words, on the
    host.
    """
    labels = scoring[0][0].labels
    assert labels
    tables = [each.table.index_select(0, to_device(each.row, each.table.device)) for _, each in scoring]
    groups = [
        LengthGroup(sentences[short], rows[short])
        for sentences, rows in groups_of(lengths)
        if (short := lengths[sentences] <= MAX_WORDS).any()
    ]
    of_models = (
        network.arcs.log_probabilities(table, groups)
        for (network, _), table in zip(scoring, tables, strict=True)
        if network.arcs
    )
    of_groups = [
        (torch.stack(logs).mean(0).log_softmax(2) if len(logs) > 1 else logs[0]).float()
        for logs in zip(*of_models, strict=True)
    ]
    projected = [each.float() for each in labels.of_words(tables[0])]
    as_heads, as_dependents, *on_host = _on_host([*projected, *of_groups])
    starts = (lengths.cumsum(0) - lengths).tolist()
    of_sentences: list[SecondOpinion | None] = [None] * len(lengths)
    for group, together in zip(groups, on_host, strict=True):
        for row, sentence in enumerate(group.sentences.tolist()):
            length, start = int(lengths[sentence]), starts[sentence]
            logs = together[row, :length, : length + 1]
            rows = np.r_[len(as_heads) - 2, start : start + length]
            of_words = as_heads[rows], as_dependents[start : start + length]
            of_sentences[sentence] = SecondOpinion(logs, logs.max(1), *of_words)
    return of_sentences


def _on_host(tensors: Sequence[Tensor]) -> Iterator[Floats]:
    """Yield tensors of any shapes as arrays, after waiting once for a device."""
    if not tensors or tensors[0].device.type == "cpu":
        yield from (tensor.numpy() for tensor in tensors)
        return
    flat = torch.cat([tensor.flatten() for tensor in tensors]).cpu()
    for tensor, values in zip(tensors, flat.split([tensor.numel() for tensor in tensors]), strict=True):
        yield values.view(tensor.shape).numpy()
