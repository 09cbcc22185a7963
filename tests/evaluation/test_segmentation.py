"""Errors in the segmentation of raw text: small examples, and plain counts."""

import io

from evaluation.test_text_scores import segmented
from hypothesis import given
from hypothesis import strategies as st

from parser.evaluation.parsed_text import gold_text
from parser.evaluation.report import text_report
from parser.evaluation.segmentation import (
    DIVIDED,
    FALSE_END,
    FALSE_WORDS,
    JOINED,
    KINDS,
    MISSED_END,
    MISSED_WORDS,
    OTHER_WORDS,
    segmentation_errors,
)
from parser.evaluation.text_scores import score_text
from parser.treebank.conllu import blocks, parse_block


def text_of(content):
    """A text. content: sentences in lines; words of multiword tokens as in "du=de+le"."""
    lines = []
    for name, sentence in enumerate(content.splitlines(), 1):
        lines.append(f"# sent_id = s{name}\n")
        number = 0
        for token in sentence.split():
            form, _, divided = token.partition("=")
            words = divided.split("+") if divided else [form]
            if divided:
                lines.append(f"{number + 1}-{number + len(words)}\t{form}" + "\t_" * 8 + "\n")
            for word in words:
                number += 1
                head = f"{number - 1}\t{'root' if number == 1 else 'dep'}"
                lines.append(f"{number}\t{word}\t_\tX\t_\t_\t{head}\t_\t_\n")
        lines.append("\n")
    read = [parse_block(block, tree=True) for block in blocks(io.StringIO("".join(lines)))]
    return gold_text(read)


def errors_of(gold, parsed):
    """The errors of each kind, what they are out of, and the texts of the examples."""
    rows = segmentation_errors(text_of(gold), text_of(parsed)).rows()
    return {kind: (errors, of, [one.text for one in examples]) for kind, errors, of, examples in rows}


def test_missed_ends_of_sentences():
    found = errors_of("a b .\nc d !\ne f\ng .\nh", "a b . c d ! e f g .\nh")
    assert found == {
        f"{MISSED_END} after a full stop": (1, 2, ["a b .|c d !"]),
        f"{MISSED_END} after another mark": (1, 1, ["c d !|e f g"]),
        f"{MISSED_END} without a mark": (1, 1, ["! e f|g . h"]),
        f"{FALSE_END} after a full stop": (0, 1, []),
        JOINED: (0, 10, []),
        DIVIDED: (0, 10, []),
    }


def test_false_ends_of_sentences():
    found = errors_of("Mr. B ; c d .", "Mr.\nB ;\nc\nd .")
    assert found[f"{FALSE_END} after a full stop"] == (1, 1, ["Mr.|B ; c"])
    assert found[f"{FALSE_END} after another mark"] == (1, 1, ["Mr. B ;|c d ."])
    assert found[f"{FALSE_END} without a mark"] == (1, 1, ["B ; c|d ."])
    assert f"{MISSED_END} after a full stop" not in found


def test_joined_and_divided_tokens():
    found = errors_of("can not go\nhome", "cannot g o\nhome")
    assert found[JOINED] == (1, 3, ["can|not go home"])
    assert found[DIVIDED] == (1, 3, ["can not g|o home"])


def test_multiword_tokens():
    found = errors_of("du=de+le des=de+les aux=à+les la", "du des=De+les aux=a+les la=l+a")
    assert found[MISSED_WORDS] == (1, 3, ["de le → du"])
    assert found[FALSE_WORDS] == (1, 3, ["la → l a"])
    assert found[OTHER_WORDS] == (1, 2, ["à les → a les"])
    assert MISSED_WORDS not in errors_of("du=de+le", "d u")  # the token itself was not found


def test_examples_name_their_sentences_and_the_report_all_kinds():
    scores = score_text(text_of("a .\nb c .\nd"), text_of("a .\nb\nc . d"))
    examples = scores.segmentation.errors.examples
    assert [(one.identifier, one.sentence) for each in examples.values() for one in each] == [
        ("s2", 1),
        ("s2", 1),
    ]
    lines = text_report(scores)
    assert f"  {MISSED_END + ' after a full stop':<40}     1  of 2" in lines
    segmentation = scores.as_dict()["segmentation"]
    assert segmentation[f"{FALSE_END} without a mark"] == {"errors": 1, "of": 1}
    told = scores.as_dict(examples=True)["segmentation"][f"{FALSE_END} without a mark"]["examples"]
    assert told == [{"text": "a . b|c . d", "sentence": 1, "identifier": "s2", "line": 5}]


@given(st.data())
def test_counts_are_those_of_plain_sets(data):
    characters = data.draw(st.text("abAB.", min_size=1, max_size=20))
    sides = [io.StringIO(data.draw(segmented(characters)), newline="\n") for _ in range(2)]
    gold, parsed = (gold_text([parse_block(block, tree=True) for block in blocks(side)]) for side in sides)
    found = segmentation_errors(gold, parsed)
    errors = {kind: found.errors.counts[kind,] for kind in KINDS}
    assert {kind for (kind,) in found.errors.counts} <= {*KINDS}
    for name, spans, others in (
        (MISSED_END, gold.sentences, parsed.sentences),
        (FALSE_END, parsed.sentences, gold.sentences),
        (JOINED, gold.tokens, parsed.tokens),
        (DIVIDED, parsed.tokens, gold.tokens),
    ):
        own = {end for _, end in spans} - {len(characters)}
        wrong = own - {end for _, end in others}
        assert sum(errors[kind] for kind in KINDS if kind.startswith(name)) == len(wrong)
        assert sum(found.possible[kind] for kind in KINDS if kind.startswith(name)) == len(own)
    if not any(errors.values()):
        assert score_text(gold, parsed).percent("words") == 100
