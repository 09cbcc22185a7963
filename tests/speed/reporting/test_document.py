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
