"""Reading a pretrained transformer, and rebuilding one from the contents of a model's folder.

Only safetensors and JSON are read: neither pickles nor code that comes with a transformer.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping
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
from transformers import AutoConfig, AutoModel, AutoTokenizer, PreTrainedConfig
from transformers.initialization import no_init_weights
from transformers.utils.hub import cached_file

from parser.networks.transformer.architecture import KINDS, MAX_LAYERS, MAX_SIZE, OWN_CODE
from parser.system.console import listed, say

MODEL = "parser.network.transformer.model"
HUB_NAME = re.compile(r"\w[\w.-]*(/[\w.-]+)?")
"""Of a model on Hugging Face's hub."""
OF_THE_PLACE = (
    *("_name_or_path", "transformers_version", "architectures", "dtype", "torch_dtype"),
    *("attn_implementation", "_attn_implementation", "experts_implementation", "quantization_config"),
)
"""Keys of a config that describe where and how a transformer was run, not what it is. Some of them would load
other code."""
COUNTS_OF_LAYERS = "num_hidden_layers", "num_hidden_groups", "inner_group_num"
"""Keys of a config whose product is at least the number of layers. ALBERT has all three."""
SHOWN = 3
"""Maximum number of weights listed in a message."""


@dataclass(frozen=True)
class PretrainedTransformer:
    """A transformer and its tokenizer, independent of where they came from."""

    config: str
    """JSON, with `model_type`."""
    tokenizer: str
    """The content of a `tokenizer.json`."""
    weights: Mapping[str, Tensor] = field(default_factory=dict)
    """Weights by name; empty if a parser has trained all of them, and stores them with its own weights."""

    def __deepcopy__(self, memo: object) -> PretrainedTransformer:
        """Return the same object: it is never changed, and its weights are large."""
        return self

    @cached_property
    def digest(self) -> str:
        """A hash of the config, tokenizer and weights, which identifies equal transformers."""
        found = hashlib.sha256(self.config.encode() + self.tokenizer.encode())
        for name, weight in sorted(self.weights.items()):
            found.update(name.encode())
            found.update(weight.numpy().tobytes())
        return found.hexdigest()

    def build(self, shared: bool = False) -> nn.Module:
        """The transformer with its weights, or with random weights if there are none.

        It is built on PyTorch's current default device. shared: whether to use these tensors themselves as
        weights, for a transformer that is not changed. Raises ValueError if the config is not valid.
        """
        content = json.loads(self.config)
        _refuse_bad_config(content)
        try:
            config = _config_of(content, AutoConfig.for_model)
            config.dtype = torch.float32
            with _quiet():
                if not self.weights or torch.get_default_device().type == "meta":
                    return _without_pooler(AutoModel.from_config(config))
                with no_init_weights():
                    model = _without_pooler(AutoModel.from_config(config))
        except Exception as error:  # the library raises many kinds
            raise ValueError(f"the transformer's config is broken: {error}") from None
        if missing := sorted(model.state_dict().keys() - self.weights.keys()):
            raise ValueError(f"the transformer has no weights {listed(missing, SHOWN)}")
        model.load_state_dict({name: self.weights[name] for name in model.state_dict()}, assign=shared)
        return model


def read_pretrained(path: str) -> PretrainedTransformer:
    """Read the transformer in a folder, or with this name on the Hugging Face hub.

    Raises ValueError, with advice, if there is none, or if it does not consist of safetensors and JSON alone.
    """
    folder = Path(path)
    if folder.is_dir():
        _refuse_unsafe(folder)
    elif folder.is_absolute() or not HUB_NAME.fullmatch(path):
        raise ValueError(
            f"{MODEL}: {path}: there is no such folder; docs/transformers.md says how to get one"
        )
    else:
        say(f"{path}: no folder; reading it from Hugging Face's hub, unless it was downloaded before")
    try:
        with _quiet():
            stored, _ = PreTrainedConfig.get_config_dict(path)
            config = _config_of(stored, lambda **_: AutoConfig.from_pretrained(path, trust_remote_code=False))
            attention = config._attn_implementation  # `to_dict` leaves it out
            _refuse_bad_config({**config.to_dict(), "attn_implementation": attention})
            if folder.is_dir():
                _refuse_more_weights(config, folder)
            content = _read_tokenizer(path, config.vocab_size)  # before the weights, which may be downloaded
            model, told = AutoModel.from_pretrained(
                path,
                config=config,
                use_safetensors=True,
                trust_remote_code=False,
                dtype=torch.float32,
                output_loading_info=True,
            )
        model = _without_pooler(model)
        if missing := sorted(told["missing_keys"] & model.state_dict().keys()):
            raise ValueError(f"its files have no weights {listed(missing, SHOWN)}")
    except Exception as error:  # the library raises many kinds
        first, *others = (str(error).strip() or type(error).__name__).splitlines()
        reason = " ".join([first, *(line.strip() for line in others[:1])]) if first.endswith(":") else first
        raise ValueError(f"{MODEL}: {path}: no transformer can be read: {reason}") from None
    weights = {name: weight.contiguous() for name, weight in model.state_dict().items()}
    return PretrainedTransformer(_portable(model.config), content, weights)


