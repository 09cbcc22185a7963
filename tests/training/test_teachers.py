"""Knowledge distillation: the probabilities of teachers at each transition, and learning from them."""

import math
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from extended import first_of
from plain_parser import make_inventory
from safetensors.torch import load_file
from small_parsers import SOME_TREES, assert_equal, examples, loss_and_gradients, network, padded
from stopped_runs import left_behind

from parser.batching.ragged import Ragged
from parser.cli import main
from parser.models.model import numbered_transitions
from parser.models.network_model import load_network
from parser.networks.loss import transition_loss
from parser.networks.replay.batch import SoftTargets
from parser.networks.replay.examples import Examples
from parser.training import data, teachers
from parser.training.config import read_config
from parser.training.run import train
from parser.training.trees import read_training_trees
from parser.treebank import batches
from parser.treebank.tokens import encode_tokens

CPU = torch.device("cpu")
ARCS = "parser.network.arcs={size: 6}"
NETWORKS = (
    ["parser.network.tag_sizes={upos: 4}", ARCS],
    ["parser.network.composition=true", ARCS, "training.seed=2"],
    ["parser.network.composition=true", "training.seed=3"],
)
OTHER = "1\tworms\tworm\tNOUN\t_\t_\t2\tagent\t_\t_\n2\tcrawl\tcrawl\tVERB\t_\t_\t0\troot\t_\t_\n\n"


@pytest.fixture
def models(config_file, tmp_path):
    """Folders of trained models with different networks, the last of which scores no arcs."""
    runs = [tmp_path / f"teacher-{place}" for place in range(len(NETWORKS))]
    for run, changes in zip(runs, NETWORKS, strict=True):
        train(read_config(config_file, [*changes, "training.epochs=2"]), run, CPU)
    return [str(run / "model") for run in runs]


def taught_by(models, **more):
    told = "".join(f", {name}: {value}" for name, value in more.items())
    return f"training.distillation={{models: [{', '.join(models)}]{told}}}"


def with_targets(prepared, weight, seed=0):
    """The examples with random soft targets, and the targets as plain dictionaries {transition: weight}."""
    generator = torch.Generator().manual_seed(seed)
    steps, legal = prepared.trajectories.steps, prepared.trajectories.legal
    random = torch.rand(len(steps.values), len(prepared.inventory), generator=generator)
    random = random * prepared.inventory.with_labels(legal.values)
    targets = SoftTargets.of(random / random.sum(1, keepdim=True), 4, weight)
    packed = Ragged(targets.packed(), steps.lengths)
    plain = [
        {number: weight for number, weight in zip(numbers, weights, strict=True) if weight}
        for numbers, weights in zip(targets.choices.tolist(), targets.weights.tolist(), strict=True)
    ]
    return replace(prepared, soft_targets=packed), plain


def plain_losses(scores, batch, inventory, targets):
    """The sum over single steps. targets: a dictionary {transition: weight} for each step."""
    total = torch.zeros((), dtype=scores.dtype)
    legal = inventory.with_labels(batch.legal).tolist()
    optimal = inventory.with_optimal_labels(batch.optimal_labels).tolist()
    for own, may, best, soft in zip(scores, legal, optimal, targets, strict=True):
        normaliser = math.log(sum(own[n].exp().item() for n in range(len(may)) if may[n]))
        probable = sum(own[n].exp() for n in range(len(may)) if best[n])
        of_trees = normaliser - probable.log()
        total = total + (1 - sum(soft.values())) * of_trees
        total = total + sum(part * (normaliser - own[n]) for n, part in soft.items())
    return total


@pytest.mark.parametrize("system", ["arc-hybrid", "arc-eager", "arc-standard"])
@pytest.mark.parametrize("weight", [0.3, 1.0])
def test_the_loss_is_a_mixture_of_both(system, weight, device):
    inventory = make_inventory(system)
    prepared, targets = with_targets(examples(inventory, SOME_TREES), weight)
    batch = prepared.batch(torch.arange(len(prepared)))
    scores = torch.randn(len(batch.transitions), len(inventory), dtype=torch.double)
    plain = plain_losses(scores, batch, inventory, targets)
    ours = transition_loss(scores.to(device), batch.to(device), inventory.to(device))
    torch.testing.assert_close(ours.cpu(), plain, rtol=1e-6, atol=1e-6)


