import os

import pytest
import torch
from simulated_cuda.device import SimulatedCuda

from parser.batching.deterministic import deterministic_sums


@pytest.mark.parametrize(("wanted", "name"), [(False, "cuda"), (True, "cpu"), (True, "cuda")])
def test_sums_are_deterministic_where_that_is_wanted_on_a_gpu(wanted, name, monkeypatch):
    monkeypatch.delenv("CUBLAS_WORKSPACE_CONFIG", raising=False)
    chosen = wanted and name == "cuda"
    with deterministic_sums(wanted, torch.device(name)):
        assert torch.are_deterministic_algorithms_enabled() == chosen
        assert ("CUBLAS_WORKSPACE_CONFIG" in os.environ) == chosen
    assert not torch.are_deterministic_algorithms_enabled()
    assert torch.utils.deterministic.fill_uninitialized_memory


def test_an_operator_that_is_not_is_refused():
    with SimulatedCuda() as cuda, deterministic_sums(True, cuda.name):
        torch.ones(3, dtype=torch.long, device="cuda").cumsum(0)
        with pytest.raises(RuntimeError, match="deterministic"):
            torch.ones(3, device="cuda").cumsum(0)
