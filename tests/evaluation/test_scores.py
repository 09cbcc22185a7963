import random
from dataclasses import replace
from statistics import stdev

import pytest
from plain_parser import sentence
from udtools.udeval import evaluate, load_conllu_file

from parser.evaluation.report import report
from parser.evaluation.scores import Scores, score
from parser.parsing.parsed_tree import ParsedTree
from parser.parsing.part_parser import output_of
from parser.treebank.conllu import read_treebank


def test_scores_of_a_small_example():
    gold = sentence((2, 0, 2, 3), labels=["nsubj:pass", "root", "obl", "case"])
    scores = score([gold], [((2, 0, 2, 2), ("nsubj", "root", "obj", "case"))])
    assert (scores.uas, scores.las, scores.percent("las_full")) == (75.0, 50.0, 25.0)
    # content words: nsubj, root, obl in gold; nsubj, root, obj in the parse; two are right
    assert scores.percent("clas") == pytest.approx(100 * 2 * 2 / 6)
    assert scores.exact == 0
    assert scores.label_f1()["obl"] == 0
    assert scores.label_f1()["nsubj"] == 100
    assert scores.length_las() == {"root": 100.0, "1": pytest.approx(100 / 3)}


def test_without_punctuation():
    gold = sentence((2, 0, 2), labels=["nsubj", "root", "punct"])
    gold = replace(gold, upos=("NOUN", "VERB", "PUNCT"))
    trees = [((2, 0, 1), ("nsubj", "root", "punct"))]
    without = score([gold], trees, punctuation=False)
    assert score([gold], trees).las == pytest.approx(200 / 3)
    assert (without.las, without.exact) == (100, 100)
    # Without UPOS it is recognised by XPOS.
    gold = replace(sentence((2, 0, 2)), upos=("_",) * 3, xpos=("NN", "VB", "."))
    assert score([gold], [(gold.heads, gold.labels)], punctuation=False).words == 2


def test_empty_scores_are_zero():
    assert Scores().as_dict()["las"] == 0.0
    assert "0 sentences" in report(Scores(), ())[0]


@pytest.mark.parametrize(
    ("predicted", "copied"),
    [((), ["UPOS", "XPOS", "UFeats", "AllTags", "Lemmas"]), (("feats", "lemma"), ["UPOS", "XPOS"])],
)
def test_report_says_which_tags_are_not_predicted(predicted, copied):
    gold = sentence((2, 0), labels=["nsubj", "root"])
    lines = report(score([gold], [((2, 0), ("nsubj", "root"))]), predicted)
    assert [line.split()[0] for line in lines if "not predicted" in line] == copied


def scramble(heads, labels, generator):
    """Another tree: some words are attached to the root word, and some labels change."""
    root = heads.index(0) + 1
    heads = [
        head if head == 0 or generator.random() < 0.7 or word == root else root
        for word, head in enumerate(heads, 1)
    ]
    labels = [label if generator.random() < 0.7 or label == "root" else "obl:agent" for label in labels]
    return heads, labels


FIELDS = {"upos": "upos", "xpos": "xpos", "feats": "feats", "lemma": "lemmas"}


def scrambled_tags(sentence, generator):
    """The sentence with a tenth of its words having the values of another word."""
    found = {}
    for column, field in FIELDS.items():
        own = getattr(sentence, field)
        found[column] = tuple(value if generator.random() < 0.9 else generator.choice(own) for value in own)
    return found


OFFICIAL = ("UPOS", "XPOS", "UFeats", "AllTags", "Lemmas", "UAS", "LAS", "CLAS", "MLAS", "BLEX")
ENHANCED = (
    *("gapping", "shared_parents_in_coordination", "shared_dependents_in_coordination", "control"),
    *("external_arguments_of_relative_clauses", "case_info", "empty_nodes"),
)
NO_CHECKS = {**{f"no_{name}": 0 for name in ENHANCED}, "multiple_roots_okay": 0}
# The official scorer does not close its files.
official_scorer = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")


def assert_official_scorer_agrees(path, tmp_path):
    generator = random.Random(5)
    gold = read_treebank(str(path))
    trees = [
        ParsedTree(*scramble(one.heads, one.labels, generator), tags=scrambled_tags(one, generator))
        for one in gold
    ]
    parsed = tmp_path / "parsed.conllu"
    lines = (output_of(one, tree, tags="all", deps="drop") for one, tree in zip(gold, trees, strict=True))
    parsed.write_bytes(b"".join(found.content for found in lines))
    scores = score(gold, trees)
    assert 20 < scores.las < 90
    official = evaluate(*(load_conllu_file(str(each), NO_CHECKS) for each in (path, parsed)))
    for name in OFFICIAL:
        assert scores.percent(name.lower()) == pytest.approx(100 * official[name].f1, abs=1e-9), name
    # Only the lowest: some treebanks have no features or lemmas, so all of their words have the same.
    assert min(scores.percent(measure) for measure in ("upos", "ufeats", "lemmas")) < 99


@official_scorer
def test_the_official_scorer_agrees_on_the_treebank_that_ships(tmp_path):
    assert_official_scorer_agrees("data/quickstart/dev.conllu", tmp_path)


@official_scorer
@pytest.mark.real_data
def test_the_official_scorer_agrees_on_real_treebanks(treebanks, tmp_path):
    for path in sorted(treebanks.glob("*/*-dev.conllu")):
        assert_official_scorer_agrees(path, tmp_path)


def test_the_standard_error_of_las_is_that_of_drawing_the_sentences_again():
    generator = random.Random(1)
    parts = []
    for _ in range(60):
        gold = sentence((0, *range(1, generator.randint(2, 12))))
        skill = generator.random()  # the words of a sentence tend to be right or wrong together
        labels = [label if generator.random() < skill else "other" for label in gold.labels]
        parts.append(score([gold], [(gold.heads, labels)]))
    drawn = [sum(generator.choices(parts, k=len(parts)), Scores()).las for _ in range(1000)]
    found = sum(parts, Scores())
    assert found.las_error == pytest.approx(stdev(drawn), rel=0.08)
    as_if_words_were_independent = (found.las * (100 - found.las) / found.words) ** 0.5
    assert found.las_error > 1.3 * as_if_words_were_independent
    assert parts[0].las_error is Scores().las_error is None


def test_recall_of_crossing_arcs_ignores_labels():
    gold = sentence((3, 4, 0, 3))  # the arc from 4 to 2 passes over 3
    scores = score([gold, gold], [(gold.heads, ("x",) * 4), ((3, 3, 0, 3), gold.labels)])
    assert (scores.crossing_arcs, scores.crossing_recall) == (2, 50)
    assert any("crossing arcs      50.00" in line for line in report(scores, ()))


def test_arcs_are_grouped_by_length():
    gold = sentence((0, *[1] * 17))  # arcs of 1 to 17 words
    scores = score([gold], [(gold.heads, gold.labels)])
    assert scores.lengths == {"root": 1, "1": 1, "2": 1, "3": 1, "4-7": 4, "8-15": 8, "16+": 2}
    assert list(scores.length_las()) == ["root", "1", "2", "3", "4-7", "8-15", "16+"]
    assert not any("crossing arcs" in line for line in report(scores, ()))
