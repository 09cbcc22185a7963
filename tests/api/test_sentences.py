"""What programs give: heads and labels, which stay, and sentences of conllu, which come back with trees."""

import asyncio
from copy import deepcopy

import conllu
import pytest
from hypothesis import given
from hypothesis import strategies as st

import parser
from parser.cli import main
from parser.parsing.constraints import counts_for
from parser.treebank.conllu import read_treebank
from parser.treebank.conllu_output import TAG_PROBABILITIES

MODEL = "tests/model"
TREEBANK = "data/quickstart/test.conllu"
CAT = ["The", "cat", "sleeps", "."]
FREE = [None] * 4
ID, FORM, LEMMA, UPOS, XPOS, FEATS, HEAD, DEPREL, DEPS, MISC = range(10)

FORMS = st.one_of(
    st.sampled_from(["The", "cat", "sleeps", ".", "10 000", "_", "#", "1-2", "l'", "日本", "e\u0301"]),
    st.text(st.characters(categories=["L", "N", "P", "S", "M"]), min_size=1, max_size=8),
)
NAMES = st.sampled_from(["Case", "Number", "Gloss", "SpaceAfter", "Typo", "Ref"])
VALUES = st.sampled_from(["Nom", "Plur", "No", "Yes", "the", "3,4"])
FEATURES = st.one_of(
    st.just("_"),
    st.dictionaries(NAMES, VALUES, min_size=1).map(
        lambda pairs: "|".join(f"{name}={pairs[name]}" for name in sorted(pairs))
    ),
)
TAGS = st.sampled_from(["_", "NOUN", "VERB", "X"])
COMMENTS = st.lists(
    st.sampled_from(["newpar", "newdoc id = d1", "sent_id = s1", "text = It is 1 = 1.", "translit = a"]),
    unique=True,
).map(lambda comments: "".join(f"# {comment}\n" for comment in comments))


@st.composite
def sentences(draw):
    """The text of a sentence with multiword tokens, empty nodes, comments, and columns of all kinds."""
    count = draw(st.integers(1, 7))
    lines, covered = [], 0
    for number in range(count + 1):
        if number:
            last = draw(st.integers(number, count))
            if number > covered and last > number and draw(st.booleans()):
                covered = last
                lines.append([f"{number}-{last}", draw(FORMS), *"_" * 7, draw(FEATURES)])
            head = str((number + draw(st.integers(1, count))) % (count + 1))
            first = [str(number), draw(FORMS), draw(FORMS), draw(TAGS), draw(TAGS), draw(FEATURES)]
            deps = f"{head}:dep|{number}.1:conj:and" if draw(st.booleans()) else "_"
            lines.append([*first, *draw(st.sampled_from([["_", "_"], [head, "dep"]])), deps, draw(FEATURES)])
        for empty in range(1, draw(st.sampled_from([1, 1, 1, 2, 3]))):
            lines.append([f"{number}.{empty}", draw(FORMS), *"_" * 6, "1:dep", draw(FEATURES)])
    return draw(COMMENTS) + "".join("\t".join(line) + "\n" for line in lines) + "\n"


@pytest.fixture(scope="module")
def english():
    return parser.load(MODEL, device="cpu")


def rows(tokens):
    """The lines of a TokenList, divided into columns."""
    return [line.split("\t") for line in tokens.serialize().splitlines()]


def expected(text, parse):
    """The lines of a sentence, with a parser's predictions for its words."""
    lines = [line.split("\t") for line in text.splitlines()]
    words = [line for line in lines if line[ID].isdecimal()]
    forms, *tags = ([word[column] for word in words] for column in (FORM, UPOS, XPOS, FEATS, LEMMA))
    tree = parse(forms, **dict(zip(("upos", "xpos", "feats", "lemmas"), tags, strict=True)))
    values = zip(words, tree.lemmas, tree.upos, tree.xpos, tree.feats, tree.heads, tree.labels, strict=True)
    for word, lemma, upos, xpos, feats, head, label in values:
        word[LEMMA : DEPREL + 1] = lemma, upos, xpos, feats, str(head), label
    return lines


