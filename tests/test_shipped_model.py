"""The model that ships: it is found by name, has this format, is small enough, and can be given away."""

import json
import lzma
import os
from functools import cache
from math import prod
from pathlib import Path

import pytest
import torch
import yaml
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load

import parser
from parser.cli import main
from parser.models.model_card import read_card
from parser.models.model_files import FORMAT, Package
from parser.models.named_models import find_model
from parser.text.of_model import text_reader
from parser.training.config import read_config

MODEL = Path("models/english-ewt.stackparser")
MOST_BYTES = 14 << 20
AGAIN = "`make shipped-model` trains it again"


@pytest.fixture(autouse=True)
def no_other_models(monkeypatch):
    monkeypatch.delenv("PARSER_MODELS", raising=False)


@pytest.fixture(scope="module")
def package():
    return Package(MODEL)


@pytest.mark.parametrize("name", ["english-ewt", "english", "UD_English-EWT"])
def test_it_is_found_by_its_name(name):
    assert find_model(name) == MODEL.resolve()


def test_it_parses_a_sentence(tmp_path, capfd):
    text = tmp_path / "text.txt"
    text.write_text("Don't wake the cat.")
    assert main(["parse", "english-ewt", "--text", str(text)]) == 0
    words = [line.split("\t") for line in capfd.readouterr().out.splitlines() if line[:1].isdigit()]
    assert [word[1] for word in words] == ["Don't", "Do", "n't", "wake", "the", "cat", "."]
    trees = {word[1]: (word[3], int(word[6]), word[7]) for word in words[1:]}
    assert trees["wake"] == ("VERB", 0, "root")
    assert trees["the"] == ("DET", 5, "det")
    assert trees["cat"] == ("NOUN", 3, "obj")


def differing(text):
    """The words that spell a part of the text apart from case, but not as it is written there."""
    sentences = reader().sentences(text)
    tokens = [(token, "".join(token.words)) for sentence in sentences for token in sentence.tokens]
    assert len(tokens) > len(text) / 10
    return [
        token.words
        for token, spelt in tokens
        if (written := text[token.start : token.end]) != spelt and written.lower() == spelt.lower()
    ]


@cache
def reader():
    return text_reader(MODEL, "raw")


def test_words_are_written_as_in_the_text():
    text = "The GSA's and 18F's, USCIS's DON'T, iRiver\u2019s, the McDonalds, i'M: McCOY'D've CANNOT."
    assert differing(text) == []
    [tree] = parser.load(MODEL, device="cpu").parse_text("It is the GSA's rule.")
    assert tree.words == ("It", "is", "the", "GSA", "'s", "rule", ".")
    assert tree.lemmas is not None
    assert tree.lemmas[3] == "GSA"


WORDS = st.sampled_from(["gsa's", "don't", "i'm", "it", "cannot", "x's", "we've", "\u0130's"])


@given(st.lists(WORDS, max_size=6), st.data())
def test_words_of_any_case_are_written_as_in_the_text(words, data):
    text = "".join(data.draw(st.sampled_from([letter, letter.upper()])) for letter in " ".join(words))
    assert differing(f"{text} .") == []


@pytest.mark.real_data
@pytest.mark.parametrize("name", ["18f", "digitalgov", "masc", "reviews"])
def test_words_of_texts_are_written_as_there(name):
    path = Path(os.environ.get("PARSER_DATA", ""), "text", f"{name}.txt.xz")
    if not path.exists():
        pytest.skip(f"PARSER_DATA has no text/{path.name}")
    with lzma.open(path, "rt", encoding="utf-8", newline="") as file:
        assert differing(file.read(60_000)) == []  # ten thousand words


def test_it_is_loaded_by_its_name():
    [tree] = parser.load("english-ewt", device="cpu").parse_text("The cat sleeps.")
    assert tree.heads == (2, 3, 0, 3)
    assert tree.lemmas == ("the", "cat", "sleep", ".")


def test_it_is_of_this_format(package):
    assert json.loads(package.content("settings.json"))["format"] == FORMAT, AGAIN


def test_it_is_small_enough(package):
    assert MODEL.stat().st_size < MOST_BYTES
    weights = load(package.content("weights.safetensors"))
    assert {weight.dtype for weight in weights.values()} == {torch.float16}
    number = sum(prod(array.shape) for array in package.stored("weights.safetensors").values())
    assert f"{number:,} weights" in package.content("README.md").decode()


def test_card_and_licence_lie_beside_it(package):
    for name in ("README.md", "LICENSE.txt"):
        assert (MODEL.parent / name).read_bytes() == package.content(name), AGAIN
    card = read_card(package)
    assert card.licence == "cc-by-sa-4.0"
    assert {result.dataset.name for result in card.results} == {"UD_English-EWT"}
    assert {result.dataset.split for result in card.results} == {"test"}
    assert "Attribution-ShareAlike 4.0 International" in (MODEL.parent / "LICENSE.txt").read_text()


def test_its_config_is_the_one_of_untagged_words(package):
    card = package.content("README.md").decode()
    config = yaml.safe_load(card.partition("```yaml\n")[2].partition("```")[0])
    wanted = read_config(Path("configs/ud-untagged.yaml")).model_dump(mode="json", exclude_defaults=True)
    assert config["parser"] == wanted["parser"], AGAIN
    assert config["training"] == wanted["training"], AGAIN
