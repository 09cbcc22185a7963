import math
from pathlib import Path

import pytest

from parser.cli import main
from parser.config.data_folder import data_path
from parser.config.file import ConfigError, ConfigFile, flat, read_settings
from parser.models.settings import ParserSettings
from parser.speed.measuring.cells import SpeedConfig
from parser.system.settings import Settings
from parser.training.config import TrainingSettings, read_config
from parser.training.table import read_table

GOOD = "treebank:\n  train: a\n  dev: b\n"


def read(tmp_path, text, overrides=()):
    path = tmp_path / "some.yaml"
    path.write_text(text, encoding="utf-8")
    return read_config(path, overrides)


def test_defaults_are_the_papers():
    network, training = ParserSettings().network, TrainingSettings()
    assert (network.word_size, network.tag_sizes, network.token_size) == (32, {"upos": 12}, 60)
    assert (network.hidden_size, network.layers, network.transition_size) == (200, 2, 48)
    assert (training.epochs, training.max_grad_norm, training.optimizer.weight_decay) == (30, 5.0, 1e-6)
    assert (training.learning_rate.start, training.learning_rate.warmup_epochs) == (5e-4, 5)


@pytest.mark.parametrize("number", ["1e-3", "1.0e-3", "0.001", "1E-3", "+1e-3"])
def test_numbers_in_scientific_notation_are_numbers(tmp_path, number):
    override = [f"training.max_grad_norm={number}"]
    config = read(tmp_path, GOOD + f"training: {{optimizer: {{weight_decay: {number}}}}}\n", override)
    assert config.training.optimizer.weight_decay == config.training.max_grad_norm == 0.001


UNREADABLE = {
    "an octal number": (GOOD + "training:\n  epochs: 010\n", "5: YAML reads '010' as 8"),
    "a number of base 60": (GOOD + "training: {epochs: 1:30}\n", "4: YAML reads '1:30' as 90"),
    "second time": (GOOD + "treebank:\n  train: c\n", "4: treebank is a duplicate key"),
    "not YAML": ("treebank: [a\n", "2: not YAML"),
    "no mapping": ("- a\n", "1: a config has keys"),
    "empty": ("", "1: a config has keys"),
    "a long number": (GOOD + "training: {seed: " + "1" * 5000 + "}", "4: not YAML: '1{50}"),
    "an impossible date": (GOOD + "device: 2001-99-99\n", "4: not YAML: .* timestamp"),
    "no date at all": (GOOD + "device: !!timestamp abc\n", "4: not YAML: .* timestamp"),
    "a date of several": (GOOD + "device: !!timestamp {=: 2001-01-01}\n", "4: not YAML: .* timestamp"),
    "no truth": (GOOD + "device: !!bool maybe\n", "4: not YAML: .* bool"),
    "no number": (GOOD + 'device: !!int ""\n', "4: not YAML: .* int"),
    "no character": (GOOD + 'device: "\\U99999999"\n', "4: not YAML: an escape sequence"),
    "no character either": (GOOD + 'device: "\\U00110000"\n', "4: not YAML: an escape sequence"),
    "control character": (GOOD + "device: '\x01'\n", " not YAML in UTF-8"),
    "a section of itself": (GOOD + "parser: &a {system: *a}\n", " sections are nested too deeply"),
    "brackets": (GOOD + "parser: " + 3000 * "[", " sections are nested too deeply"),
}
"""Texts, and what follows the name of the file in the message."""
WRONG = {
    "batchsize: 3": r"batchsize: unknown key; did you mean batch_size\?",
    "xyzzy: 3": "xyzzy: unknown key; known are seed, ",
    "epochs: many": "epochs: .*integer.*'many'",
    "epochs: '3'": "epochs: .*integer",
    "epochs: 0": "epochs: .*greater than 0",
    f"seed: {10**30}": "seed: .*less than 9223372036854775808",
    "best_by: upos": "best_by: is of columns",
    "learning_rate: {peak: high}": "learning_rate.peak: .*valid number",
    "learning_rate: {peak: .inf}": "learning_rate.peak: .*finite number",
    "learning_rate: {peak: -1.0}": r"learning_rate.peak: input should be greater than 0, not -1.0$",
    "learning_rate: {start: .nan}": "learning_rate.start: .*finite number",
    "frozen: ['${HOME}/b']": r"frozen: \$\{HOME\} is not replaced",
}
"""Settings of training, and what follows "training." in the message."""
FAULTS = {
    **UNREADABLE,
    **{text: (f"{GOOD}training:\n  {text}\n", f"5: training.{fault}") for text, fault in WRONG.items()},
    "unknown section": (GOOD + "trainning:\n  seed: 3\n", "4: trainning: unknown key; did you mean training"),
    "no as text": ("treebank:\n  train: no\n  dev: b\n", "2: treebank.train: .*put the word into quotes"),
    "not among the choices": (GOOD + "parser:\n  system: arc-swift\n", "5: parser.system: .*'arc-hybrid'"),
    "missing": ("treebank:\n  train: a\n", "1: treebank.dev: field required"),
    "a column of size 0": (GOOD + "parser: {network: {tag_sizes: {upos: 0}}}", "4: .*upos: .*greater than 0"),
    "a large layer": (GOOD + "parser: {network: {hidden_size: 100000000}}", "4: .*hidden_size: .*65536"),
    "many widths": (
        GOOD + f"parser: {{network: {{characters: {{widths: [{'3, ' * 100}]}}}}}}",
        "4: .*widths: .*at most 20 items",
    ),
    "another variable": (
        "treebank:\n  train: a\n  dev: ${NOPE}/dev.conllu\n",
        r"3: treebank.dev: \$\{NOPE\} is not replaced: .* only \$\{PARSER_DATA\} may be in a config",
    ),
    "another variable in a merged section": (
        "x: &x {train: '${NOPE}'}\ntreebank: {<<: *x, dev: b}\n",
        r"1: x.train: \$\{NOPE\} is not replaced",
    ),
    "NUL in a path": (GOOD + 'device: "a\\0b"\n', "4: device: .*NUL"),
    "NUL in a list": ('treebank: {train: ["a\\0b"], dev: b}\n', "1: treebank.train: .*NUL"),
    "a long value": (GOOD + "device: [" + "x, " * 5000 + "]", r"4: device: .* not \['x', 'x', .*…$"),
    "a long key": (GOOD + "x" * 1000 + ": 1\n", f"4: {'x' * 200}…: unknown key"),
    "many keys": (
        GOOD + "".join(f"k{number}: 1\n" for number in range(100)),
        r"4: k0: unknown key(?s:.*):13: k9: unknown key(?s:.*)some.yaml: and 90 more faults$",
    ),
}


