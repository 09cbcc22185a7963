"""What commands do with files without a sentence."""

import pytest

from parser.cli import main

MODEL = "tests/model"


@pytest.fixture(params=["", "\n\n", "\ufeff\n"], ids=["empty", "blank lines", "byte-order mark"])
def empty(request, tmp_path):
    path = tmp_path / "empty.conllu"
    path.write_text(request.param)
    return str(path)


@pytest.mark.parametrize("options", [[], ["--tokenized"], ["--processes", "2"]])
def test_parsing_nothing_gives_nothing(empty, options, tmp_path, capsys):
    out = tmp_path / "out.conllu"
    assert main(["parse", MODEL, empty, "-o", str(out), *options]) == 0
    assert out.read_bytes() == b""
    assert capsys.readouterr() == ("", f"warning: {empty}: no sentences\n")


@pytest.mark.parametrize(
    "command",
    [
        ["check"],
        ["draw", "--text"],
        ["draw", "-o", "never.html"],
        ["evaluate", MODEL],
        ["evaluate", MODEL, "--processes", "2"],
        ["compare", MODEL, MODEL],
    ],
    ids=" ".join,
)
def test_nothing_has_no_trees_and_no_scores(empty, command, capsys):
    assert main([*command, empty]) == 2
    assert capsys.readouterr() == ("", f"{empty}: no sentences\n")