@pytest.mark.filterwarnings("ignore:FORM is blank")  # in random sentences it may be
@given(text=sentences())
def test_only_trees_and_missing_tags_are_filled_in(english, text):
    [tokens] = conllu.parse(text)
    before = deepcopy(tokens)
    assert tokens.serialize() == text
    found = english.parse(tokens)
    assert rows(found) == expected(text, english.parse)
    assert found.metadata == tokens.metadata
    assert tokens == before
    assert [token["id"] for token in found] == [token["id"] for token in before]
    [again] = conllu.parse(found.serialize())
    assert again == found
    assert english.parse(again) == found  # now all columns are filled in


@pytest.mark.filterwarnings("ignore:FORM is blank")
@given(texts=st.lists(sentences(), min_size=1, max_size=4))
def test_several_are_parsed_as_each_is(english, texts):
    tokens = conllu.parse("".join(texts))
    alone = [rows(english.parse(one)) for one in tokens]
    assert [rows(one) for one in english.parse(tokens)] == alone
    assert [rows(one) for one in english.parse(list(tokens))] == alone
    assert [rows(one) for one in english.parse_all(iter(tokens))] == alone


def test_a_file_becomes_what_the_command_writes(english, tmp_path):
    written = tmp_path / "parsed.conllu"
    assert main(["parse", MODEL, TREEBANK, "--probabilities", "-o", str(written)]) == 0
    with open(TREEBANK, encoding="utf-8") as file:
        found = english.parse_all(conllu.parse_incr(file), probabilities=True)
        assert "".join(tokens.serialize() for tokens in found) == written.read_text(encoding="utf-8")


def test_what_was_said_of_another_tree_goes(english):
    fields = "_\t_\t_\t_\t_\t_\t_"
    marks = "A=1|ArcProbability=0.1|Violation=not-root", "Alternatives=x"
    [tokens] = conllu.parse(f"1\tDogs\t{fields}\t{marks[0]}\n2\tbark\t{fields}\t{marks[1]}\n\n")
    assert [token["misc"] for token in english.parse(tokens)] == [{"A": "1"}, None]
    assert tokens[0]["misc"]["ArcProbability"] == "0.1"


def test_tags_are_read_by_models_that_read_them(reader_of_tags):
    [tokens] = conllu.parse(
        "1\tDogs\t_\tNOUN\t_\t_\t_\t_\t_\t_\n2\tbark\t_\tVERB\t_\tMood=Ind\t_\t_\t_\t_\n\n"
    )
    reader = parser.load(reader_of_tags, device="cpu")
    tree = reader.parse(["Dogs", "bark"], upos=["NOUN", "VERB"], feats=["_", "Mood=Ind"])
    found = reader.parse(tokens)
    assert tuple(token["head"] for token in found) == tree.heads
    assert found[1]["feats"] == {"Mood": "Ind"}


def test_tokens_that_a_program_has_made_get_all_columns(english):
    tokens = conllu.TokenList([{"id": 1, "form": "Dogs"}, {"id": 2, "form": "bark"}], {"sent_id": "a"})
    found = english.parse(tokens, probabilities=True)
    assert found.serialize().startswith("# sent_id = a\n1\tDogs\tdog\tNOUN\t")
    assert {len(row) for row in rows(found)[1:-1]} == {10}
    assert [list(token["misc"]) for token in found] == [["ArcProbability", *TAG_PROBABILITIES.values()]] * 2


def test_columns_of_their_own_stay_as_they_are(english):
    text = "# global.columns = ID FORM HEAD DEPREL PARSEME:MWE\n1\tDogs\t_\t_\t*\n2\tbark\t_\t_\t1:VPC\n\n"
    given = conllu.parse(text)
    found = english.parse(given)
    assert found.metadata == given.metadata
    tree = english.parse(["Dogs", "bark"])
    assert rows(found[0])[1:3] == [
        ["1", "Dogs", str(tree.heads[0]), tree.labels[0], "*"],
        ["2", "bark", str(tree.heads[1]), tree.labels[1], "1:VPC"],
    ]
    constraints = parser.Constraints(not_root=("VERB",))
    assert rows(english.parse(given, probabilities=True, constraints=constraints)[0])[0] == rows(found[0])[0]


