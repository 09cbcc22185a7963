"""The choice of tags, features and lemmas together, next to plain code."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from plain_parser import sentence

from parser.parsing.predicted_tags import SeenAnalyses, TagChoice
from parser.treebank.analyses import NO_VALUE, Analyses
from parser.treebank.lemma_rules import lemma_of, lemma_rule
from parser.treebank.vocabulary import Lexicon, Vocabulary

COLUMNS = ["upos", "xpos", "feats", "lemma"], ["upos", "lemma"], ["feats", "lemma"], ["xpos"]


@st.composite
def cases(draw):
    """Columns, analyses of the forms a to e, and scores of words, some of them unknown."""
    columns = draw(st.sampled_from(COLUMNS))
    sizes = draw(st.lists(st.integers(1, 4), min_size=len(columns), max_size=len(columns)))
    least = [NO_VALUE if name == "lemma" else 0 for name in columns]
    combination = st.tuples(*(st.integers(*each) for each in zip(least, (n - 1 for n in sizes), strict=True)))
    words = draw(st.lists(st.tuples(st.sampled_from("abcde"), combination), min_size=1, max_size=12))
    forms = draw(st.lists(st.sampled_from("abcdefg"), max_size=6))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    scores = [random.normal(size=(len(forms), size)).astype(np.float32) for size in sizes]
    return columns, Analyses.of(words, draw(st.sampled_from([0.0, 0.5, 2.0, 16.0]))), forms, scores


def chosen(columns, analyses, form, scores):
    """The values of one word. scores: those of each column's values."""
    own = [analyses.combinations[number] for number in analyses.of_form.get(form, ())]

    def total(combination):
        return sum(
            float(of.max() if value == NO_VALUE else of[value])
            for of, value in zip(scores, combination, strict=True)
        )

    upos = columns.index("upos") if "upos" in columns else None

    def has_best_upos(combination):
        return upos is None or combination[upos] == scores[upos].argmax()

    independent = tuple(int(of.argmax()) for of in scores)
    best = max(filter(has_best_upos, analyses.combinations), key=total, default=independent)
    if independent in analyses.combinations:
        best = independent
    if own and total(max(own, key=total)) + analyses.bonus >= total(best):
        best = max(own, key=total)
    if "lemma" in columns:
        lemma = columns.index("lemma")
        fitting = [each[lemma] for each in own if upos is None or each[upos] == best[upos]]
        fitting = [rule for rule in fitting if rule != NO_VALUE]
        if fitting:
            best = (*best[:lemma], max(fitting, key=lambda rule: scores[lemma][rule]), *best[lemma + 1 :])
    return best


@given(cases())
def test_all_words_are_chosen_as_one_alone(case):
    columns, analyses, forms, scores = case
    rules = [f"lower\t0\t\t0\t{number}" for number in range(4)]
    lexicons = {name: Lexicon(rules[: of.shape[1]]) for name, of in zip(columns, scores, strict=True)}
    found = SeenAnalyses(analyses, lexicons).best(scores, forms)
    wanted = [chosen(columns, analyses, form, [of[word] for of in scores]) for word, form in enumerate(forms)]
    assert found == wanted


TRAIN = [
    replace(
        sentence([0, 1, 1], forms=["saw", "saws", "saw"]),
        upos=("VERB", "NOUN", "NOUN"),
        feats=("Tense=Past", "Number=Plur", "Number=Sing"),
        lemmas=("see", "saw", "saw"),
    )
]


def scores_of(vocabulary, wanted):
    """Scores that prefer the values of one word. wanted: by column, with their scores."""
    scores = {}
    for name, lexicon in vocabulary.predicted.items():
        scores[name] = np.zeros((1, len(lexicon)), np.float32)
        for value, score in wanted.get(name, {}).items():
            scores[name][0, lexicon.number(value)] = score
    return scores


@pytest.mark.parametrize("form", ["saw", "seen"])
def test_a_verb_has_no_features_of_nouns(form):
    vocabulary = Vocabulary.build(TRAIN, ["form"], predicted=["upos", "feats", "lemma"])
    scores = scores_of(vocabulary, {"upos": {"VERB": 3}, "feats": {"Number=Sing": 2, "Tense=Past": 1}})
    [tags] = TagChoice([vocabulary])([scores], [sentence([0], forms=[form])])
    assert (tags["upos"], tags["feats"]) == (("VERB",), ("Tense=Past",))
    assert form == "seen" or tags["lemma"] == ("see",)


