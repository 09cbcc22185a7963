"""The pages of `evaluate --report` and `compare --report`, in a real browser if there is one."""

import json
import shutil
import sys
from dataclasses import replace

import numpy as np
import pytest
from pages.small_trees import ALL, GOLD, GOLD_CATS, GOLD_DOGS, HOSTILE, parsed, sentence

from parser.cli import main
from parser.commands.evaluate import curves_of
from parser.evaluation.calibration import Confidence
from parser.evaluation.errors import find_errors
from parser.evaluation.known import KnownValues
from parser.evaluation.parsed_text import gold_text
from parser.evaluation.significance import compare
from parser.evaluation.text_scores import score_text
from parser.evaluation.value_errors import NEW_LEMMA
from parser.pages.comparison_page import Parsed, comparison_page
from parser.pages.report_page import ARCS, drawn, report_page
from parser.pages.text_report_page import text_report_page
from parser.parsing.parsed_tree import ParsedTree
from parser.training.record import write_curves
from parser.treebank.conllu import read_treebank
from parser.treebank.conllu_output import with_probabilities

MODEL, TREEBANK = "tests/model", "data/quickstart/dev.conllu"
ONE_SENTENCE = sentence(
    "Dogs NOUN 2 nsubj", "bark VERB 0 root", "loudly ADV 2 advmod", "Cats NOUN 5 nsubj", "sleep VERB 2 conj"
)
SVG = b'<svg xmlns="http://www.w3.org/2000/svg" width="9" height="9"><script>alert(1)</script></svg>'


def trees_of(sentences):
    return [ParsedTree(one.heads, one.labels) for one in sentences]


def confidence(probabilities):
    """The confidences of a right subject and a wrong object."""
    return Confidence(np.array(probabilities, float), np.array([True, False]), np.array(["nsubj", "obj"]))


def test_a_drawn_tree_has_what_the_parser_predicts():
    gold = with_probabilities(parsed(GOLD)[0], [0.5, 0.25, 1])  # of another parser
    tags = {"lemma": ("dog", "bark", "loudly"), "upos": ("NOUN", "NOUN", "ADV")}
    tree = ParsedTree((2, 0, 2), ("nsubj", "root", "advmod"), (1.0, 0.75, 0.5), tags=tags)
    data = drawn(gold, tree)
    assert (data["lemmas"], data["upos"]) == (tags["lemma"], tags["upos"])
    assert data["probabilities"] == (1.0, 0.75, 0.5)
    assert "probabilities" not in drawn(gold, tree._replace(probabilities=None))


@pytest.fixture
def report(tmp_path):
    gold, trees = parsed(GOLD), trees_of(parsed(ALL))
    errors = find_errors(gold, trees, KnownValues("Dogs".__eq__))
    confidences = {
        ARCS: {"before": confidence((1, 0.5)), "calibrated": confidence((0.8, 0))},
        "upos": {"not calibrated": confidence((0.7, 0.2))},
    }
    path = tmp_path / "report.html"
    path.write_text(report_page(HOSTILE, errors, gold, trees, (), SVG, confidences), encoding="utf-8")
    return path


@pytest.fixture
def comparison(tmp_path):
    gold, second = parsed(GOLD), trees_of(parsed(ALL))
    first = [ParsedTree(tuple(max(0, head - 1) for head in tree.heads), tree.labels) for tree in second]
    outputs = {"one": first, "other": second}
    parsers = [
        Parsed(name, find_errors(gold, trees, KnownValues(bool)), trees, "no curves")
        for name, trees in outputs.items()
    ]
    path = tmp_path / "comparison.html"
    page = comparison_page("dogs.conllu", gold, *parsers, compare(gold, first, second), {})
    path.write_text(page, encoding="utf-8")
    return path


def cells(page, heading):
    """The rows of the table below a heading."""
    section = page.locator("section", has=page.get_by_role("heading", name=heading, exact=True))
    rows = [row.locator("th, td").all_inner_texts() for row in section.locator("tbody tr").all()]
    return [[text.strip().lstrip("\u2007") for text in row] for row in rows]


