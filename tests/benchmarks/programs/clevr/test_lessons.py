import random

import pytest

from parser.benchmarks.programs.clevr.answers import NotUniqueError, answer, results
from parser.benchmarks.programs.clevr.lessons import make_lesson
from parser.benchmarks.programs.clevr.made import make_questions
from parser.benchmarks.programs.clevr.programs import SCENE, Program, Question, program, spoken
from parser.benchmarks.programs.clevr.scenes import Scene, Thing

RED = program("filter_color[red]", program(SCENE))
THING = Thing("red", "cube", "metal", "small", 0.1, 0.1)
ONE_THING = Scene((THING,), dict.fromkeys(("left", "right", "front", "behind"), ((),)))


def below(whole: Program, node: int) -> Program:
    """The program whose root is that node, with shared nodes written out."""
    return program(whole.modules[node], *(below(whole, given) for given in whole.inputs[node]))


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
    things = [Question(program("count", RED), "1", 3), Question(program("exist", RED), "yes", 3)]
    found = make_lesson(things, ONE_THING, random.Random(1)).program
    assert len(set(zip(found.modules, found.inputs, strict=True))) == len(found)
    assert found.modules.count("filter_color[red]") == 1


def test_what_is_found_on_the_way_is_asked_about():
    unique = program("unique", RED)
    question = Question(program("query_size", unique), "small", 0)
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
    found = results(lesson.program, scenes[0])
    used = {given for node in lesson.asked for given in lesson.program.inputs[node]}
    spoken_of = {node for node, result in enumerate(found) if not isinstance(result, bool | int | str)}
    assert spoken_of <= used
    assert [spoken(found[node]) for node in lesson.asked] == list(lesson.answers)


def test_a_question_that_makes_no_sense():
    blue = program("unique", program("filter_color[blue]", program(SCENE)))
    with pytest.raises(NotUniqueError):
        make_lesson([Question(program("query_size", blue), "small", 0)], ONE_THING, random.Random(1))


@pytest.mark.parametrize("images", [[], [0, 1]])
def test_a_lesson_is_about_one_image(images):
    questions = [Question(program("count", RED), "1", image) for image in images]
    with pytest.raises(ValueError, match="about one image"):
        make_lesson(questions, ONE_THING, random.Random(1))
