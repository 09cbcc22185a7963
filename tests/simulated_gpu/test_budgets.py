"""The budgets of training and parsing on a GPU: how often the host waits, and its launches and uploads."""

import json
import math
from pathlib import Path

import pytest
import torch
from plain_parser import make_inventory
from simulated_cuda.counts import LAUNCHES, UPLOADS, WAITS_OF_A_TRAINING_STEP
from simulated_cuda.device import SimulatedCuda
from small_parsers import SOME_TREES, examples, network, stepped
from torch.nn.attention import SDPBackend, sdpa_kernel

from parser.cli import main
from parser.networks.loss import BatchLoss, transition_loss
from parser.networks.replay.examples import BatchSource
from parser.networks.scorers import groups_of
from parser.networks.settings import CharacterLSTMSettings
from parser.parsing.pytorch.running_batch import STEPS_BETWEEN_REFILLS
from parser.parsing.pytorch.running_batch import STEPS_BETWEEN_SYNCHRONISATIONS as PARSING_STEPS
from parser.training.epoch import STEPS_BETWEEN_SYNCHRONISATIONS as TRAINING_STEPS
from parser.training.training_step import TrainingStep
from parser.treebank.conllu import stream_sentences

pytestmark = pytest.mark.extended

CUDA = torch.device("cuda")
TREEBANK = Path("data/quickstart/train.conllu")
SENTENCES, BATCH_SIZE = 240, 4
MOVED = {
    "parser/models/network_model.py",
    "parser/transitions/inventory.py",
    "parser/networks/replay/examples.py",
}
"""A model and the training examples are moved to the device once."""
EPOCH, LOOP = "parser/training/epoch.py", "parser/training/loop.py"
STEPPED = "parser/parsing/pytorch/running_batch.py"
SOMETIMES = MOVED | {STEPPED, "parser/parsing/pytorch/runner.py", "parser/training/checkpoint.py"}


def counts_of_a_training_step(method, composition=False, rich=False, **parts):
    """The counts of the second step (the first makes the optimizer's state), and the levels or steps."""
    inventory = make_inventory("arc-hybrid", composition=composition)
    prepared = examples(inventory, SOME_TREES, rich=rich)
    rows = torch.arange(len(prepared))
    with SimulatedCuda() as cuda:
        inventory, source = inventory.to(CUDA), BatchSource(prepared, CUDA)
        parser = network(inventory, layers=2, dtype=torch.float32, device="cuda", rich=rich, **parts)
        weights = [weight for weight in parser.parameters() if weight.requires_grad]

        def by_stepping(batch, inventory):
            loss = transition_loss(stepped(parser, inventory, batch), batch, inventory)
            return BatchLoss(loss, torch.zeros((), device=CUDA))

        optimizer, forward = torch.optim.Adam(weights, fused=True), by_stepping if method == "step" else None
        step = TrainingStep(parser, inventory, optimizer, max_grad_norm=5.0, forward=forward)
        for _ in range(2):
            cuda.counted()
            step.gradients([source.batch(rows)])
            step.update()
    levels, steps = int(prepared.levels.max()), int(prepared.trajectories.steps.lengths.max())
    return cuda.counts, levels if method == "replay" else steps


@pytest.mark.parametrize("rich", [False, True])
@pytest.mark.parametrize("composition", [False, True])
@pytest.mark.parametrize("method", ["replay", "step"])
def test_a_training_step_waits_for_nothing_and_needs_one_upload(method, composition, rich):
    counts, _ = counts_of_a_training_step(method, composition, rich)
    assert counts.synchronizations.total() == WAITS_OF_A_TRAINING_STEP
    if method == "replay":
        assert counts.uploads == UPLOADS + (1 if rich else 0)  # that of the sentence encoder


def test_an_lstm_over_characters_waits_for_nothing_and_uploads_a_layout():
    characters = CharacterLSTMSettings(kind="lstm", size=3, hidden_size=2)
    counts, _ = counts_of_a_training_step("replay", rich=True, characters=characters)
    assert counts.synchronizations.total() == WAITS_OF_A_TRAINING_STEP
    assert counts.uploads == UPLOADS + 1 + 1


def test_a_scorer_of_arcs_waits_for_nothing_and_uploads_a_layout_for_each_group_of_sentences():
    counts, _ = counts_of_a_training_step("replay", rich=True, arcs=True)
    groups = len(groups_of(torch.tensor(list(map(len, SOME_TREES)))))
    assert counts.synchronizations.total() == WAITS_OF_A_TRAINING_STEP
    assert counts.uploads == UPLOADS + 1 + groups + 1  # the last: where sentences begin, for labels