def test_a_report_has_scores_kinds_of_errors_and_trees(open_page, report):
    page = open_page(report)
    scores = {name: value for name, value, _ in cells(page, "Scores")}
    assert (scores["UAS"], scores["LAS"]) == ("92.31", "84.62")
    assert cells(page, "By known and unknown words") == [
        ["in the training treebank", "1", "100.00", "0.00", "50.0 %"],
        ["not in it", "12", "91.67", "91.67", "50.0 %"],
    ]
    assert cells(page, "Labels taken for others") == [["nsubj", "obl", "1", "0", "100.0 %", "Dogs"]]
    assert cells(page, "Heads taken for others, by their tags") == [
        ["VERB", "NOUN", "1", "1", "100.0 %", "loudly"]
    ]
    page.locator(".tree-place").first.focus()  # this scrolls there
    page.locator(".tree-place svg").first.wait_for(state="attached")
    assert page.locator(".tree-place").count() == 1  # the one sentence with errors
    assert page.locator("h1").inner_text() == HOSTILE
    assert page.locator(".picture").evaluate("(picture) => picture.naturalWidth") == 9


def test_a_report_has_wrong_values_with_links_to_their_sentences(open_page, tmp_path):
    gold = parsed(GOLD)
    trees = [
        tree._replace(
            tags={
                "upos": ("NOUN", *one.upos[1:]),
                "feats": ("Case=Nom", *one.feats[1:]),
                "lemma": ("x", *one.forms[1:]),
            }
        )
        for one, tree in zip(gold, trees_of(gold), strict=True)
    ]
    gold = [replace(one, lemmas=one.forms) for one in gold]
    known = KnownValues("abc".__eq__, {"upos": {"NOUN", "ADP"}}, {"abc": {"abc"}})
    errors = find_errors(gold, trees, known)
    path = tmp_path / "report.html"
    predicted = ["upos", "feats", "lemma"]
    path.write_text(report_page("values", errors, gold, trees, predicted, "", {}), encoding="utf-8")
    page = open_page(path)
    assert cells(page, "UPOS taken for others") == [["ADP", "NOUN", "1", "1", "100.0 %", "de"]]
    assert cells(page, "Wrong lemmas, by kind") == [[NEW_LEMMA, "5", "5", "100.0 %", "Dogs · Cats · ،"]]
    assert cells(page, "Wrong features, by attribute") == [["Case", "0", "5", "0", "5"]]
    assert cells(page, "Features taken for others")[0][:4] == ["Case", "none", "Nom", "5"]
    rows = {row[0]: row[1:] for row in cells(page, "Right values")}
    assert rows["UPOS"] == ["", "80.0 of 5", "75.0 of 8"]
    assert ["UPOS", "X", "3", "2"] in [row[:4] for row in cells(page, "Values that training lacks")]
    links = page.locator("td a")
    assert links.count() > 5
    for link in links.all():
        heading = page.locator(link.get_attribute("href")).locator("h3").inner_text()
        assert heading.startswith(f"{link.get_attribute('title')}:")


def test_a_report_of_raw_text_has_the_errors_in_its_segmentation(open_page, tmp_path):
    scores = score_text(gold_text(parsed(GOLD_DOGS + GOLD_CATS)), gold_text(parsed(ONE_SENTENCE)))
    path = tmp_path / "report.html"
    path.write_text(text_report_page("raw", scores), encoding="utf-8")
    page = open_page(path)
    rows = {row[0]: row[1:] for row in cells(page, "Errors in the segmentation")}
    assert rows["missed sentence end without a mark"] == ["1", "1", "100.0 %", "Dogs bark loudly|Cats sleep"]
    assert cells(page, "Scores of the raw text")[1] == ["Sentences", "0.00", "0.00", "0.00"]


@pytest.mark.extended
def test_a_report_says_whether_probabilities_are_shares_of_right_arcs(open_page, report):
    page = open_page(report)
    scores = {name: values for name, *values, _ in cells(page, "Probabilities of arcs")}
    assert scores == {
        "calibration error": ["0.2500", "0.1000"],
        "Brier score": ["0.1250", "0.0200"],
        "area of errors": ["1.0000", "1.0000"],
    }
    assert cells(page, "Calibration error by label") == [
        ["nsubj", "1", "100.0", "0.0000", "0.2000"],
        ["obj", "1", "0.0", "0.5000", "0.0000"],
    ]
    [of_upos] = [row for row in cells(page, "Probabilities of UPOS") if row[0] == "calibration error"]
    assert of_upos[1] == "0.2500"
    assert page.locator(".reliability").count() == 2
    curves = page.locator(".reliability").first.locator("g")
    assert curves.count() == 2
    points = curves.last.locator("circle")
    assert [points.nth(place).get_attribute("cx") for place in (0, 1)] == ["0.0", "192.0"]
    assert [points.nth(place).get_attribute("cy") for place in (0, 1)] == ["240.0", "0.0"]


