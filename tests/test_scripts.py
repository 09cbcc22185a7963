"""Scripts: those that produce the rows behind the documents, and the one that downloads treebanks."""

import json
import re
import subprocess
import sys
from functools import partial
from pathlib import Path

import measuring
import pytest
import torch
from plain_parser import make_inventory
from programs import SCRIPTS, script
from small_parsers import SOME_TREES, examples
from stopped_runs import left_behind
from torch.utils.flop_counter import FlopCounterMode

from parser.models.network_model import NetworkModel, load_network
from parser.parsing.engine import parse
from parser.speed.tasks.experts.mixture_of_experts_plugin import MixtureOfExpertsSettings
from parser.speed.tasks.programs.network import ExecutorSizes, JoiningBlock, ResidualBlock
from parser.training import data
from parser.training.config import read_config
from parser.training.run import train
from parser.treebank.conllu import read_treebank
from parser.treebank.ud_folders import find_treebanks


@pytest.mark.parametrize("late", [0, 2])
def test_late_gradients_are_those_of_earlier_weights(late):
    weight = torch.nn.Parameter(torch.tensor(1.0))
    updates = script("late_gradients").LateUpdates(torch.optim.SGD([weight], lr=0.1), late)
    weights = [1.0]
    for _ in range(6):
        updates.step(weight.square() / 2)
        weights.append(weight.item())
    expected = [1.0] * (late + 1)  # the gradient of x²/2 is x
    for _ in range(6 - late):
        expected.append(expected[-1] - 0.1 * expected[-1 - late])
    assert weights == pytest.approx(expected)


def test_output_is_kept_without_the_place_of_the_data(tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("PARSER_DATA", str(tmp_path))
    rows = tmp_path / "rows.jsonl"
    command = ["python", "-c", "import sys; print(sys.argv[1])", "${PARSER_DATA}/a"]
    monkeypatch.setattr(sys, "argv", ["keep_output.py", "--name", "some", str(rows), *command])
    script("keep_output").main()
    row = json.loads(rows.read_text())
    assert (row["name"], row["command"]) == ("some", command)
    assert row["printed"] == ["${PARSER_DATA}/a"]
    assert row["machine"]["cpu"]


def test_what_is_printed_is_kept_as_it_is_without_a_data_folder(monkeypatch):
    monkeypatch.delenv("PARSER_DATA", raising=False)
    assert script("keep_output").run(["python", "-c", "print('metadata')"]) == "metadata\n"


def test_folds_are_treebanks_that_train_all_finds(tmp_path):
    """Each sentence is in the test set of one fold, and in the training set of all others."""
    folder, source = tmp_path / "UD_English-Small", Path("data/quickstart/dev.conllu").read_text()
    folder.mkdir()
    (folder / "en_small-ud-train.conllu").write_text("\n\n".join([*source.split("\n\n")[:25], ""]))
    script("write_folds").write_folds(find_treebanks(tmp_path).treebanks[0], 4, tmp_path / "folds")
    [path] = folder.iterdir()
    sentences = [one.lines for one in read_treebank(str(path))]
    folds = find_treebanks(tmp_path / "folds").treebanks
    assert [fold.model_name for fold in folds] == [f"english-smallfold{number}" for number in (1, 2, 3, 4)]
    tests = [[one.lines for one in read_treebank(str(fold.test))] for fold in folds]
    assert [len(test) for test in tests] == [6, 6, 6, 7]
    assert [lines for test in tests for lines in test] == sentences
    for fold, test in zip(folds, tests, strict=True):
        train = [one.lines for one in read_treebank(str(fold.train[0]))]
        assert train == [lines for lines in sentences if lines not in test]


def test_text_for_silver_trees_is_written_as_in_universal_dependencies(tmp_path, monkeypatch):
    monkeypatch.setenv("PARSER_DATA", str(tmp_path))
    tagged, trees = tmp_path / "tags", tmp_path / "sst" / "dynet-benchmark"
    for name, text in (
        (tagged / "wikiner_train10k.txt", "Ada|I-PER sleeps|O .|O\n"),
        (tagged / "wikiner_dev.txt", "A|B|O\nAda|I-PER sleeps|O .|O\n"),
        (trees / "train.txt", "(3 (2 -LRB-) (2 8\xa01\\/2))\n"),
        (trees / "dev.txt", "(3 (2 ``) (2 oh))\n"),
        (trees / "test.txt", "(3 (2 a) (2 b))\n"),
    ):
        name.parent.mkdir(parents=True, exist_ok=True)
        name.write_text(text, encoding="utf-8")
    output = tmp_path / "new" / "text.txt"
    monkeypatch.setattr(sys, "argv", ["write_silver_text.py", str(output)])
    script("write_silver_text").main()
    assert output.read_text().splitlines() == ["Ada sleeps .", "A|B", "( 81/2", '" oh', "a b"]


def test_the_speed_of_modules_is_of_the_operations_that_they_have():
    sizes = ExecutorSizes(features=5, side=4, channels=6, projected=3, hidden=2, unary=1, binary=1, answers=2)
    for block, arguments in ((ResidualBlock(6), 1), (JoiningBlock(6), 2)):
        with FlopCounterMode(display=False) as counter:
            block(*[torch.randn(1, 6, 4, 4)] * arguments)
        assert script("measure_modules").operations_of(sizes, arguments) == counter.get_total_flops()


def test_the_bound_of_experts_is_printed(monkeypatch, capsys):
    study = script("measure_modules")
    monkeypatch.setattr(study, "TURNS", 1)
    monkeypatch.setattr(study, "ROWS", (1, 8))
    settings = MixtureOfExpertsSettings(experts=4, input_size=8, hidden_size=8, output_size=8)
    with torch.no_grad():
        study.measure_experts(settings, [4, 32])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[:3] for line in lines[:2]] == [["expert", "1", "rows"], ["expert", "8", "rows"]]
    assert lines[2] == "4 experts at 4: rows about 1.00 times as fast as alone"
    assert lines[3].startswith("4 experts at 32: rows about ")


