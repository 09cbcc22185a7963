"""Training on the simulated device, with the settings that change which operators are used."""

import pytest
from simulated_cuda.device import SimulatedCuda

from parser.cli import main

pytestmark = pytest.mark.extended


@pytest.mark.parametrize("system", ["arc-hybrid", "arc-eager"])
@pytest.mark.parametrize("composition", ["true", "false"])
def test_no_operator_is_refused_as_not_deterministic(config_file, tmp_path, composition, system):
    changes = [
        "device=cuda",
        "training.deterministic=true",
        "training.exploration={from_epoch: 2, probability: 0.5}",
        "training.epochs=2",
        "training.average=0.9",
        f"parser.system={system}",
        f"parser.network.composition={composition}",
        "parser.network.word_features=true",
        "parser.network.sentence_encoder={hidden_size: 4, layers: 1}",
    ]
    overrides = [part for change in changes for part in ("--set", change)]
    with SimulatedCuda():
        assert main(["train", str(config_file), "--run", str(tmp_path / "run"), *overrides]) == 0
