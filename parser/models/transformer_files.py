"""The pretrained transformer of a model, in the model's folder.

Hugging Face's library can read the folder `transformer`, but it contains only the weights that the parser has
not trained. The trained weights are among those of the parser.
"""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError, deserialize, safe_open
from safetensors.numpy import save

from parser.models.model import TransformerFiles
from parser.models.model_files import (
    TRANSFORMER_CLASS,
    TRANSFORMER_CONFIG,
    TRANSFORMER_TOKENIZER,
    TRANSFORMER_WEIGHTS,
    Arrays,
    ModelFiles,
    text_of,
)
from parser.networks.settings import NetworkSettings, TransformerSettings
from parser.networks.transformer.architecture import PREFIX, NeedsPyTorchError, architecture_of
from parser.networks.transformer.windows import longest_window
from parser.system.files import write_atomically
from parser.system.version import to_install

if TYPE_CHECKING:
    from parser.networks.transformer.encoder import TransformerEncoder
    from parser.networks.transformer.pretrained import PretrainedTransformer

FOR_OTHERS = TRANSFORMER_CLASS, b'{"tokenizer_class": "PreTrainedTokenizerFast"}\n'
"""A file without which the library would not read all of the tokenizer."""
DIGEST = "digest"
FLOATS = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}
"""The names of types in safetensors and in NumPy, which lacks bfloat16."""
BFLOAT16 = "BF16"


def refuse_missing_libraries() -> None:
    """Raises ValueError with what to install if packages for PyTorch are missing."""
    try:
        import peft  # noqa: F401
        import tokenizers  # noqa: F401
        import transformers  # noqa: F401
    except ImportError:
        needed = "a parser with a pretrained transformer needs transformers and peft"
        raise ValueError(f"{needed}: {to_install('transformers')}") from None


def refuse_missing_library(files: ModelFiles) -> None:
    """Raises ValueError with what to install if a model cannot be loaded without it."""
    if not files.has(TRANSFORMER_CONFIG):
        return
    try:
        architecture_of(json.loads(text_of(files, TRANSFORMER_CONFIG)))
    except NeedsPyTorchError as error:
        try:
            refuse_missing_libraries()
        except ValueError as missing:
            raise ValueError(f"{files.name}: {TRANSFORMER_CONFIG}: {error}: {missing}") from None
    except (ValueError, RecursionError):
        pass  # loading will tell
    if not find_spec("tokenizers"):
        needed = "a parser with a pretrained transformer needs tokenizers"
        raise ValueError(f"{files.name}: {needed}: {to_install('tokenizers')}")


def make_encoder(settings: TransformerSettings, pretrained: PretrainedTransformer) -> TransformerEncoder:
    """An encoder. Raises ValueError if packages are missing or the transformer does not suit the settings."""
    refuse_missing_libraries()
    from parser.networks.transformer.encoder import TransformerEncoder

    return TransformerEncoder(settings, pretrained)


class TransformerShapes(NamedTuple):
    """The shapes of the weights of a transformer and of what a parser adds to it."""

    trained: dict[str, tuple[int, ...]]
    """By their names in the parser's weights."""
    frozen: dict[str, tuple[int, ...]]
    """By their names in Hugging Face's library."""
    size: int
    """Size of the vector of a word."""


def transformer_shapes(settings: TransformerSettings, files: TransformerFiles) -> TransformerShapes:
    """Raises ValueError if the transformer does not suit the settings."""
    try:
        found = files.architecture
    except NeedsPyTorchError:
        return _shapes_by_pytorch(settings, files)
    longest_window(settings, files.pieces, len(found.layers), found.pieces, found.longest)
    return TransformerShapes(found.trained_shapes(settings), found.frozen_shapes(settings), found.size)


def _shapes_by_pytorch(settings: TransformerSettings, files: TransformerFiles) -> TransformerShapes:
    from parser.networks.without_values import without_values

    with without_values():
        encoder = make_encoder(settings, pretrained_transformer(files))
    trained = {f"{PREFIX}{name}": tuple(weight.shape) for name, weight in encoder.state_dict().items()}
    frozen = {name: tuple(weight.shape) for name, weight in encoder.frozen_weights().items()}
    return TransformerShapes(trained, frozen, encoder.size)


def pretrained_transformer(files: TransformerFiles) -> PretrainedTransformer:
    """The transformer for Hugging Face's library."""
    import torch

    from parser.networks.transformer.pretrained import PretrainedTransformer

    weights = {name: torch.tensor(weight).float() for name, weight in files.weights.items()}
    return PretrainedTransformer(files.config, files.tokenizer, weights)


def read_transformer(files: ModelFiles, network: NetworkSettings) -> TransformerFiles | None:
    """The transformer of a model; None if it has none. Raises what the libraries raise for a broken one."""
    if not network.transformer:
        return None
    has_weights = network.transformer.train != "all"
    needed = TRANSFORMER_CONFIG, TRANSFORMER_TOKENIZER, *([TRANSFORMER_WEIGHTS] if has_weights else [])
    if missing := [name for name in needed if not files.has(name)]:
        raise ValueError(f"{', '.join(missing)} missing")
    weights = _weights(files) if has_weights else {}
    for name, weight in weights.items():
        if weight.dtype.kind != "f" or not np.isfinite(weight).all():
            raise ValueError(f"{TRANSFORMER_WEIGHTS}: {name} has values that are no finite numbers")
    return TransformerFiles(
        text_of(files, TRANSFORMER_CONFIG), text_of(files, TRANSFORMER_TOKENIZER), weights
    )


def _weights(files: ModelFiles) -> Arrays:
    if not any(array.type == BFLOAT16 for array in files.stored(TRANSFORMER_WEIGHTS).values()):
        return files.weights(TRANSFORMER_WEIGHTS)
    return {
        name: _array(part["dtype"], part["data"]).reshape(part["shape"])
        for name, part in deserialize(files.content(TRANSFORMER_WEIGHTS))
    }


def _array(kind: str, content: bytes) -> NDArray[Any]:
    """[numbers] A number of bfloat16 is the first half of that of float32."""
    if kind == BFLOAT16:
        return (np.frombuffer(content, "<u2").astype(np.uint32) << 16).view(np.float32)
    return np.frombuffer(content, FLOATS[kind])


def write_transformer(folder: Path, encoder: TransformerEncoder) -> None:
    """Write the files, each atomically. Weights that are already there are not written again."""
    pretrained = encoder.pretrained
    (folder / TRANSFORMER_CONFIG).parent.mkdir(exist_ok=True)
    write_atomically(folder / TRANSFORMER_CONFIG, pretrained.config.encode())
    write_atomically(folder / TRANSFORMER_TOKENIZER, pretrained.tokenizer.encode())
    name, content = FOR_OTHERS
    write_atomically(folder / name, content)
    weights = encoder.frozen_weights()
    if weights and _digest_in(folder / TRANSFORMER_WEIGHTS) != pretrained.digest:
        exact = {name: weight.contiguous().cpu().numpy() for name, weight in weights.items()}
        # A single entry: the order of several is random, and equal models should give equal files.
        write_atomically(folder / TRANSFORMER_WEIGHTS, save(exact, {DIGEST: pretrained.digest}))


def _digest_in(path: Path) -> str | None:
    try:
        with safe_open(path, "np") as file:
            return (file.metadata() or {}).get(DIGEST)
    except (SafetensorError, OSError):
        return None
