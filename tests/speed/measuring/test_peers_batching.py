"""The libraries with which batching is compared: each computes what we compute, on the same batches."""

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from extended import extended
from programs import script
from same_work import Problem, write

from parser.commands.speed import read_config
from parser.speed.tasks.discovery import find

CONFIG, ALTERNATIVES = "configs/speed/peers-batching.yaml", "configs/speed/alternatives.yaml"
TINY = """
experiments:
  trees: {plugin: tree_lstm, settings: {word_size: 5, hidden_size: 6}}
  tagger: {plugin: bilstm_tagger, settings: {word_size: 5, hidden_size: 6, middle_size: 7, layers: 2}}
  char-tagger: {plugin: bilstm_char_tagger, settings: {word_size: 6, hidden_size: 5, rare: 2}}
  parser: {plugin: transition_parser, settings: {word_size: 5, tag_size: 4, hidden_size: 6, middle_size: 7}}
  deductions: {plugin: graph_network, settings: {made: 32, together: 3}}
  molecules: {plugin: graph_network, settings: {task: molecules, made: 32, hidden_size: 9, steps: 3}}
"""
PROGRAMS = {
    "trees": "dynet_tree_lstm",
    "tagger": "dynet_tagger",
    "char-tagger": "dynet_tagger",
    "parser": "dynet_feature_parser",
    "deductions": "pyg_graph_network",
    "molecules": "pyg_graph_network",
}
JAX_PROGRAMS = {"trees": "jax_tree_lstm", "tagger": "jax_tagger"}


def test_a_problem_is_read_as_it_was_written(tmp_path):
    weight = np.arange(6, dtype=np.float32).reshape(2, 3)
    numbers = {"words": [[3, 1], [], [2]], "chances": [[0.5], [0.25, 1.0]]}
    write(tmp_path, {"batch_size": np.array(7)}, numbers, {"layer.weight": weight.T})
    problem = Problem(tmp_path)
    assert problem.number("batch_size") == 7
    assert [own.tolist() for own in problem.ragged("words")] == numbers["words"]
    assert [own.tolist() for own in problem.ragged("chances")] == numbers["chances"]
    [(name, read)] = problem.weights().items()
    assert name == "layer.weight"
    np.testing.assert_array_equal(read, weight.T)
    with pytest.raises(SystemExit, match="no such file; write the problem"):
        problem.ragged("labels")


def test_a_program_with_another_loss_is_refused(tmp_path):
    write(tmp_path, {"losses": np.array([10.0, 9.0])}, {}, {})
    problem, steps = Problem(tmp_path), []

    def check(*losses):
        of_calls = iter(losses)
        problem.check(lambda: next(of_calls), lambda: steps.append(1))

    check(10.0, 9.0)
    for losses in ((10.0, 9.1), (10.01, 9.0), (float("nan"), 9.0)):
        with pytest.raises(SystemExit, match="the losses differ"):
            check(*losses)
    assert len(steps) == 4


@pytest.mark.parametrize("config", [CONFIG, ALTERNATIVES])
def test_what_a_config_measures_exists(config):
    programs = read_config(Path(config)).external
    for program in programs.values():
        words = shlex.split(program.command)
        for place in words:
            if place.startswith(("scripts/", "configs/")):
                assert Path(place).is_file()
        if words[1].endswith("time_method.py"):
            _, _, of_ours, experiment, method, *_ = words
            plugin = read_config(Path(of_ours)).experiments[experiment].plugin
            assert method in find(plugin).methods["train"]
            assert not program.needs
        else:
            assert words[0] in program.needs


@pytest.fixture
def tiny(tmp_path):
    path = tmp_path / "tiny.yaml"
    path.write_text(TINY)
    return str(path)


QUICK = "trees", "parser"


@pytest.mark.parametrize(
    "experiment", [*QUICK, *extended(*((name,) for name in PROGRAMS if name not in QUICK))]
)
def test_a_problem_has_what_the_plugin_trains_on(experiment, tiny, tmp_path, monkeypatch, capsys):
    command = ["write_problem.py", tiny, experiment, str(tmp_path / "problem"), "--batch-size", "4"]
    monkeypatch.setattr(sys, "argv", command)
    script("write_problem").main()
    problem = Problem(tmp_path / "problem")
    before, after = problem.array("losses")
    assert before > 0
    assert before != after
    plugin, _ = script("write_problem").prepared(Path(tiny), experiment, "none", 4)
    weights = problem.weights()
    network = getattr(plugin, "_tagger", None) or plugin._network
    assert weights.keys() == network.state_dict().keys()
    for name, weight in network.state_dict().items():  # the weights before the step
        np.testing.assert_array_equal(weights[name], weight.numpy())


def test_a_method_is_timed_as_the_programs_of_others(tiny, monkeypatch, capsys):
    arguments = [tiny, "trees", "levels", "--batch-size", "4", "--warmup", "1", "--batches", "2"]
    monkeypatch.setattr(sys, "argv", ["time_method.py", *arguments])
    script("time_method").main()
    pattern = next(iter(read_config(Path(CONFIG)).external.values())).pattern
    assert float(re.search(pattern, capsys.readouterr().out)[1].replace(",", "")) > 0


@pytest.fixture(scope="module")
def libraries(tmp_path_factory):
    """A folder with DyNet and PyG in the versions that the page names."""
    return installed(["dyNET38", "torch_geometric"], tmp_path_factory.mktemp("libraries"))


@pytest.fixture(scope="module")
def jax(tmp_path_factory):
    return installed(["jax"], tmp_path_factory.mktemp("jax"))


def installed(names, folder):
    page = Path("docs/speed.md").read_text(encoding="utf-8")
    wanted = [re.search(rf"\b{name}==[\d.]+", page)[0] for name in names]
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(folder), *wanted]
    done = subprocess.run(install, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"pip has no {' and '.join(wanted)} here: {done.stderr.strip().splitlines()[-1]}")
    return folder


@pytest.mark.extended
@pytest.mark.parametrize("experiment", PROGRAMS)
def test_a_library_computes_the_same(experiment, libraries, tiny, tmp_path):
    is_dynet = "dynet" in PROGRAMS[experiment]
    for options in (["--dynet-autobatch", "1"], ["--builder", "compact"]) if is_dynet else ([], ["--plain"]):
        check_program(PROGRAMS[experiment], options, libraries, tiny, experiment, tmp_path / "problem")


@pytest.mark.extended
@pytest.mark.parametrize("experiment", JAX_PROGRAMS)
def test_jax_computes_the_same(experiment, jax, tiny, tmp_path):
    check_program(JAX_PROGRAMS[experiment], [], jax, tiny, experiment, tmp_path / "problem")


def check_program(name, options, libraries, config, experiment, problem):
    """Check that a program has our losses, refuses a problem with other losses, and prints its speed."""
    environment = {**os.environ, "PYTHONPATH": str(Path.cwd())}
    writer = [sys.executable, "scripts/studies/batching/write_problem.py", config, experiment]
    subprocess.run([*writer, str(problem), "--batch-size", "4"], env=environment, check=True)
    environment["PYTHONPATH"] = str(libraries)
    program = f"scripts/studies/peers/{name}.py"
    command = [sys.executable, program, str(problem), "--warmup", "1", "--batches", "2", *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    assert re.search(r"[\d.,]+ sentences/s", done.stdout)
    computes_another = "--plain" in options
    assert done.stdout.count("by our program") == (0 if computes_another else 2)
    losses = problem / "losses.npy"
    np.save(losses, np.load(losses) * 1.01)
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert bool(done.returncode) is not computes_another
    assert computes_another or "the losses differ" in done.stderr
