"""Single nodes: what they send on, what they send back, and that they keep nothing."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from message_graphs import Checked, examples, instances, layers_in_a_row, two_layers
from torch import Tensor, nn
from torch.func import functional_call

from parser.batching.messages.asynchronous_updates import ModuleWithWeights, Parameterised
from parser.batching.messages.control_flow import (
    Broadcast,
    ChangeState,
    ConcatenatePayloads,
    Condition,
    Discard,
    FlatMap,
    Group,
    Join,
    Ungroup,
)
from parser.batching.messages.message_graph import Message, MessageState, Send, Transform
from parser.batching.messages.workers import run

ONE, TWO = MessageState(1), MessageState(2)


def sent(sends: list[Send]) -> list[tuple[int, MessageState, list[list[float]]]]:
    """The port, the state and the payload's tensors of each message that was sent."""
    return [
        (port, message.state, [None if part is None else part.tolist() for part in message.payload])
        for _, port, message in sends
    ]


def message(state: MessageState, *payload: list[float]) -> Message:
    return Message(tuple(map(torch.tensor, payload)), state)


def test_a_condition_chooses_by_the_state():
    node = Checked(Condition(lambda state: state.instance - 1))
    for state in (ONE, TWO):
        assert sent(node.forward(0, message(state, [1.0]))) == [(state.instance - 1, state, [[1.0]])]
    assert sent(node.backward(1, message(TWO, [3.0]))) == [(0, TWO, [[3.0]])]
    assert sent(node.backward(0, message(ONE, [4.0]))) == [(0, ONE, [[4.0]])]
    assert node.outstanding() == 0


def test_a_join_sends_gradients_to_where_values_came_from():
    node = Checked(Join(3))
    node.forward(2, message(ONE, [1.0]))
    node.forward(0, message(TWO, [1.0]))
    assert node.node.outstanding() == 2
    assert sent(node.backward(0, message(ONE, [3.0]))) == [(2, ONE, [[3.0]])]
    assert sent(node.backward(0, message(TWO, [3.0]))) == [(0, TWO, [[3.0]])]
    assert node.outstanding() == 0


def test_a_state_is_changed_and_changed_back():
    node = Checked(ChangeState(lambda s: s.at(*s.position, 7), lambda s: s.at(*s.position[:-1])))
    ((_, state, _),) = sent(node.forward(0, message(ONE, [1.0])))
    assert state == MessageState(1, (7,))
    assert sent(node.backward(0, message(state, [2.0]))) == [(0, ONE, [[2.0]])]


def test_gradients_of_a_broadcast_are_summed():
    node = Checked(Broadcast(3))
    assert [port for port, _, _ in sent(node.forward(0, message(ONE, [1.0])))] == [0, 1, 2]
    assert node.backward(2, message(ONE, [1.0])) == []
    assert node.backward(0, Message((None,), ONE)) == []
    assert sent(node.backward(1, message(ONE, [5.0]))) == [(0, ONE, [[6.0]])]
    assert node.outstanding() == 0


def test_what_goes_nowhere_comes_back_without_gradients():
    node = Discard()
    assert sent(node.forward(0, message(ONE, [1.0], [2.0]))) == [(0, ONE, [None, None])]
    assert node.forward(0, message(TWO, [1.0])._replace(training=False)) == []
    assert node.outstanding() == 0


def test_a_flat_map_copies_to_states_and_sums():
    node = Checked(FlatMap(lambda state: [state.at(place) for place in range(2)]))
    assert sent(node.forward(0, message(ONE, [1.0]))) == [
        (0, MessageState(1, (place,)), [[1.0]]) for place in (0, 1)
    ]
    assert node.backward(0, message(MessageState(1, (1,)), [2.0])) == []
    assert sent(node.backward(0, message(MessageState(1, (0,)), [3.0]))) == [(0, ONE, [[5.0]])]
    assert node.outstanding() == 0


def test_payloads_side_by_side():
    both = Checked(ConcatenatePayloads(2))
    assert both.forward(1, message(ONE, [3.0])) == []
    assert both.forward(0, message(TWO, [9.0], [8.0])) == []
    assert sent(both.forward(0, message(ONE, [1.0], [2.0]))) == [(0, ONE, [[1.0], [2.0], [3.0]])]
    found = sent(both.backward(0, message(ONE, [4.0], [5.0], [6.0])))
    assert found == [(0, ONE, [[4.0], [5.0]]), (1, ONE, [[6.0]])]
    assert both.node.outstanding() == 1  # the second part of TWO has not arrived


def test_a_group_is_in_the_order_of_states_whoever_comes_first():
    node = Checked(Group(group=MessageState.at, size=lambda state: 3))
    assert node.forward(0, message(MessageState(1, (2,)), [5.0, 6.0])) == []
    assert node.forward(0, message(MessageState(1, (0,)), [1.0])) == []
    whole = sent(node.forward(0, message(MessageState(1, (1,)), [2.0, 3.0, 4.0])))
    assert whole == [(0, ONE, [[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]])]
    found = sent(node.backward(0, message(ONE, [10.0, 20.0, 30.0, 40.0, 50.0, 60.0])))
    expected = [(0, [10.0]), (1, [20.0, 30.0, 40.0]), (2, [50.0, 60.0])]
    assert found == [(0, MessageState(1, (place,)), [part]) for place, part in expected]
    assert node.outstanding() == 0