def test_padding_has_no_part_in_it(device):
    inventory = make_inventory("arc-hybrid")
    prepared, _ = with_targets(examples(inventory, SOME_TREES), 0.6)
    rows = torch.arange(5)
    batches = prepared.batch(rows), padded(prepared, rows, prepared.shape(torch.arange(len(prepared))))
    inventory = inventory.to(device)
    parser = network(inventory, device=device)
    assert_equal([loss_and_gradients(parser, parser(each.to(device), inventory).total) for each in batches])


def plain_probabilities(teacher, tree):
    """For each step of the oracle, a dictionary of the legal transitions by their names."""
    found = Examples.of(teacher.inventory.to(CPU), teacher.vocabulary, [tree])
    batch = found.batch(torch.arange(1)).to(teacher.device)
    with torch.no_grad():
        scores = teacher.network.replay(batch)
    legal = teacher.inventory.with_labels(batch.legal)
    names = list(numbered_transitions(teacher.inventory.system, teacher.vocabulary))
    return [
        {
            names[n]: p
            for n, p in zip(may.nonzero().flatten().tolist(), own[may].softmax(0).tolist(), strict=True)
        }
        for own, may in zip(scores, legal, strict=True)
    ]


def plain_targets(own_teachers, tree, weight, kept=8):
    """For each step, a dictionary of the most probable transitions by their names."""
    for of_teachers in zip(*(plain_probabilities(teacher, tree) for teacher in own_teachers), strict=True):
        mean = {
            name: sum(own.get(name, 0) for own in of_teachers) / len(own_teachers) * weight
            for name in set().union(*of_teachers)
        }
        yield dict(sorted(mean.items(), key=lambda item: -item[1])[:kept])


def unpacked(packed):
    """For each step or word, a dictionary {transition or head: weight}."""
    targets = SoftTargets.unpack(packed)
    for numbers, weights in zip(targets.choices.tolist(), targets.weights.tolist(), strict=True):
        yield {number: weight for number, weight in zip(numbers, weights, strict=True) if weight}


def assert_taught(student, packed, expected):
    """Check soft targets of a tree. Returns their sums. expected: as from `plain_targets`."""
    names, sums = list(numbered_transitions(student.inventory.system, student.vocabulary)), []
    for targets, wanted in zip(unpacked(packed), expected, strict=True):
        known = {name: weight for name, weight in wanted.items() if name in names}
        assert {names[n]: weight for n, weight in targets.items()} == pytest.approx(known, abs=1e-5)
        sums.append(sum(targets.values()))
    return sums


@pytest.mark.parametrize("kept", first_of([2, 8]))
def test_targets_are_the_mean_of_the_teachers_one_sentence_at_a_time(
    config_file, tmp_path, models, device, monkeypatch, kept
):
    monkeypatch.setattr(teachers, "KEPT_TRANSITIONS", kept)
    monkeypatch.setattr(batches, "SENTENCES_WITHOUT_TRAINING", 3)
    (tmp_path / "other.conllu").write_text(OTHER)
    files = f"treebank.train=[{tmp_path}/tiny.conllu, {tmp_path}/other.conllu]"
    config = read_config(config_file, [files, taught_by(models, weight=0.5)])
    student, loaded = data.load(config, device)
    own_teachers = [load_network(Path(path), device) for path in models]
    trees = read_training_trees(config.treebank).all
    for tree, packed in zip(trees, loaded.train.soft_targets.unflatten(), strict=True):
        assert_taught(student, packed, plain_targets(own_teachers, tree, 0.5, kept))