@pytest.mark.extended
def test_levels_of_a_treebank():
    counts = script("measure_levels").counted("data/quickstart/dev.conllu")
    assert counts["sentences"] == "300"
    assert counts["levels"].startswith("median ")


def test_a_parser_that_predicts_nothing_has_as_many_layers(monkeypatch):
    monkeypatch.syspath_prepend("scripts")
    without_tags = script("measure_tagging").without_tags
    sentences = read_treebank("tests/model/parsed.conllu")
    kept = load_network(Path("tests/model"), torch.device("cpu"))
    for above in (0, 1):
        tags = kept.settings.network.tags.model_copy(update={"layers_above": above})
        network = kept.settings.network.model_copy(update={"tags": tags})
        settings = kept.settings.model_copy(update={"network": network})
        model = NetworkModel.build(settings, kept.vocabulary, kept.device)
        model.network.eval()
        if model.network.layers_above_tags:
            for embedding in model.network.layers_above_tags.embeddings.values():
                torch.nn.init.zeros_(embedding.weight)  # as if it read no tags
        other = without_tags(model)
        assert not other.vocabulary.predicted
        assert other.network.tokens.sentence_encoder.num_layers == 1 + above
        trees = [[tree._replace(tags={}) for tree in parse(each, sentences)] for each in (model, other)]
        assert trees[0] == trees[1]


def test_rows_of_learned_programs(tmp_path):
    learn = script("learn_programs")
    shares = {"count": learn.Accuracy(1, 4), "exist": learn.Accuracy(1, 1)}
    of_run = {"method": "levels", "epoch": 2, "epochs": 4, "seconds": 1.5}
    learn.keep(tmp_path / "rows.jsonl", of_run, accuracy=shares, majority=shares)
    (row,) = map(json.loads, (tmp_path / "rows.jsonl").read_text().splitlines())
    assert row["accuracy"] == row["majority"] == {"count": 25.0, "exist": 100.0, "all": 40.0}
    assert of_run.items() <= row.items()
    assert row["machine"]["cpu"]


