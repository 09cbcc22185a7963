import pytest

from parser.speed.reporting.document import Heading, Picture, Section, Table, write_document


@pytest.mark.parametrize("name", ["plain", "a/b", "with blanks, and more", "../above"])
def test_a_picture_of_any_name_is_written_and_shown(tmp_path, name):
    write_document("Report", ["Text.", Picture(name, "<svg/>")], tmp_path)
    [file] = (tmp_path / "plots").iterdir()
    assert file.read_text() == "<svg/>"
    assert f"![{name}](plots/{file.name})\n" in (tmp_path / "report.md").read_text()
    assert " " not in file.name
    assert "<svg/>" in (tmp_path / "report.html").read_text()


def test_a_section_tells_what_it_has():
    empty, full = Table(("a",), []), Table(("a",), [["1"]])
    section = Section("Title", {"plot": "<svg/>"}, [empty, full], "Text.", ["step at 8: skipped."])
    picture = Picture("plot", "<svg/>")
    assert section.parts == [Heading(2, "Title"), "Text.", picture, full, "step at 8: skipped."]
    assert Section("Title", {}, [empty]).parts == [Heading(2, "Title")]


def test_code_and_notes(tmp_path):
    parts = [Heading(2, "`a`"), "Of `b<c`, and ` alone.", Table(("`d`",), [["`e|f`"]], "What `d` means.")]
    write_document("Report", parts, tmp_path)
    page = (tmp_path / "report.html").read_text()
    for expected in (
        "<h2><code>a</code></h2>",
        "<p>Of <code>b&lt;c</code>, and ` alone.</p>",
        "<p>What <code>d</code> means.</p>\n<table><tr><th><code>d</code></th></tr>",
        "<td><code>e|f</code></td>",
    ):
        assert expected in page
    text = (tmp_path / "report.md").read_text()
    assert "What `d` means.\n\n| `d` |\n| --- |\n| `e\\|f` |\n" in text