def plain_heads(own_teachers, tree, weight, kept):
    """For each word, a dictionary of the most probable heads."""
    of_teachers = []
    for teacher in own_teachers:
        tokens = encode_tokens(teacher.vocabulary, [tree], gold=True)
        with torch.no_grad():
            table = teacher.network.word_table(tokens.to(teacher.device))
            of_teachers.append(teacher.network.arcs.probabilities(table, tokens.lengths))
    for of_word in torch.stack(of_teachers).mean(0).tolist():
        probable = sorted(enumerate(of_word), key=lambda pair: -pair[1])[:kept]
        yield {head: weight * probability for head, probability in probable}


@pytest.mark.extended
@pytest.mark.parametrize("kept", [2, 8])
def test_heads_are_the_mean_of_the_teachers_that_score_them(config_file, models, device, monkeypatch, kept):
    monkeypatch.setattr(teachers, "KEPT_HEADS", kept)
    monkeypatch.setattr(batches, "SENTENCES_WITHOUT_TRAINING", 3)
    config = read_config(config_file, [taught_by(models, weight=0.5)])
    _, loaded = data.load(config, device)
    own_teachers = [load_network(Path(path), device) for path in models[:2]]
    trees = read_training_trees(config.treebank).all
    for tree, packed in zip(trees, loaded.train.soft_heads.unflatten(), strict=True):
        for ours, wanted in zip(unpacked(packed), plain_heads(own_teachers, tree, 0.5, kept), strict=True):
            assert ours == pytest.approx({head: part for head, part in wanted.items() if part}, abs=1e-5)


@pytest.mark.extended
def test_without_a_teacher_that_scores_arcs_there_are_no_soft_heads(config_file, models):
    assert data.load(read_config(config_file, [taught_by(models[2:])]), CPU)[1].train.soft_heads is None


@pytest.mark.extended
def test_what_only_a_teacher_knows_is_left_to_the_trees(config_file, tmp_path, models):
    """The weights of a step are the probabilities of transitions that both know. The loss stays finite."""
    text = (tmp_path / "tiny.conllu").read_text()
    (tmp_path / "renamed.conllu").write_text(text.replace("nsubj", "agent"))
    files = [f"treebank.{part}={tmp_path}/renamed.conllu" for part in ("train", "dev")]
    config = read_config(config_file, [*files, "treebank.test=null", taught_by(models[:1])])
    student, loaded = data.load(config, CPU)
    teacher, sums = load_network(Path(models[0]), CPU), []
    trees = read_training_trees(config.treebank).all
    for tree, packed in zip(trees, loaded.train.soft_targets.unflatten(), strict=True):
        sums += assert_taught(student, packed, plain_targets([teacher], tree, 1.0))
    assert min(sums) < 0.7
    train(config, tmp_path / "student", CPU)
    assert math.isfinite(left_behind(tmp_path / "student")[0][-1]["loss"])


@pytest.mark.extended
def test_a_package_of_several_models_teaches_as_its_models_do(config_file, tmp_path, models):
    package = tmp_path / "both.stackparser"
    assert main(["pack", models[0], "--ensemble", models[1], "-o", str(package)]) == 0
    targets = [
        data.load(read_config(config_file, [taught_by(paths)]), CPU)[1].train.soft_targets.values
        for paths in (models[:2], [str(package)])
    ]
    assert torch.equal(*targets)


def test_a_teacher_of_several_treebanks_reads_unknown_ones_as_its_first(
    config_file, tmp_path, reader_of_treebanks
):
    """It does not use the embedding of the unknown treebank, which was never trained."""
    shutil.copy("data/quickstart/dev.conllu", tmp_path / "some.conllu")
    files = [f"treebank.{part}={tmp_path}/some.conllu" for part in ("train", "dev")]
    config = read_config(config_file, [*files, "treebank.test=null", taught_by([reader_of_treebanks])])
    student, loaded = data.load(config, CPU)
    teacher = load_network(Path(reader_of_treebanks), CPU)
    trees, found = read_training_trees(config.treebank).all, loaded.train.soft_targets.unflatten()
    for tree, packed in zip(trees[:5], found[:5], strict=True):
        assert tree.treebank == "some"
        assert_taught(student, packed, plain_targets([teacher], replace(tree, treebank="one"), 1.0))


