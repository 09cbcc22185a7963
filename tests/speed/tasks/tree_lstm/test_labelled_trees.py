from pathlib import Path

import pytest

from parser.speed.tasks.tree_lstm.tree_lstm_plugin import LabelledTree, parse_tree, read_labelled_trees


def test_a_tree() -> None:
    tree = parse_tree("(3 (2 It) (4 (2 works) (1 .)))")
    assert tree == LabelledTree(["It", "works", "."], [2, 2, 1, 4, 3], [1, 0], [2, 3])
    assert parse_tree("(2 word)") == LabelledTree(["word"], [2], [], [])
    assert parse_tree("(2 (2 8\xa01\\/2) (2 miles))").words == ["8\xa01\\/2", "miles"]  # only blanks separate


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no tree"),
        ("(2 (2 a) (2 b)", r"1 \( without their \)"),
        ("(2 a))", r"'\)' after the tree's end"),
        ("(2 (2 a))", "a word or two nodes, not 1 things"),
        ("(2 (2 a) (2 b) (2 c))", "a word or two nodes, not 3 things"),
        ("(2 (2 a) b)", "a word or two nodes, not 2 things"),
        ("(x a)", "its label, a number, not by 'x'"),
        ("word", "'word' where a tree must begin"),
    ],
)
def test_what_is_no_binary_tree(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_tree(text)


def test_a_file_of_trees_and_the_lines_of_its_errors(tmp_path: Path) -> None:
    path = tmp_path / "trees.txt"
    path.write_text("\ufeff(2 one)\n\n(1 two)\n", encoding="utf-8")
    assert [tree.words for tree in read_labelled_trees(path)] == [["one"], ["two"]]
    for content, message in (("\n", "trees.txt: no trees"), ("(2 fine)\n(2 not fine)\n", "trees.txt:2: ")):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(ValueError, match=message):
            read_labelled_trees(path)
