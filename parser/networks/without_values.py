"""Networks with shapes but without values, to find the sizes of weights before memory is allocated."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

OF_TENSORS = Tensor.normal_, Tensor.uniform_, Tensor.fill_, Tensor.zero_, Tensor.copy_, Tensor.div_
"""Methods that only change values, in addition to the functions of `torch.nn.init`."""


@contextmanager
def without_values() -> Iterator[None]:
    """Modules built in this context have weights without values, on the device "meta"."""
    with torch.device("meta"), _Uninitialized():
        yield


class _Uninitialized(TorchFunctionMode):
    """Skips initialization, which on this device imports PyTorch's compiler and so takes a second."""

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        arguments: Sequence[Any] = (),
        keywords: Mapping[str, Any] | None = None,
    ) -> Any:
        keywords = keywords or {}
        if function in OF_TENSORS:
            return arguments[0]
        if getattr(function, "__module__", None) == torch.nn.init.__name__:
            return arguments[0] if arguments else keywords["tensor"]
        if function is torch.randn:
            return torch.empty(*arguments, **keywords)
        return function(*arguments, **keywords)
