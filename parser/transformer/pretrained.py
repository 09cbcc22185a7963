"""Reading a pretrained transformer, and rebuilding one from what a model's folder keeps of it.

Only safetensors and JSON are read: no pickles, and no code that comes with a transformer.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import torch
import transformers
from tokenizers import Tokenizer
from tokenizers.processors import TemplateProcessing
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoTokenizer

OWN_CODE = "auto_map"
"""The key of a config that asks for code which comes with the transformer."""
MAX_LAYERS, MAX_SIZE = 200, 10_000_000
"""Of a transformer whose config is read from an untrusted model."""


@dataclass(frozen=True)
class PretrainedTransformer:
    """A transformer and its tokenizer, independent of where they came from."""

    config: str
    """JSON, with `model_type`."""
    tokenizer: str
    """The content of a `tokenizer.json`."""
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    """By name; none if a parser has trained all of them, which are then among its own."""

    @cached_property
    def digest(self) -> str:
        """A hash of all, by which equal transformers are known."""
        found = hashlib.sha256(self.config.encode() + self.tokenizer.encode())
        for name, weight in sorted(self.weights.items()):
            found.update(name.encode())
            found.update(weight.numpy().tobytes())
        return found.hexdigest()

    def build(self) -> nn.Module:
        """The transformer with random weights, on PyTorch's present default device. Raises ValueError."""
        content = json.loads(self.config)
        _refuse_bad_config(content)
        config = AutoConfig.for_model(**content)
        config.dtype = torch.float32
        with _quiet():
            model = AutoModel.from_config(config)
        if getattr(model, "pooler", None) is not None:
            model.pooler = None  # it makes one vector of a whole text, which no parser reads
        return model


def read_pretrained(path: str) -> PretrainedTransformer:
    """The transformer in a folder, or of that name on the hub of Hugging Face.

    Raises ValueError, with what to do, if there is none, or one that is not of safetensors and JSON alone.
    """
    folder = Path(path)
    if folder.is_dir():
        _refuse_unsafe(folder)
    try:
        with _quiet():
            config = AutoConfig.from_pretrained(path, trust_remote_code=False)
            _refuse_bad_config(config.to_dict())
            model = AutoModel.from_pretrained(
                path, config=config, use_safetensors=True, trust_remote_code=False, dtype=torch.float32
            )
            tokenizer = AutoTokenizer.from_pretrained(path, use_fast=True, trust_remote_code=False)
    except (OSError, ValueError, KeyError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise ValueError(
            f"parser.network.transformer.model: {path}: no transformer can be read: {reason}"
        ) from None
    if not getattr(tokenizer, "is_fast", False):
        raise ValueError(
            f"parser.network.transformer.model: {path}: has no fast tokenizer; it needs a tokenizer.json"
        )
    model.pooler = None
    config = json.dumps({**model.config.to_dict(), "model_type": model.config.model_type}, sort_keys=True)
    weights = {name: weight.contiguous() for name, weight in model.state_dict().items()}
    return PretrainedTransformer(config, _with_special_pieces(tokenizer), weights)


def _refuse_unsafe(folder: Path) -> None:
    """Raises ValueError for a folder without safetensors."""
    if not (folder / "config.json").is_file():
        raise ValueError(
            f"parser.network.transformer.model: {folder}: no transformer: config.json is missing"
        )
    if not any(folder.glob("*.safetensors")):
        others = sorted(
            path.name for path in folder.iterdir() if path.suffix in (".bin", ".pt", ".ckpt", ".h5")
        )
        found = f" ({', '.join(others)} is not read, since it may execute code)" if others else ""
        raise ValueError(
            f"parser.network.transformer.model: {folder}: has no *.safetensors{found}; "
            "load and save it once with transformers, which writes them"
        )


def _refuse_bad_config(content: Mapping[str, Any]) -> None:
    """Raises ValueError for a config that asks for code of its own, or has absurd sizes."""
    if OWN_CODE in content:
        raise ValueError("it needs code of its own, which is not executed; take another transformer")
    if "model_type" not in content:
        raise ValueError("its config has no model_type")
    for name, value in content.items():
        limit = MAX_LAYERS if name.endswith("layers") else MAX_SIZE
        if isinstance(value, int) and value > limit:
            raise ValueError(f"{name} is {value:,}, and at most {limit:,} is sensible")


def _with_special_pieces(tokenizer: Any) -> str:
    """The tokenizer's JSON, in which the special pieces around a text are noted.

    A tokenizer that transformers has saved and loaded again may have lost them.
    """
    backend = Tokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    begin = tokenizer.cls_token or tokenizer.bos_token
    end = tokenizer.sep_token or tokenizer.eos_token
    if backend.num_special_tokens_to_add(False) == 0 and begin and end:
        backend.post_processor = TemplateProcessing(
            single=f"{begin} $A {end}",
            special_tokens=[(name, backend.token_to_id(name)) for name in {begin, end}],
        )
    return backend.to_str()


@contextmanager
def _quiet() -> Iterator[None]:
    """Without the library's progress bars and remarks."""
    logging = transformers.utils.logging
    level, had_bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if had_bars:
            logging.enable_progress_bar()
