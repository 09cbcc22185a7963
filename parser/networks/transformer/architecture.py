"""What a transformer consists of, by its config, for parsing without the library that it comes from.

A config is only read: nothing in it is executed. Its sizes can be compared with those of the weights in a
file before any memory depends on them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from parser.networks.settings import LoraSettings, TransformerSettings
from parser.system.console import shortened

MAX_LAYERS, MAX_SIZE = 200, 2_000_000
"""Limits for the config of a transformer, whose author need not be trusted."""
OWN_CODE = "auto_map"
"""The key of a config that requests code that comes with the transformer."""
PREFIX = "tokens.transformer."
"""Of the names of weights in a model's file. They are those of `TransformerEncoder`."""
MODEL = f"{PREFIX}model."
"""The same of the transformer itself."""
LORA_PARTS = "lora_A.default.weight", "lora_B.default.weight"
"""The ends of the names of low-rank matrices. They are multiplied from right to left."""
GELU, GELU_BY_TANH = ("gelu", "gelu_python"), ("gelu_new", "gelu_pytorch_tanh", "gelu_fast", "gelu_accurate")
ACTIVATIONS = (*GELU, *GELU_BY_TANH, "relu", "silu", "swish")
MPNET_BUCKETS, MPNET_PADDING = 32, 1
"""Numbers that the library does not take from the config."""
Shapes = dict[str, tuple[int, ...]]


class NeedsPyTorchError(Exception):
    """The transformer may be sound, but only the library in PyTorch computes it. The message says why."""


class Kind(NamedTuple):
    """The names of weights, which differ among kinds, and of keys of the config.

    The names from `inputs` to `norm` continue that of a layer. An empty name is that of no part.
    """

    layer: str = "encoder.layer.{}"
    inputs: tuple[str, ...] = ("attention.self.query", "attention.self.key", "attention.self.value")
    """Of queries, keys and values, or of all three."""
    output: str = "attention.output.dense"
    attention_norm: str = "attention.output.LayerNorm"
    inner: str = "intermediate.dense"
    outer: str = "output.dense"
    norm: str = "output.LayerNorm"
    words: str = "embeddings.word_embeddings"
    positions: str = "embeddings.position_embeddings"
    types: str = "embeddings.token_type_embeddings"
    embedding_norm: str = "embeddings.LayerNorm"
    projection: str = ""
    """From the size of the embeddings to that of the layers."""
    projects_first: bool = False
    """Whether embeddings are projected before they are normalized."""
    last_norm: str = ""
    normalizes_first: bool = False
    """Whether the inputs of attention and of the inner layer are normalized, not the sums after them."""
    is_gated: bool = False
    """Whether the second half of the inner layer is multiplied with the first, after its activation."""
    counts_from_padding: bool = False
    """Whether the first position is the one after the number of the padding piece, as in RoBERTa."""
    keys: tuple[str, ...] = (
        *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
        *("hidden_act", "layer_norm_eps"),
    )


_BERT = Kind()
_ROBERTA = Kind(counts_from_padding=True)
KINDS = {
    "albert": Kind(
        layer="encoder.albert_layer_groups.{}.albert_layers.{}",
        inputs=("attention.query", "attention.key", "attention.value"),
        output="attention.dense",
        attention_norm="attention.LayerNorm",
        inner="ffn",
        outer="ffn_output",
        norm="full_layer_layer_norm",
        projection="encoder.embedding_hidden_mapping_in",
    ),
    "bert": _BERT,
    "camembert": _ROBERTA,
    "deberta-v2": Kind(
        inputs=("attention.self.query_proj", "attention.self.key_proj", "attention.self.value_proj"),
        projection="embeddings.embed_proj",
        projects_first=True,
    ),
    "distilbert": Kind(
        layer="transformer.layer.{}",
        inputs=("attention.q_lin", "attention.k_lin", "attention.v_lin"),
        output="attention.out_lin",
        attention_norm="sa_layer_norm",
        inner="ffn.lin1",
        outer="ffn.lin2",
        norm="output_layer_norm",
        types="",
        keys=("dim", "n_layers", "n_heads", "hidden_dim", "activation", ""),
    ),
    "electra": Kind(projection="embeddings_project"),
    "modernbert": Kind(
        layer="layers.{}",
        inputs=("attn.Wqkv",),
        output="attn.Wo",
        attention_norm="attn_norm",
        inner="mlp.Wi",
        outer="mlp.Wo",
        norm="mlp_norm",
        words="embeddings.tok_embeddings",
        positions="",
        types="",
        embedding_norm="embeddings.norm",
        last_norm="final_norm",
        normalizes_first=True,
        is_gated=True,
        keys=(
            *("hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"),
            *("hidden_activation", "norm_eps"),
        ),
    ),
    "mpnet": Kind(
        inputs=("attention.attn.q", "attention.attn.k", "attention.attn.v"),
        output="attention.attn.o",
        attention_norm="attention.LayerNorm",
        types="",
        counts_from_padding=True,
    ),
    "roberta": _ROBERTA,
    "xlm-roberta": _ROBERTA,
    "xlm-roberta-xl": Kind(
        attention_norm="attention.self_attn_layer_norm",
        norm="LayerNorm",
        embedding_norm="",
        last_norm="encoder.LayerNorm",
        normalizes_first=True,
        counts_from_padding=True,
    ),
}
"""The kinds of transformers that are read: they encode text, and building them has no other effect."""


