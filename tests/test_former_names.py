"""Settings that were renamed."""

import pytest

from parser.config import Config
from parser.config_file import ConfigError, flat, read_config
from parser.former_names import FORMER_NAMES, new_name, with_new_names

TREEBANK = "treebank: {train: a.conllu, dev: b.conllu}\n"
OLD = {
    "parser": {"network": {"sentence": {"layers": 1}, "shows_words": True, "learns_tags": ["xpos"]}},
    "training": {"betas": [0.9, 0.9], "l2": 0.5, "learning_rate": {"then": "linear", "smallest": 0.25}},
}


def test_every_new_name_is_that_of_a_setting():
    known = flat(Config(treebank={"train": "a", "dev": "b"}).model_dump())
    assert set(FORMER_NAMES.values()) <= set(known)
    assert not set(FORMER_NAMES) & set(known)


@pytest.mark.parametrize("former", FORMER_NAMES)
def test_a_former_name_is_refused_with_the_new_one(tmp_path, former):
    path = tmp_path / "some.yaml"
    path.write_text(TREEBANK)
    with pytest.raises(ConfigError, match=f"{former}: this setting is now called {FORMER_NAMES[former]}$"):
        read_config(path, [f"{former}=1"])


def test_former_names_are_found_below_other_sections():
    assert new_name("experiments.one.settings.parser.network.action_size") == (
        "experiments.one.settings.parser.network.transition_size"
    )
    assert new_name("some.clip") is None


def test_what_older_programs_saved_is_read():
    config = Config.model_validate({"treebank": {"train": "a", "dev": "b"}, **with_new_names(OLD)})
    network, training = config.parser.network, config.training
    assert network.sentence_encoder.layers == 1
    assert network.word_features
    assert network.tags.predict == ("xpos",)
    assert training.optimizer.betas == (0.9, 0.9)
    assert training.optimizer.weight_decay == 0.5
    assert (training.learning_rate.decay, training.learning_rate.min_learning_rate) == ("linear", 0.25)
    assert OLD["training"]["l2"] == 0.5  # what was given is left alone
