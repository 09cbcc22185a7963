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
from parser.speed.tasks.programs.questions import PRESENCE, Scene, Thing, paint, read_scenes

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
        (scene(RED, BLUE, image_index=-2), ": 'image_index' must count from 0, and is -2"),
        (scene(RED, BLUE, image_index=0), ": image 0 has a scene already"),
        (without(scene(RED, BLUE), "objects"), ": 'objects' is missing"),
        (scene(RED, 3), ", object 1: this must be an object, and is 3"),
        (scene(RED, without(BLUE, "size")), ", object 1: 'size' is missing"),
        (scene(RED, BLUE | {"size": "huge"}), ", object 1: the size 'huge' is none of small, large"),
        (scene(RED, BLUE | {"color": 1}), ", object 1: 'color' must be a string, and is 1"),
        (scene(RED, without(BLUE, "pixel_coords")), ", object 1: 'pixel_coords' is missing"),
        (scene(RED, BLUE | {"pixel_coords": [5]}), ", object 1: 'pixel_coords' must hold x and y, and has 1"),
        (
            scene(RED, BLUE | {"pixel_coords": [5, "6"]}),
            ", object 1: a pixel must be a whole number, and is '6'",
        ),
        (scene(RED, BLUE | {"pixel_coords": [480, 6]}), ", object 1: pixel 480 lies outside the image"),
        (scene(RED, BLUE | {"pixel_coords": [5, 320]}), ", object 1: pixel 320 lies outside the image"),
        (
            scene(RED, BLUE | {"pixel_coords": [float("nan"), 6]}),
            ", object 1: pixel nan lies outside the image",
        ),
        (without(scene(RED, BLUE), "relationships"), ": 'relationships' is missing"),
        (scene(RED, BLUE, relationships=without(RELATIONSHIPS, "front")), ": 'front' is missing"),
        (scene(RED), ": 'left' must have a list for each of 1 objects, not 2"),
        (
            scene(RED, BLUE, relationships=RELATIONSHIPS | {"left": [[2], []]}),
            ": the left object 2 does not exist",
        ),
        (
            scene(RED, BLUE, relationships=RELATIONSHIPS | {"left": [["0"], []]}),
            ": the left object must be a whole",
        ),
        (
            scene(RED, BLUE, relationships=RELATIONSHIPS | {"left": [1, []]}),
            ": 'left' must be a list, and is 1",
        ),
    ],
)
def test_what_is_no_scene(tmp_path, record, message):
    path = write(tmp_path, scene(RED, BLUE, image_index=0), record)
    with pytest.raises(ValueError, match=f"^{path}: scene 1{message}"):
        read_scenes(path)


def test_what_is_no_file_of_scenes(tmp_path):
    path = tmp_path / "scenes.json"
    path.write_text('{"questions": []}', encoding="utf-8")
    with pytest.raises(ValueError, match=f"^{path}: 'scenes' is missing"):
        read_scenes(path)


def of(*things: Thing) -> Scene:
    return Scene(things, {})


RED_CUBE = Thing("red", "cube", "metal", "small", 0.5, 0.25)


def test_a_thing_is_painted_into_its_cell():
    (painted,) = paint([of(RED_CUBE)], channels=5, side=4, seed=1)
    assert painted.dtype == torch.float32
    assert painted.shape == (5, 4, 4)
    assert painted.any(dim=0).nonzero().tolist() == [[1, 2]]  # row, column


def test_the_last_cells_are_within():
    (painted,) = paint([of(RED_CUBE._replace(x=0.999, y=0.999))], channels=5, side=4, seed=1)
    assert painted.any(dim=0).nonzero().tolist() == [[3, 3]]


def test_what_a_thing_is_painted_as_has_about_unit_size():
    assert paint([of(RED_CUBE)], 10_000, 2, seed=1)[0, :, 0, 1].std().item() == pytest.approx(1, abs=0.05)


def test_things_of_one_cell_are_summed():
    blue = RED_CUBE._replace(color="blue", shape="sphere")
    both, *alone = paint([of(RED_CUBE, blue), of(RED_CUBE), of(blue)], channels=5, side=4, seed=1)
    torch.testing.assert_close(both, alone[0] + alone[1])
    twice, once = paint([of(RED_CUBE, RED_CUBE), of(RED_CUBE)], channels=5, side=4, seed=1)
    torch.testing.assert_close(twice, 2 * once)


@pytest.mark.parametrize(
    "change", [{"color": "cyan"}, {"shape": "cylinder"}, {"material": "rubber"}, {"size": "large"}]
)
def test_every_attribute_shows(change):
    one, other = paint([of(RED_CUBE), of(RED_CUBE._replace(**change))], channels=5, side=4, seed=1)
    assert (one[:, 1, 2] != other[:, 1, 2]).all()


def test_the_seed_decides():
    scenes = [of(RED_CUBE)]
    assert torch.equal(paint(scenes, 5, 4, seed=1), paint(scenes, 5, 4, seed=1))
    assert not torch.equal(paint(scenes, 5, 4, seed=1), paint(scenes, 5, 4, seed=2))


def test_scenes_without_things_are_blank():
    assert paint([of()], channels=5, side=4, seed=1).count_nonzero() == 0
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
        whole[:, row, column] += paint([of(thing)], channels, side, seed)[0, :, row, column]
    return whole


def test_a_thing_has_sixteen_numbers():
    assert PRESENCE + 1 == 16