class Rotation(NamedTuple):
    """How a layer of ModernBERT sees positions."""

    base: float
    """Of the wavelengths by which queries and keys are rotated."""
    reach: int | None
    """The greatest distance that is attended to; None for any."""


class Disentangled(NamedTuple):
    """How DeBERTa sees positions: by vectors of distances, which queries and keys are multiplied with."""

    span: int
    """The distances are cut to -span <= distance < span."""
    buckets: int
    """Greater distances share vectors, in so many buckets; 0 or less for one vector for each distance."""
    furthest: int
    """The distance from which on all are in the last bucket."""
    keys: str
    """The end of the name of the layer that makes keys of vectors of distances; empty without such keys."""
    queries: str
    is_normalized: bool
    """Whether the vectors of distances are normalized."""


@dataclass(frozen=True)
class Architecture:
    kind: Kind
    size: int
    """Of the vectors between layers."""
    heads: int
    layers: tuple[str, ...]
    """The names of the layers, in the order in which they are computed; ALBERT computes some repeatedly."""
    activation: str
    epsilon: float
    """Added to variances."""
    pieces: int
    """Number of pieces in the vocabulary."""
    longest: int
    """Longest text in pieces, special ones included."""
    padding: int
    """The number of the padding piece."""
    shapes: Shapes = field(default_factory=dict)
    """Of all weights."""
    matrices: Shapes = field(default_factory=dict)
    """[outputs, inputs] of the linear layers, by their names. `lora` adds matrices to each of them."""
    rotations: tuple[Rotation, ...] = ()
    """Of each layer, for ModernBERT."""
    distances: str = ""
    """MPNet's weights of distances."""
    disentangled: Disentangled | None = None

    def frozen_shapes(self, settings: TransformerSettings) -> Shapes:
        """Of the weights in the file of a transformer of a model."""
        return {} if settings.train == "all" else self.shapes

    def trained_shapes(self, settings: TransformerSettings) -> Shapes:
        """Of the weights in a model's file."""
        trained: Shapes = {f"{PREFIX}mix": (settings.layers,), f"{PREFIX}scale": ()}
        if settings.train == "all":
            return trained | {f"{MODEL}{name}": shape for name, shape in self.shapes.items()}
        if settings.train == "lora":
            trained |= _lora_shapes(self.matrices, settings.lora)
        return trained


