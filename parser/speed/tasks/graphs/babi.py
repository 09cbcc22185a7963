"""Questions about small graphs whose answers are nodes: bAbI tasks (Weston et al. 2015) in the GGNN format.

The graphs of a task are bAbI stories in symbolic form (Li et al. 2016). `15_graphs.txt` contains a line
`source kind target` for each edge, then `? kind node answer`, and a blank line after each graph. Numbers
start at 1 in the files, and at 0 here.
"""

from __future__ import annotations

import random
import reprlib
from collections.abc import Mapping, Sequence
from itertools import groupby, takewhile
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from parser.speed.tasks.graphs.network import Edge, LabelledGraph, labelled_graph, with_isolated_nodes

IS, HAS_FEAR = 0, 1
"""Kinds of edges in task 15."""
ASKED_HAS_FEAR = 0
"""The only kind of question in task 15: what somebody is afraid of."""
INDIVIDUALS = 4
"""The number in a graph of task 15, each of a different kind of animal. There is one question about each."""
INFLATED = 54
"""The number of nodes to which AMPNet (Gaunt et al. 2017) pads the graphs, to measure sparsity."""


class GraphQuestion(NamedTuple):
    graph: LabelledGraph
    """The graph's features [nodes, 1] are 1 at the node asked about, and 0 elsewhere."""
    node: int
    """The node that the question is about."""
    kind: int
    """The kind of the question, from 0."""
    answer: int
    """A node of the graph."""


def read_graph_questions(folder: Path, task: int) -> list[GraphQuestion]:
    """Questions in the order of the file. Every graph contains all nodes of the task, even without edges.

    folder: for task 15, contains `15_graphs.txt`, `15_node_ids.txt` and so on. Raises ValueError, with file
    and line, for lines in another format, and for a task whose answers are not nodes.
    """
    labels = folder / f"{task}_labels.txt"
    if _text(labels).strip():
        raise ValueError(f"{labels}: task {task} is answered with these labels, and not with a node")
    numbering = _Numbering(
        *(_numbers(folder / f"{task}_{name}.txt") for name in ("node_ids", "edge_types", "question_types"))
    )
    path = folder / f"{task}_graphs.txt"
    lines = [_Line(f"{path}:{n}", line.split()) for n, line in enumerate(_text(path).split("\n"), start=1)]
    questions: list[GraphQuestion] = []
    for filled, members in groupby(lines, key=lambda line: bool(line.fields)):
        if filled:  # the lines of a graph, and its questions
            block = list(members)
            edges = [_edge(line, numbering) for line in takewhile(lambda line: not line.of_question(), block)]
            if len(edges) == len(block):
                raise ValueError(f"{block[-1].place}: the graph ends here, without a question")
            questions += [_question(line, edges, numbering) for line in block[len(edges) :]]
    if not questions:
        raise ValueError(f"{path}: no questions")
    return questions


class _Numbering(NamedTuple):
    """Maps numbers in the files to numbers from 0."""

    nodes: Mapping[str, int]
    edge_kinds: Mapping[str, int]
    question_kinds: Mapping[str, int]


def _numbers(path: Path) -> Mapping[str, int]:
    """{"1": 0, "2": 1, …} for a file of lines `name=number`."""
    lines = _text(path).rstrip("\n").split("\n")
    numbers = {str(number + 1): number for number in range(len(lines))}
    seen = set()
    for place, line in enumerate(lines, start=1):
        name, _, number = line.rpartition("=")
        if not name or number not in numbers:
            shown = reprlib.repr(line)
            raise ValueError(f"{path}:{place}: {shown} is not a name, =, and a number from 1 to {len(lines)}")
        if number in seen:
            raise ValueError(f"{path}:{place}: the number {number} has a name already")
        seen.add(number)
    return numbers


def _text(path: Path) -> str:
    # Bytes that are not UTF-8 become escapes, which are reported as invalid numbers with their line.
    return path.read_text(encoding="utf-8", errors="backslashreplace")


class _Line(NamedTuple):
    place: str
    fields: Sequence[str]

    def of_question(self) -> bool:
        return self.fields[:1] == ["?"]


def _edge(line: _Line, numbering: _Numbering) -> Edge:
    if len(line.fields) != 3:
        raise ValueError(f"{line.place}: an edge must be source, kind, target, and this is {_shown(line)}")
    source, kind, target = line.fields
    return Edge(
        _number(source, numbering.nodes, "node", line),
        _number(kind, numbering.edge_kinds, "kind of edges", line),
        _number(target, numbering.nodes, "node", line),
    )


def _question(line: _Line, edges: Sequence[Edge], numbering: _Numbering) -> GraphQuestion:
    if not line.of_question() or len(line.fields) != 4:
        raise ValueError(
            f"{line.place}: a question must be ?, kind, node, answer, and this is {_shown(line)}"
        )
    _, kind, node, answer = line.fields
    about = _number(node, numbering.nodes, "node", line)
    return GraphQuestion(
        labelled_graph(_mark(about, len(numbering.nodes)), edges),
        about,
        _number(kind, numbering.question_kinds, "kind of questions", line),
        _number(answer, numbering.nodes, "node", line),
    )


def _number(text: str, numbers: Mapping[str, int], name: str, line: _Line) -> int:
    if text not in numbers:
        raise ValueError(f"{line.place}: there is no {name} {reprlib.repr(text)}: the last is {len(numbers)}")
    return numbers[text]


def _shown(line: _Line) -> str:
    return reprlib.repr(" ".join(line.fields))


def _mark(node: int, nodes: int) -> Tensor:
    """[nodes, 1]"""
    mark = torch.zeros(nodes, 1)
    mark[node] = 1
    return mark


def make_deductions(number: int, seed: int) -> list[GraphQuestion]:
    """Generate questions in the form of task 15, determined by the seed. Those about a graph are adjacent.

    Each individual `is` of a different kind of animal; each kind `has fear` of another kind. Everything is
    uniformly distributed: the nodes that are individuals, their kinds, their fears, and the order of edges
    and questions.
    """
    draw = random.Random(seed)
    questions: list[GraphQuestion] = []
    while len(questions) < number:
        nodes = draw.sample(range(2 * INDIVIDUALS), 2 * INDIVIDUALS)
        individuals, kinds = nodes[:INDIVIDUALS], nodes[INDIVIDUALS:]
        kind_of = dict(zip(individuals, kinds, strict=True))
        feared = {kind: draw.choice([other for other in kinds if other != kind]) for kind in kinds}
        edges = [Edge(individual, IS, kind) for individual, kind in kind_of.items()]
        edges += [Edge(kind, HAS_FEAR, other) for kind, other in feared.items()]
        draw.shuffle(edges)
        for individual in draw.sample(individuals, INDIVIDUALS):
            graph = labelled_graph(_mark(individual, len(nodes)), edges)
            questions.append(GraphQuestion(graph, individual, ASKED_HAS_FEAR, feared[kind_of[individual]]))
    return questions[:number]


def with_more_nodes(question: GraphQuestion, nodes: int = INFLATED) -> GraphQuestion:
    """Pad the graph with isolated nodes. Raises ValueError if it has more nodes."""
    return question._replace(graph=with_isolated_nodes(question.graph, nodes))