@pytest.mark.parametrize("method", ["replay", "step"])
def test_launches_of_a_training_step(method):
    counts, repetitions = counts_of_a_training_step(method)
    assert counts.launches <= LAUNCHES[method].of(repetitions)


@pytest.fixture(scope="module")
def treebank(tmp_path_factory):
    sentences = TREEBANK.read_text(encoding="utf-8").split("\n\n")
    path = tmp_path_factory.mktemp("treebank") / "train.conllu"
    path.write_text("\n\n".join(sentences[:SENTENCES]) + "\n\n", encoding="utf-8")
    return path


def train(config, folder, *changes):
    """Train on the simulated GPU, and return the counts."""
    options = [part for change in ("device=cuda", *changes) for part in ("--set", change)]
    with SimulatedCuda() as cuda:
        assert main(["train", str(config), "--run", str(folder), *options]) == 0
    return cuda.counts


@pytest.fixture(scope="module")
def trained(treebank):
    """The run's folder, and the counts of an epoch of training and dev."""
    run, config = treebank.parent / "run", treebank.parent / "config.yaml"
    config.write_text(
        f"treebank: {{train: {treebank}, dev: {treebank}}}\n"
        "parser: {network: {word_size: 8, token_size: 12, hidden_size: 16, layers: 2}}\n"
        f"training: {{epochs: 1, batch_size: {BATCH_SIZE}}}\n"
    )
    return run, train(config, run)


def test_an_epoch_reads_its_losses_every_twenty_batches(trained):
    waits = trained[1].synchronizations_by_file()
    batches = math.ceil(SENTENCES / BATCH_SIZE) + 1  # the first batch of an epoch can be smaller
    looks, at_the_end = math.ceil(batches / TRAINING_STEPS), 2
    # A look reads the losses of its batches and the running loss.
    assert waits.pop(EPOCH) <= 2 * looks + at_the_end
    # At the end of an epoch: whether all weights are finite, and the dev loss for the learning rate.
    assert waits.pop(LOOP) == 2
    assert set(waits) <= SOMETIMES


@pytest.mark.parametrize(
    "more",
    [[], ["--probabilities"], ["--keep", "given", "--non-projective", "given", "--at-most-one", "nsubj"]],
)
def test_parsing_looks_at_the_device_every_sixteen_steps(trained, treebank, more):
    size, files = 8, [str(trained[0] / "model"), str(treebank)]
    options = ["-o", "/dev/null", "--device", "cuda", "--batch-size", str(size), *more]
    with SimulatedCuda() as cuda:
        assert main(["parse", *files, *options]) == 0
    waits = cuda.counts.synchronizations_by_file()
    lengths = [len(sentence) for sentence in stream_sentences(str(treebank))]
    # Each row of the batch is idle for some steps after each sentence, and when no sentences are left.
    steps = sum(2 * length + STEPS_BETWEEN_REFILLS for length in lengths) / size + 2 * max(lengths)
    assert 10 < waits[STEPPED] <= 2 + steps / PARSING_STEPS
    # Each look reads the trees that are done, and perhaps their probabilities.
    assert set(waits) <= MOVED | {STEPPED}


@pytest.mark.parametrize("system", ["arc-hybrid", "arc-eager"])
@pytest.mark.parametrize("composition", ["true", "false"])
def test_no_operator_is_refused_as_not_deterministic(config_file, tmp_path, composition, system):
    train(
        config_file,
        tmp_path / "run",
        "training.deterministic=true",
        "training.exploration={from_epoch: 2, probability: 0.5}",
        "training.epochs=2",
        "training.average=0.9",
        f"parser.system={system}",
        f"parser.network.composition={composition}",
        "parser.network.word_features=true",
        "parser.network.sentence_encoder={hidden_size: 4, layers: 1}",
        "parser.network.arcs={size: 4}",
    )


@pytest.mark.parametrize(
    ("kind", "mode"), [("bert", "frozen"), ("bert", "lora"), ("bert", "all"), ("xlm-roberta", "all")]
)
def test_training_a_transformer_waits_for_nothing_else(kind, mode, config_file, tmp_path):
    """But where its whole model is moved, and where a frozen transformer's vectors are computed once."""
    from small_transformers import make_transformer  # skips this test without its libraries

    pretrained = make_transformer(tmp_path / "pretrained", kind)
    settings = json.dumps({"model": str(pretrained), "layers": 2, "train": mode})
    # For the tensors behind the simulated ones PyTorch chooses an attention for CPUs.
    with sdpa_kernel(SDPBackend.MATH):
        changes = "training.epochs=2", f"parser.network.transformer={settings}"
        waits = train(config_file, tmp_path / "run", *changes).synchronizations_by_file()
    once = {"parser/training/transformer.py", "parser/models/transformer_files.py"}
    assert set(waits) <= SOMETIMES | once | {EPOCH, LOOP}