def architecture_of(config: Any) -> Architecture:
    """config: the content of a `config.json` that `transformer_files` has written, or of a stranger's.

    Raises ValueError if it is none of a transformer that this program reads, and NeedsPyTorchError.
    """
    if not isinstance(config, Mapping):
        raise ValueError("the transformer's config holds no keys and values")
    if OWN_CODE in config:
        raise ValueError("the transformer needs code of its own, which is not executed")
    name = config.get("model_type")
    kind = KINDS.get(name) if isinstance(name, str) else None
    if not kind:
        known = ", ".join(KINDS)
        raise ValueError(
            f"the transformer's model_type is {shortened(repr(name))}, and should be one of {known}"
        )
    size, count, heads, inner = (_number(config, key) for key in kind.keys[:4])
    if count > MAX_LAYERS:
        raise ValueError(f"the transformer has {count:,} layers, and at most {MAX_LAYERS} is sensible")
    if size % heads:
        raise ValueError(
            f"the transformer's size, {size:,}, is no multiple of the number of its heads, {heads:,}"
        )
    activation, epsilon = config.get(kind.keys[4]), config.get(kind.keys[5], 1e-12)
    if activation not in ACTIVATIONS:
        raise NeedsPyTorchError(f"{kind.keys[4]} is {shortened(repr(activation))}")
    if not isinstance(epsilon, float) or not 0 < epsilon < 1:
        raise ValueError(f"the transformer's {kind.keys[5]} is {shortened(repr(epsilon))}")
    if name == "albert":
        layers = _albert_layers(config, kind.layer, count)
    else:
        layers = tuple(map(kind.layer.format, range(count)))
    padding = 0
    if kind.counts_from_padding:
        padding = MPNET_PADDING if name == "mpnet" else _number(config, "pad_token_id", least=0)
    found = Architecture(
        kind,
        size,
        heads,
        layers,
        activation,
        epsilon,
        pieces=_number(config, "vocab_size"),
        longest=_number(config, "max_position_embeddings") - (padding + 1 if kind.counts_from_padding else 0),
        padding=padding,
        distances="encoder.relative_attention_bias.weight" if name == "mpnet" else "",
        rotations=_rotations(config, count) if name == "modernbert" else (),
        disentangled=_disentangled(config, size // heads) if name == "deberta-v2" else None,
    )
    _add_embeddings(found, config)
    for layer in dict.fromkeys(layers):
        _add_layer(found, layer, inner, config)
    return found


def _add_embeddings(found: Architecture, config: Mapping[str, Any]) -> None:
    kind, shapes = found.kind, found.shapes
    is_deberta = kind.projects_first
    size = found.size
    if kind.projection and (not is_deberta or "embedding_size" in config):
        size = _number(config, "embedding_size")
    shapes[f"{kind.words}.weight"] = found.pieces, size
    if kind.positions and not (is_deberta and config.get("position_biased_input") is False):
        shapes[f"{kind.positions}.weight"] = _number(config, "max_position_embeddings"), size
    if kind.types and (types := _number(config, "type_vocab_size", least=0)):
        shapes[f"{kind.types}.weight"] = types, size
    if kind.projection and (size != found.size or kind is KINDS["albert"]):
        _add_linear(found, kind.projection, found.size, size, has_bias=not is_deberta)
    if kind.embedding_norm:
        _add_norm(found, kind.embedding_norm, found.size if is_deberta else size, config)
    if kind.last_norm:
        _add_norm(found, kind.last_norm, found.size, config)
    if found.distances:
        buckets = _number(config, "relative_attention_num_buckets", MPNET_BUCKETS)
        shapes[found.distances] = buckets, found.heads
    if vectors := found.disentangled:
        shapes["encoder.rel_embeddings.weight"] = 2 * vectors.span, found.size
        if vectors.is_normalized:
            _add_norm(found, "encoder.LayerNorm", found.size, config)


def _add_layer(found: Architecture, layer: str, inner: int, config: Mapping[str, Any]) -> None:
    kind, size = found.kind, found.size
    is_modern = bool(found.rotations)
    has_bias = not is_modern or bool(config.get("attention_bias"))
    for name in kind.inputs:
        _add_linear(found, f"{layer}.{name}", 3 * size // len(kind.inputs), size, has_bias)
    _add_linear(found, f"{layer}.{kind.output}", size, size, has_bias)
    if not is_modern or layer != found.layers[0]:  # its embeddings are already normalized
        _add_norm(found, f"{layer}.{kind.attention_norm}", size, config)
    has_bias = not is_modern or bool(config.get("mlp_bias"))
    _add_linear(found, f"{layer}.{kind.inner}", (1 + kind.is_gated) * inner, size, has_bias)
    _add_linear(found, f"{layer}.{kind.outer}", size, inner, has_bias)
    _add_norm(found, f"{layer}.{kind.norm}", size, config)
    if vectors := found.disentangled:
        for name in (vectors.keys, vectors.queries):
            if name and name not in kind.inputs:
                _add_linear(found, f"{layer}.{name}", size, size)


def _add_linear(found: Architecture, name: str, outputs: int, inputs: int, has_bias: bool = True) -> None:
    found.matrices[name] = found.shapes[f"{name}.weight"] = outputs, inputs
    if has_bias:
        found.shapes[f"{name}.bias"] = (outputs,)


def _add_norm(found: Architecture, name: str, size: int, config: Mapping[str, Any]) -> None:
    found.shapes[f"{name}.weight"] = (size,)
    if not found.rotations or config.get("norm_bias"):
        found.shapes[f"{name}.bias"] = (size,)


def _albert_layers(config: Mapping[str, Any], name: str, count: int) -> tuple[str, ...]:
    """ALBERT has groups of layers, each of which is computed several times in a row."""
    groups, inner = _number(config, "num_hidden_groups"), _number(config, "inner_group_num")
    if groups > count or count * inner > MAX_LAYERS:
        raise ValueError(f"the transformer has {count:,} layers in {groups:,} groups of {inner:,}")
    return tuple(
        name.format(int(layer / (count / groups)), part) for layer in range(count) for part in range(inner)
    )


def _rotations(config: Mapping[str, Any], count: int) -> tuple[Rotation, ...]:
    kinds, parameters = config.get("layer_types"), config.get("rope_parameters")
    reach = _number(config, "local_attention") // 2
    if not isinstance(kinds, list) or len(kinds) != count or not isinstance(parameters, Mapping):
        raise ValueError(
            f"the transformer's config needs layer_types of {count:,} layers and rope_parameters"
        )
    rotations = []
    for kind in kinds:
        of_kind = parameters.get(kind) if isinstance(kind, str) else None
        if kind not in ("full_attention", "sliding_attention") or not isinstance(of_kind, Mapping):
            raise NeedsPyTorchError(f"layer_types has {shortened(repr(kind))}")
        if of_kind.get("rope_type") != "default":
            raise NeedsPyTorchError(f"rope_type is {shortened(repr(of_kind.get('rope_type')))}")
        base = of_kind.get("rope_theta")
        if not isinstance(base, (int, float)) or not 1 <= base <= 1e9:
            raise ValueError(f"the transformer's rope_theta is {shortened(repr(base))}")
        rotations.append(Rotation(float(base), None if kind == "full_attention" else reach))
    return tuple(rotations)


def _disentangled(config: Mapping[str, Any], of_head: int) -> Disentangled | None:
    if config.get("attention_head_size", of_head) != of_head:
        raise NeedsPyTorchError("attention_head_size differs from hidden_size / num_attention_heads")
    if config.get("conv_kernel_size"):
        raise NeedsPyTorchError("conv_kernel_size is given")
    if not config.get("relative_attention"):
        if config.get("pos_att_type"):
            raise NeedsPyTorchError("pos_att_type is given without relative_attention")
        return None
    kinds = config.get("pos_att_type") or ()
    is_shared = bool(config.get("share_att_key"))
    furthest = config.get("max_relative_positions", -1)
    if type(furthest) is not int or furthest < 1:
        furthest = _number(config, "max_position_embeddings")
    buckets = config.get("position_buckets", -1)
    if type(buckets) is not int or not buckets <= 2 * furthest - 4 <= MAX_SIZE or buckets in (1, 2, 3):
        raise ValueError("the transformer's position_buckets or max_relative_positions is not sensible")
    return Disentangled(
        span=buckets if buckets > 0 else furthest,
        buckets=buckets,
        furthest=furthest,
        keys=f"attention.self.{'' if is_shared else 'pos_'}key_proj" if "c2p" in kinds else "",
        queries=f"attention.self.{'' if is_shared else 'pos_'}query_proj" if "p2c" in kinds else "",
        is_normalized="layer_norm" in str(config.get("norm_rel_ebd", "none")).lower().split("|"),
    )


def _lora_shapes(matrices: Shapes, settings: LoraSettings) -> Shapes:
    shapes: Shapes = {}
    for name, (outputs, inputs) in matrices.items():
        first, second = (f"{MODEL}{name}.{part}" for part in LORA_PARTS)
        shapes |= {first: (settings.rank, inputs), second: (outputs, settings.rank)}
    return shapes


def _number(config: Mapping[str, Any], key: str, least: int = 1) -> int:
    """A whole number of the config. Raises ValueError if it is missing or not sensible."""
    number = config.get(key)
    if type(number) is not int or not least <= number <= MAX_SIZE:
        raise ValueError(
            f"the transformer's {key} is {shortened(repr(number))}, not from {least:,} to {MAX_SIZE:,}"
        )
    return number
