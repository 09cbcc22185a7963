"""Questions as programs: those read from files, and generated ones."""

from __future__ import annotations

import json
import random
import statistics
from itertools import permutations
from pathlib import Path
from typing import Any

import pytest
from extended import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parser.speed.tasks.programs import answers as made
from parser.speed.tasks.programs.answers import answer, make_questions
from parser.speed.tasks.programs.questions import (
    ANSWERS,
    MODULES,
    PROGRAM_FUNCTIONS,
    SCENE,
    Program,
    Question,
    compose,
    module_parts,
    read_questions,
)


def node(function: str, *inputs: int, value: str | None = None) -> dict[str, Any]:
    return {"function": function, "inputs": list(inputs), "value_inputs": [] if value is None else [value]}


NODES = [
    node("scene"),
    node("filter_color", 0, value="red"),
    node("scene"),
    node("union", 1, 2),
    node("count", 3),
]
PROGRAM = Program(("scene", "filter_color[red]", "scene", "union", "count"), ((), (0,), (), (1, 2), (3,)))


def question(nodes: object = NODES, **changes: object) -> dict[str, Any]:
    return {"program": nodes, "answer": "3", "image_index": 7, "question_index": 17, **changes}


def write(folder: Path, *questions: object) -> Path:
    path = folder / "questions.json"
    path.write_text(json.dumps({"questions": questions}), encoding="utf-8")
    return path


def read_one(folder: Path, record: object) -> Question:
    (found,) = read_questions(write(folder, record))
    return found


def record_of(asked: Question) -> dict[str, Any]:
    nodes = []
    for module, inputs in zip(asked.program.modules, asked.program.inputs, strict=True):
        function, value = module_parts(module)
        nodes.append(node(function, *inputs, value=value or None))
    return question(nodes, answer=asked.answer, image_index=asked.image)


def check(read: Program) -> None:
    """Check what holds for any program that is read."""
    assert len(read) == len(read.modules) == len(read.inputs) > 0
    for number, (module, inputs) in enumerate(zip(read.modules, read.inputs, strict=True)):
        assert module == SCENE or module in MODULES
        assert len(inputs) == PROGRAM_FUNCTIONS[module_parts(module)[0]].inputs
        assert all(0 <= node < number for node in inputs)
    used = {node for inputs in read.inputs for node in inputs}
    assert set(range(len(read))) - used == {len(read) - 1}


def test_the_papers_vocabulary():
    assert len(PROGRAM_FUNCTIONS) == 26
    assert len(set(MODULES)) == 39
    assert [PROGRAM_FUNCTIONS[module_parts(module)[0]].inputs for module in MODULES] == [1] * 30 + [2] * 9
    assert len(set(ANSWERS)) == 28
    assert {"filter_size[large]", "relate[behind]", "same_material", "equal_integer"} < set(MODULES)


def test_a_question(tmp_path):
    assert read_one(tmp_path, question()) == Question(PROGRAM, "3", 7)
    assert read_one(tmp_path, question()).kind == "count"
    red = compose("filter_color[red]", compose(SCENE))
    assert compose("count", compose("union", red, compose(SCENE))) == PROGRAM
    assert Question(red, "red", 0).kind == "filter_color"
    for raw, expected in ((True, "yes"), (False, "no"), (0, "0"), (10, "10"), ("red", "red")):
        assert read_one(tmp_path, question(answer=raw)).answer == expected


OF_THE_ORIGINAL_GENERATOR = [
    {"type": "scene", "inputs": []},
    {"type": "filter_color", "inputs": [0], "side_inputs": ["red"]},
    {"type": "exist", "inputs": [1]},
]


@pytest.mark.parametrize(
    ("nodes", "modules", "inputs"),
    [
        (OF_THE_ORIGINAL_GENERATOR, "scene filter_color[red] exist", ((), (0,), (1,))),
        (  # a node that two use
            [node("scene"), node("unique", 0), *[node("query_size", 1)] * 2, node("equal_size", 2, 3)],
            "scene unique query_size query_size equal_size",
            ((), (0,), (1,), (1,), (2, 3)),
        ),
        ([node("scene"), node("union", 0, 0)], "scene union", ((), (0, 0))),
        (  # inputs that come later
            [node("count", 2), node("scene"), node("filter_size", 1, value="small")],
            "scene filter_size[small] count",
            ((), (0,), (1,)),
        ),
        (  # an order with inputs first is kept
            [*[node("scene")] * 2, node("unique", 1), node("unique", 0), node("equal_size", 3, 2)],
            "scene scene unique unique equal_size",
            ((), (), (1,), (0,), (3, 2)),
        ),
    ],
)
def test_nodes_become_a_program(tmp_path, nodes, modules, inputs):
    assert read_one(tmp_path, question(nodes)).program == Program(tuple(modules.split()), inputs)


