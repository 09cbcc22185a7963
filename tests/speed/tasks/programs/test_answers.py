"""Answers to questions about scenes, and lessons."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from parser.speed.tasks.programs.answers import (
    NotUniqueError,
    answer,
    apply,
    make_lesson,
    make_questions,
    node_results,
)
from parser.speed.tasks.programs.questions import (
    SCENE,
    Program,
    Question,
    Scene,
    Thing,
    answer_word,
    compose,
    read_questions,
    read_scenes,
)

# From left to right, each object in front of the previous one.
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
    whole = compose(SCENE)
    for module in modules:
        whole = compose(module, whole)
    return whole


RED, SMALL, METAL = chain("filter_color[red]"), chain("filter_size[small]"), chain("filter_material[metal]")
SPHERE = chain("filter_shape[sphere]", "unique")
BLUE = chain("filter_color[blue]", "unique")


@pytest.mark.parametrize(
    ("asked", "expected"),
    [
        (chain("count"), "4"),
        (compose("count", RED), "2"),
        (compose("count", SMALL), "3"),
        (compose("count", METAL), "3"),
        (compose("query_color", SPHERE), "red"),
        (compose("query_shape", SPHERE), "sphere"),
        (compose("query_material", SPHERE), "metal"),
        (compose("query_size", SPHERE), "large"),
        (compose("exist", RED), "yes"),
        (chain("filter_color[cyan]", "exist"), "no"),
        (compose("count", compose("relate[left]", BLUE)), "2"),
        (compose("count", compose("relate[right]", BLUE)), "1"),
        (compose("count", compose("relate[front]", SPHERE)), "2"),
        (compose("count", compose("relate[behind]", SPHERE)), "1"),
        (compose("count", compose("same_color", BLUE)), "0"),
        (compose("count", compose("same_shape", BLUE)), "1"),
        (compose("count", compose("same_material", SPHERE)), "2"),
        (compose("count", compose("same_size", BLUE)), "2"),
        (compose("count", compose("union", RED, SMALL)), "4"),
        (compose("count", compose("intersect", RED, SMALL)), "1"),
        (compose("equal_color", compose("query_color", SPHERE), compose("query_color", BLUE)), "no"),
        (compose("equal_size", compose("query_size", BLUE), compose("query_size", BLUE)), "yes"),
        (compose("equal_shape", compose("query_shape", SPHERE), compose("query_shape", BLUE)), "no"),
        (compose("equal_material", compose("query_material", BLUE), compose("query_material", BLUE)), "yes"),
        (compose("equal_integer", compose("count", SMALL), compose("count", METAL)), "yes"),
        (compose("equal_integer", compose("count", SMALL), compose("count", RED)), "no"),
        (compose("less_than", compose("count", RED), compose("count", SMALL)), "yes"),
        (compose("less_than", compose("count", METAL), compose("count", SMALL)), "no"),
        (compose("greater_than", compose("count", SMALL), compose("count", RED)), "yes"),
        (compose("greater_than", compose("count", METAL), compose("count", SMALL)), "no"),
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
        (compose("less_than", RED, SMALL), "less_than can do nothing with frozenset"),
        (compose("equal_color", chain("count"), chain("count")), "equal_color can do nothing with 4, 4"),
        (compose("count"), "count can do nothing with no input"),
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


THING = Thing("red", "cube", "metal", "small", 0.1, 0.1)
ONE_THING = Scene((THING,), dict.fromkeys(("left", "right", "front", "behind"), ((),)))


def below(whole: Program, node: int) -> Program:
    """The program whose root is that node, with shared nodes repeated."""
    return compose(whole.modules[node], *(below(whole, given) for given in whole.inputs[node]))


def test_every_answer_is_that_of_its_own_program():
    scenes, questions = make_questions(60, 6, seed=1)
    for image, scene in enumerate(scenes):
        about = [question for question in questions if question.image == image]
        lesson = make_lesson(about, scene, random.Random(image))
        assert lesson.image == image
        assert len(lesson.asked) == len(lesson.answers) > 2 * len(about)
        for node, expected in zip(lesson.asked, lesson.answers, strict=True):
            assert answer(below(lesson.program, node), scene) == expected
        read = {
            below(lesson.program, node): found
            for node, found in zip(lesson.asked, lesson.answers, strict=True)
        }
        for question in about:
            assert read[below(question.program, len(question.program) - 1)] == question.answer


def test_what_questions_have_in_common_is_there_once():
    things = [Question(compose("count", RED), "1", 3), Question(compose("exist", RED), "yes", 3)]
    found = make_lesson(things, ONE_THING, random.Random(1)).program
    assert len(set(zip(found.modules, found.inputs, strict=True))) == len(found)
    assert found.modules.count("filter_color[red]") == 1


def test_what_is_found_on_the_way_is_asked_about():
    unique = compose("unique", RED)
    question = Question(compose("query_size", unique), "small", 0)
    draw = random.Random(1)
    seen = set()
    for _ in range(50):
        lesson = make_lesson([question], ONE_THING, draw)
        seen |= {
            (lesson.program.modules[node], found)
            for node, found in zip(lesson.asked, lesson.answers, strict=True)
        }
    queries = {
        ("query_color", "red"),
        ("query_shape", "cube"),
        ("query_material", "metal"),
        ("query_size", "small"),
    }
    assert seen == {("exist", "yes"), ("count", "1"), *queries}


def test_every_set_and_thing_is_asked_about():
    scenes, questions = make_questions(20, 1, seed=2)
    lesson = make_lesson(questions, scenes[0], random.Random(1))
    found = node_results(lesson.program, scenes[0])
    used = {given for node in lesson.asked for given in lesson.program.inputs[node]}
    spoken_of = {node for node, result in enumerate(found) if not isinstance(result, bool | int | str)}
    assert spoken_of <= used
    assert [answer_word(found[node]) for node in lesson.asked] == list(lesson.answers)


def test_a_question_that_makes_no_sense():
    blue = compose("unique", compose("filter_color[blue]", compose(SCENE)))
    with pytest.raises(NotUniqueError):
        make_lesson([Question(compose("query_size", blue), "small", 0)], ONE_THING, random.Random(1))


@pytest.mark.parametrize("images", [[], [0, 1]])
def test_a_lesson_is_about_one_image(images):
    questions = [Question(compose("count", RED), "1", image) for image in images]
    with pytest.raises(ValueError, match="about one image"):
        make_lesson(questions, ONE_THING, random.Random(1))