def test_rows_become_messages_and_their_gradients_one_again():
    node = Checked(Ungroup(lambda state: [(state.at(0), 1), (state.at(1), 2)]))
    found = sent(node.forward(0, message(ONE, [1.0, 2.0, 3.0])))
    assert found == [(0, MessageState(1, (0,)), [[1.0]]), (0, MessageState(1, (1,)), [[2.0, 3.0]])]
    assert node.backward(0, message(MessageState(1, (1,)), [5.0, 6.0])) == []
    assert sent(node.backward(0, message(MessageState(1, (0,)), [4.0]))) == [(0, ONE, [[4.0, 5.0, 6.0]])]
    assert node.outstanding() == 0


def test_a_transform_is_differentiated_where_somebody_wants_it():
    node = Checked(Transform(lambda state, left, right: (left * right, state.instance * right)))
    given = (torch.tensor([2.0], requires_grad=True), torch.tensor([3.0]))
    assert sent(node.forward(0, Message(given, TWO))) == [(0, TWO, [[6.0], [6.0]])]
    assert sent(node.backward(0, message(TWO, [1.0], [1.0]))) == [(0, TWO, [[3.0], None])]
    assert node.outstanding() == 0


def test_who_wants_gradients_is_known_beyond_groups():
    passed = Message((torch.ones(1, requires_grad=True),), MessageState(1, (0,)))
    for node in (Group(MessageState.at, lambda _: 1), Ungroup(lambda state: [(state.at(0), 1)])):
        ((_, _, passed),) = node.forward(0, passed)
        assert passed.payload[0].requires_grad
        assert passed.payload[0].grad_fn is None


def one_weight(value: float) -> nn.Linear:
    layer = nn.Linear(1, 1, bias=False)
    layer.weight.data.fill_(value)
    return layer


def trained(module: nn.Module, update_after: int = 1, backward_weights: str = "forward") -> Parameterised:
    return Parameterised(module, partial(torch.optim.SGD, lr=1.0), update_after, backward_weights)


def test_gradients_belong_to_the_weights_by_which_the_values_came():
    layer = one_weight(2.0)
    node = Checked(trained(layer))
    for state in (ONE, TWO):
        node.forward(0, Message((torch.tensor([[5.0]], requires_grad=True),), state))
    assert sent(node.backward(0, message(ONE, [[1.0]]))) == [(0, ONE, [[[2.0]]])]
    assert layer.weight.item() == 2 - 5
    # The weight has changed, but the second value was computed with the first weight.
    assert sent(node.backward(0, message(TWO, [[1.0]]))) == [(0, TWO, [[[2.0]]])]
    assert layer.weight.item() == 2 - 5 - 5
    assert node.node.staleness == {0: 1, 1: 1}
    assert sent(node.forward(0, message(ONE, [[1.0]]))) == [(0, ONE, [[[-8.0]]])]


def test_present_weights_meet_the_activations_of_the_forward_pass():
    first, second = one_weight(2.0), one_weight(3.0)
    node = Checked(trained(nn.Sequential(first, nn.Tanh(), second), 1, "present"))
    for state in (ONE, TWO):
        node.forward(0, Message((torch.tensor([[0.5]], requires_grad=True),), state))
    node.backward(0, message(ONE, [[1.0]]))
    activation = torch.tensor(1.0).tanh()  # of both messages, by the original first weight
    slope = 1 - activation**2
    torch.testing.assert_close(first.weight, 2 - 3 * slope.view(1, 1) * 0.5)
    torch.testing.assert_close(second.weight, 3 - activation.view(1, 1))
    now, later = first.weight.item(), second.weight.item()
    ((_, _, ((d_input,),)),) = sent(node.backward(0, message(TWO, [[1.0]])))
    assert d_input[0] == pytest.approx(later * slope.item() * now)
    assert first.weight.item() == pytest.approx(now - later * slope.item() * 0.5)
    assert node.node.staleness == {0: 1, 1: 1}
    ((_, _, ((output,),)),) = sent(node.forward(0, message(ONE, [[0.0]])))
    assert output == [0]


def test_both_weights_are_the_same_with_one_instance_at_a_time():
    found = []
    for backward_weights in ("forward", "present"):
        layers = two_layers()
        graph = layers_in_a_row(*layers, update_after=2, backward_weights=backward_weights)
        run(graph, instances(examples(9)), max_active=1, report=lambda _: None)
        found.append([layer.weight for layer in layers])
    assert all(map(torch.equal, *found))