def _portable(config: Any) -> str:
    """The config as JSON that does not depend on where the transformer is stored."""
    kept = {name: value for name, value in config.to_dict().items() if name not in OF_THE_PLACE}
    return json.dumps({**kept, "model_type": config.model_type}, sort_keys=True)


def _without_pooler(model: Any) -> nn.Module:
    """The model without the part that makes one vector of a whole text, which no parser reads."""
    if getattr(model, "pooler", None) is not None:
        model.pooler = None
    assert isinstance(model, nn.Module)
    return model


def _refuse_unsafe(folder: Path) -> None:
    """Raises ValueError for a folder without config or safetensors, or with an adapter."""
    if not (folder / "config.json").is_file():
        raise ValueError(f"{MODEL}: {folder}: no transformer: config.json is missing")
    if not any(folder.glob("*.safetensors")):
        unsafe = ".bin", ".pt", ".ckpt", ".h5"
        others = sorted(path.name for path in folder.iterdir() if path.suffix in unsafe)
        found = f" ({', '.join(others)} is not read, since it may execute code)" if others else ""
        raise ValueError(
            f"{MODEL}: {folder}: has no *.safetensors{found}; load and save it once with transformers, "
            "which writes them"
        )
    if (folder / "adapter_config.json").is_file():
        raise ValueError(
            f"{MODEL}: {folder}: has an adapter; merge it with peft's merge_and_unload, and save the result"
        )


def _refuse_bad_config(content: Any) -> None:
    """Raises ValueError for a config of another kind of model, or with keys that could load code."""
    if not isinstance(content, dict):
        raise ValueError("the transformer's config holds no keys and values")
    if OWN_CODE in content:
        raise ValueError("it needs code of its own, which is not executed; take another transformer")
    kind = content.get("model_type")
    if kind not in KINDS:  # building others could have other effects
        known = ", ".join(KINDS)
        raise ValueError(f"its model_type is {kind!r}, and should be one of {known}")
    if kept := sorted(set(OF_THE_PLACE[-4:]) & {name for name, value in content.items() if value}):
        raise ValueError(f"its config has {', '.join(kept)}, which may load other code")


def _config_of(content: Any, make: Callable[..., Any]) -> Any:
    """The library's config object. Raises ValueError if a size in the config is absurd."""
    _refuse_absurd_sizes(content)  # before `make`: some configs build lists of these sizes
    config = make(**content)
    layers = math.prod(getattr(config, name, 1) for name in COUNTS_OF_LAYERS)
    if layers > MAX_LAYERS:
        raise ValueError(f"it has {layers:,} layers, and at most {MAX_LAYERS} is sensible")
    return config


def _refuse_absurd_sizes(content: Any, name: str = "") -> None:
    """Raises ValueError if a number is too large. content: the value of a config under this name."""
    if isinstance(content, (int, float)) and content > MAX_SIZE:
        raise ValueError(f"{name} is {content:,}, and at most {MAX_SIZE:,} is sensible")
    if isinstance(content, Mapping):
        for key, value in content.items():
            _refuse_absurd_sizes(value, key)
    elif isinstance(content, list):
        for value in content:
            _refuse_absurd_sizes(value, name)


def _refuse_more_weights(config: Any, folder: Path) -> None:
    """Raises ValueError if a config asks for more weights than the folder's files can hold.

    The library would allocate all of them before noticing that some are missing.
    """
    with torch.device("meta"):
        weights = sum(
            weight.numel() for weight in _without_pooler(AutoModel.from_config(config)).parameters()
        )
    held = sum(path.stat().st_size for path in folder.glob("*.safetensors"))
    if weights > held:
        raise ValueError(f"its config asks for {weights:,} weights, and *.safetensors has {held:,} bytes")


def _read_tokenizer(path: str, rows: int) -> str:
    """The content of the `tokenizer.json`, including the special pieces around a text.

    rows: of the embeddings. Raises ValueError if there is no tokenizer, or if it has more pieces.
    A tokenizer that was saved and loaded again with transformers may have lost these pieces. The library's
    own reading is not used: without a `tokenizer_config.json`, it may lower-case words.
    """
    file = cached_file(path, "tokenizer.json", _raise_exceptions_for_missing_entries=False)
    if file is None:
        raise ValueError("it has no tokenizer.json; load and save its tokenizer once with transformers")
    backend = Tokenizer.from_file(file)
    if (last := max(backend.get_vocab().values(), default=0)) >= rows:
        raise ValueError(
            f"its tokenizer.json is of another transformer: it has a piece {last:,} of only {rows:,}"
        )
    if backend.num_special_tokens_to_add(False) == 0:
        names = AutoTokenizer.from_pretrained(path, use_fast=True, trust_remote_code=False)
        begin, end = names.cls_token or names.bos_token, names.sep_token or names.eos_token
        if begin and end:
            backend.post_processor = TemplateProcessing(
                single=f"{begin} $A {end}",
                special_tokens=[(name, backend.token_to_id(name)) for name in (begin, end)],
            )
    return str(backend.to_str())


@contextmanager
def _quiet() -> Iterator[None]:
    """Turn off the library's progress bars and messages."""
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
