"""The one rule for small treebanks, and the config that it makes of a config."""

import json
from pathlib import Path

import pytest

from parser.config.file import ConfigError
from parser.training.config import for_its_treebank, read_config
from parser.training.run import train_and_score

RULE = (
    "small_treebank={words: 60, steps: 50, set: {parser.network.hidden_size: 5, "
    "parser.network.sentence_encoder.hidden_size: 7, training.learning_rate.peak: 0.02}}"
)


def resolved(config_file, *overrides):
    return for_its_treebank(read_config(config_file, [RULE, *overrides]))


def test_a_small_treebank_has_its_own_settings_and_enough_steps(config_file):
    """48 words in 16 trees, in batches of 4: 4 steps an epoch."""
    found = resolved(config_file)
    assert found.parser.network.hidden_size == 5
    assert found.training.learning_rate.peak == 0.02
    assert found.training.epochs == 13
    assert found.small_treebank is None
    assert found.parser.network.sentence_encoder is None  # the rule does not add one
    encoder = "parser.network.sentence_encoder={hidden_size: 9}"
    assert resolved(config_file, encoder).parser.network.sentence_encoder.hidden_size == 7


@pytest.mark.parametrize(
    ("changes", "epochs"),
    [
        # 48 words in batches of 20: 3 steps an epoch.
        (["training.batch_unit=words", "training.batch_size=20", "training.learning_rate.peak=0.01"], 17),
        # The rule may set the size of batches. 16 trees in batches of 2: 8 steps an epoch.
        (["small_treebank.set={training.batch_size: 2}"], 7),
        # It may replace a whole section. 16 trees in batches of 8: 2 steps an epoch.
        (["small_treebank={words: 60, steps: 100, set: {training: {batch_size: 8}}}"], 50),
        (["training.epochs=40"], 40),  # more than the rule has
    ],
)
def test_there_are_enough_steps_of_the_batches(config_file, changes, epochs):
    assert resolved(config_file, *changes).training.epochs == epochs


def test_the_rule_may_set_what_its_epochs_allow(config_file):
    exploration = "training.exploration={from_epoch: 3, probability: 0.1}"
    rule = "small_treebank.set={training.exploration.from_epoch: 9}"
    found = resolved(config_file, rule, exploration, "training.epochs=4").training
    assert (found.exploration.from_epoch, found.epochs) == (9, 13)


@pytest.mark.parametrize(
    "large",
    [
        "small_treebank.words=48",
        "treebank.train=[FILE, FILE]",
        "treebank.train=nowhere.conllu",
        "treebank.train=/dev/null",
        "initial_model=tests/model",
    ],
)
def test_other_treebanks_have_the_config_as_it_is(config_file, large):
    large = large.replace("FILE", str(config_file.with_suffix(".conllu")))
    found = resolved(config_file, large)
    assert found == read_config(config_file, [large, "small_treebank=null"])


def test_a_part_of_a_large_treebank_is_small(config_file):
    files = ", ".join([str(config_file.with_suffix(".conllu"))] * 2)
    both = f"treebank.train=[{files}]"
    assert resolved(config_file, both).training.epochs == 6
    assert resolved(config_file, both, "treebank.train_sentences=3").training.epochs > 6
    assert resolved(config_file, "small_treebank.words=12").training.epochs == 6
    part = resolved(config_file, "small_treebank.words=12", "treebank.train_sentences=3")
    assert part.training.epochs == 50


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ("{training.epoch: 3}", "small_treebank.set: training.epoch: unknown key"),
        ("{parser.network.hidden_size: many}", "small_treebank.set: parser.network.hidden_size: "),
        ("{parser.system.name: 3}", "small_treebank.set: names no setting"),
        ("{training.batch_size: 0}", "small_treebank.set: training.batch_size: "),
        ("{training.batch_size: few}", "small_treebank.set: training.batch_size: "),
    ],
)
def test_what_is_impossible_is_told_whatever_the_treebank(config_file, settings, message):
    with pytest.raises(ConfigError, match=message):
        read_config(config_file, [f"small_treebank={{words: 2, steps: 1, set: {settings}}}"])


@pytest.mark.extended
def test_a_run_keeps_what_the_config_is_for_its_treebank(config_file, tmp_path, capsys):
    rule = "small_treebank={words: 50, steps: 5, set: {parser.network.hidden_size: 5}}"
    config = read_config(config_file, [rule, "training.epochs=1"])
    result = train_and_score(config, tmp_path / "run")
    assert result["epochs"] == 2
    told = "small treebank (fewer than 50 words): training.epochs 2, parser.network.hidden_size 5"
    assert told in capsys.readouterr().out
    kept = read_config(tmp_path / "run" / "config.yaml")
    assert kept == for_its_treebank(config)
    model = json.loads((tmp_path / "run/model/settings.json").read_text())
    assert model["parser"]["network"]["hidden_size"] == 5
    assert train_and_score(config, tmp_path / "run", resume=True)["epochs"] == 2
    capsys.readouterr()
    assert train_and_score(kept, tmp_path / "run", resume=True)["epochs"] == 2
    assert "small treebank" not in capsys.readouterr().out


def test_the_rule_that_comes_with_the_project_is_sound(tmp_path):
    """It also has an effect on a thousand short sentences, the size of Telugu MTG."""
    blocks = Path("data/quickstart/train.conllu").read_text(encoding="utf-8").split("\n\n")[:1000]
    (tmp_path / "train.conllu").write_text("\n\n".join(blocks) + "\n\n", encoding="utf-8")
    config = read_config(Path("configs/ud-untagged.yaml"), [f"treebank.train={tmp_path}/train.conllu"])
    found = for_its_treebank(config)
    assert found.training.epochs > config.training.epochs
