"""Which trees an epoch draws from several treebanks, and training on them."""

import json
from collections import Counter
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import parser
from parser.cli import main
from parser.evaluation.evaluate import evaluate
from parser.models.loading import ModelChoice, load_models
from parser.text.tokenizer_kinds import tokenizer_from_json
from parser.training import data
from parser.training.config import read_config
from parser.training.run import train, train_and_score
from parser.training.trees import (
    Mixture,
    SilverSettings,
    TreebankSettings,
    drawn_counts,
    read_training_trees,
    treebank_names,
)
from parser.treebank.conllu import read_treebank

CPU = torch.device("cpu")
SIZES = st.lists(st.integers(1, 60), min_size=1, max_size=4)
ROWS = ("1\tdogs\tdog\tNOUN\t_\t_\t2\tnsubj\t_\t_", "2\tsleep\tsleep\tVERB\t_\t_\t0\troot\t_\t_")


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


def named(sizes):
    return dict(zip(map(str, range(len(sizes))), sizes, strict=True))


def settings(exponent=1.0, **silver):
    own = SilverSettings(files=("silver",), **silver) if silver else None
    return TreebankSettings(train=("a", "b"), dev="dev", sampling_exponent=exponent, silver=own)


@given(SIZES, st.integers(0, 20), st.integers(0, 5))
def test_by_size_every_tree_is_drawn_once(sizes, silver, seed):
    mixture = Mixture(named(sizes), silver, settings(share=1.0))
    assert mixture.draw(1, generator(seed)).tolist() == list(range(sum(sizes) + silver))


@given(SIZES, st.floats(0, 1), st.integers(0, 5))
def test_as_many_trees_are_drawn_as_there_are(sizes, exponent, seed):
    drawn = Mixture(named(sizes), 0, settings(exponent)).draw(1, generator(seed))
    assert len(drawn) == sum(sizes)
    counts, first = Counter(drawn.tolist()), 0
    weights = [size**exponent for size in sizes]
    for size, weight in zip(sizes, weights, strict=True):
        own = [counts[number] for number in range(first, first + size)]
        assert max(own) - min(own) <= 1  # none is drawn twice before another is drawn once
        assert sum(own) == pytest.approx(weight / sum(weights) * sum(sizes), abs=1)
        first += size


def test_evenly_small_treebanks_are_repeated():
    assert drawn_counts([90, 10], 0.0) == [50, 50]
    assert drawn_counts([90, 10], 0.5) == [75, 25]
    assert drawn_counts([90, 10], 1.0) == [90, 10]


def test_silver_trees_are_drawn_in_the_first_epochs_and_in_part():
    mixture = Mixture(named([10]), 100, settings(epochs=2, share=0.3))
    first, second, third = (set(mixture.draw(epoch, generator(epoch)).tolist()) for epoch in (1, 2, 3))
    gold = set(range(10))
    assert len(first - gold) == len(second - gold) == 30
    assert gold < first != second
    assert third == gold


@pytest.mark.parametrize(
    ("paths", "names"),
    [
        (["ud/UD_English-EWT/en_ewt-ud-train.conllu"], ["en_ewt"]),
        (["mine/ug_udt-train.conllu.gz"], ["ug_udt"]),
        (["trees.conll"], ["trees"]),
        (["x/train.conllu"], ["train"]),
        (["a/train.conllu", "b/train.conllu", "c.conllu"], ["a/train", "b/train", "c"]),
    ],
)
def test_treebanks_are_called_as_their_files_and_folders(paths, names):
    assert treebank_names(paths) == names


def test_two_treebanks_of_one_name_are_refused():
    with pytest.raises(ValueError, match=r"x/a/train.conllu: another one is called a/train, too"):
        treebank_names(["x/a/train.conllu", "y/a/train.conllu"])


@pytest.fixture
def files(tmp_path):
    """Two treebanks with the same sentences and different labels, of 30 and 10 trees."""
    paths = []
    for name, label, count in (("first", "nsubj", 30), ("second", "agent", 10)):
        path = tmp_path / f"{name}-ud-train.conllu"
        path.write_text(("\n".join(ROWS).replace("nsubj", label) + "\n\n") * count)
        paths.append(str(path))
    return paths


