from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parser.speed.tasks.graphs.babi import (
    HAS_FEAR,
    IS,
    GraphQuestion,
    make_deductions,
    read_graph_questions,
    with_more_nodes,
)

FILES = {
    "graphs": "1 1 2\n2 2 3\n? 1 1 3\n\n3 2 2\n? 1 3 2\n? 1 2 1\n\n",
    "node_ids": "A=1\nC=3\nB=2\n",
    "edge_types": "is=1\nhas_fear=2\n",
    "question_types": "has_fear=1\n",
    "labels": "",
}


def write(folder: Path, **changes: str) -> Path:
    for name, content in {**FILES, **changes}.items():
        (folder / f"15_{name}.txt").write_text(content, encoding="utf-8")
    return folder


def edges_of(question: GraphQuestion) -> list[tuple[int, int, int]]:
    graph = question.graph
    columns = (graph.sources.tolist(), graph.kinds.tolist(), graph.targets.tolist())
    return list(zip(*columns, strict=True))


def test_questions_in_the_order_of_the_file(tmp_path):
    questions = read_graph_questions(write(tmp_path), 15)
    assert [each[1:] for each in questions] == [(0, 0, 2), (2, 0, 1), (1, 0, 0)]
    assert list(map(edges_of, questions)) == [[(0, 0, 1), (1, 1, 2)], [(2, 1, 1)], [(2, 1, 1)]]


def test_the_node_asked_about_is_marked(tmp_path):
    marks = [each.graph.features.flatten().tolist() for each in read_graph_questions(write(tmp_path), 15)]
    assert marks == [[1, 0, 0], [0, 0, 1], [0, 1, 0]]


@pytest.mark.parametrize(
    "graphs", [FILES["graphs"].rstrip("\n"), "\n\n" + FILES["graphs"].replace("\n", "\r\n")]
)
def test_blank_lines_and_ends_of_lines(tmp_path, graphs):
    assert len(read_graph_questions(write(tmp_path, graphs=graphs), 15)) == 3


def test_a_graph_without_edges(tmp_path):
    (question,) = read_graph_questions(write(tmp_path, graphs="? 1 2 2\n"), 15)
    assert edges_of(question) == []
    assert question.graph.nodes == 3


@pytest.mark.parametrize(
    ("graphs", "line", "message"),
    [
        ("", "", " no questions"),
        ("\n\n", "", " no questions"),
        ("1 1 2\n", ":1", " the graph ends here, without a question"),
        ("1 1 2\n? 1 1 3\n\n1 1 2\n2 1 3\n\n? 1 1 3", ":5", " the graph ends here, without a question"),
        ("1 1\n? 1 1 3", ":1", " an edge must be source, kind, target, and this is '1 1'"),
        ("1 1 2 3\n? 1 1 3", ":1", " an edge must be source, kind, target, and this is '1 1 2 3'"),
        ("1 1 4\n? 1 1 3", ":1", " there is no node '4': the last is 3"),
        ("0 1 2\n? 1 1 3", ":1", " there is no node '0': the last is 3"),
        ("1 3 2\n? 1 1 3", ":1", " there is no kind of edges '3': the last is 2"),
        ("1 1 2\nA 1 2\n? 1 1 3", ":2", " there is no node 'A': the last is 3"),
        ("1 1 2\n1.0 1 2\n? 1 1 3", ":2", " there is no node '1.0'"),
        ("1 1 2\n? 1 1 3\n2 1 3", ":3", " a question must be [?], kind, node, answer, and this is '2 1 3'"),
        ("1 1 2\n? 1 1", ":2", " a question must be [?], kind, node, answer, and this is '[?] 1 1'"),
        ("1 1 2\n? 1 1 2 3", ":2", " a question must be [?], kind, node, answer"),
        ("1 1 2\n?1 1 2", ":2", " there is no node '[?]1'"),
        ("1 1 2\n? 2 1 3", ":2", " there is no kind of questions '2': the last is 1"),
        ("1 1 2\n? 1 -1 3", ":2", " there is no node '-1'"),
        ("1 1 2\n? 1 1 9", ":2", " there is no node '9': the last is 3"),
    ],
)
def test_broken_graphs(tmp_path, graphs, line, message):
    write(tmp_path, graphs=graphs)
    with pytest.raises(ValueError, match=f"^{tmp_path}/15_graphs.txt{line}:{message}"):
        read_graph_questions(tmp_path, 15)


def test_bytes_that_are_not_utf8(tmp_path):
    (write(tmp_path) / "15_graphs.txt").write_bytes(b"1 1 2\n\xff 1 2\n? 1 1 3\n")
    with pytest.raises(ValueError, match=f"^{tmp_path}/15_graphs.txt:2: there is no node "):
        read_graph_questions(tmp_path, 15)


