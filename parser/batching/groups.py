"""Run what is known now: calls of several modules, grouped so that each module runs once.

For structures that are known only one step ahead (Suarez & Zhu 2017, section 3), as where a network's own
scores choose the module that runs next. Grouping is a stable sort on the device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor


class Runs(NamedTuple):
    """Calls in the order of running, on the host: those of one run lie together and are of one module."""

    modules: list[int]
    """Of each run."""
    sizes: list[int]
    """Calls of each run, none of them 0."""

    @classmethod
    def one_by_one(cls, module: Tensor) -> Runs:
        """Each call for itself, in the order of `module` [calls]. Waits for the device, once."""
        modules = module.tolist()
        return cls(modules, [1] * len(modules))


@dataclass(frozen=True)
class Groups:
    """Calls in order of their modules, on the device of these.

    order: [calls] the call at each position; position: [calls] the position of each call; module: [calls]
    the module at each position; ends: [modules] int32, where in this order each module's calls end.
    """

    order: Tensor
    position: Tensor
    module: Tensor
    ends: Tensor

    @classmethod
    def of(cls, module: Tensor, modules: int) -> Groups:
        """module: [calls] int64, that of each call, from 0 to modules - 1. The host waits for nothing."""
        ordered, order = module.sort(stable=True)
        places = torch.arange(len(module), device=module.device)
        position = torch.empty_like(order).scatter_(0, order, places)
        # Unlike this search, `bincount` makes the host wait: it looks for the greatest value.
        numbers = torch.arange(modules, device=module.device)
        ends = torch.searchsorted(ordered, numbers, right=True, out_int32=True)
        return cls(order, position, ordered, ends)

    @property
    def sizes(self) -> Tensor:
        """[modules] Calls of each."""
        return self.ends.diff(prepend=self.ends.new_zeros(1))

    def runs(self) -> Runs:
        """One for each module that is called. Waits for the device, once."""
        sizes = self.sizes.tolist()
        called = [module for module, size in enumerate(sizes) if size]
        return Runs(called, [sizes[module] for module in called])


def grouped_product(left: Tensor, right: Tensor, ends: Tensor) -> Tensor:
    """The products of all groups by one call, without gradients; `why_not_grouped` must be None for them.

    Where torch has no kernel for the type, as for float32, that call goes through the groups one by one.

    ends: [groups] int32. left [rows, k], right [groups, k, n]: [rows, n], each group's rows times its matrix.
    left [k, rows], right [rows, n]: [groups, k, n], the sum over each group's rows; zeros where it has none.
    """
    return _torchs_grouped_product()(left, right, offs=ends)


@cache
def why_not_grouped(device: torch.device, dtype: torch.dtype, inputs: int, outputs: int) -> str | None:
    """Why `grouped_product` can not be had there for matrices [inputs, outputs], or None. Found by trying."""
    ends = torch.tensor([1, 2], dtype=torch.int32, device=device)
    left, above = (torch.ones(2, width, device=device, dtype=dtype) for width in (inputs, outputs))
    try:
        stack = grouped_product(left.T, above, ends)  # [2, inputs, outputs]
        grouped_product(left, stack, ends)
        grouped_product(above, stack.mT, ends)
    except (AttributeError, RuntimeError) as error:
        what = f"grouped product of {inputs} x {outputs} on {device.type}"
        return f"no {what}: {str(error).splitlines()[0]}"
    return None


def _torchs_grouped_product() -> Callable[..., Tensor]:
    """Under the name that it has in this version of torch. Raises AttributeError if there is none."""
    public: Callable[..., Tensor] | None = getattr(F, "grouped_mm", None)
    return public or torch._grouped_mm
