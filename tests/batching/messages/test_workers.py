"""Graphs, and whole graphs in threads, compared with the same networks trained step by step."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from message_graphs import SGD, check_all, examples, instances, layers_in_a_row, two_layers
from torch import Tensor, nn

from parser.batching.messages.asynchronous_updates import Parameterised
from parser.batching.messages.control_flow import Broadcast, ChangeState, Condition, Join
from parser.batching.messages.message_graph import (
    CONTROLLER,
    Loss,
    Message,
    MessageGraph,
    MessageState,
    Port,
    Transform,
    losses_of,
)
from parser.batching.messages.workers import (
    Controller,
    Delivery,
    Entry,
    Instance,
    Mailbox,
    NodeError,
    Report,
    Stop,
    Worker,
    run,
)


def test_ports_are_connected_once_and_names_are_different():
    graph = MessageGraph()
    graph.add("apart", Broadcast(2))
    graph.add("together", Join(2), worker=3)
    graph.connect("apart", "together")
    for change, says in (
        (lambda: graph.connect("apart", ("together", 1)), r"apart\[0\] .* with together\[0\]"),
        (lambda: graph.connect(("apart", 1), "together"), r"input together\[0\] is connected already"),
        (lambda: graph.connect("nobody", "together"), "there is no node nobody"),
        (lambda: graph.connect(("apart", 2), "together"), "apart has no output 2"),
        (lambda: graph.connect(("apart", 1), ("together", 2)), "together has no input 2"),
        (graph.check, r"input apart\[0\] is not connected"),
        (lambda: graph.add("apart", Join()), "a node apart already"),
    ):
        with pytest.raises(ValueError, match=says):
            change()
    assert graph.workers == 4


@pytest.mark.parametrize("update_after", [1, 3])
def test_one_instance_at_a_time_is_plain_gradient_descent(update_after):
    asynchronous, plain = two_layers(), two_layers()
    reports: list[Report] = []
    graph = layers_in_a_row(*asynchronous, update_after)
    run(graph, instances(examples(12)), max_active=1, report=reports.append)
    optimizer = SGD([weight for layer in plain for weight in layer.parameters()])
    for number, (rows, labels) in enumerate(examples(12), 1):
        scores = plain[1](F.relu(plain[0](rows)))
        loss = F.cross_entropy(scores, labels, reduction="sum")
        loss.backward()
        report = reports[number - 1]
        assert (report.state, report.examples) == (MessageState(number - 1), 4)
        assert report.loss == pytest.approx(loss.item())
        assert report.right == int((scores.argmax(1) == labels).sum())
        if number % update_after == 0:
            optimizer.step()
            optimizer.zero_grad()
    for found, expected in zip(asynchronous, plain, strict=True):
        torch.testing.assert_close(list(found.parameters()), list(expected.parameters()))
    assert graph.outstanding() == {}


@pytest.mark.parametrize(("update_after", "most_active", "latest"), [(1, 8, 7), (3, 6, 2)])
def test_many_at_a_time_are_late_and_are_counted_in_updates(update_after, most_active, latest):
    graph = layers_in_a_row(*two_layers(), update_after=update_after)
    run(graph, instances(examples(60)), most_active, report=lambda _: None)
    for name in ("first", "second"):
        node = graph.nodes[name]
        assert node.updates == 60 // update_after
        assert sum(node.staleness.values()) == 60
        assert max(node.staleness) <= latest
    assert update_after > 1 or max(graph.nodes["first"].staleness) > 0
    assert graph.outstanding() == {}


def test_validation_leaves_the_weights_alone_and_is_reported():
    layers, data = two_layers(), examples(3)
    before = [weight.clone() for layer in layers for weight in layer.parameters()]
    reports: list[Report] = []
    run(layers_in_a_row(*layers), instances(data, training=False), 2, reports.append)
    for report in reports:
        rows, labels = data[report.state.instance]
        scores = layers[1](F.relu(layers[0](rows)))
        assert not report.training
        assert report.loss == pytest.approx(F.cross_entropy(scores, labels, reduction="sum").item())
    assert len(reports) == 3
    assert all(map(torch.equal, before, [weight for layer in layers for weight in layer.parameters()]))


def recurrent(cell: nn.Module, out: nn.Module, lengths: dict[int, int], update_after: int) -> MessageGraph:
    """A graph that applies the cell as often as the instance's length says: the state counts."""
    graph = MessageGraph()
    graph.add(CONTROLLER, Controller(outputs=2))
    graph.add("again", Join())
    graph.add("cell", Parameterised(cell, SGD, update_after), worker=1)
    graph.add("step", ChangeState(lambda s: s.at(s.position[0] + 1), lambda s: s.at(s.position[0] - 1)))
    graph.add("done", Condition(lambda state: int(state.position[0] == lengths[state.instance])))
    graph.add("out", Parameterised(out, SGD, 1))
    graph.add("forget", ChangeState(lambda s: s.at(), lambda s: s.at(lengths[s.instance])))
    graph.add("loss", Loss(losses_of))
    graph.chain(CONTROLLER, "again", "cell", "step", "done")
    graph.connect("done", ("again", 1))
    graph.connect(("done", 1), "forget")
    graph.chain("forget", "out", "loss", CONTROLLER)
    graph.connect((CONTROLLER, 1), ("loss", 1))
    check_all(graph)
    return graph


