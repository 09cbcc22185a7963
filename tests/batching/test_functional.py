"""Products, and their precision."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
import torch
import torch.nn.functional as F
from extended import first_of
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence

from parser.batching import functional
from parser.batching.functional import (
    Processor,
    add_product,
    add_transposed_product,
    computing_in,
    dropout,
    linear,
    mkl_leaves_units_idle,
    present_precision,
    set_precision,
    times_transposed,
    transposed_times,
    why_unsupported,
    write_product,
    write_transposed_product,
)
from parser.batching.lstm import outputs_of, run_cell
from parser.system.machine import processor


@pytest.fixture(autouse=True, params=["torch", "onednn"])
def _kernels(request, monkeypatch):
    """Tests both kinds of kernels, whatever CPU this machine has."""
    monkeypatch.setattr(functional, "mkl_leaves_units_idle", lambda processor: request.param == "onednn")


@pytest.mark.parametrize("rows", [0, 1, 3, 8, 17, 64, 100, 1023])
@pytest.mark.parametrize("bias", [True, False])
def test_linear_is_torchs_linear_with_its_gradients(rows, bias, device):
    results = []
    for function in (linear, F.linear):
        torch.manual_seed(0)
        inputs = torch.randn(rows, 13, device=device, requires_grad=True)
        weight = torch.randn(7, 13, device=device, requires_grad=True)
        shift = torch.randn(7, device=device, requires_grad=True) if bias else None
        outputs = function(inputs, weight, shift)
        (outputs * torch.randn(rows, 7, device=device)).sum().backward()
        results.append([outputs.detach(), *(t.grad for t in (inputs, weight, shift) if t is not None)])
    for ours, torchs in zip(*results, strict=True):
        torch.testing.assert_close(ours, torchs, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("rows", [0, 3, 100])
@pytest.mark.parametrize("bias", [True, False])
def test_products_into_a_part_of_a_matrix(rows, bias, device):
    left, right = torch.randn(rows, 13, device=device), torch.randn(7, 13, device=device)
    shift = torch.randn(7, device=device) if bias else None
    whole = torch.ones(rows, 20, device=device)
    write_product(whole[:, 5:12], left, right, shift)
    expected = torch.ones(rows, 20, device=device)
    expected[:, 5:12] = F.linear(left, right, shift)
    torch.testing.assert_close(whole, expected, rtol=1e-5, atol=1e-5)
    add_product(whole[:, 10:17], left, right)
    expected[:, 10:17] += left @ right.T
    torch.testing.assert_close(whole, expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("rows", [3, 100, 300])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_and_sums_over_rows_of_views_with_gaps(rows, dtype, device):
    left = torch.randn(rows, 30, dtype=dtype, device=device)[:, 5:18]
    other = torch.randn(rows, 6, dtype=dtype, device=device)
    right = torch.randn(9, 40, dtype=dtype, device=device)[:, 2:15]
    torch.testing.assert_close(times_transposed(left, right), left @ right.T, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(transposed_times(left, other), left.T @ other, rtol=1e-5, atol=1e-4)
    outputs = torch.empty(13, 6, dtype=dtype, device=device)
    write_transposed_product(outputs, left, other)
    torch.testing.assert_close(outputs, left.T @ other, rtol=1e-5, atol=1e-4)
    add_transposed_product(outputs, left, other)
    torch.testing.assert_close(outputs, 2 * left.T @ other, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize(
    ("vendor", "family", "flags", "idle"),
    [
        ("AuthenticAMD", 26, "fpu avx2 avx512f", True),
        ("AuthenticAMD", 25, "fpu avx2 avx512f", False),
        ("GenuineIntel", 6, "fpu avx2 avx512f", False),
    ],
)
def test_onednn_is_for_processors_on_which_mkl_is_slow(tmp_path, vendor, family, flags, idle):
    description = tmp_path / "cpuinfo"
    lines = ("processor\t: 0", f"vendor_id\t: {vendor}", f"cpu family\t: {family}", f"flags\t\t: {flags}")
    description.write_text("\n".join(lines) + "\n\n")
    assert mkl_leaves_units_idle(processor(description)) == idle
    assert not mkl_leaves_units_idle(processor(tmp_path / "none"))


CPU = torch.device("cpu")
WITH_BFLOAT16 = Processor("AuthenticAMD", 25, frozenset({"avx512f", "avx512_bf16"}))
WITHOUT = Processor("AuthenticAMD", 25, frozenset({"avx2"}))
RELATIVE_ERROR = 2.0**-7
"""Two roundings to 8 significant bits in each term, and one of the sum."""


@pytest.fixture
def in_bfloat16(bfloat16):
    set_precision("bfloat16", CPU)


def relative_error(found, expected):
    """The norm of the difference, relative to the expected norm."""
    return float((found.detach().double() - expected.detach()).norm() / expected.detach().norm())


def assert_rounded(found, rounded, exact):
    """Check a product against those in double precision of rounded factors and of the factors themselves."""
    assert found.dtype == torch.float32
    assert relative_error(found, rounded) < RELATIVE_ERROR / 4  # only the rounding of the sum
    assert 1e-4 < relative_error(found, exact) < RELATIVE_ERROR


def assert_lstm_is_near(found, expected):
    for ours, exact in zip(found, expected, strict=True):
        assert ours.dtype == torch.float32
        assert 1e-5 < relative_error(ours, exact.double()) < 4 * RELATIVE_ERROR


def test_the_precision_is_of_a_block(bfloat16):
    assert present_precision() == "float32"
    with computing_in("bfloat16", CPU):
        assert present_precision() == "bfloat16"
        with pytest.raises(KeyError), computing_in("float32", CPU):
            raise KeyError
        assert present_precision() == "bfloat16"
    assert present_precision() == "float32"


@pytest.mark.parametrize(
    ("name", "processor", "reason"),
    [
        ("float32", WITHOUT, None),
        ("bfloat16", WITH_BFLOAT16, None),
        ("bfloat16", Processor("GenuineIntel", 6, frozenset({"amx_bf16"})), None),
        ("bfloat16", WITHOUT, "neither of amx_bf16 and avx512_bf16"),
        ("tf32", WITH_BFLOAT16, "only GPUs"),
    ],
)
def test_what_a_cpu_supports(name, processor, reason, bfloat16, monkeypatch):
    found = why_unsupported(name, CPU, processor)
    assert found == reason or (reason and reason in found)
    monkeypatch.setattr("parser.batching.functional.processor", lambda: processor)
    refused = pytest.raises(ValueError, match=f"precision {name}: .*{reason}")
    with refused if reason else nullcontext():
        set_precision(name, CPU)
    assert present_precision() == ("float32" if reason else name)


@pytest.mark.parametrize("onednn", [True, False])
def test_bfloat16_is_refused_where_lstms_can_not_be_computed_in_it(onednn, monkeypatch):
    """oneDNN can only with some of the CPU's instructions; PyTorch itself always can."""
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", onednn)
    monkeypatch.setattr("parser.batching.functional.processor", lambda: WITH_BFLOAT16)
    torch.set_float32_matmul_precision("medium")  # without any check
    try:
        outputs_of(nn.LSTM(6, 8), torch.randn(7, 5, 6))
    except RuntimeError:
        assert onednn
        with pytest.raises(ValueError, match="precision bfloat16: oneDNN does not compute LSTMs"):
            set_precision("bfloat16", CPU)
    else:
        set_precision("bfloat16", CPU)


