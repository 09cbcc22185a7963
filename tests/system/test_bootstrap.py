"""Bootstrap samples of series of observations."""

import pytest
import torch

from parser.system import bootstrap
from parser.system.bootstrap import interval, resampled


def series(count, *sizes, seed=1):
    return torch.randn(count, *sizes, dtype=torch.double, generator=torch.Generator().manual_seed(seed))


def mean(values):
    return values.mean(1)


def test_samples_scatter_as_the_standard_error():
    values = series(400)
    found = resampled([values], mean, 4000, seed=0)
    error = float(values.std()) / 400**0.5
    assert float(found.std()) == pytest.approx(error, rel=0.05)
    low, high = interval(found)
    assert (high - low) / 2 == pytest.approx(1.96 * error, rel=0.05)
    assert low < values.mean() < high


def test_observations_stay_whole_and_series_are_independent():
    paired = torch.stack([series(50), series(50) + 3], 1)
    assert resampled([paired], lambda own: (own[..., 1] - own[..., 0]).std(1), 100, seed=0).max() < 1e-9
    apart = resampled([series(50), series(50) + 3], lambda one, other: mean(other) - mean(one), 100, seed=0)
    assert apart.std() > 0.1


def test_the_memory_for_samples_does_not_change_them(monkeypatch):
    samples = resampled([series(30, 2)], lambda own: own[..., 0].amax(1), 101, seed=7)
    monkeypatch.setattr(bootstrap, "DRAWN_AT_ONCE", 100)
    assert resampled([series(30, 2)], lambda own: own[..., 0].amax(1), 101, seed=7).equal(samples)
    assert not resampled([series(30, 2)], lambda own: own[..., 0].amax(1), 101, seed=8).equal(samples)
