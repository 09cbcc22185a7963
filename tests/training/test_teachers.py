"""Knowledge distillation: the probabilities of teachers at each transition, and learning from them."""

import math

import pytest
import torch
from plain_transitions import make_inventory
from safetensors.torch import load_file
from small_parsers import SOME_TREES, assert_equal, examples, loss_and_gradients, network
from stopped_runs import left_behind

from parser.cli import main
from parser.config_file import read_config
from parser.networks.loss import transition_loss
from parser.parsing.model import Model
from parser.parsing.transition_numbers import numbered_transitions
from parser.replay.examples import Examples
from parser.replay.padded import padded
from parser.replay.shape import Shape
from parser.replay.soft_targets import SoftTargets
from parser.training import data, teachers
from parser.training.loop import train
from parser.training.training_trees import read_training_trees
from parser.treebank.ragged import Ragged

CPU = torch.device("cpu")
NETWORKS = (["parser.network.tag_sizes={upos: 4}"], ["parser.network.composition=true", "training.seed=2"])
OTHER = "1\tworms\tworm\tNOUN\t_\t_\t2\tagent\t_\t_\n2\tcrawl\tcrawl\tVERB\t_\t_\t0\troot\t_\t_\n\n"


@pytest.fixture
def models(config_file, tmp_path):
    """Folders of two trained models with different networks."""
    for place, changes in enumerate(NETWORKS):
        train(read_config(config_file, [*changes, "training.epochs=2"]), tmp_path / f"teacher-{place}", CPU)
    return [str(tmp_path / f"teacher-{place}" / "model") for place in range(len(NETWORKS))]


def taught_by(models, **more):
    told = "".join(f", {name}: {value}" for name, value in more.items())
    return f"training.distillation={{models: [{', '.join(models)}]{told}}}"


def with_targets(prepared, weight, seed=0):
    """The examples with random soft targets, and these as plain lists of {transition: weight}."""
    generator = torch.Generator().manual_seed(seed)
    steps = prepared.steps
    random = torch.rand(len(steps.values), len(prepared.inventory), generator=generator)
    legal = prepared.inventory.with_labels(prepared.legal.values)
    targets = SoftTargets.of(random * legal, 4, weight)
    packed = Ragged(targets.packed(), steps.lengths)
    object.__setattr__(prepared, "soft_targets", packed)
    plain = [
        dict(zip(numbers, weights, strict=True))
        for numbers, weights in zip(targets.transitions.tolist(), targets.weights.tolist(), strict=True)
    ]
    return prepared, plain


def plain_losses(scores, batch, inventory, targets, weight):
    """Sum over the steps, one after the other. targets: a dictionary {transition: weight} for each."""
    total = torch.zeros((), dtype=scores.dtype)
    legal = inventory.with_labels(batch.legal).tolist()
    optimal = inventory.with_optimal_labels(batch.optimal_labels).tolist()
    for own, may, best, soft in zip(scores, legal, optimal, targets, strict=True):
        normaliser = math.log(sum(own[n].exp().item() for n in range(len(may)) if may[n]))
        probable = sum(own[n].exp() for n in range(len(may)) if best[n])
        of_trees = normaliser - probable.log()
        total = total + (1 - weight) * of_trees
        total = total + sum(part * (normaliser - own[n]) for n, part in soft.items())
    return total


@pytest.mark.parametrize("system", ["arc-hybrid", "arc-eager", "arc-standard"])
@pytest.mark.parametrize("weight", [0.3, 1.0])
def test_the_loss_is_a_mixture_of_both(system, weight, device):
    inventory = make_inventory(system)
    prepared, targets = with_targets(examples(inventory, SOME_TREES), weight)
    batch = prepared.batch(torch.arange(len(prepared)))
    scores = torch.randn(len(batch.transitions), len(inventory), dtype=torch.double)
    plain = plain_losses(scores, batch, inventory, targets, weight)
    ours = transition_loss(scores.to(device), batch.to(device), inventory.to(device))
    torch.testing.assert_close(ours.cpu(), plain, rtol=1e-6, atol=1e-6)


def test_padding_has_no_part_in_it(device):
    inventory = make_inventory("arc-hybrid")
    prepared, _ = with_targets(examples(inventory, SOME_TREES), 0.6)
    batch, all_batch = (prepared.batch(torch.arange(count)) for count in (5, len(prepared)))
    parser = network(inventory.to(device), device=device)
    assert_equal(
        [
            loss_and_gradients(parser, parser(each.to(device), inventory.to(device)).total)
            for each in (batch, padded(batch, Shape.of(all_batch)))
        ]
    )


def plain_probabilities(teacher, tree):
    """For each step of the oracle, a dictionary of the legal transitions by their names."""
    found = Examples.of(teacher.inventory.to(CPU), teacher.vocabulary, [tree])
    batch = found.batch(torch.arange(1)).to(teacher.device)
    with torch.no_grad():
        scores = teacher.network.replay(batch)
    legal = teacher.inventory.with_labels(batch.legal)
    names = list(numbered_transitions(teacher.inventory, teacher.vocabulary))
    return [
        dict(
            zip(
                [names[n] for n in may.nonzero().flatten().tolist()],
                own[may].softmax(0).tolist(),
                strict=True,
            )
        )
        for own, may in zip(scores, legal, strict=True)
    ]