def changes(files):
    return [
        f"treebank.train=[{', '.join(files)}]",
        f"treebank.dev={files[0]}",
        "treebank.test=null",
        "treebank.sampling_exponent=0",
        "parser.network.treebank_size=4",
        "training.epochs=8",
        "training.learning_rate={start: 2e-2, peak: 2e-2, warmup_epochs: 0}",
    ]


def test_a_parser_of_two_treebanks_follows_the_one_that_is_asked_for(config_file, files, tmp_path, capsys):
    run = tmp_path / "run"
    train(read_config(config_file, changes(files)), run, CPU)
    paths = (run / "model",)
    for treebank, las in ((None, (100, 50)), ("first", (100, 50)), ("second", (50, 100))):
        model = load_models(ModelChoice(paths, treebank))
        assert tuple(evaluate(model, read_treebank(path)).las for path in files) == las
    as_second = [str(run / "model"), files[1], "--treebank", "second"]
    for more in ([], ["--processes", "2", "--device", "cpu"]):
        capsys.readouterr()
        assert main(["evaluate", *as_second, "--json", *more]) == 0
        assert json.loads(capsys.readouterr().out)["las"] == 100
        assert main(["parse", *as_second, "-o", str(tmp_path / "parsed"), *more]) == 0
        assert (tmp_path / "parsed").read_text() == Path(files[1]).read_text()
    for treebank, label in ((None, "nsubj"), ("second", "agent")):
        own = parser.load(run / "model", treebank=treebank)
        assert own.parse(["dogs", "sleep"], upos=["NOUN", "VERB"]).labels[0] == label
    with pytest.raises(ValueError, match=r"'third'.*'first', 'second' are"):
        load_models(ModelChoice(paths, "third"))


def held_out(files, split):
    """Copies of training files, as dev or test files of the same treebanks."""
    copies = [Path(path.replace("-ud-train", f"-ud-{split}")) for path in files]
    for path, copy in zip(files, copies, strict=True):
        copy.write_text(Path(path).read_text())
    return list(map(str, copies))


def test_the_mean_over_dev_sets_counts_and_a_treebank_has_to_be_named(config_file, files, tmp_path, capsys):
    asked = [
        *changes(files),
        f"treebank.dev=[{', '.join(held_out(files, 'dev'))}]",
        f"treebank.test=[{held_out(files[::-1], 'test')[0]}]",
        "training.epochs=2",
        "tokenizer={kind: bilstm, least_steps: 1, most_steps: 2}",
    ]
    run = tmp_path / "run"
    result = train_and_score(read_config(config_file, asked), run)
    of_treebanks = result["dev"]["treebanks"]
    assert list(of_treebanks) == ["first", "second"]
    assert result["dev"]["las"] == sum(each["las"] for each in of_treebanks.values()) / 2
    assert result["dev"]["scored_words"] == 80
    assert result["test"]["las"] == of_treebanks["second"]["las"]
    assert "treebanks" not in result["text"]
    tokenizers = tokenizer_from_json((run / "model" / "tokenizer.json").read_bytes())
    assert list(tokenizers.contents) == ["first", "second"]
    assert main(["evaluate", str(run / "model"), files[1], "--treebank", "second", "--json"]) == 0
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["las"] == result["test"]["las"]
    assert main(["parse", str(run / "model"), files[1]]) == 2
    assert "name one by --treebank: first, second" in capsys.readouterr().err


def test_a_dev_set_of_no_treebank_in_train_is_refused(config_file, files):
    config = read_config(config_file, [*changes(files), "treebank.dev=[a/third-ud-dev.conllu]"])
    with pytest.raises(ValueError, match=r"treebank.dev: a/third-ud-dev.conllu: .* third is not in train"):
        train_and_score(config, Path("nothing"))


def test_dev_sets_in_folders_are_found_by_the_names_of_these():
    files = {key: tuple(f"{name}/{key}.conllu" for name in "ab") for key in ("train", "dev", "test")}
    assert list(TreebankSettings(**files).dev_files) == ["a/train", "b/train"]


