"""Training on the simulated device: a transformer, and settings that change which operators are used."""

import json

import pytest
from simulated_cuda.device import SimulatedCuda
from torch.nn.attention import SDPBackend, sdpa_kernel

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
        "parser.network.arcs={size: 4}",
    ]
    overrides = [part for change in changes for part in ("--set", change)]
    with SimulatedCuda():
        assert main(["train", str(config_file), "--run", str(tmp_path / "run"), *overrides]) == 0


ONCE = {
    "parser/models/model.py",
    "parser/transitions/inventory.py",
    "parser/networks/replay/examples.py",
    "parser/training/checkpoint.py",
    "parser/training/transformer.py",
    "parser/models/transformer_files.py",
}
"""Files that move or read a whole model or all examples, or compute a frozen transformer's vectors."""
AS_WITHOUT = {
    "parser/training/epoch.py",
    "parser/training/loop.py",
    "parser/parsing/running_batch.py",
    "parser/parsing/predicted_tags.py",
}


@pytest.mark.parametrize(
    ("kind", "mode"), [("bert", "frozen"), ("bert", "lora"), ("bert", "all"), ("xlm-roberta", "all")]
)
def test_a_training_step_does_not_wait(kind, mode, config_file, tmp_path):
    from small_transformers import make_transformer  # skips this test without its libraries

    pretrained = make_transformer(tmp_path / "pretrained", kind)
    own = json.dumps({"model": str(pretrained), "layers": 2, "train": mode})
    changes = "device=cuda", "training.epochs=2", f"parser.network.transformer={own}"
    overrides = [part for change in changes for part in ("--set", change)]
    # For the tensors behind the simulated ones PyTorch chooses an attention for CPUs.
    with sdpa_kernel(SDPBackend.MATH), SimulatedCuda() as cuda:
        assert main(["train", str(config_file), "--run", str(tmp_path / "run"), *overrides]) == 0
    assert set(cuda.counts.synchronizations_by_file()) <= ONCE | AS_WITHOUT
