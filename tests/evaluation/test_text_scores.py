"""Scores of raw text, compared with those of the shared task's scorer."""

import io
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from udtools.udeval import evaluate, load_conllu

from parser.evaluation.measures import TEXT_MEASURES
from parser.evaluation.parsed_text import gold_text
from parser.evaluation.text_scores import score_text
from parser.treebank.conllu import blocks, parse_block

LABELS = ["nsubj", "obj:agent", "case", "punct", "root", "det"]
TAGS = ["NOUN", "VERB"]
FEATURES = ["_", "Case=Nom|Foo=Bar", "Case=Nom", "Number=Sing"]


def read(text):
    return [parse_block(block, tree=True) for block in blocks(io.StringIO(text, newline="\n"))]


def scores_of(gold, found):
    """Our scores, and those of the shared task's scorer."""
    scores = score_text(gold_text(read(gold)), gold_text(read(found)))
    ours = {measure: scores.percent(measure) for measure in TEXT_MEASURES}
    if scores.enhanced.gold:
        ours |= {"elas": scores.enhanced.elas, "eulas": scores.enhanced.eulas}
    theirs = evaluate(
        load_conllu(io.StringIO(gold), "gold", {}), load_conllu(io.StringIO(found), "found", {})
    )
    names = TEXT_MEASURES | {name: name.upper() for name in ("elas", "eulas") if name in ours}
    return ours, {measure: 100 * theirs[name].f1 for measure, name in names.items()}


@st.composite
def segmented(draw, characters):
    """A text in CoNLL-U: any sentences, tokens, multiword tokens and trees."""
    lines, start = [], 0
    while start < len(characters):
        end = draw(st.integers(start + 1, min(len(characters), start + 8)))
        lines += draw(sentence_of(characters[start:end]))
        start = end
    return "".join(lines)


@st.composite
def sentence_of(draw, characters):
    tokens, start = [], 0
    while start < len(characters):
        end = draw(st.integers(start + 1, min(len(characters), start + 4)))
        words = draw(st.lists(st.sampled_from(["a", "B", "ab", "c"]), min_size=0, max_size=3))
        tokens.append((characters[start:end], words if len(words) > 1 else []))
        start = end
    count = sum(len(words) or 1 for _, words in tokens)
    root = draw(st.integers(1, count))
    graphs = st.dictionaries(st.integers(0, count), st.sampled_from(["x", "x:y", "x:z>w", "w"]), max_size=3)
    lines, number = [], 0
    for form, words in tokens:
        if words:
            lines.append(f"{number + 1}-{number + len(words)}\t{form}" + "\t_" * 8 + "\n")
        for word in words or [form]:
            number += 1
            # Heads before the word, or the root: no cycle.
            others = [root, *range(1, number)] if number < root else [root]
            head = 0 if number == root else draw(st.sampled_from(others))
            label = "root" if head == 0 else draw(st.sampled_from(LABELS))
            tags = draw(st.tuples(*map(st.sampled_from, (["x", "_", "y"], TAGS, TAGS, FEATURES))))
            deps = "|".join(f"{other}:{name}" for other, name in sorted(draw(graphs).items())) or "_"
            lines.append("\t".join([str(number), word, *tags, str(head), label, deps, "_"]) + "\n")
    return [*lines, "\n"]


@given(st.data())
def test_scores_are_those_of_the_shared_task(data):
    characters = data.draw(st.text("abAB.", min_size=1, max_size=20))
    ours, theirs = scores_of(data.draw(segmented(characters)), data.draw(segmented(characters)))
    assert ours == pytest.approx(theirs)


def test_a_perfect_parse():
    text = "1-2\tdon't" + "\t_" * 8 + "\n"
    text += "1\tdo\tdo\tAUX\t_\t_\t0\troot\t_\t_\n2\tnot\tnot\tPART\t_\t_\t1\tadvmod\t_\t_\n\n"
    ours, theirs = scores_of(text, text)
    assert ours == theirs == dict.fromkeys(TEXT_MEASURES, 100.0)


def test_an_edge_from_an_empty_node_that_is_missing_is_none():
    gold = "1\ta\t_\tX\t_\t_\t0\troot\t0:root|1.1:x\t_\n\n"
    assert gold_text(read(gold)).edges == [{(-1, "root")}]


def test_a_space_within_a_token_is_no_character():
    gold = "1\t1 000\t_\tNUM\t_\t_\t0\troot\t_\t_\n\n"
    found = "1\t1\t_\tNUM\t_\t_\t0\troot\t_\t_\n2\t000\t_\tNUM\t_\t_\t1\tflat\t_\t_\n\n"
    ours, theirs = scores_of(gold, found)
    assert ours == theirs
    assert ours["words"] == 0


def test_what_a_reader_of_text_takes_for_blank_is_no_character():
    gold = "1\ta\ufeffb\u2028c\t_\tNUM\t_\t_\t0\troot\t_\t_\n\n"
    found = gold.replace("\ufeff", "").replace("\u2028", "")
    assert score_text(*map(gold_text, map(read, (gold, found)))).percent("tokens") == 100


def test_another_text_is_refused_with_the_place():
    gold = read("1\tthe\t_\t_\t_\t_\t2\tdet\t_\t_\n2\tcat\t_\t_\t_\t_\t0\troot\t_\t_\n\n")
    found = [replace(gold[0], lines=tuple(line.replace("cat", "car") for line in gold[0].lines))]
    with pytest.raises(ValueError, match="at token 2 of the treebank, which has 't', the text has 'r'"):
        score_text(gold_text(gold), gold_text(found))
    longer = [*gold, *gold]
    with pytest.raises(ValueError, match="at token 3 of the treebank, which has 'thecat', the text ends"):
        score_text(gold_text(longer), gold_text(gold))