def report_of_a_treebank(path, curves="no curves"):
    gold = read_treebank(TREEBANK)
    trees = [ParsedTree(tuple(0 if head == 1 else head for head in one.heads), one.labels) for one in gold]
    errors = find_errors(gold, trees, KnownValues(lambda form: len(form) > 3))
    path.write_text(report_page("many", errors, gold, trees, (), curves, {}), encoding="utf-8")
    return path


@pytest.mark.extended
@pytest.mark.parametrize(("width", "columns"), [(400, 1), (800, 1), (1100, 2), (1600, 2)])
def test_cards_fill_the_page_and_clip_nothing(open_page, tmp_path, width, columns):
    path = report_of_a_treebank(tmp_path / "report.html", SVG)
    page = open_page(path, viewport={"width": width, "height": 800})
    assert page.evaluate("document.documentElement.scrollWidth") == width
    widths = page.locator(".wide:has(table)").evaluate_all(
        "(boxes) => boxes.map((box) => [box.scrollWidth, box.clientWidth])"
    )
    assert all(needed <= given for needed, given in widths)
    boxes = [card.bounding_box() for card in page.locator("section:not(:has(.picture, .tree-place))").all()]
    ends = {box["x"]: box["y"] + box["height"] for box in boxes}
    assert len(ends) == columns
    assert [box["y"] for box in boxes].count(boxes[0]["y"]) == columns  # none has an empty place next to it
    assert max(ends.values()) - min(ends.values()) < max(box["height"] for box in boxes)


@pytest.mark.extended
def test_trees_are_drawn_when_they_come_into_view(open_page, tmp_path):
    path = report_of_a_treebank(tmp_path / "report.html")
    page = open_page(path, viewport={"width": 400, "height": 300})
    assert page.locator(".tree-place[data-trees=worst]").count() == 20
    assert page.locator(".tree-place svg").count() == 0
    assert page.evaluate("document.documentElement.scrollWidth") == 400
    last = page.locator(".tree-place").last
    last.focus()
    last.locator("svg").wait_for(state="attached")
    assert "no curves" in page.locator("main").inner_text()


def test_a_comparison_has_both_trees_of_what_changed(open_page, comparison):
    page = open_page(comparison, color_scheme="dark")
    scores = {row[0]: row[1:] for row in cells(page, "Scores")}
    assert scores["UAS"] == ["38.46", "92.31", "+53.85", ""]
    groups = cells(page, "By length of the arc, in words")
    words = sum(int(row[1]) for row in groups)
    assert sum(int(row[5]) for row in groups) == round(float(scores["LAS"][2]) / 100 * words)
    headings = page.locator("h3").all_inner_texts()
    assert headings[0].endswith("A")
    assert headings[1].endswith("fewer errors")
    page.locator(".tree-place").nth(1).focus()  # this scrolls there
    page.locator(".tree-place svg").nth(1).wait_for(state="attached")
    assert cells(page, "Sentences that B parses worse") == []


def test_the_commands_write_pages(reader_of_tags, tmp_path, capsys):
    page = tmp_path / "page.html"
    assert main(["evaluate", MODEL, TREEBANK, "--json"]) == 0
    scores = json.loads(capsys.readouterr().out)
    assert main(["evaluate", MODEL, TREEBANK, "--json", "--report", str(page)]) == 0
    assert json.loads(capsys.readouterr().out) == scores
    assert f"<td>{scores['las']:.2f}</td>" in page.read_text(encoding="utf-8")
    assert main(["compare", MODEL, reader_of_tags, TREEBANK, "--report", str(page)]) == 0
    assert f"<td>{scores['las']:.2f}</td>" in page.read_text(encoding="utf-8")
    figures = tmp_path / "errors.json"
    assert main(["evaluate", MODEL, TREEBANK, "--report", str(figures)]) == 0
    assert json.loads(figures.read_text(encoding="utf-8"))["scores"] == scores
    for place, fault in ((tmp_path, "is a folder; "), (tmp_path / "missing" / "page.html", "")):
        assert main(["evaluate", MODEL, TREEBANK, "--report", str(place)]) == 2
        assert f"{fault}give the name of a file" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="2"):
        main(["evaluate", MODEL, TREEBANK, "--report", "-"])
    assert "standard output cannot be used here; give a name" in capsys.readouterr().err
    assert main(["evaluate", MODEL, TREEBANK, "--report", str(page), "--processes", "2"]) == 2
    assert "leave out --processes" in capsys.readouterr().err