@pytest.mark.parametrize(("capability", "supported"), [((7, 5), False), ((8, 0), True), ((9, 0), True)])
@pytest.mark.parametrize("name", ["tf32", "bfloat16"])
def test_what_gpus_support(name, capability, supported, monkeypatch):
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    assert (why_unsupported(name, torch.device("cuda"), WITHOUT) is None) == supported


@pytest.mark.parametrize(("name", "expected"), [("float32", False), ("tf32", True), ("bfloat16", True)])
def test_cudnn_has_tf32_only_if_asked_for(name, expected, monkeypatch):
    """PyTorch uses it by default."""
    monkeypatch.setattr(torch.backends.cudnn, "allow_tf32", not expected)
    monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
    set_precision(name, torch.device("cuda"))
    assert torch.backends.cudnn.allow_tf32 == expected


@pytest.mark.parametrize("rows", [256, 301])
@pytest.mark.parametrize("bias", [True, False])
def test_large_products_have_bfloat16_factors(rows, bias, device, in_bfloat16):
    torch.manual_seed(0)
    left, right = torch.randn(rows, 150, device=device), torch.randn(300, 150, device=device)
    shift = torch.randn(300, device=device) if bias else None
    exact = F.linear(*(each if each is None else each.double() for each in (left, right, shift)))
    rounded = F.linear(
        left.bfloat16().double(), right.bfloat16().double(), None if shift is None else shift.double()
    )
    start = torch.randn(rows, 300, device=device)
    written, added = start.clone(), start.clone()
    write_product(written[:, :300], left, right, shift)
    add_product(added, left, right)
    results = [times_transposed(left, right, shift), written, linear(left, right, shift)]
    if not bias:
        results.append(added - start)
    for found in results:
        assert_rounded(found, rounded, exact)


def test_large_sums_over_rows_have_bfloat16_factors(device, in_bfloat16):
    torch.manual_seed(0)
    left, right = torch.randn(301, 150, device=device), torch.randn(301, 300, device=device)
    start = torch.randn(150, 300, device=device)
    written, added = start.clone(), start.clone()
    write_transposed_product(written, left, right)
    add_transposed_product(added, left, right)
    rounded = left.bfloat16().double().T @ right.bfloat16().double()
    for found in (transposed_times(left, right), written, added - start):
        assert_rounded(found, rounded, exact=left.double().T @ right.double())


