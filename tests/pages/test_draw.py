"""`stack-parser draw`."""

import gzip
import io
import os
import sys

import pytest
from pages.small_trees import ALL, CATS, DOGS, GOLD, GOLD_DOGS
from plain_parser import projective_trees

from parser.cli import main
from parser.pages.drawing import as_svg, as_text, columns


@pytest.fixture
def files(tmp_path, monkeypatch):
    """A folder with parsed and gold trees, in which the command runs."""
    (tmp_path / "parsed.conllu").write_text(ALL, encoding="utf-8")
    (tmp_path / "gold.conllu").write_text(GOLD, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_a_page_is_written(files, capsys):
    assert main(["draw", "parsed.conllu", "-o", "trees.html"]) == 0
    assert capsys.readouterr().err == "trees.html: 5 trees\n"
    assert "<title>Trees of parsed.conllu</title>" in (files / "trees.html").read_text(encoding="utf-8")
    assert main(["draw", "parsed.conllu", "--gold", "gold.conllu", "-o", "compared.html"]) == 0
    assert '"scores"' in (files / "compared.html").read_text(encoding="utf-8")
    assert main(["draw", "parsed.conllu", "-o", "-"]) == 0
    assert capsys.readouterr().out == (files / "trees.html").read_text(encoding="utf-8")


def test_no_file_is_written_that_nobody_named(files, capsys):
    before = sorted(os.listdir(files))
    assert main(["draw", "parsed.conllu"]) == 2
    assert "a page needs a name, such as -o trees.html; --text draws" in capsys.readouterr().err
    assert sorted(os.listdir(files)) == before


def test_drawings_in_text(files, capsys):
    assert main(["draw", "parsed.conllu", "--text"]) == 0
    assert capsys.readouterr().out.startswith(
        "# sent_id = dogs\n"
        "# text = Dogs bark loudly\n"
        "╭─┬─► Dogs    obl\n"
        "│ ╰── bark    root (root)\n"
        "╰───► loudly  advmod\n"
        "\n"
        "# sent_id = cats\n"
    )


def test_drawings_in_text_tell_what_gold_says(files, capsys):
    assert main(["draw", "parsed.conllu", "--gold", "gold.conllu", "--text", "-o", "trees.txt"]) == 0
    lines = (files / "trees.txt").read_text(encoding="utf-8").splitlines()
    assert lines[2] == "# UAS 66.67, LAS 33.33"
    notes = [line.partition("✗ ")[2] for line in lines[3:6]]
    assert notes == ["gold: nsubj of bark", "", "gold: advmod of bark"]
    assert sum("✗" in line for line in lines) == 2
    assert capsys.readouterr().out == ""


def test_enhanced_dependencies_follow_their_words_in_text(files, capsys):
    def drawn(deps):
        lines = [line.split("\t") for line in CATS.rstrip().split("\n")]
        text = "\n".join(
            "\t".join([*line[:8], deps, line[9]]) if len(line) > 1 else line[0] for line in lines
        )
        (files / "deps.conllu").write_text(f"{text}\n\n", encoding="utf-8")
        assert main(["draw", "deps.conllu", "--text"]) == 0
        return capsys.readouterr().out.splitlines()[2:4]

    plain = ["╭─► Cats   nsubj:pass", "╰── sleep  root (root)"]
    assert drawn("2:nsubj:pass|0:ref") == ["╭─► Cats   nsubj:pass         + ref of ROOT", plain[1]]
    assert drawn("8.1:nsubj") == drawn("99:nsubj") == drawn("unreadable") == drawn("2") == plain


def test_standard_input_and_compressed_files(files, monkeypatch, capsys):
    (files / "gold.conllu.gz").write_bytes(gzip.compress(GOLD_DOGS.encode()))
    for arguments, expected in (
        (["--text", "--gold", "gold.conllu.gz"], "# UAS 66.67, LAS 33.33"),
        (["-o", "-"], "<title>Trees of standard input</title>"),
    ):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(DOGS.encode())))
        assert main(["draw", "-", *arguments]) == 0
        assert expected in capsys.readouterr().out


def test_control_characters_do_not_reach_the_terminal(files, capsys):
    (files / "bell.conllu").write_text(CATS.replace("Cats", "Cats\x1b[2J"), encoding="utf-8")
    assert main(["draw", "bell.conllu", "--text"]) == 0
    printed = capsys.readouterr().out
    assert "\x1b" not in printed
    assert "Cats�[2J" in printed


