"""Group the calls of several modules, so that each module runs once.

For structures that are known only one step ahead (Suarez & Zhu 2017, section 3), for example if a gate
chooses the modules that run next. Calls are grouped by a stable sort on the device.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from parser.batching.functional import present_precision


class Runs(NamedTuple):
    """Runs on the host, in execution order: each is a sequence of calls of one module."""

    modules: list[int]
    """The module of each run."""
    sizes: list[int]
    """The number of calls in each run, at least 1."""

    @classmethod
    def one_by_one(cls, module: Tensor) -> Runs:
        """Return one run per call, in the order of `module` [calls]. Takes one host synchronisation."""
        modules = module.tolist()
        return cls(modules, [1] * len(modules))


@dataclass(frozen=True)
class Groups:
    """Calls sorted by module, on the device.

    order: [calls], the call at each position; position: [calls], the position of each call; module: [calls],
    the module at each position; ends: [modules] int32, the position after the last call of each module.

    >>> groups = Groups.of(torch.tensor([1, 0, 1]), modules=2)
    >>> groups.order.tolist(), groups.sizes.tolist()
    ([1, 0, 2], [1, 2])
    """

    order: Tensor
    position: Tensor
    module: Tensor
    ends: Tensor

    @classmethod
    def of(cls, module: Tensor, modules: int) -> Groups:
        """Sort calls by module, without host synchronisation. module: [calls] int64, below `modules`."""
        ordered, order = module.sort(stable=True)
        positions = torch.arange(len(module), device=module.device)
        position = torch.empty_like(order).scatter_(0, order, positions)
        # Not `bincount`, which synchronises with the host to find the greatest value.
        numbers = torch.arange(modules, device=module.device)
        ends = torch.searchsorted(ordered, numbers, right=True, out_int32=True)
        return cls(order, position, ordered, ends)

    @property
    def sizes(self) -> Tensor:
        """[modules] The number of calls of each module."""
        return self.ends.diff(prepend=self.ends.new_zeros(1))

    def runs(self) -> Runs:
        """Return one run for each module that is called. Takes one host synchronisation."""
        sizes = self.sizes.tolist()
        called = [module for module, size in enumerate(sizes) if size]
        return Runs(called, [sizes[module] for module in called])


def grouped_product(left: Tensor, right: Tensor, ends: Tensor) -> Tensor:
    """Compute the matrix products of all groups by one call, without gradients.

    `why_not_grouped` must return None. torch iterates over the groups on a CPU, and if it has no kernel for
    the dtype, such as float32. In the precision bfloat16, float32 factors are converted, and the result is
    float32.

    ends: [groups] int32. With left [rows, k] and right [groups, k, n], each group's rows are multiplied by
    its matrix: [rows, n]. With left [k, rows] and right [rows, n], the result is summed over each group's
    rows: [groups, k, n], zeros for an empty group.
    """
    product = torchs_grouped_product()
    if left.dtype == torch.float32 and present_precision() == "bfloat16":
        return product(left.bfloat16(), right.bfloat16(), offs=ends).float()
    return product(left, right, offs=ends)


@cache
def why_not_grouped(device: torch.device, dtype: torch.dtype, inputs: int, outputs: int) -> str | None:
    """Return why `grouped_product` is unavailable for matrices [inputs, outputs], or None; tries it once."""
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


def torchs_grouped_product() -> Callable[..., Tensor]:
    """Return torch's own function, which has gradients and computes in the dtype of its factors.

    Its name depends on the version of torch. Raises AttributeError if torch has no such function.
    """
    public: Callable[..., Tensor] | None = getattr(F, "grouped_mm", None)
    return public or torch._grouped_mm