def test_gradients_in_bfloat16_are_near_those_of_float32(device, in_bfloat16):
    gradients = []
    for function in (linear, F.linear):
        torch.manual_seed(0)
        parts = [torch.randn(*shape, device=device) for shape in ((301, 150), (300, 150), (300,))]
        for part in parts:
            part.requires_grad_()
        (function(*parts) * torch.randn(301, 300, device=device)).sum().backward()
        gradients.append([part.grad for part in parts])
    for ours, torchs in zip(*gradients, strict=True):
        assert ours.dtype == torch.float32
        assert relative_error(ours, torchs.double()) < RELATIVE_ERROR
    for ours, torchs in zip(gradients[0][:2], gradients[1], strict=False):  # the bias's is a float32 sum
        assert relative_error(ours, torchs.double()) > 1e-4


def test_small_products_are_torchs_own_on_a_cpu(in_bfloat16):
    left, right = torch.randn(30, 20), torch.randn(10, 20)
    torch.testing.assert_close(times_transposed(left, right), left @ right.T, rtol=0, atol=1e-5)
    torch.testing.assert_close(linear(left, right), left @ right.T, rtol=0, atol=1e-5)


def test_double_precision_stays(device, in_bfloat16):
    left, right = (torch.randn(300, 300, dtype=torch.float64, device=device) for _ in range(2))
    torch.testing.assert_close(times_transposed(left, right), left @ right.T)
    lstm = nn.LSTM(4, 5).double().to(device)
    inputs = torch.randn(3, 2, 4, dtype=torch.float64, device=device)
    torch.testing.assert_close(outputs_of(lstm, inputs), lstm(inputs)[0])


def lstm_sizes(device):
    """Sizes of the inputs and of the states. A GPU does not round the factors of small products."""
    return (256, 256) if device.type == "cuda" else (6, 8)


@pytest.mark.parametrize("layers", [1, 2])
@pytest.mark.parametrize("packed", [False, True])
def test_the_librarys_lstm_in_bfloat16(layers, packed, device, in_bfloat16):
    torch.manual_seed(0)
    size, hidden = lstm_sizes(device)
    lstm = nn.LSTM(size, hidden, layers, bidirectional=packed).to(device)
    sequence = torch.randn(7, 5, size, device=device)
    inputs = pack_padded_sequence(sequence, torch.tensor([7, 7, 4, 2, 1])) if packed else sequence
    results = []
    for name in ("bfloat16", "float32"):
        lstm.zero_grad()
        with computing_in(name, CPU):
            outputs = outputs_of(lstm, inputs)
        outputs.square().sum().backward()
        results.append([outputs.detach(), *(weight.grad.clone() for weight in lstm.parameters())])
    assert_lstm_is_near(*results)


def test_a_cell_in_bfloat16(device, in_bfloat16):
    torch.manual_seed(0)
    size, hidden = lstm_sizes(device)
    cell = nn.LSTMCell(size, hidden).to(device)
    weights = [cell.weight_ih, cell.weight_hh, cell.bias_ih, cell.bias_hh]
    inputs, states = torch.randn(5, size, device=device), torch.randn(2, 5, hidden, device=device)
    found = run_cell(inputs, tuple(states), weights)
    with computing_in("float32", CPU):
        assert_lstm_is_near(found, cell(inputs, tuple(states)))


@pytest.mark.parametrize("probability", [0.1, 0.33, 0.5, 0.9])
@pytest.mark.parametrize("shape", first_of([(997,), (100, 101), (7, 11, 13)]))
def test_dropped_share_and_mean(probability, shape, device):
    inputs = torch.ones(200, *shape, device=device)
    outputs = dropout(inputs, probability, training=True)
    dropped = (outputs == 0).float()
    share = dropped.mean().item()
    deviation = (probability * (1 - probability) / inputs.numel()) ** 0.5
    assert abs(share - probability) < 6 * deviation + 1 / 65536
    assert torch.allclose(outputs[outputs != 0], torch.tensor(1 / (1 - probability), device=device))
    neighbours = (dropped.flatten()[1:] * dropped.flatten()[:-1]).mean().item()
    assert neighbours == pytest.approx(probability**2, abs=0.01)


def test_a_mask_is_that_of_the_seed_and_of_the_gradients_and_none_in_evaluation(device):
    inputs = torch.randn(50, 50, device=device, requires_grad=True)
    assert torch.equal(dropout(inputs, 0.5, training=False), inputs)
    outputs = []
    for _ in range(2):
        torch.manual_seed(3)
        outputs.append(dropout(inputs, 0.5, training=True))
    assert torch.equal(*outputs)
    outputs[0].sum().backward()
    assert torch.equal(inputs.grad != 0, outputs[0] != 0)