@pytest.mark.parametrize("name", ["node_ids", "edge_types", "question_types"])
@pytest.mark.parametrize(
    ("content", "line", "message"),
    [
        ("", 1, "'' is not a name, =, and a number from 1 to 1"),
        ("A=1\nB=3\n", 2, "'B=3' is not a name, =, and a number from 1 to 2"),
        ("A=0\n", 1, "'A=0' is not a name"),
        ("A=1\n\nB=2", 2, "'' is not a name"),
        ("A=1\nB\n", 2, "'B' is not a name"),
        ("=1\n", 1, "'=1' is not a name"),
        ("A=1\nB=1\n", 2, "the number 1 has a name already"),
    ],
)
def test_broken_dictionaries(tmp_path, name, content, line, message):
    write(tmp_path, **{name: content})
    with pytest.raises(ValueError, match=f"^{tmp_path}/15_{name}.txt:{line}: {message}"):
        read_graph_questions(tmp_path, 15)


def test_a_task_that_is_answered_with_labels(tmp_path):
    write(tmp_path, labels="false=2\ntrue=1\n")
    with pytest.raises(ValueError, match=r"/15_labels.txt: task 15 is answered with these labels, and not"):
        read_graph_questions(tmp_path, 15)


def test_a_missing_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"16_labels\.txt"):
        read_graph_questions(write(tmp_path), 16)


def deduced(question: GraphQuestion) -> int:
    """The answer by look-up: what the kind of the animal in question is afraid of."""
    found = {(source, kind): target for source, kind, target in edges_of(question)}
    return found[found[question.node, IS], HAS_FEAR]


def check_form(questions: list[GraphQuestion]) -> None:
    """Check the form of the four questions about a graph of task 15."""
    (edges,) = {tuple(edges_of(question)) for question in questions}
    individuals = {source for source, kind, _ in edges if kind == IS}
    kinds = {target for _, kind, target in edges if kind == IS}
    assert len(edges) == 8
    assert len(individuals) == len(kinds) == 4
    assert individuals | kinds == set(range(8)) == set(range(questions[0].graph.nodes))
    assert {source for source, kind, _ in edges if kind == HAS_FEAR} == kinds
    assert {target for _, kind, target in edges if kind == HAS_FEAR} <= kinds
    assert all(source != target for source, _, target in edges)
    assert {question.node for question in questions} == individuals
    for question in questions:
        assert question.kind == 0
        assert question.graph.features[:, 0].nonzero().tolist() == [[question.node]]
        assert question.answer == deduced(question)


@given(st.integers(1, 6), st.integers(0, 1000))
def test_made_deductions(graphs, seed):
    questions = make_deductions(4 * graphs, seed)
    assert len(questions) == 4 * graphs
    for first in range(0, len(questions), 4):
        check_form(questions[first : first + 4])


@pytest.mark.parametrize("number", [0, 1, 6])
def test_any_number_of_deductions(number):
    assert len(make_deductions(number, seed=1)) == number


def test_made_deductions_are_drawn_evenly():
    questions = make_deductions(4000, seed=1)
    for counts in (Counter(each.node for each in questions), Counter(each.answer for each in questions)):
        assert set(counts) == set(range(8))
        assert max(counts.values()) < 1.3 * min(counts.values())
    assert len({tuple(edges_of(each)) for each in questions}) == 1000


def test_the_seed_decides():
    one, again, other = ([(edges_of(q), q[1:]) for q in make_deductions(8, seed)] for seed in (1, 1, 2))
    assert one == again
    assert one != other


@given(st.integers(0, 100), st.integers(8, 60))
def test_inflated(seed, nodes):
    (question,) = make_deductions(1, seed)
    found = with_more_nodes(question, nodes)
    assert found.graph.nodes == nodes
    assert found[1:] == question[1:]
    assert edges_of(found) == edges_of(question)
    assert found.graph.features[:, 0].nonzero().tolist() == [[question.node]]


def test_inflated_as_in_the_paper():
    assert with_more_nodes(make_deductions(1, seed=1)[0]).graph.nodes == 54


def test_inflated_to_less_than_there_is():
    with pytest.raises(ValueError, match="a graph of 8 nodes cannot be made one of 7"):
        with_more_nodes(make_deductions(1, seed=1)[0], 7)


@pytest.fixture
def fold(treebanks: Path) -> Path:
    folder = treebanks.parent / "babi" / "fold_1"
    if not folder.is_dir():
        pytest.skip(f"no babi/fold_1/ in {treebanks.parent}")
    return folder


@pytest.mark.real_data
@pytest.mark.parametrize("part", ["train", "test"])
def test_the_deductions_of_babi(fold, part):
    questions = read_graph_questions(fold / part, 15)
    assert len(questions) == 4000
    for first in range(0, len(questions), 4):
        check_form(questions[first : first + 4])


@pytest.mark.real_data
@pytest.mark.parametrize("part", ["train", "test"])
@pytest.mark.parametrize(("task", "nodes", "edges"), [(4, 4, 2), (16, 13, 9)])
def test_other_tasks_of_babi(fold, part, task, nodes, edges):
    questions = read_graph_questions(fold / part, task)
    assert len(questions) == 1000
    assert {(each.graph.nodes, each.graph.edges) for each in questions} == {(nodes, edges)}


@pytest.mark.real_data
@pytest.mark.parametrize("task", [18, 19])
def test_tasks_of_babi_that_are_answered_with_labels(fold, task):
    with pytest.raises(ValueError, match=f"task {task} is answered with these labels"):
        read_graph_questions(fold / "train", task)
