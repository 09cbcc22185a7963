"""What is chosen for treebanks that lack something, and which treebanks are not trained."""

from pathlib import Path

import pytest
import yaml
from ud_folders import (
    FEATS,
    FORM,
    HEAD,
    LEMMA,
    MISC,
    UPOS,
    XPOS,
    blanked,
    make_treebank,
    sentences,
    without_comments,
)

from parser.training.config import Config, for_its_treebank, read_config
from parser.training.treebanks import found_row
from parser.treebank.conllu import read_treebank
from parser.treebank.ud_folders import find_treebanks

CONFIG = Config.model_validate(
    {
        "treebank": {"train": "x", "dev": "y", "test": "z"},
        "parser": {
            "network": {
                "tag_sizes": {"xpos": 3},
                "characters": {},
                "tags": {"predict": ["upos", "feats", "lemma"], "layers_above": 1},
                "sentence_encoder": {},
            }
        },
        "training": {"tag_dropout": 0.1, "learning_rate": {"peak": 0.1}},
        "tokenizer": {"kind": "bilstm"},
    }
)
TRAIN, DEV, TEST = sentences("train", 60), sentences("dev", 5), sentences("test", 5)


def found(folder, config=CONFIG, **files):
    """The row of a treebank with these files."""
    make_treebank(folder / "ud", "UD_Toy-Tiny", **files)
    [treebank] = find_treebanks(folder / "ud").treebanks
    return found_row(treebank, config, folder / "prepared")


def with_rule(folder, changes, files, **content):
    """The config that a treebank gets from one whose rule for small treebanks makes these changes."""
    rule = {"words": 10_000, "steps": 9, "set": changes}
    config = Config.model_validate(CONFIG.model_dump(mode="json") | {"small_treebank": rule} | content)
    row = found(folder, config, **files).row
    (folder / "any.yaml").write_text(yaml.safe_dump(config.model_dump(mode="json")))
    return for_its_treebank(read_config(folder / "any.yaml", values=row.set))


def test_a_complete_treebank_has_the_config_as_it_is(tmp_path):
    row = found(tmp_path, train=TRAIN, dev=DEV, test=TEST)
    files = f"{tmp_path}/ud/UD_Toy-Tiny/toy_tiny-ud"
    assert row.row.set == {
        f"treebank.{split}": f"{files}-{split}.conllu" for split in ("train", "dev", "test")
    }
    assert row.choices == ()
    assert row.size == (60, sum(map(len, read_treebank(f"{files}-train.conllu"))))
    assert not (tmp_path / "prepared").exists()


def test_files_below_the_data_folder_are_named_as_on_any_machine(tmp_path, monkeypatch):
    monkeypatch.setenv("PARSER_DATA", str(tmp_path))
    row = found(tmp_path, train=TRAIN, dev=DEV)
    assert row.row.set["treebank.dev"] == "${PARSER_DATA}/ud/UD_Toy-Tiny/toy_tiny-ud-dev.conllu"


def test_without_dev_the_end_of_train_is_held_out(tmp_path):
    row = found(tmp_path, train=sentences("train", 100), test=TEST)
    train, dev = (read_treebank(row.row.set[f"treebank.{split}"]) for split in ("train", "dev"))
    whole = read_treebank("data/quickstart/train.conllu")[:100]
    assert [one.forms for one in [*train, *dev]] == [one.forms for one in whole]
    assert (len(train), len(dev)) == (90, 10)
    assert row.size.sentences == 90
    assert row.choices == ("no dev: the last 10 of 100 sentences of train, which are not trained on",)
    assert all(
        row.row.set[f"treebank.{split}"].startswith(f"{tmp_path}/prepared/") for split in ("train", "dev")
    )


def test_few_sentences_without_dev_are_all_trained_on(tmp_path):
    row = found(tmp_path, train=sentences("train", 99), test=TEST)
    changes = row.row.set
    assert changes["treebank.train"] == f"{tmp_path}/ud/UD_Toy-Tiny/toy_tiny-ud-train.conllu"
    assert changes["treebank.dev"] is None
    assert changes["training.learning_rate.decay"] == "linear"
    assert row.size.sentences == 99
    assert row.choices[0].startswith("no dev, and only 99 sentences of train: all are trained on")


def test_without_dev_the_rule_for_small_treebanks_sets_nothing_that_needs_it(tmp_path):
    changes = {"training.early_stopping_patience": 20, "training.batch_size": 4}
    own = with_rule(tmp_path, changes, {"train": sentences("train", 99), "test": TEST})
    assert (own.training.early_stopping_patience, own.training.batch_size) == (None, 4)


def test_of_few_sentences_without_test_five_are_held_out(tmp_path):
    row = found(tmp_path, train=sentences("train", 12))
    assert len(read_treebank(row.row.set["treebank.dev"])) == 5
    assert row.row.set["treebank.test"] is None
    assert row.choices[1] == "no test: only the scores on dev"


