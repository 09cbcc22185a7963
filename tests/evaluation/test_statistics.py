import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from parser.evaluation.statistics import Estimate, median_of, parallel_share, parallel_share_at, ratio_of

SPEEDS = st.lists(st.floats(0.1, 1e6), min_size=1, max_size=30)


def test_an_estimate_is_written_with_its_interval_in_any_form():
    estimate = Estimate(1234.56, 1000, 2000.004)
    assert str(estimate) == f"{estimate}" == "1234.56 [1000.00, 2000.00]"
    assert f"{estimate:,.0f}" == "1,235 [1,000, 2,000]"


@given(SPEEDS)
def test_the_median_lies_within_its_interval_and_that_within_the_measurements(speeds):
    estimate = median_of(speeds)
    assert min(speeds) <= estimate.low <= estimate.value <= estimate.high <= max(speeds)


def test_the_interval_covers_the_true_median_about_as_often_as_it_says():
    covered = 0
    for seed in range(100):
        speeds = np.random.default_rng(seed).normal(size=25).tolist()
        estimate = median_of(speeds)
        covered += estimate.low <= 0 <= estimate.high
    assert 88 <= covered <= 100


def test_more_measurements_make_a_narrower_interval():
    few, many = (np.random.default_rng(3).normal(size=count).tolist() for count in (10, 400))
    assert median_of(many).high - median_of(many).low < median_of(few).high - median_of(few).low


def test_drift_does_not_widen_the_ratio_of_measurements_in_turns():
    drift = [1.0, 0.5, 2.0, 0.25, 1.5, 0.75]
    fast, slow = [300 * share for share in drift], [100 * share for share in drift]
    in_turns = ratio_of(fast, slow, interleaved=True)
    assert in_turns == pytest.approx((3.0, 3.0, 3.0))
    apart = ratio_of(fast, slow, interleaved=False)
    assert apart.value == pytest.approx(3.0)
    assert apart.low < 2 < 4 < apart.high


def test_turns_that_only_one_had_do_not_count():
    assert ratio_of([2.0, 4.0, 900.0], [1.0, 2.0], interleaved=True).value == 2.0


@pytest.mark.parametrize("share", [0.0, 0.5, 0.97, 1.0])
def test_amdahls_law_is_found_again(share):
    sizes = [1, 8, 64, 256]
    speeds = [[100 / ((1 - share) + share / size)] * 5 for size in sizes]
    assert parallel_share(sizes, speeds) == pytest.approx((share, share, share))
    assert parallel_share_at(64, speeds[2][0] / speeds[0][0]) == pytest.approx(share)


def test_the_papers_own_number():
    """60.8 times at 64 over 1 (Ding & Koehn 2019, section 5.2)."""
    assert parallel_share_at(64, 60.8) == pytest.approx(0.9992, abs=1e-4)
