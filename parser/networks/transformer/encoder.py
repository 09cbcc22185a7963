"""A pretrained transformer as a source of word vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from parser.batching.device import to_device
from parser.batching.functional import dropout, present_precision
from parser.batching.ragged import Ragged
from parser.networks.settings import TransformerSettings
from parser.networks.transformer.packing import PACKED_ATTENTION, PackedWindows
from parser.networks.transformer.pieces import PieceSource, Together, Windows, padding_together, rows_of
from parser.networks.transformer.pretrained import PretrainedTransformer
from parser.networks.transformer.tokenizer import PieceTokenizer
from parser.networks.transformer.weights import (
    frozen_weights,
    is_frozen,
    learning_rates,
    transformer_to_train,
    weights_without_adapters,
)
from parser.networks.transformer.windows import longest_window
from parser.treebank.tokens import Tokens

FULL_ATTENTION = {"bert", "roberta", "xlm-roberta", "xlm-roberta-xl", "camembert", "electra"}
"""Kinds of transformers in whose layers each piece attends to all others."""
MODEL = "model."
"""Prefix of the names of the transformer's weights in a `TransformerEncoder`."""


class TransformerEncoder(nn.Module):
    """The mean of a transformer's last layers, with learned weights, at the pieces of each word.

    Weights that are not trained are not in `state_dict`; `frozen_weights` returns them.
    """

    def __init__(self, settings: TransformerSettings, pretrained: PretrainedTransformer):
        """Raises ValueError if the transformer does not suit the settings."""
        super().__init__()
        self.settings = settings
        self.pretrained = pretrained if settings.train != "all" else replace(pretrained, weights={})
        """The transformer with its weights, or without any if all of them are trained."""
        self.tokenizer = tokenizer = PieceTokenizer(pretrained.tokenizer)
        self.source = PieceSource(tokenizer)
        """Of the pieces in `Tokens`."""
        self._before, self._after = tokenizer.before, tokenizer.after
        self.model: Any = transformer_to_train(settings, pretrained)
        config = self.model.config
        self._padding = getattr(config, "pad_token_id", None) or 0
        self.size: int = config.hidden_size
        """Size of a word vector."""
        self._first_position = _first_position(self.model)
        positions = getattr(config, "max_position_embeddings", 1_000_000) - self._first_position
        self._most_pieces = longest_window(
            settings, tokenizer, config.num_hidden_layers, config.vocab_size, positions
        )
        self._has_full_attention = (
            config.model_type in FULL_ATTENTION and config._attn_implementation == "sdpa"
        )
        if self._has_full_attention:
            config._attn_implementation = PACKED_ATTENTION
        self.mix = nn.Parameter(torch.zeros(settings.layers))
        self.scale = nn.Parameter(torch.ones(()))
        self.register_state_dict_post_hook(_without_frozen)
        self.register_load_state_dict_post_hook(_frozen_are_not_missing)

    @property
    def is_frozen(self) -> bool:
        return self.settings.train == "frozen"

    def frozen_weights(self) -> dict[str, Tensor]:
        """The weights of the transformer that are not trained, by their names in the library."""
        return frozen_weights(self.model, self.settings.train)

    def present(self) -> PretrainedTransformer:
        """The transformer as it is now, but without adapters."""
        return replace(self.pretrained, weights=weights_without_adapters(self.model))

    def learning_rates(self) -> dict[Tensor, float]:
        """The trained weights of the transformer and their learning rates after warm-up."""
        return learning_rates(self.model, self.settings)

    def train(self, mode: bool = True) -> TransformerEncoder:
        """Like `nn.Module.train`, but a frozen transformer stays in evaluation mode, without dropout."""
        super().train(mode)
        if self.is_frozen:
            self.model.eval()
        return self

    def forward(self, tokens: Tokens) -> Tensor:
        """[words, size] The vectors of the words."""
        mixed = self._read(tokens, self._mixed) if tokens.vectors is None else self._mixed(tokens.vectors)
        return dropout(mixed, self.settings.dropout, self.training)

    def layers_of(self, tokens: Tokens) -> Tensor:
        """[words, layers, size] The last layers of a frozen transformer for each word, in half precision."""
        return self._read(tokens, Tensor.half)

    def _mixed(self, layers: Tensor) -> Tensor:
        """[words, size] The weighted mean of the layers.

        layers: [words, layers, size]; for a frozen transformer they are converted as in the cache.
        """
        exact = (_as_cached(layers) if self.is_frozen else layers).to(self.mix.dtype)
        weights = (self.scale * self.mix.softmax(0)).expand(len(exact), 1, -1)
        return torch.bmm(weights, exact).squeeze(1)  # faster than einsum, which copies the layers

    def _read(self, tokens: Tokens, finish: Callable[[Tensor], Tensor]) -> Tensor:
        """[words, ...] finish: applied to the last layers [words of a group, layers, size] of each group, so
        that the layers of all words need not be in memory at once.
        """
        assert tokens.pieces
        # `Windows` reads only the lengths, which are on the host.
        pieces, device = tokens.pieces.values, tokens.pieces.values.device
        packs = self._has_full_attention and device.type == "cpu"
        windows = Windows.of(tokens, self._most_pieces, padding_together(device, packs))
        groups = rows_of(windows.together) if packs else [[together] for together in windows.together]
        parts = []
        for group in groups:
            with torch.no_grad() if self.is_frozen else nullcontext():
                layers = self._of_packed(pieces, group) if packs else self._of_padded(pieces, *group)
            parts.append(finish(layers))
        return torch.cat(parts).index_select(0, to_device(windows.place_of_word, device))

    def _of_packed(self, pieces: Tensor, groups: Sequence[Together]) -> Tensor:
        """[words, layers, size] The last layers at the words of the groups. pieces: [pieces of the batch]."""
        row = PackedWindows.of(groups, len(self._before), len(self._after))
        ids = pieces[row.pieces]
        for number, piece in enumerate(self._before):
            ids = ids.masked_fill(row.positions == number, piece)
        for number, piece in enumerate(self._after):
            ids = ids.masked_fill(row.positions == row.ends + number, piece)
        layers = self._layers(
            input_ids=ids[None],
            position_ids=row.positions[None] + self._first_position,
            padded_windows=row.padded,
        )  # [1, row, layers, size]
        return self._of_words(layers[0].flatten(1), row.words)

    def _of_padded(self, pieces: Tensor, together: Together) -> Tensor:
        """[words, layers, size] The last layers at the words of `together`. pieces: [pieces of the batch]."""
        ids, is_piece = self._inputs(pieces, together)  # [windows, length + special pieces]
        layers = self._layers(input_ids=ids, attention_mask=self._mask(is_piece, together))
        start = len(self._before)
        of_pieces = (
            layers[:, start : start + together.length].flatten(0, 1).flatten(1)
        )  # [windows * length, layers * size]
        return self._of_words(of_pieces, together.words)

    def _layers(self, **inputs: Any) -> Tensor:
        """[..., pieces, layers, size] The last layers of the transformer."""
        with self._precision(self.mix.device):
            output = self.model(**inputs, output_hidden_states=True, return_dict=True)
        return torch.stack(output.hidden_states[-self.settings.layers :], dim=2).to(self.mix.dtype)

    def _mask(self, is_piece: Tensor, together: Together) -> Tensor | None:
        """The attention mask. is_piece: [windows, length].

        The library inspects the values of a mask of rank 2, for which the host has to wait for the GPU. It
        does not inspect a mask of rank 4.
        """
        if not self._has_full_attention:
            return is_piece.long()
        has_padding = bool((together.counts < together.length).any())  # known to the host
        return is_piece[:, None, None] if has_padding else None

    def _inputs(self, pieces: Tensor, together: Together) -> tuple[Tensor, Tensor]:
        """[windows, length + special pieces] Pieces, including special ones; and which are not padding."""
        device, before = pieces.device, len(self._before)
        first, counts = (
            to_device(integers, device)[:, None] for integers in (together.first, together.counts)
        )
        special = before + len(self._after)
        position = torch.arange(together.length + special, device=device)[None] - before
        ids = pieces[(first + position.clamp(min=0)).clamp(max=len(pieces) - 1)]
        for number, piece in enumerate(self._before):
            ids = ids.masked_fill(position == number - before, piece)
        for number, piece in enumerate(self._after):
            ids = ids.masked_fill(position == counts + number, piece)
        is_piece = position < counts + len(self._after)
        return ids.masked_fill(~is_piece, self._padding), is_piece

    def _of_words(self, of_pieces: Tensor, words: Ragged) -> Tensor:
        """[words, layers, size] Pool the pieces of words.

        of_pieces: [pieces, layers * size]. words: the places of the pieces of each word.
        """
        if self.settings.pooling == "mean":
            values, offsets = (to_device(part, of_pieces.device) for part in (words.values, words.offsets))
            pooled = F.embedding_bag(values, of_pieces, offsets, mode="mean")
        else:
            index = words.offsets if self.settings.pooling == "first" else words.offsets + words.lengths - 1
            pooled = of_pieces.index_select(0, to_device(words.values[index], of_pieces.device))
        return pooled.unflatten(1, (self.settings.layers, self.size))

    def _precision(self, device: torch.device) -> AbstractContextManager[object]:
        if present_precision() == "bfloat16":
            return torch.autocast(device.type, torch.bfloat16)
        return nullcontext()