def test_updates_wait_for_enough_gradients():
    layer = one_weight(2.0)
    node = trained(layer, update_after=2)
    for number, weight in ((1, 2.0), (2, -8.0), (3, -8.0)):
        state = MessageState(number)
        node.forward(0, message(state, [[5.0]]))
        assert sent(node.backward(0, message(state, [[1.0]]))) == [(0, state, [None])]
        assert layer.weight.item() == weight
    node.update()
    assert layer.weight.item() == -13
    node.update()
    assert (layer.weight.item(), node.updates) == (-13, 2)


@pytest.mark.parametrize(
    ("node", "wrong", "says"),
    [
        (Broadcast(2), lambda node: node.backward(0, message(ONE, [1.0])), "was not sent"),
        (
            Broadcast(2),
            lambda node: [node.forward(0, message(ONE, [1.0])) for _ in range(2)],
            "was sent here twice",
        ),
        (
            ChangeState(lambda _: ONE, lambda state: state),
            lambda node: [node.forward(0, message(state, [1.0])) for state in (ONE, TWO)],
            "is sent twice",
        ),
    ],
)
def test_what_breaks_the_rules_is_told(node, wrong, says):
    with pytest.raises(AssertionError, match=says):
        wrong(Checked(node))


@pytest.mark.parametrize(
    ("node", "payload", "says"),
    [
        (FlatMap(lambda state: []), [[1.0]], "to no states"),
        (Ungroup(lambda state: []), [[1.0]], "into no parts"),
        (Group(MessageState.at, lambda state: 2), [[1.0], [1.0, 2.0]], r"rows, not \[1, 2\]"),
    ],
)
def test_payloads_that_can_not_be_sent_on(node, payload, says):
    with pytest.raises(ValueError, match=says):
        node.forward(0, message(ONE, *payload))


def test_gradients_that_belong_to_others_are_left_as_they_are():
    class Shift(nn.Module):
        def __init__(self):
            super().__init__()
            self.shift = nn.Parameter(torch.zeros(1))

        def forward(self, rows: Tensor) -> Tensor:
            return rows + self.shift

    node = trained(Shift(), update_after=9)
    sent_back = []
    for number in (1, 2, 3):
        node.forward(0, Message((torch.ones(1, requires_grad=True),), MessageState(number)))
        sent_back += node.backward(0, message(MessageState(number), [float(number)]))
    assert [send.message.payload[0].item() for send in sent_back] == [1, 2, 3]
    node.give_gradients()
    assert node.module.shift.grad.item() == 6


def test_what_is_frozen_is_not_trained():
    layer = nn.Linear(1, 1)
    layer.weight.requires_grad_(False)
    before = layer.weight.item()
    node = trained(layer)
    node.forward(0, Message((torch.ones(1, 1),), ONE))
    node.backward(0, message(ONE, [[1.0]]))
    assert layer.weight.item() == before
    with pytest.raises(ValueError, match="ReLU has no parameters to train"):
        Parameterised(nn.ReLU(), torch.optim.SGD, update_after=1)


def test_where_nothing_flows_beside_something_are_zeros():
    node = Ungroup(lambda state: [(state.at(0), 1), (state.at(1), 2)])
    node.forward(0, message(ONE, [1.0, 2.0, 3.0]))
    assert node.backward(0, Message((None,), MessageState(1, (1,)))) == []
    assert sent(node.backward(0, message(MessageState(1, (0,)), [4.0]))) == [(0, ONE, [[4.0, 0.0, 0.0]])]


def test_computes_what_functional_call_does():
    module = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Linear(3, 3), nn.LSTM(3, 2))
    module[2].weight = module[0].weight  # one weight in two places
    module[0].bias.requires_grad_(False)  # stays the module's own
    replaced = {name: weight for name, weight in module.named_parameters() if weight.requires_grad}
    others = {name: torch.randn_like(weight).requires_grad_() for name, weight in replaced.items()}
    before = {name: weight.detach().clone() for name, weight in module.named_parameters()}
    used = ModuleWithWeights(module, list(replaced.values()))
    used.set(list(others.values()))

    inputs = torch.randn(4, 3)
    outputs, _ = used(inputs)
    gradients = torch.autograd.grad(outputs.sum(), list(others.values()))
    expected, _ = functional_call(module, others, inputs)
    torch.testing.assert_close(outputs, expected)
    torch.testing.assert_close(gradients, torch.autograd.grad(expected.sum(), list(others.values())))
    assert module[1].num_batches_tracked == 2  # buffers are shared
    assert {name: weight.tolist() for name, weight in module.named_parameters()} == {
        name: weight.tolist() for name, weight in before.items()
    }


def test_the_mode_is_that_of_the_module():
    module = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5))
    used = ModuleWithWeights(module, list(module.parameters()))
    used.set([weight.detach() for weight in module.parameters()])
    inputs = torch.ones(20, 3)
    assert (used(inputs) == 0).any()
    module.eval()
    torch.testing.assert_close(used(inputs), module(inputs))
    module.train()
    assert (used(inputs) == 0).any()