def test_a_file_without_columns_for_trees_is_refused(english):
    [given] = conllu.parse("# global.columns = ID FORM PARSEME:MWE\n1\tDogs\t*\n\n")
    with pytest.raises(ValueError, match="no columns HEAD and DEPREL"):
        english.parse(given)


def test_a_column_may_be_text(english):
    given = conllu.TokenList([{"id": 1, "form": "Dogs", "misc": "SpaceAfter=No|ArcProbability=0.1"}])
    [token] = english.parse(given)
    assert token["misc"] == {"SpaceAfter": "No"}
    [token] = english.parse(conllu.TokenList([{"id": 1, "form": "Dogs", "misc": "_"}]))
    assert token["misc"] is None


@pytest.mark.parametrize(
    ("tokens", "message"),
    [
        ([], "it has no words"),
        ([{"id": 1, "form": "a"}, {"id": 3, "form": "b"}], "token b: ID is 3; expected 2"),
        ([{"form": "a"}], "token a: ID is None; expected 1"),
        ([{"id": 1}], "words, number 1: None is no string"),
        ([{"id": 1, "form": "a", "upos": 7}], "upos, number 1: 7 is no string"),
        ([{"id": (1, ".", 1), "form": "a"}], "it has no words"),
    ],
)
def test_what_is_no_sentence_is_refused(english, tokens, message):
    with pytest.raises(ValueError, match=f"^sentence 1: {message}$"):
        english.parse(conllu.TokenList(tokens))


def test_tags_beside_those_of_the_tokens_are_refused(english):
    tokens = conllu.TokenList([{"id": 1, "form": "a"}])
    for given_tokens in (tokens, [tokens]):
        with pytest.raises(ValueError, match="upos: a TokenList has its own"):
            english.parse(given_tokens, upos=["X"])
    assert english.parse(conllu.SentenceList()) == []


def test_heads_and_labels_stay_and_the_others_are_found(english):
    assert english.parse(CAT).heads == (2, 3, 0, 3)
    tree = english.parse(CAT, heads=[None, 1, None, None], labels=["obj", None, "_", None])
    assert tree.heads[1] == 1
    assert tree.labels[0] == "obj"
    assert tree.heads.count(0) == 1
    assert english.parse(CAT, heads=FREE, labels=FREE) == english.parse(CAT)
    assert english.parse(CAT, heads=[3, 3, 0, 3]).heads == (3, 3, 0, 3)


def test_many_sentences_of_which_some_have_heads(english):
    given = [CAT, {"words": CAT, "heads": [None, 1, None, None]}] * 40
    trees = list(english.parse_all(given, probabilities=True))
    alone = [english.parse(CAT), english.parse(CAT, heads=[None, 1, None, None])]
    assert [(tree.heads, tree.labels) for tree in trees] == [(tree.heads, tree.labels) for tree in alone] * 40


def test_alternatives_are_of_no_given_tree(english):
    with pytest.raises(ValueError, match="heads: alternatives are those of any tree"):
        english.alternatives(CAT, 2, heads=[None, 1, None, None])


