"""`POST /v1/parse` with constraints and alternatives, as in `stack-parser parse`."""

import pytest
from extended import extended
from parsing.test_reparsing import SENTENCES, model_of
from service.test_typed_protocol import KINDS, ask, sentences_of
from services import parsed_by_command, serving

pytest.importorskip("fastapi")
pytest.importorskip("httpx")

WORDS = ["the", "cat", "sleeps", "."]
FREE = {"heads": [None] * 4, "labels": [None] * 4}


@pytest.fixture(scope="module")
def scored(tmp_path_factory):
    """The folder of a model that has a scorer of arcs."""
    folder = tmp_path_factory.mktemp("scored") / "model"
    model_of(1).save(folder, {})
    return folder


@pytest.fixture(scope="module")
def served(scored):
    with serving("plain=tests/model", f"scored={scored}") as running:
        yield running


def rows(heads, labels):
    """The words in CoNLL-U."""
    cells = zip(WORDS, heads, labels, strict=True)
    lines = [
        f"{n}\t{word}\t_\t_\t_\t_\t{head}\t{label}\t_\t_\n" for n, (word, head, label) in enumerate(cells, 1)
    ]
    return "".join(lines) + "\n"


@pytest.mark.parametrize(
    ("word", "head", "label"), [(1, 4, None), *extended((2, None, "obj"), (4, 0, None), (1, 3, "nsubj"))]
)
def test_what_is_given_stays(word, head, label, served):
    heads, labels = [None] * 4, [None] * 4
    heads[word - 1], labels[word - 1] = head, label
    given = {"words": WORDS, "heads": heads, "labels": labels}
    [tree] = sentences_of(ask(served, sentences=[given], keep="given"))
    assert head in (None, tree["heads"][word - 1])
    assert label in (None, tree["labels"][word - 1])
    assert tree["heads"].count(0) == 1
    conllu = rows(["_" if one is None else one for one in heads], [one or "_" for one in labels])
    [same] = sentences_of(ask(served, conllu=conllu, keep="given"))
    assert (same["heads"], same["labels"]) == (tree["heads"], tree["labels"])


@pytest.mark.extended
def test_a_treebank_has_the_trees_of_the_command(served, scored):
    """With all options together."""
    lines = [line for one in SENTENCES for line in one.lines]
    for index, line in enumerate(lines):
        row = line.split("\t")
        if len(row) == 10 and index % 3:
            lines[index] = "\t".join([*row[:6], "_", *row[7:]])
    treebank = "".join(lines)
    options = ["--keep=given", "--non-projective=given", "--at-most-one=nsubj,obj", "--not-root=PUNCT"]
    expected = parsed_by_command(scored, treebank, *options, "--alternatives", "2", "--probabilities")
    wanted = {"keep": "given", "non_projective": "given", "at_most_one": ["nsubj", "obj"]}
    wanted |= {"not_root": ["PUNCT"], "model": "scored", "alternatives": 2, "probabilities": True}
    assert ask(served, "text/x-conllu", conllu=treebank, **wanted).text == expected
    assert "Alternatives=" in expected


@pytest.mark.extended
@pytest.mark.parametrize("kind", KINDS)
def test_alternatives_are_told(kind, served):
    wanted = {"sentences": [{"words": WORDS}], "model": "scored", "alternatives": 3}
    [tree] = sentences_of(ask(served, kind, **wanted))
    assert [len(arcs) for arcs in tree["alternatives"]] == [3] * 4
    for arcs in tree["alternatives"]:
        assert sorted(arcs, key=lambda arc: -arc["probability"]) == arcs
    conllu = ask(served, "text/x-conllu", **wanted).text
    told = [one.rpartition("Alternatives=")[2].split(",") for one in conllu.splitlines()[1:5]]
    heads = [[int(arc.split(":")[1]) for arc in arcs] for arcs in told]
    assert heads == [[arc["head"] for arc in arcs] for arcs in tree["alternatives"]]