def _as_cached(layers: Tensor) -> Tensor:
    """[words, layers, size] The layers in half precision, as in the cache; too large values are clamped."""
    if layers.dtype == torch.float16:
        return layers
    bounds = torch.finfo(torch.float16)
    return layers.clamp(bounds.min, bounds.max).half()


def _first_position(transformer: Any) -> int:
    """The number of the first piece's position; RoBERTa and others count from that of padding."""
    for name, part in transformer.named_modules():
        if name.endswith("position_embeddings") and getattr(part, "padding_idx", None) is not None:
            return int(part.padding_idx) + 1
    return 0


def _without_frozen(module: nn.Module, weights: dict[str, Any], prefix: str, local_metadata: object) -> None:
    """Remove frozen weights from `state_dict`. prefix: the encoder's prefix in names of the whole network."""
    assert isinstance(module, TransformerEncoder)
    start = prefix + MODEL
    for name in [name for name in weights if name.startswith(start)]:
        if is_frozen(name.removeprefix(start), module.settings.train):
            del weights[name]


def _frozen_are_not_missing(module: nn.Module, incompatible: Any) -> None:
    """Remove frozen weights, which stay as they are, from the keys that `load_state_dict` reports missing."""
    assert isinstance(module, TransformerEncoder)
    frozen = {name for name in module.model.state_dict() if is_frozen(name, module.settings.train)}
    missing = [
        name for name in incompatible.missing_keys if f".{name}".partition(f".{MODEL}")[2] not in frozen
    ]
    incompatible.missing_keys[:] = missing
