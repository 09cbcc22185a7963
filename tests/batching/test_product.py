import pytest
import torch
import torch.nn.functional as F

from parser.batching import product
from parser.batching.processor import processor
from parser.batching.product import (
    add_product,
    add_transposed_product,
    linear,
    mkl_leaves_units_idle,
    times_transposed,
    transposed_times,
    write_product,
    write_transposed_product,
)


@pytest.fixture(autouse=True, params=["torch", "onednn"])
def _kernels(request, monkeypatch):
    """Both kinds, whatever this machine's CPU is."""
    monkeypatch.setattr(product, "mkl_leaves_units_idle", lambda processor: request.param == "onednn")


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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_of_views_with_gaps(dtype, device):
    left = torch.randn(20, 30, dtype=dtype, device=device)[:, 5:18]
    right = torch.randn(9, 40, dtype=dtype, device=device)[:, 2:15]
    torch.testing.assert_close(times_transposed(left, right), left @ right.T, rtol=1e-5, atol=1e-5)
    other = torch.randn(20, 6, dtype=dtype, device=device)
    torch.testing.assert_close(transposed_times(left, other), left.T @ other, rtol=1e-5, atol=1e-5)


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
def test_sums_over_rows_into_a_matrix(rows, device):
    left, right = torch.randn(rows, 9, device=device), torch.randn(rows, 13, device=device)
    outputs = torch.empty(9, 13, device=device)
    write_transposed_product(outputs, left, right)
    torch.testing.assert_close(outputs, left.T @ right, rtol=1e-5, atol=1e-4)
    add_transposed_product(outputs, left, right)
    torch.testing.assert_close(outputs, 2 * left.T @ right, rtol=1e-5, atol=1e-4)


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


def test_without_a_description_torchs_product_is_used(tmp_path):
    assert not mkl_leaves_units_idle(processor(tmp_path / "none"))
