"""What PyTorch has for CUDA: which operators have a kernel, launch none, or make the host wait."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import torchgen
import yaml
from torch._ops import OpOverload

OPERATORS = Path(torchgen.__file__).parent / "packaged/ATen/native/native_functions.yaml"
"""PyTorch's own list of its operators, with the devices that have a kernel."""
LAUNCHES_NOTHING = frozenset(
    (
        *(
            "empty",
            "empty_strided",
            "empty_like",
            "new_empty",
            "new_empty_strided",
            "resize_",
            "set_",
            "alias",
        ),
        *("_reshape_alias", "_unsafe_view", "detach_", "lift_fresh", "result_type", "is_same_size"),
        "_local_scalar_dense",
    )
)
SYNCHRONIZES = frozenset(
    (
        *("_local_scalar_dense", "is_nonzero", "equal", "nonzero", "masked_select", "bincount"),
        *("_unique", "_unique2", "unique_dim", "unique_consecutive"),
    )
)
"""The host needs their result, or its size."""
INDEXES = frozenset(("index", "index_put", "index_put_", "_index_put_impl_", "_unsafe_index"))
NOT_DETERMINISTIC = frozenset(("cumsum", "cumprod", "put_", "histc", "median", "kthvalue"))
"""Operators that are refused if they are to be deterministic; see torch.use_deterministic_algorithms."""
MULTIPLIES = frozenset(("mm", "addmm", "addmm_", "bmm", "baddbmm"))


def name_of(operator: OpOverload) -> str:
    """Without namespace and overload."""
    return operator._schema.name.rpartition("::")[2]


@cache
def argument_names(operator: OpOverload) -> frozenset[str]:
    return frozenset(argument.name for argument in operator._schema.arguments)


@cache
def has_kernel(operator: OpOverload) -> bool:
    """Whether CUDA has a kernel for the operator, or it consists of operators that have one."""
    if operator.namespace != "aten":
        return operator.namespace in ("prims", "prim")
    overload = operator._schema.overload_name
    entry = _entries().get(f"{name_of(operator)}.{overload}" if overload else name_of(operator))
    if entry is None or "structured_delegate" in entry:  # generated from an operator that is listed
        return True
    dispatch = entry.get("dispatch")
    if dispatch is None:  # a composite one
        return True
    devices = [device.strip() for devices in dispatch for device in devices.split(",")]
    return any("CUDA" in device or device.startswith("Composite") for device in devices)


@cache
def _entries() -> dict[str, dict]:
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    with OPERATORS.open(encoding="utf-8") as file:
        return {entry["func"].partition("(")[0]: entry for entry in yaml.load(file, loader)}
