"""Serialisation of deliveries: the length of a head in JSON, the head, and the bytes of each tensor."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from parser.batching.messages.connections import Bytes
from parser.batching.messages.graph import Port
from parser.batching.messages.message import Message, MessageState
from parser.batching.messages.worker import Delivery

ALIGNMENT = 8
"""In bytes, so that tensors can be read in place."""


def packed(delivery: Delivery) -> Bytes:
    """[bytes]"""
    forward, to, (payload, state, training) = delivery
    descriptions = [None if tensor is None else _description(tensor) for tensor in payload]
    head = json.dumps([forward, to, state, training, descriptions]).encode()
    parts = [np.frombuffer(head, np.uint8), *(_bytes(tensor) for tensor in payload if tensor is not None)]
    content = np.empty(ALIGNMENT + sum(map(_aligned, parts)), np.uint8)
    content[:ALIGNMENT].view(np.int64)[0] = len(head)
    start = ALIGNMENT
    for part in parts:
        content[start : start + len(part)] = part
        start += _aligned(part)
    return content


def unpacked(content: Bytes) -> Delivery:
    """content: [bytes]; the payload shares its memory."""
    head = content[ALIGNMENT : ALIGNMENT + int(content[:ALIGNMENT].view(np.int64)[0])]
    forward, to, (instance, position), training, descriptions = json.loads(head.tobytes())
    start = ALIGNMENT + _aligned(head)
    payload: list[Tensor | None] = []
    for description in descriptions:
        tensor = None if description is None else _tensor(content, start, *description)
        payload.append(tensor)
        start += 0 if tensor is None else -(-tensor.nbytes // ALIGNMENT) * ALIGNMENT
    message = Message(tuple(payload), MessageState(instance, tuple(position)), training)
    return Delivery(forward, Port(*to), message)


def _description(tensor: Tensor) -> tuple[str, Sequence[int], bool]:
    return str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), tensor.requires_grad


def _tensor(content: Bytes, start: int, dtype: str, shape: Sequence[int], wanted: bool) -> Tensor:
    kind: Any = getattr(torch, dtype)
    count = torch.Size(shape).numel()
    if not count:
        return torch.empty(tuple(shape), dtype=kind, requires_grad=wanted)
    flat = torch.frombuffer(content, dtype=kind, count=count, offset=start)
    return flat.view(tuple(shape)).requires_grad_(wanted)


def _bytes(tensor: Tensor) -> Bytes:
    return tensor.detach().reshape(-1).view(torch.uint8).numpy()


def _aligned(part: Bytes) -> int:
    """The number of bytes, rounded up to the alignment."""
    return -(-len(part) // ALIGNMENT) * ALIGNMENT