@pytest.mark.extended
def test_a_run_is_not_resumed_with_other_teachers(config_file, tmp_path, models):
    config = read_config(config_file, [taught_by(models[:1]), "training.epochs=1"])
    train(config, tmp_path / "run", CPU)
    assert train(config, tmp_path / "run", CPU, resume=True)
    shutil.rmtree(models[0])
    shutil.copytree(models[1], models[0])
    with pytest.raises(ValueError, match="or the teachers have changed since the run began"):
        train(config, tmp_path / "run", CPU, resume=True)


@pytest.mark.extended
@pytest.mark.parametrize("transformer", [None, "frozen", "all"])
def test_a_parser_learns_what_its_teachers_say_and_not_what_the_trees_say(config_file, tmp_path, transformer):
    """The labels of the trees are all wrong. Only the teachers know the right labels."""
    good = ["training.epochs=12", "training.learning_rate={start: 2e-2, peak: 2e-2, warmup_epochs: 0}"]
    if transformer:
        from small_transformers import make_transformer, transformer_of  # skips the test without the library

        good.append(transformer_of(make_transformer(tmp_path / "pretrained"), train=transformer))
    text = (tmp_path / "tiny.conllu").read_text().replace("nsubj", "punct")
    (tmp_path / "wrong.conllu").write_text(text + OTHER.replace("agent", "nsubj"))
    wrong = [*good, f"treebank.train={tmp_path}/wrong.conllu"]
    assert train(read_config(config_file, good), tmp_path / "good", CPU).las == 100
    taught = [*wrong, taught_by([str(tmp_path / "good" / "model")])]
    assert train(read_config(config_file, taught), tmp_path / "taught", CPU).las == 100
    assert train(read_config(config_file, wrong), tmp_path / "untaught", CPU).las < 100


@pytest.mark.extended
def test_targets_are_kept_for_the_next_start(config_file, tmp_path, models, monkeypatch):
    made = []
    ask = teachers.load_each_network
    monkeypatch.setattr(teachers, "load_each_network", lambda *given: made.append(1) or ask(*given))
    config = read_config(config_file, [taught_by(models)])
    first, second = (data.load(config, CPU, tmp_path / "cache")[1].train.soft_targets for _ in range(2))
    assert len(made) == 1
    assert_equal([(first.values, first.lengths), (second.values, second.lengths)], 0)
    data.load(read_config(config_file, [taught_by(models, weight=0.5)]), CPU, tmp_path / "cache")
    data.load(read_config(config_file, [taught_by(models[:1])]), CPU, tmp_path / "cache")
    assert len(made) == 3
    assert data.load(read_config(config_file), CPU, tmp_path / "cache")[1].train.soft_targets is None


@pytest.mark.extended
def test_it_makes_no_difference_whether_targets_come_from_the_cache(config_file, tmp_path, models):
    config = read_config(config_file, [taught_by(models), "parser.network.dropout=0.3"])
    for run in ("first", "second"):
        train(config, tmp_path / run, CPU)
    assert left_behind(tmp_path / "first") == left_behind(tmp_path / "second")


@pytest.mark.extended
def test_batches_that_explore_have_no_teacher(config_file, tmp_path, models):
    """If the learning rate changes nothing, the loss of such an epoch equals the loss without teachers."""
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


def test_teachers_that_can_not_teach(tmp_path, models, refused):
    assert f"{models[0]} is arc-hybrid" in refused(taught_by(models), "parser.system=arc-eager")
    missing = str(tmp_path / "nowhere")
    assert f"training.distillation.models: {missing} is missing" in refused(taught_by([missing]))
    text = (tmp_path / "tiny.conllu").read_text()
    for label in ("nsubj", "punct", "root"):
        text = text.replace(f"\t{label}\t", f"\tnew-{label}\t")
    (tmp_path / "renamed.conllu").write_text(text)
    others = refused(taught_by(models), f"treebank.train={tmp_path}/renamed.conllu")
    assert f"{models[0]} knows no label of an arc of the training trees" in others
    assert f"teacher-1: would overwrite {models[1]}" in refused(taught_by(models), run="teacher-1")
    assert load_file(f"{models[1]}/weights.safetensors")
