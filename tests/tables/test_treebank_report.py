"""The report of a table of treebanks: averages, standard errors, published results, and the picture."""

import json
from pathlib import Path

import pytest

from parser.models.model_card import OF_TEXT, OF_TOKENS
from parser.tables.treebank_report import (
    LAS,
    Column,
    ReportLine,
    TreebankScore,
    read_published,
    write_treebank_report,
)

UDPIPE = Path("docs/measurements/accuracy/udpipe-ud-2.5.json")
TEXT, TOKENS = Column(OF_TEXT, LAS), Column(OF_TOKENS, LAS)
OTHERS = Column(OF_TOKENS, LAS, "Other 1")


def line(name, words, **scores):
    columns = {"text": TEXT, "tokens": TOKENS, "others": OTHERS}
    own = {columns[key]: score for key, score in scores.items()}
    return ReportLine(f"UD_Toy-{name}", words, own, 1.5, None, "CC0")


score = TreebankScore
LINES = [
    line("Large", 20_000, text=score(80.0), tokens=score(90.0, 0.3), others=score(88.0)),
    line("Small", 900, tokens=score(50.0, 0.4)),
    line("Middle", 9_000, text=score(60.0), tokens=score(70.0, 1.2), others=score(71.0)),
]


def rows_of(report):
    lines = [line.split("|")[1:-1] for line in report.read_text().splitlines() if line[:1] == "|"]
    return [[cell.strip() for cell in line] for line in lines]


def written(folder, lines=LINES):
    return write_treebank_report("Toys", lines, {}, {}, folder)


def test_lines_are_ordered_by_size_and_averages_say_of_how_many(tmp_path):
    header, _, *rows = rows_of(written(tmp_path))
    assert header[1:5] == ["words of train", "raw text: LAS", "gold tokens: LAS", "gold tokens: LAS, Other 1"]
    assert [row[:5] for row in rows] == [
        ["UD_Toy-Small", "900", "", "50.00 ± 0.40", ""],
        ["UD_Toy-Middle", "9,000", "60.00", "70.00 ± 1.20", "71.00"],
        ["UD_Toy-Large", "20,000", "80.00", "90.00 ± 0.30", "88.00"],
        # The error of a mean of independent scores: the root of the sum of the squares, over their number.
        ["average (3)", "", "70.00", "70.00 ± 0.43", "79.50"],
        ["average, below 10,000 words (2)", "", "60.00", "60.00 ± 0.63", "71.00"],
        ["average, with Other 1 (2)", "", "70.00", "80.00 ± 0.62", "79.50"],
    ]


def test_the_picture_has_a_panel_for_whatever_is_given_and_names_all(tmp_path):
    written(tmp_path)
    picture = (tmp_path / "plots" / "las-over-words.svg").read_text()
    for text in ("LAS, from raw text", "LAS, from gold tokens", "Other 1, as published", "words of train"):
        assert text in picture
    assert picture.count("Toy-Small") == 1  # it has no score of raw text
    assert picture.count("Toy-Middle") == picture.count("Toy-Large") == 2
    assert "las-over-words.svg" in (tmp_path / "report.md").read_text()
    assert "LAS, from raw text" in (tmp_path / "report.html").read_text()


def test_many_points_have_no_names(tmp_path):
    written(tmp_path, [line(f"Number{i}", 1000 + i, tokens=score(50.0 + i, 0.5)) for i in range(30)])
    picture = (tmp_path / "plots" / "las-over-words.svg").read_text()
    assert "Number" not in picture
    assert "LAS, from gold tokens" in picture


def test_nothing_is_drawn_of_nothing(tmp_path):
    report = written(tmp_path, []).read_text()
    assert "svg" not in report
    assert not list((tmp_path / "plots").iterdir())


def test_what_udpipes_authors_publish():
    published = read_published(UDPIPE)
    assert published.las("UD_English-EWT", OF_TEXT) == 77.0
    assert published.las("UD_Wolof-WTB", OF_TOKENS) == 72.5
    assert published.las("UD_Ancient_Greek-PTNK", OF_TOKENS) is None
    assert len(published.scores) == 94
    assert all(len(own) == 3 for own in published.scores.values())


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": {"UD_Toy-One": {"raw text": {"las": 101}}}}, "las: .*less than or equal to 100"),
        ({"scores": {"UD_Toy-One": {"text": {"las": 50}}}}, "'raw text', 'gold tokens'"),
        ({"name": ""}, "name: "),
        ({"more": 1}, "more: unknown key"),
    ],
)
def test_a_faulty_file_is_told(tmp_path, change, message):
    path = tmp_path / "published.json"
    path.write_text(json.dumps({"name": "Other 1", "source": "here", "scores": {}} | change))
    with pytest.raises(ValueError, match=rf"published\.json: .*{message}"):
        read_published(path)