@pytest.mark.extended
def test_limits_that_can_not_be_kept_are_told(served):
    given = {"words": WORDS, "heads": [3, 3, 0, 3], "labels": ["nsubj", "nsubj", None, None]}
    wanted = {"sentences": [given], "keep": "given", "at_most_one": ["nsubj"]}
    [tree] = sentences_of(ask(served, **wanted))
    assert tree["violations"] == ["", "at-most-one:nsubj", "", ""]
    assert "Violation=at-most-one:nsubj" in ask(served, "text/x-conllu", **wanted).text
    [free] = sentences_of(ask(served, sentences=[{"words": WORDS}], at_most_one=["nsubj"]))
    assert "violations" not in free


@pytest.mark.extended
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"heads": [2, 1, None, None]}, "word 1: the heads of the words 1, 2 form a cycle"),
        ({"heads": [0, 0, None, None]}, "word 2: the words 1, 2 are all given as the root"),
        ({"heads": [3, 4, None, None]}, "word 2: no projective tree has the arc"),
        ({"labels": [None, "strange", None, None]}, "word 2: DEPREL 'strange': "),
        ({"heads": [5, None, None, None]}, "heads, number 1: "),
        ({"heads": [1, 2]}, "4 words, but 2 heads"),
    ],
)
def test_what_no_tree_has_is_refused(given, told, served):
    answer = ask(served, sentences=[{"words": ["a"]}, {"words": WORDS, **given}], keep="given")
    assert answer.status_code == 400
    assert answer.json()["detail"].startswith("sentence 2: ")
    assert told in answer.json()["detail"]


@pytest.mark.extended
def test_nulls_give_nothing_and_need_not_be_kept(served):
    words = {"words": WORDS}
    assert ask(served, sentences=[{**words, **FREE}]).json() == ask(served, sentences=[words]).json()


@pytest.mark.extended
def test_what_no_tree_has_is_refused_in_conllu_by_its_line(served):
    answer = ask(served, conllu=rows("____", "____") + rows("21__", "____"), keep="given")
    assert answer.status_code == 400
    assert "conllu:6: sentence #2: the heads of the words 1, 2 form a cycle" in answer.json()["detail"]


@pytest.mark.extended
def test_a_sentence_that_is_too_long_is_refused_before_anybody_looks_for_its_tree(served):
    """The search takes time proportional to the square of the number of words."""
    heads = [*range(3, 1002), None, None]  # these arcs cross
    conllu = "".join(f"{n}\ta\t_\t_\t_\t_\t{head or '_'}\t_\t_\t_\n" for n, head in enumerate(heads, 1))
    for given in ({"sentences": [{"words": ["a"] * 1001, "heads": heads}]}, {"conllu": f"{conllu}\n"}):
        answer = ask(served, **given, keep="given")
        assert (answer.status_code, "sentence #1 has 1,001 words" in answer.text) == (413, True)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("wanted", "status", "told"),
    [
        ({"alternatives": 2}, 400, "alternatives need a model with a scorer of arcs"),
        ({"at_most_one": ["x"]}, 400, "at most one 'x': the model knows no such label"),
        ({"not_root": ["x"]}, 400, "not root 'x': the model knows no such UPOS"),
        ({"alternatives": 11}, 422, "body.alternatives: "),
        ({"keep": "all"}, 422, "body.keep: "),
        ({"non_projective": "given"}, 422, 'add "keep": "given"'),
        ({"sentences": [{"words": ["a"], "heads": [0]}]}, 422, 'add "keep": "given"'),
        ({"sentences": [{"words": ["a"], "labels": ["x"]}]}, 422, 'add "keep": "given"'),
        ({"sentences": [{"words": ["a"], "heads": [True]}], "keep": "given"}, 422, ".sentences.0.heads.0"),
        ({"sentences": None, "texts": ["a"], "keep": "given"}, 422, "texts have no heads"),
    ],
)
def test_what_can_not_be_kept_is_refused(wanted, status, told, served):
    answer = ask(served, **{"sentences": [{"words": WORDS}], **wanted})
    assert (answer.status_code, told in answer.json()["detail"]) == (status, True), answer.text
