"""The document of a page with trees, and its data."""

import json
import re
from base64 import b64encode
from dataclasses import replace
from hashlib import sha256

import pytest
from pages.small_trees import ALL, CATS, DOGS, FRENCH, GOLD, GOLD_CATS, GOLD_DOGS, UYGHUR, parsed, sentence

from parser.evaluation.scores import score
from parser.pages.trees_page import tree_data, trees_page, with_gold
from parser.treebank.conllu import read_treebank
from parser.treebank.conllu_output import with_probabilities


def data_in(page):
    text = re.search(r'<script type="application/json" id="trees">(.*?)</script>', page, re.DOTALL)[1]
    return json.loads(text)


def test_data_of_a_sentence():
    [sentence], [gold] = parsed(DOGS), parsed(GOLD_DOGS)
    assert tree_data(sentence) == {
        "id": "dogs",
        "line": 1,
        "text": "Dogs bark loudly",
        "forms": ("Dogs", "bark", "loudly"),
        "heads": (2, 0, 1),
        "labels": ("obl", "root", "advmod"),
        "upos": ("NOUN", "VERB", "ADV"),
    }
    data = tree_data(sentence, gold)
    assert data["gold"] == {1: [2, "nsubj", "label"], 3: [2, "advmod", "head"]}
    assert data["scores"] == {"uas": 66.67, "las": 33.33}


def test_probabilities_are_those_of_all_arcs_or_none():
    [sentence] = parsed(DOGS)
    told = with_probabilities(sentence, [0.5, 0.25, 1])
    assert data_in(trees_page("", [told]))["sentences"][0]["probabilities"] == [0.5, 0.25, 1]
    lines = [re.sub(r"\|?ArcProbability=0\.2500", "", line) for line in told.lines]
    without = replace(told, lines=tuple(lines))
    assert "probabilities" not in data_in(trees_page("", [without]))["sentences"][0]


def test_a_wrong_subtype_is_no_error():
    [sentence], [gold] = parsed(CATS), parsed(GOLD_CATS)
    data = tree_data(sentence, gold)
    assert data["gold"] == {1: [2, "nsubj", ""]}
    assert data["scores"] == {"uas": 100.0, "las": 100.0}


def test_multiword_tokens_and_scripts_from_the_right():
    [french], [uyghur] = parsed(FRENCH), parsed(UYGHUR)
    assert tree_data(french)["tokens"] == [(1, 2, "du")]
    assert tree_data(uyghur)["rightToLeft"]
    assert "rightToLeft" not in tree_data(french)


def test_the_text_is_that_of_the_comment():
    [sentence] = parsed("# text = Go away!\n" + CATS)
    assert tree_data(sentence)["text"] == "Go away!"


def test_the_page_holds_all_sentences_and_scores():
    sentences = read_treebank("data/quickstart/test.conllu")
    data = data_in(trees_page("Trees", sentences, sentences[:]))
    assert [tuple(one["forms"]) for one in data["sentences"]] == [one.forms for one in sentences]
    assert [one["feats"] for one in data["sentences"] if "feats" in one]
    assert data["scores"] == {"uas": 100.0, "las": 100.0}
    assert data["words"] == sum(map(len, sentences))


def test_scores_are_those_of_evaluate():
    sentences, gold = parsed(ALL), parsed(GOLD)
    scores = score(gold, [(one.heads, one.labels) for one in sentences])
    data = data_in(trees_page("Trees", sentences, gold))
    assert data["scores"] == {"uas": round(scores.uas, 2), "las": round(scores.las, 2)}


def test_nothing_is_loaded_from_elsewhere():
    page = trees_page("Trees", parsed(ALL))
    addresses = set(re.findall(r"https?://[^\s\"']+", page))
    assert addresses == {"http://www.w3.org/2000/svg"}
    assert "default-src 'none'" in page
    assert "unsafe" not in page


def test_the_policy_allows_the_scripts_and_styles_of_the_page_alone():
    page = trees_page("Trees", parsed(ALL))
    policy = re.search('Content-Security-Policy" content="(.*?)"', page)[1]
    for kind in ("style", "script"):
        texts = re.findall(f"<{kind}>(.*?)</{kind}>", page, re.DOTALL)
        hashes = (b64encode(sha256(text.encode()).digest()).decode() for text in texts)
        assert texts
        assert " ".join([f"{kind}-src", *(f"'sha256-{one}'" for one in hashes)]) in policy.split("; ")


@pytest.mark.parametrize(
    ("trees", "gold", "message"),
    [
        (DOGS + CATS, DOGS + DOGS, "gold:6: sentence dogs: word 1 is 'Dogs', but 'Cats' in sentence cats of"),
        (DOGS + CATS, DOGS, "out:6: sentence cats: is not in gold"),
        (DOGS, DOGS + CATS, "gold:6: sentence cats: is not in out"),
        (DOGS, sentence("Dogs _ 0 root"), "gold:1: sentence s1: has 1 words, but there are 3 in sentence "),
    ],
)
def test_gold_trees_of_other_words_are_refused(trees, gold, message):
    with pytest.raises(ValueError, match=f"^{message}"):
        list(with_gold("out", parsed(trees), "gold", parsed(gold)))