def test_commits_are_compared_turn_by_turn(monkeypatch, capsys, tmp_path):
    compare = script("compare_commits")
    old, new = (compare.Side(tmp_path / name, "config", "only") for name in ("old", "new"))
    asked = []

    def measured(side, seconds):
        asked.append(side)
        drift = 1 + (len(asked) - 1) // 2  # the machine gets faster with every turn
        return {"cell": drift * (10.0 if side is old else 9.0), "other": drift * 10.0}

    monkeypatch.setattr(compare, "measured", measured)
    compare.compare((old, new), turns=6, seconds=1.0)
    assert asked[:4] == [old, new, new, old]
    *_, cell, other = capsys.readouterr().out.splitlines()
    assert cell == "cell: new / old = 0.90 [0.90, 0.90] over 6 turns: slower"
    assert other.endswith("over 6 turns: no slower")


@pytest.mark.parametrize(
    ("ratios", "verdict"),
    [([0.9, 0.91, 0.92], "turns: slower"), ([0.93, 0.96, 0.99], "undecided"), ([0.98, 1.0], "no slower")],
)
def test_no_slower_means_that_the_interval_is_above_a_bound(ratios, verdict):
    assert script("compare_commits").verdict("x", ratios * 4).endswith(verdict)


def test_only_equal_cells_are_compared():
    compare = script("compare_commits")
    assert compare.paired({"a": 2.0, "b": 4.0}, {"b": 6.0, "a": 1.0}) == {"a": 0.5, "b": 1.5}
    assert compare.paired({"its old name": 2.0}, {"name": 3.0}) == {"name": 1.5}
    with pytest.raises(SystemExit, match="the commits measured different cells"):
        compare.paired({"a": 2.0}, {"a": 1.0, "b": 1.0})


def test_speeds_of_a_run(tmp_path):
    row = {"experiment": "e", "plugin": "p", "mode": "train", "device": "cpu", "threads": 1, "method": "m"}
    row |= {"batch_size": 4, "status": "ok", "sentences_per_second": 2.5}
    path = tmp_path / "rows.jsonl"
    rows = [row, {**row, "status": "skipped: why"}, {**row, "precision": "bfloat16", "batch_size": 8}]
    path.write_text("".join(f"{json.dumps(each)}\n" for each in rows))
    # The first row is from a version without precisions.
    expected = {"e, train, cpu, 1, float32, m, 4": 2.5, "e, train, cpu, 1, bfloat16, m, 8": 2.5}
    assert script("compare_commits").speeds(path) == expected


@pytest.mark.extended
def test_a_training_without_noise_is_that_of_the_program(config_file, tmp_path):
    study, config = script("measure_rounding"), read_config(config_file, ["training.epochs=3"])
    train(config, tmp_path / "run", torch.device("cpu"))
    last = left_behind(tmp_path / "run")[0][-1]
    row = study.trained(config, noise=0.0, draw=0)
    for name in ("loss", "dev_loss", "dev_las"):
        assert row[name] == pytest.approx(last[name])
    assert study.trained(config, noise=1e-3, draw=1)["loss"] not in (row["loss"], float("nan"))


@pytest.mark.extended
def test_what_a_training_run_on_a_gpu_needs():
    study, config = script("measure_training_batches"), read_config(Path("configs/quickstart.yaml"))
    _, loaded = data.load(config, torch.device("cpu"))
    needs = study.shapes(loaded, config.training)
    assert 3 < needs["shapes"] < 20
    assert 0.9 < needs["share"] <= 1
    assert 0 < needs["padding"] < 0.6
    of_host = study.making(loaded, config.training)["host"]
    assert 0 < of_host["device"]["bytes"] < 0.25 * of_host["host"]["bytes"]  # its features stay there
    assert all(made["microseconds_per_sentence"] > 0 for made in of_host.values())


