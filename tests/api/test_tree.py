"""Trees as text, as pictures and in CoNLL-U."""

import xml.etree.ElementTree as ElementTree

from hypothesis import given
from hypothesis import strategies as st
from plain_parser import projective_trees

from parser.api.tree import Tree
from parser.pages.drawing import arc_heights

FOX = Tree(
    words=("The", "quick", "fox", "jumps", "over", "<it>", "."),
    heads=(3, 3, 4, 0, 6, 4, 4),
    labels=("det", "amod", "nsubj", "root", "case", "obl", "punct"),
)


def test_a_drawing_in_text():
    assert str(FOX).splitlines() == [
        "╭─────► The    det",
        "│   ╭─► quick  amod",
        "╰─┬─┴─► fox    nsubj",
        "╭─┼──── jumps  root (root)",
        "│ │ ╭─► over   case",
        "│ ╰─┴─► <it>   obl",
        "╰─────► .      punct",
    ]
    assert str(Tree(("Go",), (0,), ("root",))) == "  Go  root (root)"


def test_a_picture_has_all_words_and_labels():
    picture = ElementTree.fromstring(FOX._repr_svg_())
    texts = [text.text for text in picture.iter("{http://www.w3.org/2000/svg}text")]
    assert sorted(texts) == sorted([*FOX.words, *FOX.labels])
    width, height = float(picture.get("width")), float(picture.get("height"))
    for text in picture.iter("{http://www.w3.org/2000/svg}text"):
        assert 0 < float(text.get("x")) < width
        assert 0 < float(text.get("y")) <= height
    assert "nsubj(jumps, fox)" in picture.get("aria-label")


@given(st.integers(1, 6).flatmap(lambda length: st.sampled_from(list(projective_trees(length)))))
def test_arcs_of_a_projective_tree_do_not_touch(heads):
    heights = arc_heights(heads)
    arcs = [
        (min(head, word), max(head, word), heights[word - 1]) for word, head in enumerate(heads, 1) if head
    ]
    for first, last, height in arcs:
        assert height > 0
        for other_first, other_last, other_height in arcs:
            if max(first, other_first) < min(last, other_last) and (first, last) != (other_first, other_last):
                assert height != other_height  # they overlap
    tree = Tree(tuple("abcdef"[: len(heads)]), heads, ("x",) * len(heads))
    assert len(str(tree).splitlines()) == len(heads)
    assert str(tree).count("►") == len(heads) - 1


def test_conllu():
    tree = Tree(("Go", "!"), (0, 1), ("root", "punct"), upos=("VERB", "PUNCT"), probabilities=(1.0, 0.25))
    assert tree.to_conllu() == (
        "1\tGo\t_\tVERB\t_\t_\t0\troot\t_\tArcProbability=1.0000\n"
        "2\t!\t_\tPUNCT\t_\t_\t1\tpunct\t_\tArcProbability=0.2500\n\n"
    )