@pytest.mark.parametrize(("text", "message"), FAULTS.values(), ids=FAULTS.keys())
def test_says_what_is_wrong_and_where(tmp_path, text, message):
    with pytest.raises(ConfigError, match=f"some.yaml:{message}"):
        read(tmp_path, text)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("parser=" + 3000 * "[", "is not YAML"),
        ("parser=&a {x: *a}", "is not YAML"),
        ("training.seed=2001-99-99", "is not YAML"),
        ("training.epochs=010", "^--set training.epochs=010: YAML reads '010' as 8"),
        ("treebank.dev=${NOPE}", r"^--set treebank.dev=\$\{NOPE\}: treebank.dev: "),
        ("training.batch_siz=7", "--set training.batch_siz=7: training.batch_siz: unknown key; did you mean"),
        ("parser.network.characters={kind: gru}", r"{kind: NAME} .* convolution, lstm, not {'kind': 'gru'}"),
        ("parser.network.characters={kind: lstm, widths: [2]}", "widths: unknown key for this kind"),
        ("parser.network.characters.hidden_size=3", "hidden_size: unknown key for this kind"),
        ("training.batch_size=many", "--set training.batch_size=many: .*valid integer"),
        ("training.batch_size", "write it as section.key=value"),
        ("treebank.train.x=1", "train is a value, not a section"),
    ],
)
def test_a_wrong_override_is_named(tmp_path, override, message):
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, GOOD, [override])


def test_commands_of_other_programs_may_have_any_variables(tmp_path):
    path = tmp_path / "speed.yaml"
    path.write_text("external: {other: {command: 'echo ${HOME}', pattern: x}}\n")
    ConfigFile(path)
    path.write_text("experiments: {a: {settings: {treebank: '${HOME}/x'}}}\n")
    with pytest.raises(ConfigError, match=r"speed.yaml:1: experiments.a.settings.treebank: "):
        ConfigFile(path)


@pytest.mark.parametrize("override", ["training.epochs=" + 1000 * "x", 1000 * "x" + "=1", 1000 * "x"])
def test_overrides_are_cut_in_messages(tmp_path, override):
    with pytest.raises(ConfigError) as error:
        read(tmp_path, GOOD, [override])
    assert len(str(error.value)) < 400


def test_what_is_not_in_the_working_directory_is_looked_for_in_the_data_folder(tmp_path, monkeypatch):
    """Such as the project's data folder, when a command is started elsewhere."""
    data = tmp_path / "project/data"
    data.mkdir(parents=True)
    (data / "small").touch()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PARSER_DATA", str(data))
    assert data_path("${PARSER_DATA}/ud/x") == f"{data}/ud/x"
    assert data_path("data/small") == str(data / "small")
    assert data_path("data/other") == "data/other"
    assert data_path("here/data/small") == "here/data/small"
    (tmp_path / "data").mkdir()
    (tmp_path / "data/small").touch()
    assert data_path("data/small") == "data/small"
    monkeypatch.delenv("PARSER_DATA")
    assert data_path("data/other") == "data/other"
    assert data_path("${PARSER_DATA}/ud/x") == "data/ud/x"


