"""Scenes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from parser.speed.tasks.programs.answers import make_questions
from parser.speed.tasks.programs.questions import Scene, Thing, paint, read_scenes

RED = {"color": "red", "shape": "cube", "material": "metal", "size": "small", "pixel_coords": [240, 80, 9.5]}
BLUE = {
    "color": "blue",
    "shape": "sphere",
    "material": "rubber",
    "size": "large",
    "pixel_coords": [120.5, 160],
}
RELATIONSHIPS = {"left": [[1], []], "right": [[], [0]], "front": [[1], []], "behind": [[], [0]]}


def scene(*objects: object, **changes: object) -> dict[str, Any]:
    return {"image_index": 4, "objects": objects, "relationships": RELATIONSHIPS, **changes}


def write(folder: Path, *scenes: object) -> Path:
    path = folder / "scenes.json"
    path.write_text(json.dumps({"scenes": scenes}), encoding="utf-8")
    return path


def test_a_scene(tmp_path):
    (read,) = read_scenes(write(tmp_path, scene(RED, BLUE))).items()
    assert read == (
        4,
        Scene(
            (
                Thing("red", "cube", "metal", "small", 0.5, 0.25),
                Thing("blue", "sphere", "rubber", "large", 120.5 / 480, 0.5),
            ),
            {"left": ((1,), ()), "right": ((), (0,)), "front": ((1,), ()), "behind": ((), (0,))},
        ),
    )


def without(record: dict[str, Any], key: str) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name != key}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (7, ": this must be an object, and is 7"),
        (without(scene(RED, BLUE), "image_index"), ": 'image_index' is missing"),
        (scene(RED, BLUE, image_index=0), ": image 0 has a scene already"),
        (without(scene(RED, BLUE), "objects"), ": 'objects' is missing"),
        (scene(RED, 3), ", object 1: this must be an object, and is 3"),
        (scene(RED, without(BLUE, "size")), ", object 1: 'size' is missing"),
        (scene(RED, BLUE | {"size": "huge"}), ", object 1: the size 'huge' is none of small, large"),
        (scene(RED, BLUE | {"color": 1}), ", object 1: 'color' must be a string, and is 1"),
        (scene(RED, without(BLUE, "pixel_coords")), ", object 1: 'pixel_coords' is missing"),
        (scene(RED, BLUE | {"pixel_coords": [5]}), ", object 1: 'pixel_coords' must hold x and y, and has 1"),
        (scene(RED, BLUE | {"pixel_coords": [5, "6"]}), ", object 1: a pixel must be a whole number"),
        (scene(RED, BLUE | {"pixel_coords": [480, 6]}), ", object 1: pixel 480 lies outside the image"),
        (scene(RED, BLUE | {"pixel_coords": [5, 320]}), ", object 1: pixel 320 lies outside the image"),
        (scene(RED, BLUE | {"pixel_coords": [float("nan"), 6]}), ", object 1: pixel nan lies outside"),
        (without(scene(RED, BLUE), "relationships"), ": 'relationships' is missing"),
        (scene(RED, BLUE, relationships=without(RELATIONSHIPS, "front")), ": 'front' is missing"),
        (scene(RED), ": 'left' must have a list for each of 1 objects, not 2"),
        (scene(RED, BLUE, relationships=RELATIONSHIPS | {"left": [[2], []]}), ": the left object 2 does not"),
        (scene(RED, BLUE, relationships=RELATIONSHIPS | {"left": [["0"], []]}), ": the left object must be"),
        (scene(RED, BLUE, relationships=RELATIONSHIPS | {"left": [1, []]}), ": 'left' must be a list"),
    ],
)
def test_what_is_no_scene(tmp_path, record, message):
    path = write(tmp_path, scene(RED, BLUE, image_index=0), record)
    with pytest.raises(ValueError, match=f"^{path}: scene 1{message}"):
        read_scenes(path)
    path.write_text('{"questions": []}', encoding="utf-8")
    with pytest.raises(ValueError, match=f"^{path}: 'scenes' is missing"):
        read_scenes(path)


RED_CUBE = Thing("red", "cube", "metal", "small", 0.5, 0.25)


def painted(*things: Thing, channels: int = 5, side: int = 4, seed: int = 1) -> torch.Tensor:
    """[channels, side, side]"""
    (image,) = paint([Scene(things, {})], channels, side, seed)
    return image


@pytest.mark.parametrize(("x", "y", "cell"), [(0.5, 0.25, [1, 2]), (0.999, 0.999, [3, 3])])
def test_a_thing_is_painted_into_its_cell(x, y, cell):
    image = painted(RED_CUBE._replace(x=x, y=y))
    assert image.dtype == torch.float32
    assert image.shape == (5, 4, 4)
    assert image.any(dim=0).nonzero().tolist() == [cell]  # row, column


def test_what_a_thing_is_painted_as_has_about_unit_size_and_depends_on_the_seed():
    image = painted(RED_CUBE, channels=10_000, side=2)
    assert image[:, 0, 1].std().item() == pytest.approx(1, abs=0.05)
    assert torch.equal(painted(RED_CUBE), painted(RED_CUBE))
    assert not torch.equal(painted(RED_CUBE), painted(RED_CUBE, seed=2))


def test_things_of_one_cell_are_summed():
    blue = RED_CUBE._replace(color="blue", shape="sphere")
    torch.testing.assert_close(painted(RED_CUBE, blue), painted(RED_CUBE) + painted(blue))
    torch.testing.assert_close(painted(RED_CUBE, RED_CUBE), 2 * painted(RED_CUBE))


@pytest.mark.parametrize(
    "change", [{"color": "cyan"}, {"shape": "cylinder"}, {"material": "rubber"}, {"size": "large"}]
)
def test_every_attribute_shows(change):
    one, other = painted(RED_CUBE), painted(RED_CUBE._replace(**change))
    assert (one[:, 1, 2] != other[:, 1, 2]).all()


def test_scenes_without_things_are_blank():
    assert painted().count_nonzero() == 0
    assert paint([], channels=5, side=4, seed=1).shape == (0, 5, 4, 4)


@given(st.integers(0, 1000), st.integers(1, 15))
def test_painted_together_or_alone(seed, side):
    scenes, _ = make_questions(0, 3, seed)
    together = paint(scenes, 7, side, seed)
    alone = [paint([scene], 7, side, seed) for scene in scenes]
    torch.testing.assert_close(together, torch.cat(alone))
    torch.testing.assert_close(together[1], painted_one_by_one(scenes[1], 7, side, seed))


def painted_one_by_one(scene: Scene, channels: int, side: int, seed: int) -> torch.Tensor:
    whole = torch.zeros(channels, side, side)
    for thing in scene.things:
        row, column = int(thing.y * side), int(thing.x * side)
        alone = painted(thing, channels=channels, side=side, seed=seed)
        whole[:, row, column] += alone[:, row, column]
    return whole