@pytest.mark.extended
def test_fine_tuning_adds_a_treebank_and_parses_as_it(config_file, files, tmp_path):
    for place, more in enumerate(([], [f"initial_model={tmp_path / '0' / 'model'}"])):
        asked = [*changes([files[place]]), "treebank.sampling_exponent=1", *more]
        train(read_config(config_file, asked), tmp_path / str(place), CPU)
    model = load_models(ModelChoice((tmp_path / "1" / "model",)))
    assert model.vocabulary.columns["treebank"].strings == ("first", "second")
    assert model.vocabulary.treebank == "second"
    assert evaluate(model, read_treebank(files[1])).las == 100


@pytest.mark.extended
def test_models_without_an_embedding_of_the_treebank_stay_as_they_are(config_file, files, tmp_path):
    with pytest.raises(ValueError, match="'second': no model has an embedding of the treebank"):
        load_models(ModelChoice((Path("tests/model"),), "second"))
    without = [*changes(files), "parser.network.treebank_size=null"]
    for name, asked in (("with", changes(files)), ("without", without)):
        train(read_config(config_file, [*asked, "training.epochs=1"]), tmp_path / name, CPU)
    paths = tuple(tmp_path / name / "model" for name in ("without", "with"))
    model = load_models(ModelChoice(paths, "second"))
    assert [member.vocabulary.treebank for member in model.members] == ["", "second"]
    assert main(["compare", *map(str, paths), files[1], "--treebank", "second"]) == 0


def test_only_the_first_treebank_is_cut(config_file, files, capsys):
    config = read_config(config_file, [*changes(files), "treebank.train_sentences=7"])
    gold = read_training_trees(config.treebank).gold
    assert {name: len(trees) for name, trees in gold.items()} == {"first": 7, "second": 10}
    capsys.readouterr()
    read_training_trees(read_config(config_file, [*changes(files), "treebank.train_sentences=31"]).treebank)
    assert f"{files[0]}: has 30 sentences, fewer than" in capsys.readouterr().out
    _, loaded = data.load(config, CPU)
    assert loaded.mixture.sizes == {"first": 7, "second": 10}
    _, alone = data.load(read_config(config_file), CPU)
    assert str(alone.mixture) == ""


def silver(tmp_path, probabilities):
    """A file with a sentence for each mean probability, of two words with a lower and a higher one."""
    path = tmp_path / "silver.conllu"
    first, second = (row[:-1] + "ArcProbability=" for row in ROWS)
    path.write_text("".join(f"{first}{p - 0.1:.4f}\n{second}{p + 0.1:.4f}\n\n" for p in probabilities))
    return path


def test_silver_trees_that_are_not_probable_are_left_out(config_file, files, tmp_path):
    path = silver(tmp_path, (0.5, 0.7, 0.9))
    asked = [*changes(files), f"treebank.silver={{files: [{path}], min_probability: 0.69}}"]
    config = read_config(config_file, asked)
    assert len(read_training_trees(config.treebank).silver) == 2
    _, loaded = data.load(config, CPU)
    assert len(loaded.train) == 42
    assert str(loaded.mixture) == "first 30, second 10, silver 2, "
    for change, message in (
        ("treebank.silver.min_probability=0.95", "min_probability leaves no tree"),
        (f"treebank.silver.files=[{files[0]}]", "first-ud-train.*sentence #1: its arcs have no prob"),
    ):
        with pytest.raises(ValueError, match=message):
            read_training_trees(read_config(config_file, [*asked, change]).treebank)


@pytest.mark.extended
def test_what_silver_trees_have_is_learnt_from(config_file, files, tmp_path):
    """Their words and labels are in the vocabulary, and they count as trees of the first treebank."""
    path = silver(tmp_path, (0.9,) * 10)
    path.write_text(path.read_text().replace("dogs", "cats").replace("nsubj", "dep"))
    asked = [*changes(files), f"treebank.silver={{files: [{path}]}}", f"treebank.dev={path}"]
    train(read_config(config_file, asked), tmp_path / "run", CPU)
    model = load_models(ModelChoice((tmp_path / "run" / "model",)))
    assert "cats" in model.vocabulary.columns["form"].strings
    assert model.vocabulary.columns["treebank"].strings == ("first", "second")
    assert evaluate(model, read_treebank(str(path))).las == 100
