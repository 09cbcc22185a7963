"""Enhanced dependencies are learned from any treebank: label by label, path by path, and always rooted."""

import json
import os
import subprocess
import sys
from functools import cache
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parser.enhanced.graph import cut_off, given_edges
from parser.enhanced.transducer import Transducer
from parser.enhanced.tree import AnnotatedTree
from parser.treebank.conllu import read_treebank

PLACES = {"in": "cities", "at": "homes", "on": "hills"}
PEOPLE = "dogs", "cats", "birds"


def row(number, form, lemma, upos, head, label, deps, feats="_"):
    return f"{number}\t{form}\t{lemma}\t{upos}\t_\t{feats}\t{head}\t{label}\t{deps}\t_"


def place(number, preposition, noun, head, conjunct=False):
    """`in cities` as a dependent of a verb, or of the place before."""
    label, own = (
        ("conj", f"{head}:conj:and|2:obl:{preposition}") if conjunct else ("obl", f"{head}:obl:{preposition}")
    )
    return [
        row(number, preposition.title(), preposition, "ADP", number + 1, "case", f"{number + 1}:case"),
        row(number + 1, noun, noun, "NOUN", head, label, own),
    ]


def sentences():
    """Prepositions, conjuncts that share a head, subjects of open complements, and relative pronouns."""
    for person, (preposition, noun) in product(PEOPLE, PLACES.items()):
        subject = row(1, person, person, "NOUN", 2, "nsubj", "2:nsubj")
        sleeps = row(2, "sleep", "sleep", "VERB", 0, "root", "0:root")
        yield [subject, sleeps, *place(3, preposition, noun, 2)]
        coordinator = row(5, "and", "and", "CCONJ", 7, "cc", "7:cc")
        yield [
            *(subject, sleeps, *place(3, preposition, noun, 2), coordinator),
            *place(6, preposition, "rivers", 4, conjunct=True),
        ]
        yield [
            row(1, person, person, "NOUN", 2, "nsubj", "2:nsubj|4:nsubj:xsubj"),
            row(2, "want", "want", "VERB", 0, "root", "0:root"),
            row(3, "to", "to", "PART", 4, "mark", "4:mark"),
            row(4, "sleep", "sleep", "VERB", 2, "xcomp", "2:xcomp"),
        ]
        yield [
            row(1, person, person, "NOUN", 4, "nsubj", "3:nsubj|4:nsubj"),
            row(2, "that", "that", "PRON", 3, "nsubj", "1:ref", "PronType=Rel"),
            row(3, "bark", "bark", "VERB", 1, "acl:relcl", "1:acl:relcl"),
            row(4, "sleep", "sleep", "VERB", 0, "root", "0:root"),
        ]


def write(path, rows):
    path.write_text("".join("\n".join(each) + "\n\n" for each in rows), encoding="utf-8")
    return read_treebank(str(path))


@pytest.fixture
def treebank(tmp_path):
    return write(tmp_path / "train.conllu", [*sentences()] * 3)


def graph_of(transducer, sentence):
    return transducer(AnnotatedTree.of(sentence, sentence.heads, sentence.labels))


def as_given(sentence):
    return [{(int(head), label) for head, label in edges} for edges in given_edges(sentence)]


def test_graphs_of_train_are_found_again(treebank):
    transducer = Transducer.learned(treebank)
    for sentence in treebank:
        assert [{*edges} for edges in graph_of(transducer, sentence)] == as_given(sentence)


