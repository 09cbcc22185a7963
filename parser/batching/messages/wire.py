"""Serialisation of deliveries."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from parser.batching.messages.graph import Port
from parser.batching.messages.message import Message, MessageState
from parser.batching.messages.worker import Delivery

ALIGNMENT = 8
"""In bytes, so that tensors can be read in place."""


def packed(delivery: Delivery) -> Tensor:
    """[bytes] uint8"""
    forward, to, (payload, state, training) = delivery
    present = [tensor for tensor in payload if tensor is not None]
    head = {
        "forward": forward,
        "to": to,
        "state": state,
        "training": training,
        "payload": [None if tensor is None else _description(tensor) for tensor in payload],
    }
    text = json.dumps(head).encode()
    text += b" " * (-(len(text) + ALIGNMENT) % ALIGNMENT)
    parts = [_bytes(torch.tensor([len(text)])), torch.frombuffer(bytearray(text), dtype=torch.uint8)]
    for tensor in present:
        content = _bytes(tensor.detach().contiguous())
        parts += [content, content.new_zeros(-len(content) % ALIGNMENT)]
    return torch.cat(parts)


def unpacked(content: Tensor) -> Delivery:
    """content: [bytes] uint8; the payload shares its memory."""
    start = ALIGNMENT + int(content[:ALIGNMENT].view(torch.int64))
    head = json.loads(bytes(content[ALIGNMENT:start].numpy()))
    payload: list[Tensor | None] = []
    for description in head["payload"]:
        payload.append(None if description is None else _tensor(content[start:], *description))
        size = 0 if payload[-1] is None else payload[-1].nbytes
        start += size + -size % ALIGNMENT
    instance, position = head["state"]
    message = Message(tuple(payload), MessageState(instance, tuple(position)), head["training"])
    return Delivery(head["forward"], Port(*head["to"]), message)


def _description(tensor: Tensor) -> tuple[str, Sequence[int], bool]:
    return str(tensor.dtype).removeprefix("torch."), tuple(tensor.shape), tensor.requires_grad


def _tensor(content: Tensor, dtype: str, shape: Sequence[int], wanted: bool) -> Tensor:
    kind: Any = getattr(torch, dtype)
    count = torch.Size(shape).numel()
    return content[: count * kind.itemsize].view(kind).view(tuple(shape)).requires_grad_(wanted)


def _bytes(tensor: Tensor) -> Tensor:
    return tensor.reshape(-1).view(torch.uint8)