LOST = object()
"""Stands for a value whose key is left out."""


def changed(record: dict[str, Any], **changes: object) -> dict[str, Any]:
    return {key: value for key, value in {**record, **changes}.items() if value is not LOST}


def with_node(number: int, **changes: object) -> dict[str, Any]:
    """The question with changes in one of its nodes."""
    return question([changed(old, **changes) if number == place else old for place, old in enumerate(NODES)])


NODE_3 = "question 17, node 3: "


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (with_node(3, function="onion"), f"{NODE_3}there is no function 'onion'"),
        (with_node(3, function=LOST), f"{NODE_3}'function' is missing"),
        (with_node(3, function=3), f"{NODE_3}'function' must be a string, and is 3"),
        (with_node(3, inputs=[1]), f"{NODE_3}union takes 2 inputs, not 1"),
        (with_node(0, inputs=[1]), "question 17, node 0: scene takes 0 inputs, not 1"),
        (with_node(3, inputs=LOST), f"{NODE_3}'inputs' is missing"),
        (with_node(3, inputs=[1, 5]), f"{NODE_3}input 5 does not exist: the last is 4"),
        (with_node(3, inputs=[1, -1]), f"{NODE_3}input -1 does not exist"),
        (with_node(3, inputs=[1, True]), f"{NODE_3}input must be a whole number, and is True"),
        (with_node(1, value_inputs=[]), "question 17, node 1: filter_color takes one value, not 0"),
        (with_node(1, value_inputs=LOST), "question 17, node 1: filter_color takes one value, not 0"),
        (
            with_node(1, value_inputs=["red", "red"]),
            "question 17, node 1: filter_color takes one value, not 2",
        ),
        (with_node(3, value_inputs=["red"]), f"{NODE_3}union takes no value, not 1"),
        (with_node(1, value_inputs=["large"]), "question 17, node 1: .* one of gray, .*, not 'large'"),
        (with_node(1, value_inputs=[["red"]]), r"question 17, node 1: .* one of gray, .*, not \['red'\]"),
        (question([*NODES[:3], "union", NODES[4]]), f"{NODE_3}this must be an object"),
        (with_node(1, inputs=[3]), r"question 17: nodes [13], [13], [13] use each other in a cycle"),
        (with_node(1, inputs=[1]), "question 17: nodes 1, 1 use each other in a cycle"),
        (with_node(4, inputs=[1]), "question 17: no node uses nodes 3, 4; only the root may be unused"),
        (question([]), "question 17: the program has no nodes"),
        (question("scene"), "question 17: 'program' must be a list, and is 'scene'"),
        (question(answer="pink"), "question 17: the answer 'pink' is none of yes, no, 0"),
        (question(answer=11), "question 17: the answer 11 is none of"),
        (question(answer=1.0), "question 17: the answer 1.0 is none of"),
        (question(answer=["yes"]), r"question 17: the answer \['yes'\] is none of"),
        (changed(question(), answer=LOST), "question 17: the answer None is none of"),
        (changed(question(), image_index=LOST), "question 17: 'image_index' is missing"),
        (question(image_index=-1), "question 17: 'image_index' must count from 0, and is -1"),
        (changed(question([]), question_index=LOST), "question 1: the program has no nodes"),
        (question([], question_index=True), "question 1: the program has no nodes"),
        ([], r"question 1: this must be an object, and is \[\]"),
    ],
)
def test_what_is_no_question(tmp_path, record, message):
    path = write(tmp_path, question(question_index=0), record)
    with pytest.raises(ValueError, match=rf"^{path}: {message}"):
        read_questions(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b'{"questions": [', "not JSON: "),
        (b"", "not JSON: "),
        (b"[" * 100_000, "not JSON: "),
        (b'{"questions": [' + b"9" * 5000 + b"]}", "not JSON: "),
        (b'{"questions": "\xff"}', "not JSON: "),
        (b"[]", r"this must be an object, and is \[\]"),
        (b"{}", "'questions' is missing"),
        (b'{"questions": 1}', "'questions' must be a list, and is 1"),
    ],
)
def test_what_is_no_file_of_questions(tmp_path, content, message):
    path = tmp_path / "questions.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{path}: {message}"):
        read_questions(path)