def test_a_train_set_of_several_files_is_joined(tmp_path):
    cut = sentences("train", 20).rstrip("\n")  # a file without a blank line at its end
    row = found(tmp_path, **{"train-a": cut, "train-b": DEV, "dev": DEV})
    assert len(read_treebank(row.row.set["treebank.train"])) == 25
    assert row.choices[0] == "train: 2 files, joined"


@pytest.mark.parametrize(
    ("columns", "predicted", "read", "choice"),
    [
        ([LEMMA], ["upos", "feats"], {"xpos": 3}, "no LEMMA"),
        ([FEATS, XPOS], ["upos", "lemma"], {}, "no FEATS, XPOS"),
        ([UPOS, FEATS, LEMMA], [], {"xpos": 3}, "no UPOS, FEATS, LEMMA"),
    ],
)
def test_columns_that_are_not_there(tmp_path, columns, predicted, read, choice):
    row = found(tmp_path, train=blanked(TRAIN, *columns), dev=DEV, test=TEST)
    changes = row.row.set
    assert changes["parser.network.tags.predict"] == predicted
    assert changes["parser.network.tag_sizes"] == read
    assert changes["parser.network.tags.layers_above"] == bool(predicted)
    assert changes["training.tag_dropout"] == (0.1 if read else 0)
    assert row.choices == (f"{choice}: neither predicted nor read",)


def test_without_any_column_the_rule_for_small_treebanks_sets_none_of_their_settings(tmp_path):
    path = Path("configs/ud-untagged.yaml")
    train = blanked(TRAIN, UPOS, XPOS, FEATS, LEMMA)
    changes = found(tmp_path, read_config(path), train=train, dev=DEV).row.set
    network = for_its_treebank(read_config(path, values=changes)).parser.network
    assert (network.tags.predict, network.hidden_size) == ((), 64)


def test_settings_of_columns_that_are_not_there_go(tmp_path):
    """Both in the config and in its rule for small treebanks."""
    network = {"tag_sizes": {"xpos": 3}, "sentence_encoder": {}, "embedding_dropout": 0.1}
    content = {"parser": {"network": network}, "training": {"tag_dropout": 0.1}, "tokenizer": None}
    changes = {"training.tag_dropout": 0.2, "training.batch_size": 4}
    own = with_rule(tmp_path, changes, {"train": blanked(TRAIN, XPOS), "dev": DEV}, **content)
    assert (own.training.tag_dropout, own.training.batch_size) == (0, 4)
    assert own.parser.network.embedding_dropout == 0


def test_without_text_there_is_no_tokenizer(tmp_path):
    bare = without_comments(blanked(TRAIN, MISC))
    row = found(tmp_path, train=bare, dev=DEV, test=TEST)
    assert row.row.set["tokenizer"] is None
    assert row.choices == ("no tokenizer: train has neither `# text` nor `SpaceAfter=No`",)


@pytest.mark.parametrize("text", [without_comments(TRAIN), blanked(TRAIN, MISC)])
def test_one_of_both_is_text_enough(tmp_path, text):
    assert "tokenizer" not in found(tmp_path, train=text, dev=DEV).row.set


@pytest.mark.parametrize(
    ("files", "message"),
    [
        ({"test": TEST}, "it has no train file"),
        ({"train": sentences("train", 9), "dev": DEV}, "train has 9 sentences"),
        ({"train": blanked(TRAIN, FORM, LEMMA), "dev": DEV}, "its forms are not there"),
        ({"train": blanked(TRAIN, HEAD), "dev": DEV}, r"toy_tiny-ud-train.conllu:\d+: "),
        ({"train": ""}, "no sentences"),
    ],
)
def test_what_can_not_be_trained(tmp_path, files, message):
    with pytest.raises(ValueError, match=message):
        found(tmp_path, **files)


@pytest.mark.parametrize(
    ("deps", "wanted", "choice"),
    [
        ("{head}:{label}|0:ref", False, "enhanced dependencies are learned from DEPS"),
        ("{head}:{label}", True, "enhanced dependencies are not learned: DEPS has nothing but trees"),
        ("_", True, "enhanced dependencies are not learned: DEPS has nothing but trees"),
        (
            "99:ref",
            True,
            "enhanced dependencies are not learned: toy_tiny-ud-train.conllu: line 3: DEPS: there is no word "
            "99",
        ),
    ],
)
def test_enhanced_dependencies_are_learned_where_train_has_them(tmp_path, deps, wanted, choice):
    config = Config.model_validate(CONFIG.model_dump(mode="json"))
    config = config.model_copy(update={"parser": config.parser.model_copy(update={"enhanced": wanted})})
    row = found(tmp_path, config, train=with_deps(TRAIN, deps), dev=DEV, test=TEST)
    assert row.row.set["parser.enhanced"] is not wanted
    assert row.choices == (choice,)


def with_deps(blocks, deps):
    """The sentences with this value in each DEPS."""
    lines = (line.split("\t") for line in blocks.split("\n"))
    return "\n".join(
        "\t".join([*line[:8], deps.format(head=line[6], label=line[7]), line[9]])
        if len(line) == 10
        else line[0]
        for line in lines
    )
