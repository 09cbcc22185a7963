"""The simulated device refuses what CUDA refuses, computes as the CPU does, and counts what costs time."""

import copy
import re

import pytest
import torch
from simulated_cuda.device import SimulatedCuda
from speed_rows import cell
from torch import nn

from parser.speed.measuring.cell_process import MeasuredCell

pytestmark = pytest.mark.extended


def test_a_tensor_is_where_it_was_made_and_its_views_are_there(cuda):
    there, here = torch.zeros(4, 3, device="cuda"), torch.zeros(4, 3)
    assert (there.device, there.is_cuda, there.is_cpu) == (torch.device("cuda:0"), True, False)
    assert (here.device, here.is_cuda, here.is_cpu) == (torch.device("cpu"), False, True)
    results = there[1:].T, there + 1, there.new_zeros(2), torch.ones_like(there), there.to(torch.float64)
    assert all(result.is_cuda for result in results)
    assert not any(tensor.is_cuda for tensor in (there.cpu(), torch.zeros_like(there, device="cpu")))
    assert all(tensor.is_cuda for tensor in (here.cuda(), here.to(there), torch.tensor([1], device="cuda")))


def test_storages_are_not_kept(cuda):
    for _ in range(10_000):
        torch.zeros(3, device="cuda")
    assert len(cuda.storages._references) < 5000
    assert not torch.zeros(3).is_cuda


@pytest.mark.parametrize(
    ("refused", "error"),
    [
        (lambda there: there + torch.ones(2, 2), r"RuntimeError: .*\(2, 2\) on cuda:0, \(2, 2\) on cpu"),
        (lambda there: torch.cat([there, torch.ones(2, 2)]), "RuntimeError: .*same device"),
        (lambda there: there.long() @ there.long(), "NotImplementedError: .*no CUDA kernel"),
        (lambda there: torch.ops.aten.mkldnn_linear(there, there), "NotImplementedError: .*no CUDA kernel"),
        (lambda there: torch.rand_like(there, generator=torch.Generator()), "RuntimeError: .*generator"),
        (lambda there: there.numpy(), "TypeError: .*convert cuda:0"),
        (lambda there: nn.LSTM(2, 2)(there), "RuntimeError: .*not at the same device"),
        (lambda there: nn.LSTMCell(2, 2)(there), "RuntimeError: .*not at the same device"),
    ],
)
def test_what_cuda_refuses(cuda, refused, error):
    with pytest.raises((RuntimeError, TypeError)) as raised:
        refused(torch.ones(2, 2, device="cuda"))
    assert re.search(error, f"{raised.type.__name__}: {raised.value}", re.DOTALL)


def test_a_number_can_be_on_any_device(cuda):
    assert (torch.zeros(3, device="cuda") + torch.tensor(1.0)).sum() == 3


@pytest.mark.parametrize(
    ("cause", "waits"),
    [
        (lambda there: there.tolist(), True),
        (lambda there: there.sum().item(), True),
        (lambda there: bool(there.any()), True),
        (lambda there: there.cpu(), True),
        (lambda there: there.nonzero(), True),
        (lambda there: there[there > 0], True),
        (lambda there: there[torch.tensor([1, 2])], True),
        (lambda there: torch.ones(3).to(there.device), True),
        (lambda there: torch.ones(3).to(there.device, non_blocking=True), True),
        (lambda there: torch.tensor([1.0], device="cuda"), True),
        (lambda there: there.repeat_interleave(there.long() + 1), True),
        (lambda there: torch.cuda.synchronize(), True),
        (lambda there: torch.ones(3).copy_(there), True),
        (lambda there: torch.ones(3).pin_memory().to(there.device, non_blocking=True), False),
        (lambda there: torch.full((), 3, device="cuda") + there, False),
        (lambda there: there.repeat_interleave(there.long() + 1, output_size=6), False),
        (lambda there: torch.where(there > 0, there, 0), False),
        (lambda there: there[torch.arange(2, device="cuda")].masked_fill(there[:2] > 0, 1), False),
    ],
)
def test_what_makes_the_host_wait(cuda, cause, waits):
    there = torch.ones(3, device="cuda")
    cuda.counted()
    cause(there)
    counts = cuda.counted()
    assert bool(counts.synchronizations) == waits