def test_what_is_measured_in_turns_takes_turns_in_going_first():
    done = []

    def work(name):
        done.append(name)
        return len(done)

    turns = list(measuring.in_turns({name: partial(work, name) for name in "abc"}, 2))
    assert done == ["a", "b", "c", "c", "b", "a"]
    assert turns == [{"a": 1, "b": 2, "c": 3}, {"a": 6, "b": 5, "c": 4}]
    assert [list(turn) for turn in turns] == [["a", "b", "c"]] * 2


def test_two_speeds_are_compared_turn_by_turn(capsys):
    speeds = {"one": iter([9.0, 3000, 6000, 9000]), "other": iter([9.0, 1500, 3000, 4500])}
    work = {name: partial(next, turns) for name, turns in speeds.items()}
    measuring.compare(work, 3, "one over other", warm_up=1)
    first, *_, one, other, ratio = capsys.readouterr().out.splitlines()
    assert first == "turn 1: one: 3,000/s"
    assert one == "one: 6,000 [3,000, 9,000] sentences/s"
    assert other == "other: 3,000 [1,500, 4,500] sentences/s"
    assert ratio == "one over other: 2.00 [2.00, 2.00]"


def test_the_same_sentences_are_written_again_and_again(tmp_path):
    measuring.write_sentences("data/quickstart/dev.conllu", 301, tmp_path / "input.conllu")
    blocks = (tmp_path / "input.conllu").read_text(encoding="utf-8").split("\n\n")[:-1]
    assert len(blocks) == 301
    assert blocks[0] == blocks[300] != blocks[1]


@pytest.mark.parametrize("gain", ["parsing", "training"])
def test_gains_of_processes_are_beside_those_of_products(gain, monkeypatch, capsys):
    processes = script("measure_processes")
    monkeypatch.setattr(processes, "products_per_second", lambda count: 100.0 * count)
    processes.measure_gains(gain, lambda count: 10.0 + 5 * (count - 1), 2, 3)
    *_, products, gained, both = capsys.readouterr().out.splitlines()
    assert products == "products: 2 processes over one: 2.00 [2.00, 2.00]"
    assert gained == f"{gain}: 2 processes over one: 1.50 [1.50, 1.50]"
    assert both == f"the gain of {gain} over that of products: 0.75 [0.75, 0.75]"


@pytest.mark.extended
def test_reading_is_timed_beside_conllu():
    reading = script("measure_reading")
    treebank = "data/quickstart/test.conllu"
    assert reading.read(treebank) == reading.read_by_conllu(treebank) == 300
    assert measuring.per_second(partial(reading.read, treebank)) > 0


SPACY = """
class Word(str):
    i, dep_ = 0, "ROOT"
    head = property(lambda word: word)


class Pipeline:
    def __call__(self, text):
        return [Word(text)]

    def pipe(self, texts, batch_size):
        return map(self, texts)


def load(exclude):
    return Pipeline()
"""


@pytest.mark.extended
def test_pipelines_from_raw_text_are_measured_in_turns(tmp_path, monkeypatch, capsys):
    """This program, and a module that is called as a package of spaCy."""
    (tmp_path / "small_model.py").write_text(SPACY)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    pipelines = script("measure_pipelines")
    monkeypatch.setattr(pipelines, "WARM_UP", 1)
    monkeypatch.setattr(pipelines, "SENTENCES", 2)
    ours = ["--program", "ours", "stack-parser", sys.executable, "models/english-ewt.stackparser", "."]
    theirs = ["--program", "theirs", "spacy", sys.executable, "small_model"]
    monkeypatch.setattr(sys, "argv", ["", "data/quickstart/test.conllu", "--turns", "2", *ours, *theirs])
    pipelines.main()
    machine, *described = map(json.loads, capsys.readouterr().out.splitlines())
    assert machine["processor"]
    programs, measured = described[:2], described[2:]
    assert [program["program"] for program in programs] == ["ours", "theirs"]
    assert all(program["after_warm_up"] >= program["loaded"] > 1e6 for program in programs)
    assert (len(programs[0]["commit"]), programs[1]["commit"]) == (40, None)
    words = sum(map(len, read_treebank("data/quickstart/test.conllu")))
    expected = {"256": words, "32": words, "1": words, "alone": 2, "first tree": 1}
    for name in ("ours", "theirs"):
        assert {row["work"]: row["count"] for row in measured if row["program"] == name} == expected
    assert all(len(row["seconds"]) == 2 and min(row["seconds"]) > 0 for row in measured)