def test_tasks_of_asyncio_give_heads(english):
    assert asyncio.run(english.parse_async(CAT, heads=[None, 1, None, None])).heads[1] == 1
    with pytest.raises(ValueError, match=r"^sentence 1: word 1: the heads of the words 1, 2 form a cycle$"):
        asyncio.run(english.parse_async(CAT, heads=[2, 1, None, None]))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"heads": [1]}, "4 words, but 1 heads"),
        ({"labels": ["det"] * 5}, "4 words, but 5 labels"),
        ({"heads": "____"}, "heads: a list is needed, not str"),
        ({"labels": {"det"}}, "labels: a list is needed, not set"),
        ({"heads": [None, True, None, None]}, "heads, number 2: True is not the number of a word"),
        ({"heads": [None, "1", None, None]}, "heads, number 2: '1' is not the number of a word"),
        ({"heads": [None, -1, None, None]}, "heads, number 2: HEAD '-1' is not the number of a word"),
        ({"heads": [None, 5, None, None]}, "heads, number 2: HEAD 5 is beyond the last word, 4"),
        ({"heads": [None, 2, None, None]}, "heads, number 2: word 2 is its own head"),
        ({"labels": [None, 3, None, None]}, "labels, number 2: 3 is no string"),
        ({"labels": [None, "a↑b", None, None]}, "labels, number 2: DEPREL 'a↑b' has the character ↑.*"),
        ({"heads": [2, 1, None, None]}, "word 1: the heads of the words 1, 2 form a cycle"),
    ],
)
def test_what_no_tree_has_is_refused(english, given, message):
    with pytest.raises(ValueError, match=f"^sentence 2: {message}$"):
        list(english.parse_all([CAT, {"words": CAT, **given}]))


def test_an_arc_that_crosses_is_put_back(english):
    wanted = parser.Constraints(non_projective="given")
    assert english.parse(CAT, heads=[3, 4, None, None], constraints=wanted).heads[:2] == (3, 4)


def test_what_can_not_be_kept_is_named(english):
    wanted = parser.Constraints(at_most_one=("nsubj",), not_root=("VERB",))
    tree = english.parse(CAT, heads=[3, 3, 0, 3], labels=["nsubj", "nsubj", None, None], constraints=wanted)
    assert tree.violations == ("", "at-most-one:nsubj", "not-root", "")
    lines = tree.to_conllu().splitlines()
    assert [line.split("\t")[-1] for line in lines[:4]] == [
        "_", "Violation=at-most-one:nsubj", "Violation=not-root", "_",
    ]  # fmt: skip
    free = english.parse(CAT, constraints=wanted)
    assert free.upos[free.heads.index(0)] != "VERB"
    assert free.violations == ()


def test_all_of_many_sentences_have_limits(english):
    def has_two(tree):
        arcs = zip(tree.heads, tree.labels, strict=True)
        heads = [head for head, label in arcs if counts_for(label, "punct")]
        return len(heads) > len(set(heads))

    given = [one.forms for one in read_treebank("data/quickstart/dev.conllu")]
    limits = parser.Constraints(at_most_one=("punct",))
    assert any(map(has_two, english.parse_all(given)))
    assert not any(map(has_two, english.parse_all(given, constraints=limits)))
    with pytest.raises(ValueError, match="nsbj"):
        english.parse_all(
            given, constraints=parser.Constraints(at_most_one=("nsbj",))
        )  # no tree was asked for


def test_sentences_of_conllu_keep_what_is_given_if_asked_to(english):
    [tokens] = conllu.parse(english.parse(CAT).to_conllu())
    tokens[0]["head"], tokens[1]["head"], tokens[1]["deprel"] = 3, None, None
    kept = english.parse(tokens, constraints=parser.Constraints(keep="given"))
    assert [token["head"] for token in kept] == [3, 3, 0, 3]
    assert kept[0]["deprel"] == tokens[0]["deprel"]
    assert [token["head"] for token in english.parse(tokens)] == [2, 3, 0, 3]
    assert tokens[1]["head"] is None
    with pytest.raises(ValueError, match="heads: a TokenList has its own"):
        english.parse(tokens, heads=[1, 2, 3, 4])
    wanted = parser.Constraints(keep="given", at_most_one=("nsubj",))
    for token in tokens[:2]:
        token["head"], token["deprel"] = 3, "nsubj"
    assert english.parse(tokens, constraints=wanted)[1]["misc"]["Violation"] == "at-most-one:nsubj"
