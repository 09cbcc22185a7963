"""What pages tell of the code is so."""

import re
from pathlib import Path

import pytest
from simulated_cuda.counts import LAUNCHES

pytestmark = pytest.mark.extended

SPEED = " ".join(Path("docs/speed.md").read_text(encoding="utf-8").split())


@pytest.mark.parametrize("method", LAUNCHES)
def test_the_launches_of_a_training_step_are_those_of_the_budget(method):
    once, repeated = LAUNCHES[method]
    assert f"launches of a training step by {method}: {once}, and {repeated} for each" in SPEED


def test_the_example_plugin_is_as_long_as_told():
    lines = Path("docs/example-plugin/packed_gru.py").read_text(encoding="utf-8").splitlines()
    assert re.search(r"an example of (\d+) lines", SPEED)[1] == str(len(lines))