@pytest.mark.parametrize("path", sorted(Path("configs").rglob("*.yaml")), ids=str)
def test_every_config_that_ships_is_read(path):
    if path.parent.name == "speed":
        read_settings(path, SpeedConfig)
    else:
        {"configs": read_config, "tables": read_table}[path.parent.name](path)


NO_DEV = "treebank.dev=null"
LINEAR = "training.learning_rate.decay=linear"


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (["training.exploration={}", "parser.system=arc-standard"], "arc-standard has no dynamic oracle"),
        (["treebank.partial=true", "parser.system=arc-standard"], "transitions of arc-standard keep"),
        (["treebank.partial=true", "training.distillation={models: [a]}"], "let one of them complete"),
        (["training.exploration={from_epoch: 99}"], "is after the last epoch"),
        ([NO_DEV, LINEAR, "training.best_by=uas"], "training.best_by: there is no treebank.dev"),
        ([NO_DEV, "training.learning_rate.decay=plateau"], "decay: there is no treebank.dev"),
        ([NO_DEV, LINEAR, "training.early_stopping_patience=3"], "patience: there is no treebank.dev"),
        (["training.batch_unit=words", "training.learning_rate.peak=paper"], "write a number"),
        (["training.objective=margin", "training.distillation={models: [a]}"], "teachers give probabilities"),
        (["parser.network.tags={predict: [upos]}"], "upos is read: there is nothing to learn"),
        (["parser.network.tags={predict: [xpos, xpos]}"], "names the same column twice"),
        (["parser.network.tags={layers_above: 1}"], "tags.predict is empty"),
        (["parser.network.tags={predict: [xpos], layers_above: 1}"], "no parser.network.sentence_encoder"),
        (["parser.network.tag_sizes={}", "parser.network.embedding_dropout=0.2"], "one embedding only"),
        (["parser.network.train_pretrained=true"], "there are no parser.network.pretrained vectors"),
        (["training.feature_dropout=0.1"], "tag_sizes has no feats"),
        (["training.tag_dropout=0.1", "parser.network.tag_sizes={lemma: 5}"], "has no upos or xpos"),
    ],
)
def test_settings_that_contradict_each_other(config_file, changes, message):
    with pytest.raises(ConfigError, match=f"--set .*{message}"):
        read_config(config_file, changes)


def test_an_override_does_not_change_another_section_with_the_same_anchor(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("both: &same {inner: {size: 1}}\nother: *same\n")

    class Inner(Settings):
        size: int

    class Outer(Settings):
        inner: Inner

    class Both(Settings):
        both: Outer
        other: Outer

    found = ConfigFile(path, ["other.inner.size=2"]).validated(Both)
    assert (found.both.inner.size, found.other.inner.size) == (1, 2)


@pytest.mark.parametrize(
    ("setting", "value"),
    [
        ("training.max_grad_norm", math.inf),
        ("treebank.test", "1e-3"),
        ("treebank.test", "\U0001f600"),
        ("treebank.test", None),
    ],
)
def test_values_need_not_be_text(config_file, setting, value):
    config = read_config(config_file, values={setting: value})
    assert flat(config.model_dump())[setting] == value


def test_a_section_that_is_null_can_be_filled(config_file):
    changes = ["training.exploration=null", "training.exploration.probability=0.25"]
    assert read_config(config_file, changes).training.exploration.probability == 0.25


def test_a_section_is_asked_for_where_one_is_due(config_file):
    with pytest.raises(ConfigError, match=r"write \{\} for its defaults"):
        read_config(config_file, ["training.exploration=true"])


@pytest.mark.parametrize(
    ("command", "config", "its_own"),
    [
        ("train", "configs/speed/quick.yaml", "speed"),
        ("train", "configs/tables/parts.yaml", "table"),
        ("train", "search.yaml", "table"),
        ("table", "configs/quickstart.yaml", "train"),
        ("speed", "configs/quickstart.yaml", "train"),
        ("speed", "configs/tables/parts.yaml", "table"),
    ],
)
def test_a_config_of_another_command_is_told(command, config, its_own, tmp_path, capsys):
    if config == "search.yaml":  # all rows of a table can be drawn at random
        path = tmp_path / config
        path.write_text("title: a\nbase: b\nsearch: {trials: 2, ranges: {training.seed: [1]}}\n")
        config = str(path)
    assert main([command, config, "--run", str(tmp_path / "run")]) == 2
    assert f"{config}: this is a config of `stack-parser {its_own}`" in capsys.readouterr().err
    assert not (tmp_path / "run").exists()


def test_the_speedrun_is_the_fast_parser_with_fewer_epochs_and_without_scorers_of_arcs():
    fast, speedrun = (read_config(Path(f"configs/{name}.yaml")) for name in ("ud-fast", "speedrun"))
    assert speedrun.training.epochs < fast.training.epochs
    same_epochs = fast.training.model_copy(update={"epochs": speedrun.training.epochs})
    network = fast.parser.network.model_copy(update={"arcs": None})
    parser = fast.parser.model_copy(update={"network": network})
    assert speedrun == fast.model_copy(update={"training": same_epochs, "parser": parser})
