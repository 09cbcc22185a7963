"""A mode that handles Python's calls to PyTorch as if there were a CUDA device."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

from simulated_cuda import library

if TYPE_CHECKING:
    from simulated_cuda.device import SimulatedCuda

CPU = torch.device("cpu")
PROPERTIES = {
    torch.Tensor.device.__get__: "device",
    torch.Tensor.is_cuda.__get__: "is_cuda",
    torch.Tensor.is_cpu.__get__: "is_cpu",
}


class PythonCalls(TorchFunctionMode):
    def __init__(self, device: SimulatedCuda):
        super().__init__()
        self._device = device
        self._answers: Mapping[str, Callable[..., Any]] = {
            "to": self._to,
            "cpu": self._cpu,
            "cuda": self._cuda,
            "pin_memory": self._pin_memory,
            "is_pinned": lambda function, tensor, *_, **__: tensor in device.pinned,
            "tolist": self._tolist,
            "numpy": self._numpy,
            "__array__": self._numpy,
            "dropout": self._dropout,
            "embedding_bag": self._embedding_bag,
            "lstm": self._lstm,
            "lstm_cell": self._lstm_cell,
        }

    def __torch_function__(
        self,
        function: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = dict(kwargs or {})
        if function in PROPERTIES:
            return self._property(function, args[0])
        name = getattr(function, "__name__", "")
        if args and isinstance(args[0], Tensor) and name in self._answers:
            return self._answers[name](function, *args, **kwargs)
        if kwargs.get("device") is not None:
            return self._made(function, name, args, kwargs)
        if kwargs.pop("pin_memory", False):
            return self._device.pin(function(*args, **kwargs))
        is_python = isinstance(function, FunctionType)
        with self._device.called_by_python(not is_python and not (args and isinstance(args[0], Tensor))):
            return function(*args, **kwargs)

    def _property(self, function: Callable[..., Any], tensor: Tensor) -> Any:
        is_there = tensor in self._device.storages
        if not is_there:
            return function(tensor)
        return {"device": self._device.name, "is_cuda": True, "is_cpu": False}[PROPERTIES[function]]

    def _made(
        self, function: Callable[..., Any], name: str, args: tuple[Any, ...], kwargs: dict[str, Any]
    ) -> Any:
        """Create a tensor on a named device."""
        device, wanted = self._device, torch.device(kwargs["device"])
        if wanted.type != "cuda":
            made = function(*args, **kwargs)
            if wanted.type == "cpu" and isinstance(made, Tensor):
                device.storages.discard(made)
            return made
        kwargs["device"] = CPU
        if name in ("tensor", "as_tensor"):
            made = function(*args, **kwargs)
            if made in device.storages:
                return made
            device.count_upload(made, non_blocking=False)
            return device.storages.add(made.clone())
        with device.creating():
            return device.storages.add(function(*args, **kwargs))

    def _to(self, function: Callable[..., Any], tensor: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        """Like `Tensor.to`, for a device that PyTorch does not know."""
        device, dtype, non_blocking, copy = _parsed(self._device, *args, **kwargs)
        is_there = tensor in self._device.storages
        goes_there = is_there if device is None else device.type == "cuda"
        if device is not None and device.type == "meta":
            return function(tensor, device, dtype or tensor.dtype)
        if is_there == goes_there:
            return function(tensor, dtype or tensor.dtype, non_blocking, copy)
        return self._moved(tensor, goes_there, dtype, non_blocking)

    def _cpu(self, function: Callable[..., Any], tensor: Tensor) -> Tensor:
        return self._moved(tensor, False, None, False) if tensor in self._device.storages else tensor

    def _cuda(
        self, function: Callable[..., Any], tensor: Tensor, *_: Any, non_blocking: bool = False
    ) -> Tensor:
        is_there = tensor in self._device.storages
        return tensor if is_there else self._moved(tensor, True, None, non_blocking)

    def _moved(
        self, tensor: Tensor, to_device: bool, dtype: torch.dtype | None, non_blocking: bool
    ) -> Tensor:
        device = self._device
        with device.silent():
            moved = tensor.to(dtype or tensor.dtype, copy=True)
        if to_device:
            device.count_upload(tensor, non_blocking)
            return device.storages.add(moved)
        device.count_synchronization("copy to the host")
        device.storages.discard(moved)
        return moved

    def _pin_memory(self, function: Callable[..., Any], tensor: Tensor) -> Tensor:
        if tensor in self._device.storages:
            raise RuntimeError("cannot pin 'torch.cuda.FloatTensor' only dense CPU tensors can be pinned")
        return self._device.pin(tensor.clone())

    def _tolist(self, function: Callable[..., Any], tensor: Tensor) -> Any:
        if tensor in self._device.storages:
            self._device.count_synchronization("tolist")
        return function(tensor)

    def _numpy(self, function: Callable[..., Any], tensor: Tensor, *args: Any, **kwargs: Any) -> Any:
        if tensor in self._device.storages:
            message = "can't convert cuda:0 device type tensor to numpy. Use Tensor.cpu() to copy the tensor"
            raise TypeError(f"{message} to host memory first.")
        return function(tensor, *args, **kwargs)

    def _dropout(
        self,
        function: Callable[..., Any],
        tensor: Tensor,
        p: float,
        training: bool,
        *rest: Any,
        **kwargs: Any,
    ) -> Tensor:
        """Dropout, which is one operator on CUDA and several on a CPU."""
        if tensor not in self._device.storages or isinstance(function, FunctionType):
            return function(tensor, p, training, *rest, **kwargs)
        return torch.native_dropout(tensor, p, training)[0] if training and p else tensor

    def _embedding_bag(
        self, function: Callable[..., Any], tensor: Tensor, *args: Any, **kwargs: Any
    ) -> Tensor:
        is_python = isinstance(function, FunctionType)
        if is_python and tensor in self._device.storages and tensor.dim() == 2:
            # It creates the offsets itself, on a device that this mode does not see.
            with self._device.creating():
                kwargs["offsets"] = torch.arange(0, tensor.numel(), tensor.shape[1])
            tensor = tensor.flatten()
        return function(tensor, *args, **kwargs)

    def _lstm(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if isinstance(function, FunctionType) or args[0] not in self._device.storages:
            return function(*args, **kwargs)
        return library.lstm(self._device, function, args)

    def _lstm_cell(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        if args[0] not in self._device.storages:
            return function(*args, **kwargs)
        return library.lstm_cell(self._device, *args, **kwargs)


def _parsed(
    simulated: SimulatedCuda,
    first: Any = None,
    *rest: Any,
    device: Any = None,
    dtype: torch.dtype | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    **_: Any,
) -> tuple[torch.device | None, torch.dtype | None, bool, bool]:
    """Device, data type, non_blocking and copy of the three forms of `Tensor.to`."""
    if isinstance(first, Tensor):
        device, dtype = (simulated.name if first in simulated.storages else first.device), first.dtype
    elif isinstance(first, torch.dtype):
        dtype = first
    else:
        device = first if device is None else device
        if rest and (rest[0] is None or isinstance(rest[0], torch.dtype)):
            dtype, *rest = rest
    flags = [*rest, *(non_blocking, copy)[len(rest) :]]
    if isinstance(device, int):
        device = torch.device("cuda", device)
    return None if device is None else torch.device(device), dtype, flags[0], flags[1]