def test_targets_are_the_mean_of_the_teachers_one_sentence_at_a_time(config_file, tmp_path, models, device):
    (tmp_path / "other.conllu").write_text(OTHER)
    files = f"treebank.train=[{tmp_path}/tiny.conllu, {tmp_path}/other.conllu]"
    config = read_config(config_file, [files, taught_by(models, weight=0.5)])
    student, loaded = data.load(config, device)
    trees = read_training_trees(config).all
    names = list(numbered_transitions(student.inventory, student.vocabulary))
    own_teachers = [
        Model.load(tmp_path / f"teacher-{place}" / "model", device) for place in range(len(models))
    ]
    for tree, packed in zip(trees, loaded.train.soft_targets.unflatten(), strict=True):
        targets = SoftTargets.unpack(packed)
        steps = zip(*(plain_probabilities(teacher, tree) for teacher in own_teachers), strict=True)
        for of_teachers, numbers, weights in zip(steps, targets.transitions, targets.weights, strict=True):
            wanted = {
                name: sum(own.get(name, 0) for own in of_teachers) / len(models) * 0.5
                for name in set().union(*of_teachers)
            }
            found = {
                names[number]: weight
                for number, weight in zip(numbers.tolist(), weights.tolist(), strict=True)
                if weight
            }
            assert found == pytest.approx(wanted, abs=1e-5)


def test_a_parser_learns_what_its_teachers_say_and_not_what_the_trees_say(config_file, tmp_path, models):
    """The labels of the trees are all wrong, and only the teachers know the right ones."""
    text = (tmp_path / "tiny.conllu").read_text().replace("nsubj", "punct")
    (tmp_path / "wrong.conllu").write_text(text + OTHER.replace("agent", "nsubj"))
    changes = [
        f"treebank.train={tmp_path}/wrong.conllu",
        "training.epochs=12",
    ]
    good = ["training.epochs=12", "training.learning_rate={start: 2e-2, peak: 2e-2, warmup_epochs: 0}"]
    assert train(read_config(config_file, good), tmp_path / "good", CPU).las == 100
    taught = [*changes, *good[1:], taught_by([str(tmp_path / "good" / "model")])]
    assert train(read_config(config_file, taught), tmp_path / "taught", CPU).las == 100
    assert train(read_config(config_file, [*changes, *good[1:]]), tmp_path / "untaught", CPU).las < 100


def test_targets_are_kept_for_the_next_start(config_file, tmp_path, models, monkeypatch):
    made = []
    ask = teachers.load_models
    monkeypatch.setattr(teachers, "load_models", lambda *given: made.append(1) or ask(*given))
    config = read_config(config_file, [taught_by(models)])
    first, second = (data.load(config, CPU, tmp_path / "cache")[1].train.soft_targets for _ in range(2))
    assert len(made) == 1
    assert torch.equal(first.values, second.values)
    assert torch.equal(first.lengths, second.lengths)
    data.load(read_config(config_file, [taught_by(models, weight=0.5)]), CPU, tmp_path / "cache")
    data.load(read_config(config_file, [taught_by(models[:1])]), CPU, tmp_path / "cache")
    assert len(made) == 3
    assert data.load(read_config(config_file), CPU, tmp_path / "cache")[1].train.soft_targets is None


def test_it_makes_no_difference_whether_targets_come_from_the_cache(config_file, tmp_path, models):
    config = read_config(config_file, [taught_by(models), "parser.network.dropout=0.3"])
    for run in ("first", "second"):
        train(config, tmp_path / run, CPU)
    assert left_behind(tmp_path / "first") == left_behind(tmp_path / "second")


def test_batches_that_explore_have_no_teacher(config_file, tmp_path, models):
    """With a rate that changes nothing, the loss of such an epoch is that without teachers."""
    explore = [
        "training.exploration={from_epoch: 1, probability: 1, sharpness: 1000}",
        "training.epochs=1",
        "training.learning_rate={start: 1e-30, peak: 1e-30, warmup_epochs: 0}",
    ]
    losses = []
    for run, changes in (("with", [taught_by(models)]), ("without", [])):
        train(read_config(config_file, [*explore, *changes]), tmp_path / run, CPU)
        losses.append(left_behind(tmp_path / run)[0][0]["loss"])
    assert losses[0] == losses[1]


def test_teachers_that_can_not_teach(config_file, tmp_path, models, capsys):
    def refused(*changes, run="student"):
        sets = [part for change in changes for part in ("--set", change)]
        assert main(["train", str(config_file), "--run", str(tmp_path / run), *sets]) == 2
        return capsys.readouterr().err

    assert "is arc-hybrid, not arc-eager" in refused(taught_by(models), "parser.system=arc-eager")
    assert "nowhere" in refused(taught_by([str(tmp_path / "nowhere")]))
    assert "is in the folder of this run" in refused(taught_by(models), run="teacher-1")
    assert load_file(f"{models[1]}/weights.safetensors")
