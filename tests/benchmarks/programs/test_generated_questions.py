"""Generated questions."""

from __future__ import annotations

import statistics
from itertools import combinations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parser.benchmarks.programs import generated_questions as made
from parser.benchmarks.programs.answers import answer
from parser.benchmarks.programs.generated_questions import make_questions
from parser.benchmarks.programs.questions import (
    ANSWERS,
    MODULES,
    PROGRAM_FUNCTIONS,
    SCENE,
    Program,
    module_parts,
)

MADE = make_questions(1500, 150, seed=1)


def test_answers_are_right():
    scenes, questions = MADE
    assert len(questions) == 1500
    assert all(answer(each.program, scenes[each.image]) == each.answer for each in questions)


def test_every_scene_has_its_questions():
    scenes, questions = MADE
    assert [each.image for each in questions] == [number // 10 for number in range(1500)]
    assert len(scenes) == 150


def test_scenes_have_three_to_ten_things_in_cells_of_their_own():
    scenes, _ = MADE
    assert {len(scene.things) for scene in scenes} == set(range(3, 11))
    for scene in scenes:
        cells = {(int(thing.x * 14), int(thing.y * 14)) for thing in scene.things}
        assert len(cells) == len(scene.things)


def test_relationships_are_where_things_are():
    for scene in MADE[0]:
        related = scene.relationships
        assert all(len(rows) == len(scene.things) for rows in related.values())
        for (first, one), (second, other) in combinations(enumerate(scene.things), 2):
            assert (
                (second in related["left"][first]) == (first in related["right"][second]) == (other.x < one.x)
            )
            assert (
                (first in related["left"][second]) == (second in related["right"][first]) == (one.x < other.x)
            )
            assert (
                (second in related["behind"][first])
                == (first in related["front"][second])
                == (other.y < one.y)
            )
            assert (
                (first in related["behind"][second])
                == (second in related["front"][first])
                == (one.y < other.y)
            )


def depth(read: Program) -> int:
    found: list[int] = []
    for inputs in read.inputs:
        found.append(1 + max((found[node] for node in inputs), default=0))
    return found[-1]


def test_lengths_and_depths_are_clevrs():
    programs = [each.program for each in MADE[1]]
    lengths = [len(each) for each in programs]
    assert 2 <= min(lengths) <= 3
    assert 20 <= max(lengths) <= 24
    assert statistics.mean(lengths) == pytest.approx(11.1, abs=1)
    assert 18 <= max(map(depth, programs)) <= 24
    assert statistics.mean(map(depth, programs)) == pytest.approx(9, abs=1)


def test_programs_that_are_too_long_are_drawn_again(monkeypatch):
    monkeypatch.setattr(made, "LONGEST_PROGRAM", 8)
    lengths = [len(each.program) for each in make_questions(100, 10, seed=1)[1]]
    assert max(lengths) == 8


def test_every_module_and_every_kind_of_answer_occurs():
    _, questions = MADE
    assert {module for each in questions for module in each.program.modules} == {SCENE, *MODULES}
    assert {each.answer for each in questions} >= set(ANSWERS) - {*"456789", "10"}
    asking = {name for name in PROGRAM_FUNCTIONS if name.startswith(("query_", "equal_"))}
    assert {each.kind for each in questions} == asking | {"exist", "count", "less_than", "greater_than"}


def test_no_attribute_is_asked_for_that_is_given():
    for each in MADE[1]:
        for module, inputs in zip(each.program.modules, each.program.inputs, strict=True):
            if module.startswith("query_"):
                assert module.removeprefix("query_") not in described_by(each.program, inputs[0])


def described_by(read: Program, unique: int) -> set[str]:
    """The attributes of the filters right below."""
    (node,), found = read.inputs[unique], set()
    while read.modules[node].startswith("filter_"):
        found.add(module_parts(read.modules[node])[0].removeprefix("filter_"))
        (node,) = read.inputs[node]
    return found


@given(st.integers(0, 10_000), st.integers(1, 4), st.integers(0, 9))
def test_the_seed_decides(seed, scenes, questions):
    both = make_questions(questions, scenes, seed)
    assert both == make_questions(questions, scenes, seed)
    assert both != make_questions(questions, scenes, seed + 1)
    assert (len(both[0]), len(both[1])) == (scenes, questions)
