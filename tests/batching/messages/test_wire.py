import pytest
import torch

from parser.batching.messages.graph import Port
from parser.batching.messages.message import Message, MessageState
from parser.batching.messages.wire import packed, unpacked
from parser.batching.messages.worker import Delivery


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64, torch.bool])
@pytest.mark.parametrize("shape", [(), (0,), (3,), (2, 0, 4), (5, 1, 3)])
def test_what_is_unpacked_is_what_was_packed(dtype, shape):
    tensor = torch.randn(shape).mul(9).to(dtype)
    wanted = torch.randn(3, 4).T.requires_grad_()
    message = Message((tensor, None, wanted, torch.tensor([True])), MessageState(7, (1, -2)), training=False)
    forward, to, (payload, state, training) = unpacked(packed(Delivery(True, Port("näme", 2), message)))
    assert (forward, to, state, training) == (True, Port("näme", 2), MessageState(7, (1, -2)), False)
    assert payload[0].dtype == dtype
    assert torch.equal(payload[0], tensor)
    assert payload[1] is None
    assert torch.equal(payload[2], wanted)
    assert payload[2].requires_grad
    assert payload[2].is_leaf
    assert payload[3].tolist() == [True]


def test_a_message_without_values():
    delivery = Delivery(False, Port("loss"), Message((), MessageState(0)))
    assert unpacked(packed(delivery)) == delivery