def test_launches_and_uploads_are_counted(cuda):
    there = torch.ones(3, 3, device="cuda")
    cuda.counted()
    (there @ there).relu().view(9)[2:] + 1
    torch.ones(3).pin_memory().to("cuda", non_blocking=True)
    counts = cuda.counted()
    assert counts.operators == {"mm": 1, "relu": 1, "add": 1}
    assert (counts.launches, counts.uploads, cuda.counts.launches) == (3, 1, 0)


def trained(device, packed=False):
    """The losses and weights of a few steps of a small network with most kinds of layers that ours have."""
    torch.manual_seed(0)
    layers = nn.ModuleList([nn.Embedding(20, 6), nn.LSTM(6, 5, 2), nn.LSTMCell(5, 4), nn.Linear(4, 3)]).to(
        device
    )
    optimizer = torch.optim.Adam(layers.parameters(), fused=True)
    losses = []
    for _ in range(3):
        words = torch.randint(20, (7, 4)).to(device)
        inputs = layers[0](words)
        if packed:
            inputs = nn.utils.rnn.pack_padded_sequence(inputs, torch.tensor([7, 7, 3, 1]))
        outputs = layers[1](inputs)[0]
        frames = outputs.data if packed else outputs.flatten(0, 1)
        scores = layers[3](layers[2](frames)[0]).log_softmax(1)
        optimizer.zero_grad()
        loss = -scores[:, 0].sum()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(layers.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.detach())
    return [tensor.detach().cpu() for tensor in (*losses, *layers.parameters())]


@pytest.mark.parametrize("packed", [False, True])
def test_training_gives_the_numbers_of_the_cpu(packed):
    expected = trained("cpu", packed)
    with SimulatedCuda() as cuda:
        on_cuda = trained("cuda", packed)
        assert cuda.counts.library_lstms == 6  # forward and backward of each step
    for ours, of_cpu in zip(on_cuda, expected, strict=True):
        torch.testing.assert_close(ours, of_cpu, rtol=1e-5, atol=1e-6)


def test_the_library_warns_of_weights_that_are_not_one_block(cuda):
    lstm = nn.LSTM(3, 2, 2, bidirectional=True).to("cuda")
    inputs = torch.ones(2, 1, 3, device="cuda")
    weights = [weight.detach().clone() for weight in lstm.parameters()]
    lstm(inputs)
    copied = copy.deepcopy(lstm)
    with pytest.warns(UserWarning, match="single contiguous chunk"):
        expected = copied(inputs)[0]
    copied.flatten_parameters()
    assert torch.equal(copied(inputs)[0], expected)
    assert all(map(torch.equal, copied.parameters(), weights))
    states = torch.zeros(1, 1, 2, device="cuda")
    with pytest.warns(UserWarning, match="single contiguous chunk"):  # one direction of the first layer
        torch.lstm(inputs, (states, states), lstm.all_weights[0], True, 1, 0.0, True, False, False)


def test_gradients_lie_on_the_device(cuda):
    weight = torch.ones(3, 3, device="cuda", requires_grad=True)
    (weight.cumsum(0)[:, 1].exp() * weight.max()).sum().backward()
    assert weight.grad.is_cuda


def test_an_lstm_that_is_not_trained_has_no_backward_pass(cuda):
    lstm = nn.LSTM(3, 2).to("cuda").eval()
    outputs = lstm(torch.ones(2, 1, 3, device="cuda"))[0].sum()
    with pytest.raises(RuntimeError, match="training mode"):
        outputs.backward()


def test_tf32_has_ten_bits_where_it_is_allowed(cuda):
    left, right = torch.full((1, 1), 1 + 2.0**-11 + 2.0**-20, device="cuda"), torch.ones(1, 1, device="cuda")
    assert (left @ right).item() == left.item()
    torch.set_float32_matmul_precision("high")
    assert (left / 0 @ right).item() == torch.inf
    assert (left @ right).item() == 1 + 2.0**-10


def test_outside_of_the_context_there_is_no_device():
    with SimulatedCuda():
        assert torch.cuda.is_available()
    assert not torch.zeros(3).is_cuda
    with SimulatedCuda() as cuda, torch.no_grad():
        torch.zeros(3, device="cuda")
        assert cuda.counts.launches == 1


def test_a_cell_is_measured_on_the_gpu_that_cuda_means(cuda):
    measured = MeasuredCell(cell(plugin="bilstm_tagger", device="cuda"))
    assert measured.results()