@pytest.mark.parametrize(("name", "shown"), [(b"<b>&.conllu", "&lt;b&gt;&amp;"), (b"\xff.conllu", "?")])
def test_files_may_have_any_name(files, name, shown):
    (files / "parsed.conllu").rename(files / os.fsdecode(name))
    assert main(["draw", os.fsdecode(name), "-o", "trees.html"]) == 0
    assert f"<title>Trees of {shown}.conllu</title>" in (files / "trees.html").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["-", "--gold", "-"], "standard input cannot be both FILE and --gold"),
        (["parsed.conllu", "--gold", "cats.conllu"], "cats.conllu:1: sentence cats: word 1 is 'Cats', but"),
        (["empty.conllu"], "empty.conllu: no sentences"),
        (["missing.conllu"], "missing.conllu: No such file or directory"),
        (["rootless.conllu"], "rootless.conllu:2: sentence cats: no word has HEAD 0"),
    ],
)
def test_what_can_not_be_drawn(files, capsys, arguments, message):
    (files / "cats.conllu").write_text(CATS, encoding="utf-8")
    (files / "rootless.conllu").write_text(CATS.replace("\t0\troot", "\t1\troot"), encoding="utf-8")
    (files / "empty.conllu").write_text("", encoding="utf-8")
    assert main(["draw", *arguments, "-o", "trees.html"]) == 2
    assert message in capsys.readouterr().err
    assert not (files / "trees.html").exists()
    assert (files / "parsed.conllu").read_text(encoding="utf-8") == ALL


def test_several_roots(files, capsys):
    (files / "roots.conllu").write_text(CATS.replace("\t2\tnsubj:pass", "\t0\troot"), encoding="utf-8")
    assert main(["draw", "roots.conllu", "--text"]) == 2
    assert main(["draw", "roots.conllu", "--text", "--roots", "attach-to-first"]) == 0
    assert "sleep  dep" in capsys.readouterr().out


def test_words_of_wide_and_combining_characters_are_aligned():
    assert [columns(word) for word in ("ab", "日本", "e\u0301", "\uff46")] == [2, 4, 1, 2]
    drawing = as_text(["日本", "e\u0301", "abc"], [0, 1, 1], ["root", "dep", "dep"])
    assert drawing.splitlines() == ["╭─┬── 日本  root (root)", "│ ╰─► e\u0301     dep", "╰───► abc   dep"]


@pytest.mark.parametrize("length", range(1, 7))
def test_different_projective_trees_have_different_drawings_in_text(length):
    trees = projective_trees(length)
    assert len({as_text(["a"] * length, heads, ["dep"] * length) for heads in trees}) == len(trees)


@pytest.mark.parametrize(
    ("words", "heads"),
    [
        (["a"] * 5_000, [0, *[1] * 4_999]),  # long arcs
        (["a"] * 5_000, [2, 0, *range(1, 4_999)]),  # short arcs, each higher than the previous one
        (["a" * 500_000, *["b"] * 9], [0, *[1] * 9]),
    ],
    ids=["flat", "crossing arcs", "a long word"],
)
def test_a_drawing_in_text_is_bounded(words, heads):
    drawing = as_text(words, heads, ["dep"] * len(words))
    assert drawing.startswith(f"({len(words):,} words: ")
    assert len(drawing) < 200


def test_notes_and_descriptions_name_long_heads_in_short(files):
    long, others = "x" * 100_000, 30
    rows = [f"1\t{long}\t_\tX\t_\t_\t0\troot\t_\t_\n"]
    rows += [f"{word}\ty\t_\tX\t_\t_\t1\tdep\t_\t_\n" for word in range(2, others)]
    (files / "gold.conllu").write_text("".join(rows) + "\n")
    (files / "parsed.conllu").write_text("".join(rows).replace("\t1\tdep", "\t1\tobj") + "\n")
    assert main(["draw", "parsed.conllu", "--gold", "gold.conllu", "--text", "-o", "trees.txt"]) == 0
    assert (files / "trees.txt").stat().st_size < 3 * len(long)
    heads = [0, *[1] * (others - 1)]
    assert len(as_svg([long, *["y"] * (others - 1)], heads, ["dep"] * others)) < 4 * len(long)
