from pathlib import Path

import pytest

from parser.benchmarks.programs.clevr.answers import NotUniqueError, answer, apply
from parser.benchmarks.programs.clevr.programs import SCENE, Program, program, read_questions
from parser.benchmarks.programs.clevr.scenes import Scene, Thing, read_scenes

# From left to right, and each in front of the one before.
SCENE_OF_FOUR = Scene(
    (
        Thing("red", "cube", "metal", "small", 0.1, 0.1),
        Thing("red", "sphere", "metal", "large", 0.2, 0.2),
        Thing("blue", "cube", "rubber", "small", 0.3, 0.3),
        Thing("gray", "cylinder", "metal", "small", 0.4, 0.4),
    ),
    {
        "left": ((), (0,), (0, 1), (0, 1, 2)),
        "right": ((1, 2, 3), (2, 3), (3,), ()),
        "front": ((1, 2, 3), (2, 3), (3,), ()),
        "behind": ((), (0,), (0, 1), (0, 1, 2)),
    },
)


def chain(*modules: str) -> Program:
    whole = program(SCENE)
    for module in modules:
        whole = program(module, whole)
    return whole


RED, SMALL, METAL = chain("filter_color[red]"), chain("filter_size[small]"), chain("filter_material[metal]")
SPHERE = chain("filter_shape[sphere]", "unique")
BLUE = chain("filter_color[blue]", "unique")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (chain("count"), "4"),
        (program("count", RED), "2"),
        (program("count", SMALL), "3"),
        (program("count", METAL), "3"),
        (program("query_color", SPHERE), "red"),
        (program("query_shape", SPHERE), "sphere"),
        (program("query_material", SPHERE), "metal"),
        (program("query_size", SPHERE), "large"),
        (program("exist", RED), "yes"),
        (chain("filter_color[cyan]", "exist"), "no"),
        (program("count", program("relate[left]", BLUE)), "2"),
        (program("count", program("relate[right]", BLUE)), "1"),
        (program("count", program("relate[front]", SPHERE)), "2"),
        (program("count", program("relate[behind]", SPHERE)), "1"),
        (program("count", program("same_color", BLUE)), "0"),
        (program("count", program("same_shape", BLUE)), "1"),
        (program("count", program("same_material", SPHERE)), "2"),
        (program("count", program("same_size", BLUE)), "2"),
        (program("count", program("union", RED, SMALL)), "4"),
        (program("count", program("intersect", RED, SMALL)), "1"),
        (program("equal_color", program("query_color", SPHERE), program("query_color", BLUE)), "no"),
        (program("equal_size", program("query_size", BLUE), program("query_size", BLUE)), "yes"),
        (program("equal_shape", program("query_shape", SPHERE), program("query_shape", BLUE)), "no"),
        (program("equal_material", program("query_material", BLUE), program("query_material", BLUE)), "yes"),
        (program("equal_integer", program("count", SMALL), program("count", METAL)), "yes"),
        (program("equal_integer", program("count", SMALL), program("count", RED)), "no"),
        (program("less_than", program("count", RED), program("count", SMALL)), "yes"),
        (program("less_than", program("count", METAL), program("count", SMALL)), "no"),
        (program("greater_than", program("count", SMALL), program("count", RED)), "yes"),
        (program("greater_than", program("count", METAL), program("count", SMALL)), "no"),
    ],
)
def test_every_function(asked, expected):
    assert answer(asked, SCENE_OF_FOUR) == expected


def test_a_node_that_two_use():
    asked = Program(
        ("scene", "filter_color[blue]", "unique", "query_size", "equal_size"), ((), (0,), (1,), (2,), (3, 3))
    )
    assert answer(asked, SCENE_OF_FOUR) == "yes"


@pytest.mark.parametrize(("color", "number"), [("red", 2), ("cyan", 0)])
def test_what_is_not_unique(color, number):
    with pytest.raises(NotUniqueError, match=f"unique needs one thing, and is given {number}"):
        answer(chain(f"filter_color[{color}]", "unique", "query_size"), SCENE_OF_FOUR)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        (chain("count", "unique"), "unique can do nothing with 4"),
        (chain("relate[left]"), "relate.left. can do nothing with frozenset"),
        (program("less_than", RED, SMALL), "less_than can do nothing with frozenset"),
        (program("equal_color", chain("count"), chain("count")), "equal_color can do nothing with 4, 4"),
        (program("count"), "count can do nothing with no input"),
        (RED, r"filter_color\[red\] gives things, and no answer"),
        (BLUE, "unique gives things, and no answer"),
    ],
)
def test_programs_that_make_no_sense(asked, message):
    with pytest.raises(ValueError, match=message):
        answer(asked, SCENE_OF_FOUR)


def test_an_unknown_function():
    with pytest.raises(ValueError, match="onion can do nothing"):
        apply("onion", [frozenset({1})], SCENE_OF_FOUR)


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("questions", "scenes", "total"),
    [
        ("CLEVR_train_questions_generated.json", "CLEVR_train_scenes_1000.json", 10_000),
        ("CLEVR_val_questions_generated.json", "CLEVR_val_scenes_500.json", 5_000),
        ("CLEVR_v1.0_val_questions_sample.json", "CLEVR_v1.0_val_scenes_sample.json", 9),
    ],
)
def test_the_answers_of_the_original_generator(treebanks: Path, questions: str, scenes: str, total: int):
    folder = treebanks.parent / "clevr"
    if not folder.is_dir():
        pytest.skip(f"no clevr/ in {treebanks.parent}")
    asked, seen = read_questions(folder / questions), read_scenes(folder / scenes)
    assert len(asked) == total
    assert [answer(each.program, seen[each.image]) for each in asked] == [each.answer for each in asked]
