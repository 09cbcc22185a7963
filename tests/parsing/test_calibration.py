"""Calibrated probabilities of arcs, in trees that are parsed alone and together."""

import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from parsing.test_reparsing import model_of
from random_parsers import RUNNERS, run_by

from parser import load
from parser.cli import main
from parser.models.loading import ModelChoice, load_models
from parser.models.network_model import as_network
from parser.models.settings import CalibrationSettings
from parser.parsing.engine import parse
from parser.parsing.options import ParseOptions
from parser.parsing.probabilities import Calibration, with_calibration
from parser.treebank.conllu import read_treebank

SENTENCES = read_treebank("data/quickstart/dev.conllu")[:40]
MODEL = model_of(1)
SETTINGS = CalibrationSettings(right=1.4, wrong=0.3, offset=0.4)
PROBABILITIES = st.lists(st.floats(0, 1), min_size=1, max_size=9)


def plain(probability, settings=SETTINGS):
    value = settings.right * math.log(probability + 1e-6) - settings.wrong * math.log(1 - probability + 1e-6)
    return 1 / (1 + math.exp(-value - settings.offset))


@pytest.mark.parametrize("runner", RUNNERS)
def test_trees_stay_and_their_probabilities_are_calibrated(runner, monkeypatch):
    run_by(monkeypatch, runner)
    sentences = SENTENCES
    before = parse(MODEL, sentences, options=ParseOptions(probabilities=True))
    after = parse(with_calibration(MODEL, SETTINGS), sentences, options=ParseOptions(probabilities=True))
    for own, calibrated in zip(before, after, strict=True):
        assert (own.heads, own.labels) == (calibrated.heads, calibrated.labels)
        wanted = [plain(min(1, each)) for each in own.probabilities]
        assert calibrated.probabilities == pytest.approx(wanted, abs=1e-6)


@given(PROBABILITIES)
def test_without_a_calibration_or_with_the_neutral_one_they_stay(probabilities):
    assert Calibration(None)(probabilities) == probabilities
    assert Calibration(CalibrationSettings())(probabilities) == pytest.approx(probabilities, abs=1e-5)


@given(PROBABILITIES)
def test_more_probable_arcs_stay_so(probabilities):
    found = Calibration(SETTINGS)(sorted(probabilities))
    assert found == sorted(found)
    assert all(0 <= each <= 1 for each in found)


def test_an_ensemble_has_the_mean_of_its_models():
    one, other, third = (
        with_calibration(MODEL, each)
        for each in (SETTINGS, CalibrationSettings(right=1, wrong=0.7, offset=0), None)
    )
    together = Calibration.of(replace(one, others=(other, third))).settings
    assert np.allclose([together.right, together.wrong, together.offset], [1.2, 0.5, 0.2])
    assert Calibration.of(replace(third, others=(third,))).settings is None


def miscellaneous(path):
    """The probabilities in MISC of each word, by key."""
    pairs = [
        dict(
            part.split("=") for part in line.rstrip("\n").split("\t")[9].split("|") if "Probability=" in part
        )
        for one in read_treebank(str(path))
        for line in one.lines
        if "\t" in line
    ]
    return [{key: float(value) for key, value in of_word.items()} for of_word in pairs]


KEYS = {"upos": "UposProbability", "xpos": "XposProbability", "feats": "FeatsProbability"}
KEYS["lemmas"] = "LemmaProbability"


def test_tags_have_probabilities_in_each_output(tmp_path):
    model, output, bare = load("tests/model"), tmp_path / "out.conllu", tmp_path / "bare.conllu"
    words = [["Dogs", "bark", "."], ["Cats", "sleep"]]
    rows = ["".join(f"{n}\t{form}" + "\t_" * 8 + "\n" for n, form in enumerate(one, 1)) for one in words]
    bare.write_text("\n".join(rows) + "\n")
    trees = list(model.parse_all(words, probabilities=True))
    assert main(["parse", "tests/model", str(bare), "--probabilities", "-o", str(output)]) == 0
    found = iter(miscellaneous(output))
    for tree in trees:
        for word in range(len(tree)):
            wanted = {key: tree.tag_probabilities[name][word] for name, key in KEYS.items()}
            wanted["ArcProbability"] = tree.probabilities[word]
            assert next(found) == pytest.approx(wanted, abs=1e-4)
    assert main(["parse", "tests/model", str(output), "-o", str(bare)]) == 0
    assert not any(miscellaneous(bare))  # they were of the earlier tree
    assert model.parse(words[0]).tag_probabilities is None
    given = model.parse(words[0], upos=["X", "VERB", "PUNCT"], probabilities=True)
    assert given.upos == ("X", "VERB", "PUNCT")
    assert given.tag_probabilities["upos"][0] == 1


def test_probabilities_of_columns_are_calibrated(tmp_path, capsys):
    model = load_models(ModelChoice((Path("tests/model"),)))
    calibrated = replace(model, calibrations={"upos": SETTINGS})
    wanted = ParseOptions(probabilities=True)
    pairs = zip(
        parse(model, SENTENCES, options=wanted), parse(calibrated, SENTENCES, options=wanted), strict=True
    )
    for before, after in pairs:
        of_upos = [plain(each) for each in before.tag_probabilities["upos"]]
        assert after.tag_probabilities["upos"] == pytest.approx(of_upos, abs=1e-6)
        assert after.tag_probabilities["lemma"] == before.tag_probabilities["lemma"]
    folder = tmp_path / "model"
    as_network(calibrated).save(folder, {})
    assert load_models(ModelChoice((folder,))).calibrations == {"upos": SETTINGS}
    (folder / "calibrations.json").write_text('{"upos": {"right": -1}}')
    assert main(["parse", str(folder), "data/quickstart/dev.conllu"]) == 2
    assert "calibrations.json" in capsys.readouterr().err


def test_packing_fits_calibrations_on_dev(tmp_path, capsys):
    dev, packed = "data/quickstart/dev.conllu", tmp_path / "a.stackparser"
    learn = ["pack", "tests/model", "--learn-from", "data/quickstart/train.conllu"]
    assert main([*learn, "--dev", dev, "-o", str(packed)]) == 0
    assert "calibration error of the probabilities of lemma on dev" in capsys.readouterr().out
    assert set(load_models(ModelChoice((packed,))).calibrations) == {"upos", "xpos", "feats", "lemma"}