@pytest.mark.extended
def test_a_report_has_the_curves_of_the_run(tmp_path):
    shutil.copytree(MODEL, tmp_path / "model")
    epochs = [{"epoch": 1, "loss": 2.0, "dev_loss": None, "dev_las": 40.0}]
    epochs.append({"epoch": 2, "loss": 1.0, "dev_loss": 1.5, "dev_las": 50.0})
    (tmp_path / "metrics.jsonl").write_text("".join(json.dumps(one) + "\n" for one in epochs))
    write_curves(tmp_path)
    drawn = (tmp_path / "curves.svg").read_bytes()
    assert b"best 50.00" in drawn
    write_curves(tmp_path)
    assert (tmp_path / "curves.svg").read_bytes() == drawn
    page = tmp_path / "page.html"
    assert main(["evaluate", str(tmp_path / "model"), TREEBANK, "--report", str(page)]) == 0
    assert "data:image/svg+xml;base64," in page.read_text(encoding="utf-8")


FINISHED = json.dumps({"epoch": 1, "loss": 2.0, "dev_loss": 1.5, "dev_las": 40.0}) + "\n"


@pytest.mark.parametrize(
    ("files", "said"),
    [
        ({}, "does not lie in the folder of its training run"),
        ({"metrics.jsonl": ""}, "has not finished an epoch"),
        ({"metrics.jsonl": FINISHED[:9]}, "has not finished an epoch"),
        ({"metrics.jsonl": "[]\n"}, "metrics.jsonl of its training run is broken"),
        ({"metrics.jsonl": "{}\n", "curves.svg": "<svg/>"}, "metrics.jsonl of its training run is broken"),
        ({"metrics.jsonl": FINISHED}, None),
        ({"metrics.jsonl": FINISHED + FINISHED[:9]}, None),
        ({"curves.svg": "<svg/>"}, None),
    ],
)
def test_why_there_are_no_learning_curves(tmp_path, files, said):
    model = tmp_path / "model"
    model.mkdir()
    for name, content in files.items():
        (tmp_path / name).write_text(content)
    curves = curves_of(model)
    assert (said in curves) if said else (b"<svg" in curves)


def test_a_report_without_matplotlib_says_what_would_draw_its_curves(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    model = tmp_path / "model"
    model.mkdir()
    (tmp_path / "metrics.jsonl").write_text(FINISHED)
    said = "drawing learning curves needs matplotlib, which is not installed for this Python: pip install "
    assert curves_of(model).startswith(said)


@pytest.mark.extended
def test_a_comparison_says_of_each_model_why_it_has_no_curves(tmp_path, capsys):
    shutil.copytree(MODEL, tmp_path / "run" / "model")
    (tmp_path / "run" / "metrics.jsonl").write_text(FINISHED)
    package, page = tmp_path / "run" / "model.stackparser", tmp_path / "page.html"
    assert main(["pack", str(tmp_path / "run" / "model"), "-o", str(package)]) == 0
    unfinished = str(tmp_path / "run" / "model")
    assert main(["compare", unfinished, str(package), TREEBANK, "--report", str(page)]) == 0
    written = page.read_text(encoding="utf-8")
    assert "epochs of A" in written
    assert "B: The model is a package, which has no learning curves." in written
    capsys.readouterr()
    metrics = str(tmp_path / "run/metrics.jsonl")
    assert main(["compare", MODEL, unfinished, TREEBANK, "--report", metrics]) == 2
    assert "would overwrite" in capsys.readouterr().err
    assert main(["compare", MODEL, unfinished, TREEBANK, "--report", str(tmp_path / "page.JSON")]) == 2
    assert "only evaluate writes JSON" in capsys.readouterr().err