def test_models_choose_together():
    vocabulary = Vocabulary.build(TRAIN, ["form"], predicted=["upos", "feats", "lemma"])
    verb, noun = (
        scores_of(vocabulary, {"upos": {upos: score}}) for upos, score in (("VERB", 5), ("NOUN", 1))
    )
    [tags] = TagChoice([vocabulary, vocabulary])([verb, noun], [sentence([0], forms=["saw"])])
    assert tags == {"upos": ("VERB",), "feats": ("Tense=Past",), "lemma": ("see",)}


def test_values_that_no_combination_has_are_chosen_alone():
    """As of a model that was trained before, whose training goes on."""
    before = Vocabulary.build([sentence([0, 1, 1])], ["form"], predicted=["upos", "feats", "lemma"])
    vocabulary = replace(before, analyses=Analyses()).extended(
        Vocabulary.build(TRAIN, ["form"], predicted=["upos", "feats", "lemma"])
    )
    scores = scores_of(vocabulary, {"upos": {"ADP": 3}, "feats": {"Number=Sing": 2}})
    [tags] = TagChoice([vocabulary])([scores], [sentence([0], forms=["at"])])
    assert (tags["upos"], tags["feats"]) == (("ADP",), ("Number=Sing",))


def test_lemmas_that_the_treebank_does_not_have_are_not_learnt():
    train = [replace(TRAIN[0], lemmas=("see", "_", "_"))]
    vocabulary = Vocabulary.build(train, ["form"], predicted=["upos", "feats", "lemma"])
    assert vocabulary.predicted["lemma"].strings == (lemma_rule("saw", "see"),)
    assert Vocabulary.from_json(vocabulary.as_json()).analyses == vocabulary.analyses
    scores = scores_of(vocabulary, {"upos": {"NOUN": 3}, "feats": {"Number=Sing": 3, "Number=Plur": 2}})
    for form, features in (("saw", "Number=Sing"), ("saws", "Number=Plur")):
        [tags] = TagChoice([vocabulary])([scores], [sentence([0], forms=[form])])
        assert (tags["upos"], tags["feats"]) == (("NOUN",), (features,))
        assert tags["lemma"] != ("_",)


@given(st.integers(0, 2**32))
def test_probabilities_are_those_of_the_chosen_values(seed):
    """Rules that make the same lemma add up. Of two models, probabilities are means."""
    random = np.random.default_rng(seed)
    vocabulary = Vocabulary.build(TRAIN, ["form"], predicted=["upos", "feats", "lemma"])
    of_models = [
        {name: random.normal(size=(2, len(lexicon))) for name, lexicon in vocabulary.predicted.items()}
        for _ in range(2)
    ]
    sentences = [sentence([0], forms=["saw"]), sentence([0], forms=["Seen"])]
    for scores in (of_models[:1], of_models):
        choice = TagChoice([vocabulary] * len(scores))
        chosen = choice(scores, sentences)
        for word, (tags, found) in enumerate(
            zip(chosen, choice.probabilities(scores, sentences, chosen), strict=True)
        ):
            for name, lexicon in vocabulary.predicted.items():
                of_values = [np.exp(each[name][word, 1:]) for each in scores]  # without the unknown value
                shares = np.mean([each / each.sum() for each in of_values], axis=0)
                [form], [value] = sentences[word].forms, tags[name]
                right = [lemma_of(form, one) if name == "lemma" else one for one in lexicon.strings]
                wanted = sum(share for share, one in zip(shares, right, strict=True) if one == value)
                assert found[name] == pytest.approx((wanted,), abs=1e-5)


def test_a_treebank_without_lemmas_has_none_to_predict():
    train = [replace(TRAIN[0], lemmas=("_", "_", "_"))]
    vocabulary = Vocabulary.build(train, ["form"], predicted=["upos", "lemma"])
    scores = scores_of(vocabulary, {"upos": {"NOUN": 3}})
    for form in ("saw", "seen"):
        [tags] = TagChoice([vocabulary])([scores], [sentence([0], forms=[form])])
        assert (tags["upos"], tags["lemma"]) == (("NOUN",), ("_",))
