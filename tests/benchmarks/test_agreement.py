import pytest

from parser.benchmarks.agreement import disagreement


@pytest.mark.parametrize(
    ("results", "expected", "difference"),
    [
        ([1.0, 100.0], [1.0, 100.01], None),  # rounding is a share of each
        ([1.01, 100.0], [1.0, 100.0], "result 0 is 1.01, but 1 without batching"),
        ([1e-6, 100.0], [0.0, 100.0], None),  # beside the largest that is nothing
        ([1e-5, 100.0], [0.0, 100.0], "result 0 is 1e-05, but 0 without batching"),
        ([1.0, 100.0], [1.0, 100.1], "result 1 is 100, but 100.1 without batching"),
        ([1.0], [1.0, 2.0], "1 results, but 2"),
        (None, [1.0], "0 results, but 1"),
        ([float("nan")], [1.0], "result 0 is nan"),
        ([1.0], [float("nan")], "but nan"),
        ([], [], None),
    ],
)
def test_disagreement(results, expected, difference):
    found = disagreement(results, expected)
    assert found == difference or difference in found