COMMANDS = [
    path
    for path in sorted(SCRIPTS.rglob("*.py"))
    if '__name__ == "__main__"' in (text := path.read_text())
    and ("parse_args" in text or "batch_sizes(" in text)
]
ELSEWHERE = {"jax_tagger.py", "jax_tree_lstm.py", "pyg_graph_network.py"}
"""Scripts that run only in environments of peers."""


@pytest.mark.extended
@pytest.mark.parametrize(
    "path", [path for path in COMMANDS if path.name not in ELSEWHERE], ids=lambda path: path.name
)
def test_a_script_says_what_it_does_wherever_it_stands(path):
    """Started as by a user, without the paths that tests have."""
    done = subprocess.run([sys.executable, path, "--help"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert "usage:" in done.stdout


CPU = torch.device("cpu")


def plain_counts(is_wrong):
    counts, behind = [0, 0, 0, 0], False
    for wrong in is_wrong:
        counts[2 * behind] += 1
        counts[2 * behind + 1] += wrong
        behind = behind or wrong
    return counts


def test_transitions_up_to_the_first_error_and_behind_it():
    count = script("count_errors")
    for number in range(2**6):
        is_wrong = [bool(number >> place & 1) for place in range(6)]
        assert count.counts(torch.tensor(is_wrong)).tolist() == plain_counts(is_wrong)


@pytest.mark.parametrize("system", ["arc-hybrid", "arc-eager"])
def test_gold_trajectories_have_all_that_is_optimal(system):
    """The static oracle has one transition for each step, but others can be equally good."""
    inventory = make_inventory(system)
    prepared = examples(inventory, SOME_TREES)
    trajectory = script("count_errors").gold_trajectory(inventory, prepared.gold, prepared.trajectories.steps)
    taken = trajectory.transitions != inventory.no_op
    assert torch.equal(trajectory.transitions[taken], prepared.trajectories.steps.values[:, 0])
    ours, static = (
        inventory.with_optimal_labels(labels)
        for labels in (trajectory.optimal_labels[taken], prepared.trajectories.optimal_labels.values)
    )
    assert (ours | ~static).all()
    assert ours.sum() > static.sum()


PARSED = "tests/model/parsed.conllu"


def count_errors(monkeypatch, model):
    monkeypatch.setattr(sys, "argv", ["count_errors.py", model, "--treebank", PARSED])
    script("count_errors").main()


def test_a_parser_is_counted_in_both_ways(monkeypatch, capsys):
    """On trees that it parsed itself, its only errors come from lifted arcs."""
    path = "tests/model"
    count_errors(monkeypatch, path)
    words = sum(map(len, read_treebank(PARSED)))
    for way, line in zip(("parsing", "gold"), capsys.readouterr().out.splitlines(), strict=True):
        wrong, transitions, behind = re.fullmatch(
            rf"{path}, {way}: ([.\d]+)% of (\d+) transitions .*, [.\d]+% of (\d+) after it", line
        ).groups()
        assert float(wrong) < 0.5
        assert int(transitions) + int(behind) == 2 * words  # each is shifted, and gets a head


def test_a_system_without_a_dynamic_oracle(monkeypatch, tmp_path):
    model = load_network(Path("tests/model"), CPU)
    settings = model.settings.model_copy(update={"system": "arc-standard"})
    NetworkModel.build(settings, model.vocabulary, CPU).save(tmp_path, {})
    with pytest.raises(SystemExit, match="arc-standard has no dynamic oracle"):
        count_errors(monkeypatch, str(tmp_path))