SOME = make_questions(30, 10, seed=1)[1]
JUNK = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-3, 40)
    | st.floats()
    | st.sampled_from(["", "scene", "red", "unique"]),
    lambda children: (
        st.lists(children, max_size=3) | st.dictionaries(st.text(max_size=3), children, max_size=2)
    ),
    max_leaves=4,
)


def damage(content: Any, data: st.DataObject) -> Any:
    """The content with something in it replaced, removed or duplicated."""
    if not isinstance(content, list | dict) or not content or data.draw(st.integers(0, 5)) == 0:
        return data.draw(JUNK)
    keys = sorted(content) if isinstance(content, dict) else range(len(content))
    key, changed = data.draw(st.sampled_from(keys)), content.copy()
    match data.draw(st.integers(0, 9)):
        case 0:
            del changed[key]
        case 1 if isinstance(changed, list):
            changed.insert(key, changed[key])
        case _:
            changed[key] = damage(changed[key], data)
    return changed


SAME_FOLDER = [HealthCheck.function_scoped_fixture, HealthCheck.too_slow]


@settings(examples(300), suppress_health_check=SAME_FOLDER)
@given(st.data())
def test_damaged_questions_are_read_or_refused(tmp_path, data):
    content: Any = {
        "questions": [record_of(asked) for asked in data.draw(st.lists(st.sampled_from(SOME), min_size=1))]
    }
    for _ in range(data.draw(st.integers(1, 3))):
        content = damage(content, data)
    path = tmp_path / "questions.json"
    path.write_text(json.dumps(content), encoding="utf-8")
    try:
        questions = read_questions(path)
    except ValueError as refused:
        message, questions = str(refused), []
    else:
        message = ""
    assert not message or message.startswith(f"{path}: ")
    for read in questions:
        check(read.program)
        assert read.answer in ANSWERS
        assert read.image >= 0


@settings(suppress_health_check=SAME_FOLDER)
@given(st.sampled_from(SOME), st.randoms(use_true_random=False))
def test_the_order_of_nodes_does_not_matter(tmp_path, asked, draw: random.Random):
    nodes = record_of(asked)["program"]
    places = draw.sample(range(len(nodes)), len(nodes))
    shuffled = [
        {**nodes[old], "inputs": [places.index(given) for given in nodes[old]["inputs"]]} for old in places
    ]
    read = read_one(tmp_path, question(shuffled)).program
    check(read)
    assert nested(read) == nested(asked.program)


def nested(read: Program) -> tuple:
    """The program as nested tuples, which are equal for all orders of the same nodes."""
    found: list[tuple] = []
    for module, inputs in zip(read.modules, read.inputs, strict=True):
        found.append((module, *(found[given] for given in inputs)))
    return found[-1]


def test_good_questions_are_read_as_they_are(tmp_path):
    assert read_questions(write(tmp_path, *map(record_of, SOME))) == SOME


MADE = make_questions(1500, 150, seed=1)


def test_every_scene_has_its_questions_and_their_answers_are_right():
    scenes, questions = MADE
    assert [each.image for each in questions] == [number // 10 for number in range(1500)]
    assert len(scenes) == 150
    assert all(answer(each.program, scenes[each.image]) == each.answer for each in questions)


def test_scenes_have_three_to_ten_things_in_cells_of_their_own():
    scenes, _ = MADE
    assert {len(scene.things) for scene in scenes} == set(range(3, 11))
    for scene in scenes:
        cells = {(int(thing.x * 14), int(thing.y * 14)) for thing in scene.things}
        assert len(cells) == len(scene.things)


@pytest.mark.parametrize(("side", "opposite", "axis"), [("left", "right", "x"), ("behind", "front", "y")])
def test_relationships_are_where_things_are(side, opposite, axis):
    for scene in MADE[0]:
        on_side, on_other = scene.relationships[side], scene.relationships[opposite]
        assert len(on_side) == len(on_other) == len(scene.things)
        for (first, one), (second, other) in permutations(enumerate(scene.things), 2):
            is_less = getattr(other, axis) < getattr(one, axis)
            assert (second in on_side[first]) == (first in on_other[second]) == is_less


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
    """The attributes of the filters directly below."""
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
