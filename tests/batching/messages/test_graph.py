import pytest

from parser.batching.messages.graph import MessageGraph
from parser.batching.messages.routing import Broadcast, Join


def two_nodes() -> MessageGraph:
    graph = MessageGraph()
    graph.add("apart", Broadcast(2))
    graph.add("together", Join(2), worker=3)
    return graph


def test_ports_are_connected_once():
    graph = two_nodes()
    graph.connect("apart", "together")
    with pytest.raises(ValueError, match=r"output apart\[0\] is connected already, with together\[0\]"):
        graph.connect("apart", ("together", 1))
    with pytest.raises(ValueError, match=r"input together\[0\] is connected already"):
        graph.connect(("apart", 1), "together")


@pytest.mark.parametrize(
    ("edge", "says"),
    [
        (("nobody", "together"), "there is no node nobody"),
        ((("apart", 2), "together"), "apart has no output 2"),
        (("apart", ("together", 2)), "together has no input 2"),
    ],
)
def test_edges_that_can_not_be(edge, says):
    with pytest.raises(ValueError, match=says):
        two_nodes().connect(*edge)


def test_all_ports_must_be_connected():
    graph = two_nodes()
    graph.connect("apart", "together")
    with pytest.raises(ValueError, match=r"input apart\[0\] is not connected"):
        graph.check()


def test_names_are_different():
    graph = two_nodes()
    with pytest.raises(ValueError, match="a node apart already"):
        graph.add("apart", Join())


def test_workers_are_counted():
    assert two_nodes().workers == 4