def test_the_same_is_learned_in_each_process(treebank, tmp_path):
    program = (
        "from parser.enhanced.transducer import Transducer\n"
        "from parser.treebank.conllu import read_treebank\n"
        f"print(Transducer.learned(read_treebank({str(tmp_path / 'train.conllu')!r})).as_json())"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program],
            env={**os.environ, "PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_words_that_train_lacks_have_the_labels_of_their_own_prepositions(treebank, tmp_path):
    [new] = write(
        tmp_path / "new.conllu",
        [
            [
                row(1, "foxes", "fox", "NOUN", 2, "nsubj", "_"),
                row(2, "dig", "dig", "VERB", 0, "root", "_"),
                *place(3, "under", "trees", 2),
                row(5, "and", "and", "CCONJ", 7, "cc", "_"),
                *place(6, "beyond", "fences", 4, conjunct=True),
            ]
        ],
    )
    graph = graph_of(Transducer.learned(treebank), new)
    assert graph[3] == [(2, "obl:under")]
    assert graph[6] == [(2, "obl:beyond"), (4, "conj:and")]


def test_what_labels_can_not_hold_is_left_out(treebank, tmp_path):
    """Lemmas may contain anything, and DEPS only letters."""
    [new] = write(
        tmp_path / "new.conllu",
        [[row(1, "sleep", "sleep", "VERB", 0, "root", "_"), *place(2, "a|b:c 1", "trees", 1)]],
    )
    assert graph_of(Transducer.learned(treebank), new)[2] == [(1, "obl")]


def test_cases_augment_labels_where_train_has_that(tmp_path):
    rows = [
        [
            row(1, noun, noun, "NOUN", 2, "nmod", f"2:nmod:{case.lower()}", f"Case={case}|Number=Sing"),
            row(2, "namas", "namas", "NOUN", 0, "root", "0:root"),
        ]
        for noun, case in product("abcdef", ("Gen", "Loc", "Ins"))
    ]
    treebank = write(tmp_path / "cases.conllu", rows)
    transducer = Transducer.learned(treebank)
    assert transducer.augmenter.keys == ("Case",)
    assert all([{*edges} for edges in graph_of(transducer, one)] == as_given(one) for one in treebank)


def test_a_treebank_without_graphs_teaches_nothing(tmp_path):
    assert (
        Transducer.learned(write(tmp_path / "bare.conllu", [[row(1, "go", "go", "VERB", 0, "root", "_")]]))
        is None
    )


@cache
def of_all():
    with TemporaryDirectory() as folder:
        return Transducer.learned(write(Path(folder) / "train.conllu", [*sentences()] * 3))


@st.composite
def trees(draw):
    """Trees of any shape with the labels and words of the treebank."""
    size = draw(st.integers(1, 8))
    order = draw(st.permutations(range(1, size + 1)))
    heads = {order[0]: 0}
    for number, word in enumerate(order[1:], 1):
        heads[word] = draw(st.sampled_from(order[:number]))
    labels = ["acl:relcl", "xcomp", "conj", "nsubj", "obl", "case", "cc", "mark"]
    rows = []
    for word in range(1, size + 1):
        label = "root" if heads[word] == 0 else draw(st.sampled_from(labels))
        lemma, upos = (
            draw(st.sampled_from(["that", "dogs", "in", "sleep"])),
            draw(st.sampled_from(["PRON", "NOUN", "VERB"])),
        )
        feats = draw(st.sampled_from(["PronType=Rel", "_"]))
        rows.append((lemma, upos, feats, heads[word], label))
    return rows


@given(trees())
def test_each_word_is_reached_from_the_root_and_each_edge_is_valid(rows):
    columns = list(zip(*rows, strict=True))
    lemmas, upos, feats, heads, labels = columns
    tree = AnnotatedTree(
        ["", *lemmas], ["", *lemmas], ["ROOT", *upos], ["_", *feats], [0, *heads], ["ROOT", *labels]
    )
    graph = of_all()(tree)
    assert cut_off(graph) == []
    for word, edges in enumerate(graph, 1):
        assert edges == sorted(edges)
        assert edges
        assert len({head for head, _ in edges}) == len(edges)
        assert all(head != word and 0 <= head <= len(rows) for head, _ in edges)
        assert all("|" not in label and label for _, label in edges)


def test_it_is_the_same_after_writing_and_reading(treebank):
    transducer = Transducer.learned(treebank)
    again = Transducer.from_json(transducer.as_json())
    assert again.as_json() == transducer.as_json()
    assert [graph_of(again, one) for one in treebank] == [graph_of(transducer, one) for one in treebank]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"labels": {"nsubj^ xcompv": ["on path 2"]}}, "'on path 2' is no label of an edge by the path"),
        ({"labels": {"nsubj^ xcompv": ["anything"]}}, "'anything' is no label"),
        ({"labels": {"nsubj^ xcompv": ["label a\tb"]}}, "cannot be printed"),
        ({"labels": {"nsubj": ["left out"]}}, "'nsubj' is no path"),
        ({"weights_of_edges": {"no edge": "much"}}, "weights_of_edges"),
        ({"other": 1}, "other"),
    ],
)
def test_broken_files_are_refused(treebank, change, message):
    content = json.loads(Transducer.learned(treebank).as_json())
    with pytest.raises(ValueError, match=message):
        Transducer.from_json(json.dumps({**content, **change}))
