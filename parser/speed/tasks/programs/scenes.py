"""Scenes: the things in an image and their positions; and their rendering as feature maps."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from parser.speed.tasks.json_records import checked_type, field, image_index, read_records, record_index
from parser.speed.tasks.programs.questions import RELATIONS, THING_ATTRIBUTES

IMAGE_WIDTH, IMAGE_HEIGHT = 480, 320
"""The size of images, in pixels."""

MARKS = {
    value: number
    for number, value in enumerate(value for values in THING_ATTRIBUTES.values() for value in values)
}
"""The index of each attribute value in the feature vector of a thing."""
PRESENCE = len(MARKS)
"""The index of the feature that is 1 for every thing."""


class Thing(NamedTuple):
    color: str
    shape: str
    material: str
    size: str
    x: float
    """The position from left to right, from 0 to below 1."""
    y: float
    """The position from top to bottom, from 0 to below 1."""


@dataclass(frozen=True)
class Scene:
    things: tuple[Thing, ...]
    relationships: Mapping[str, tuple[tuple[int, ...], ...]]
    """`relationships["left"][i]` lists the things to the left of thing i."""


def read_scenes(path: Path) -> dict[int, Scene]:
    """Read scenes, by image. Raises ValueError, with the scene, for malformed files."""
    scenes: dict[int, Scene] = {}
    for position, record in enumerate(read_records(path, "scenes")):
        place = f"{path}: scene {position}"
        image = image_index(record, place)
        if image in scenes:
            raise ValueError(f"{place}: image {image} has a scene already")
        scenes[image] = _scene(record, place)
    return scenes


def _scene(record: object, place: str) -> Scene:
    objects = field(record, "objects", list, place)
    things = tuple(_thing(thing, f"{place}, object {number}") for number, thing in enumerate(objects))
    given = field(record, "relationships", dict, place)
    return Scene(things, {name: _relationship(given, name, len(things), place) for name in RELATIONS})


def _thing(record: object, place: str) -> Thing:
    color, shape, material, size = (_value(record, attribute, place) for attribute in THING_ATTRIBUTES)
    pixels = field(record, "pixel_coords", list, place)
    if len(pixels) < 2:
        raise ValueError(f"{place}: 'pixel_coords' must hold x and y, and has {len(pixels)} numbers")
    x, y = _fraction(pixels[0], IMAGE_WIDTH, place), _fraction(pixels[1], IMAGE_HEIGHT, place)
    return Thing(color, shape, material, size, x, y)


def _value(record: object, attribute: str, place: str) -> str:
    value, allowed = field(record, attribute, str, place), THING_ATTRIBUTES[attribute]
    if value not in allowed:
        raise ValueError(f"{place}: the {attribute} {value!r} is none of {', '.join(allowed)}")
    return value


def _fraction(pixel: object, pixels: int, place: str) -> float:
    if not isinstance(pixel, float):
        pixel = checked_type(pixel, int, "a pixel", place)
    if not 0 <= pixel < pixels:
        raise ValueError(f"{place}: pixel {pixel} lies outside the image of {IMAGE_WIDTH} by {IMAGE_HEIGHT}")
    return pixel / pixels


def _relationship(given: object, name: str, things: int, place: str) -> tuple[tuple[int, ...], ...]:
    rows = field(given, name, list, place)
    if len(rows) != things:
        raise ValueError(f"{place}: {name!r} must have a list for each of {things} objects, not {len(rows)}")
    lists = [checked_type(row, list, repr(name), place) for row in rows]
    return tuple(
        tuple(record_index(other, things, f"the {name} object", place) for other in row) for row in lists
    )


def paint(scenes: Sequence[Scene], channels: int, side: int, seed: int) -> Tensor:
    """[scenes, channels, side, side] The features of each thing in its cell, projected by a random matrix.

    The elements for a thing have about unit variance. Things in the same cell are summed. seed: determines
    the matrix.
    """
    at = torch.tensor(
        [
            (number, mark, int(thing.y * side) * side + int(thing.x * side))
            for number, scene in enumerate(scenes)
            for thing in scene.things
            for mark in _marks(thing)
        ],
        dtype=torch.long,
    ).view(-1, 3)
    canvas = torch.zeros(len(scenes), PRESENCE + 1, side * side)
    canvas.index_put_(tuple(at.unbind(1)), torch.ones(len(at)), accumulate=True)
    return (_projection(channels, seed) @ canvas).view(len(scenes), channels, side, side)


def _marks(thing: Thing) -> tuple[int, ...]:
    return (*(MARKS[value] for value in (thing.color, thing.shape, thing.material, thing.size)), PRESENCE)


def _projection(channels: int, seed: int) -> Tensor:
    """[channels, marks] The random matrix. The marks of a thing are one per attribute, and its presence."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(channels, PRESENCE + 1, generator=generator) / math.sqrt(len(THING_ATTRIBUTES) + 1)
