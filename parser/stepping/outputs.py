"""What a batch of parsers sees in a state."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class Outputs(NamedTuple):
    """The arguments of `StackParser.score_states`, [batch, hidden] each."""

    stack: Tensor
    features: Tensor
    history: Tensor