class Cell(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(5, 5).double()

    def forward(self, rows: Tensor) -> Tensor:
        return torch.tanh(self.linear(rows))


@pytest.mark.parametrize("max_active", [1, 4])
def test_a_loop_is_an_edge_back(max_active):
    torch.manual_seed(1)
    cell, out = Cell(), nn.Linear(5, 3).double()
    data = examples(6)
    lengths = dict(enumerate([3] * 6 if max_active == 1 else [1, 4, 2, 5, 3, 1]))
    graph = recurrent(cell, out, lengths, update_after=3)
    torch.manual_seed(1)
    plain, plain_out = Cell(), nn.Linear(5, 3).double()
    started = [
        Instance(number, [Entry(0, (rows,), (0,)), Entry(1, (labels,))])
        for number, (rows, labels) in enumerate(data)
    ]
    run(graph, started, max_active, report=lambda _: None)
    assert graph.outstanding() == {}
    if max_active > 1:
        return
    optimizer = SGD([*plain.parameters(), *plain_out.parameters()])
    for number, (rows, labels) in enumerate(data):
        for _ in range(lengths[number]):
            rows = plain(rows)
        optimizer.zero_grad()
        F.cross_entropy(plain_out(rows), labels, reduction="sum").backward()
        optimizer.step()
    for found, expected in ((cell, plain), (out, plain_out)):
        torch.testing.assert_close(list(found.parameters()), list(expected.parameters()))


def test_a_node_that_fails_ends_the_run_and_is_named_and_its_graph_is_not_run_again():
    graph = layers_in_a_row(*two_layers())
    wrong = torch.zeros(4, 6, dtype=torch.double)
    data = [*examples(3), (wrong, torch.zeros(4, dtype=torch.long)), *examples(3)]
    with pytest.raises(NodeError, match="first, worker 0, instance 3, position"):
        run(graph, instances(data), max_active=2, report=lambda _: None)
    with pytest.raises(ValueError, match="build the graph again"):
        run(graph, instances(examples(1)), max_active=2, report=lambda _: None)


def test_whoever_listens_may_stop_it_all():
    def report(_):
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run(layers_in_a_row(*two_layers()), instances(examples(9)), max_active=2, report=report)


ONE = instances(examples(1))[0]


@pytest.mark.parametrize(
    ("given", "most_active", "error", "says"),
    [
        ([ONE._replace(reports=2)], 2, NodeError, "messages are missing.*{'controller': 1}"),
        ([ONE._replace(reports=0)], 2, ValueError, "instance 0 needs at least one entry and one report"),
        ([ONE._replace(entries=[])], 2, ValueError, "instance 0 needs at least one entry"),
        ([ONE, ONE], 2, ValueError, "instance 0 is in flight already"),
        ([ONE], 0, ValueError, "max_active must be at least 1, not 0"),
    ],
)
def test_instances_that_can_not_be_run(given, most_active, error, says):
    with pytest.raises(error, match=says):
        run(layers_in_a_row(*two_layers()), given, most_active, report=lambda _: None)
    run(layers_in_a_row(*two_layers()), [], 2, report=lambda _: None)


def test_gradients_come_before_anything_else():
    order = []

    class Noting(Join):
        def forward(self, port, message):
            order.append(("forward", message.state.instance))
            return []

        def backward(self, port, message):
            order.append(("backward", message.state.instance))
            return []

    graph = MessageGraph()
    graph.add("noting", Noting())
    mailbox = Mailbox()
    for instance, forward in enumerate([True, False, True, False]):
        mailbox.put(Delivery(forward, Port("noting"), Message((), MessageState(instance))))
    Worker(0, graph, mailbox, lambda *_: None, order.append, count=lambda _: mailbox.put(Stop())).run()
    assert order[0] == ("backward", 1)


def test_what_only_routes_takes_no_place_in_the_queue():
    graph, handled, mailbox = MessageGraph(), [], Mailbox()

    def compute(state, rows):
        handled.append(("compute", state.instance))
        return rows

    def step(state):
        handled.append(("step", state.instance))
        return state.at(1)

    graph.add("compute", Transform(compute))
    graph.add("step", ChangeState(step, lambda state: state.at()))
    graph.add("there", Broadcast(1), worker=1)
    graph.chain("compute", "step", "there")
    for instance in (1, 2):
        message = Message((torch.zeros(1),), MessageState(instance), training=False)
        mailbox.put(Delivery(True, Port("compute"), message))

    def post(worker, delivery):
        assert (worker, delivery.to) == (1, Port("there"))
        if delivery.message.state == MessageState(2, (1,)):
            mailbox.put(Stop())

    Worker(0, graph, mailbox, post, lambda error: pytest.fail(str(error))).run()
    assert handled == [
        ("compute", 1),
        ("step", 1),
        ("compute", 2),
        ("step", 2),
    ]


def test_messages_are_counted_before_others_can_work_on_them():
    order = []
    graph = MessageGraph()
    graph.add("here", Broadcast(2))
    graph.add("there", Join(), worker=1)
    graph.connect("here", "there")
    graph.connect(("here", 1), ("there", 1))
    mailbox = Mailbox()
    mailbox.put(Delivery(True, Port("here"), Message((), MessageState(1))))

    def post(worker, delivery):
        order.append("posted")
        mailbox.put(Stop())

    Worker(0, graph, mailbox, post, order.append, count=order.append).run()
    assert order == [1, "posted", "posted"]


def test_validation_goes_on_beside_training():
    layers, data = two_layers(), examples(20)
    reports: list[Report] = []
    graph = layers_in_a_row(*layers)
    mixed = [each._replace(training=each.number % 3 > 0) for each in instances(data)]
    run(graph, mixed, 6, reports.append)
    assert graph.outstanding() == {}
    assert graph.nodes["first"].updates == sum(each.training for each in mixed)
    assert {report.state.instance: report.training for report in reports} == {
        each.number: each.training for each in mixed
    }
