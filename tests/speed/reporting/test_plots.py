"""Reports as files: drawings, their titles, and the document that shows them."""

import pytest
from extended import extended, first_of
from matplotlib.figure import Figure
from matplotlib.text import Text
from speed_rows import cell, run_of, speed_row

from parser.evaluation.statistics import Estimate, exactly
from parser.pages.document import Heading, Picture, Section, Table, write_document
from parser.pages.plot_style import (
    MAX_LINES,
    Look,
    draw_panels,
    label_ends,
    legend_below,
    save,
    scale_by_size,
    spread,
    svg,
)
from parser.speed.reporting.report import write_pictures
from parser.speed.reporting.titles import data_title, method_title, plot_title, without_files
from parser.speed.tasks.discovery import find, installed


def curves(count):
    estimates = {size: Estimate(value, value - 1, value + 1) for size, value in ((1, 10.0), (8, 20.0))}
    return {f"method {number}": estimates for number in range(count)}


def finish(axes):
    axes.axhline(5, label="target")
    scale_by_size(axes, curves(1))


def panels(count):
    figure = draw_panels("title", curves(count), finish)
    figure.draw_without_rendering()
    return figure


@pytest.mark.parametrize(("count", "expected"), [(8, 2), *extended((1, 1), (7, 1), (16, 3))])
def test_no_panel_has_more_than_eight_lines(count, expected):
    axes = panels(count).axes
    assert len(axes) == expected
    labels = [label for each in axes for label in each.get_legend_handles_labels()[1]]
    assert all(len(each.get_legend_handles_labels()[1]) <= MAX_LINES == 8 for each in axes)
    assert len([label for label in labels if label.startswith("method")]) == count


@pytest.mark.parametrize("count", first_of([3, 16]))
def test_legends_lie_outside_of_the_data(count):
    figure = panels(count)
    for part in figure.subfigs:
        [legend] = part.legends
        assert not legend.get_window_extent().overlaps(part.axes[0].get_window_extent())
        assert part.axes[0].get_legend() is None


def test_panels_have_the_same_limits():
    first, second = panels(8).axes
    assert first.get_xlim() == second.get_xlim()
    assert first.get_ylim() == second.get_ylim()


def test_lines_of_a_panel_look_different():
    looks = {
        (line.get_color(), line.get_marker(), line.get_linestyle())
        for container in panels(7).axes[0].containers
        for line in [container[0]]
    }
    assert len(looks) == 7


def test_equal_plots_are_equal_text():
    assert svg(draw_panels("title", curves(2), finish)) == svg(draw_panels("title", curves(2), finish))


def test_a_legend_of_several_panels_takes_the_labels_of_one():
    figure = Figure(layout="constrained")
    for count in (1, 2):
        axes = figure.add_subplot(1, 2, count)
        for number in range(count):
            axes.plot([1, 2], label=f"line {number}")
    legend_below(figure)
    assert [text.get_text() for text in figure.legends[0].get_texts()] == ["line 0", "line 1"]


@pytest.mark.parametrize(("highest", "scale"), [(50.0, "linear"), (70.0, "log")])
def test_only_values_that_differ_much_are_on_a_logarithmic_axis(highest, scale):
    axes = Figure().add_subplot()
    axes.plot([1, 8], [10.0, highest])
    scale_by_size(axes, {"method": {1: exactly(10.0), 8: exactly(highest)}})
    assert axes.get_yscale() == scale
    if scale == "linear":
        assert axes.get_ylim()[0] == 0


@pytest.mark.parametrize(
    ("settings", "title"),
    [
        (
            {"learning_rate": 0.1, "treebank": "${PARSER_DATA}/ud/UD_English-EWT/train.conllu"},
            "UD_English-EWT/train.conllu",
        ),
        ({"data": ["some/ewt/a.conllu", "some/wiki/b.txt"]}, "ewt/a.conllu, wiki/b.txt"),
        ({"data": None, "network": "lstm", "hidden_size": 4}, "generated data"),
    ],
)
def test_the_data_are_named_by_their_files(settings, title):
    assert data_title(settings) == title


def test_a_plot_says_what_was_measured():
    cells = [
        cell(plugin="bilstm_tagger", mode="infer", threads=2, settings={"data": f"tags/{name}.txt"})
        for name in "ab"
    ]
    expected = "bilstm tagger: names\ntags/a.txt and tags/b.txt; inference; CPU, 2 threads"
    assert plot_title("names", cells) == expected
    assert without_files(expected) == "bilstm tagger: names\ninference; CPU, 2 threads"
    generated = plot_title("names", [cell(plugin="tagger", threads=2)])
    assert without_files(generated) == generated == "tagger: names\ngenerated data; training; CPU, 2 threads"
    assert plot_title("names", [cell(plugin="my_module:Sets")]).startswith("Sets: names\n")


def test_one_plot_of_several_is_written_and_names_no_file(tmp_path):
    rows = [speed_row(10.0 * size, batch_size=size, settings={"data": "a/b.txt"}) for size in (1, 8)]
    look = Look("svg", width=3.3)
    (path,) = write_pictures(run_of(rows), tmp_path, look, "speed-up")
    assert path.name == "first-train-cpu-1-speed-up.svg"
    text = path.read_text()
    assert "reading: first" in text
    assert "b.txt" not in text
    (same,) = write_pictures(run_of(rows), tmp_path, look, "first-train-cpu-1-speed-up")
    assert same == path
    assert len(write_pictures(run_of(rows), tmp_path, look)) > 1
    with pytest.raises(
        ValueError, match="there is no plot 'memory'; available: first-train-cpu-1-speed, first-"
    ):
        write_pictures(run_of(rows), tmp_path, look, "memory")


def test_every_method_of_every_plugin_has_a_title():
    for name in installed():
        for methods in find(name).methods.values():
            titles = [method_title(name, method) for method in methods]
            assert len(set(titles)) == len(titles)
            assert not set(titles) & set(methods)


def test_the_unit_is_the_plugins():
    assert cell(plugin="stack_parser").examples == "sentences"
    assert cell(plugin="mnist_mlp").examples == "images"


def test_a_plugin_that_is_not_installed_has_the_names_of_its_methods():
    assert method_title("unheard", "replay") == "replay"
    assert cell(plugin="unheard").examples == "examples"


@pytest.mark.parametrize("name", ["plain", "a/b", "with blanks, and more", "../above"])
def test_a_picture_of_any_name_is_written_and_shown(tmp_path, name):
    figure = Figure()
    write_document("Report", ["Text.", Picture(name, figure)], tmp_path)
    [file] = (tmp_path / "plots").iterdir()
    assert file.read_text() == svg(figure)
    assert f"![{name}](plots/{file.name})\n" in (tmp_path / "report.md").read_text()
    assert " " not in file.name
    assert svg(figure) in (tmp_path / "report.html").read_text()


def test_a_section_tells_what_it_has():
    empty, full = Table(("a",), []), Table(("a",), [["1"]])
    figure = Figure()
    section = Section("Title", {"plot": figure}, [empty, full], "Text.", ["step at 8: skipped."])
    picture = Picture("plot", figure)
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


@pytest.mark.extended
def test_a_figure_for_a_papers_column(tmp_path):
    figure = panels(2)
    look = Look("pdf", width=3.3, font_size=7, scale="log")
    save(figure, tmp_path / "plot.pdf", look)
    assert figure.get_size_inches()[0] == pytest.approx(3.3)
    assert {text.get_fontsize() for text in figure.findobj(Text) if text.get_text()} == {7}
    assert figure.axes[0].get_yscale() == "log"
    content = (tmp_path / "plot.pdf").read_bytes()
    assert content.startswith(b"%PDF")
    assert b"/FontFile2" in content  # TrueType, embedded
    assert b"CreationDate" not in content
    save(panels(2), tmp_path / "again.pdf", look)
    assert (tmp_path / "again.pdf").read_bytes() == content


@pytest.mark.extended
def test_a_narrow_figure_has_room_for_its_legend_and_title(tmp_path):
    figure = draw_panels(
        "a task: an experiment\n" + "; ".join(f"file-{number}.txt" for number in range(6)),
        {
            f"a method with a long name, number {number}": {1: exactly(1.0), 8: exactly(2.0)}
            for number in range(3)
        },
        finish,
    )
    before = figure.get_size_inches()[1]
    save(figure, tmp_path / "narrow.png", Look("png", width=3.3))
    figure.draw_without_rendering()
    [legend] = figure.subfigs[0].legends
    [title] = [text for text in figure.findobj(Text) if text.get_text() == figure.get_suptitle()]
    for extent in (legend.get_window_extent(), title.get_window_extent()):
        assert extent.x0 >= 0
        assert extent.x1 <= figure.bbox.x1
    assert not legend.get_window_extent().overlaps(figure.axes[0].get_tightbbox())
    assert figure.axes[0].get_window_extent().height > 0.4 * before * figure.dpi * (3.3 / 7.2) ** 0.5


def test_batch_sizes_of_a_narrow_figure_do_not_overlap(tmp_path):
    figure = draw_panels(
        "title", {"a": {size: exactly(1.0) for size in (1, 64, 320, 640, 850)}}, finish_by_size
    )
    assert list(figure.axes[0].get_xticks()) == [850, 320, 64, 1]
    save(figure, tmp_path / "narrow.png", Look("png", width=2))
    assert list(figure.axes[0].get_xticks()) == [850, 64, 1]


def finish_by_size(axes):
    scale_by_size(axes, {"a": {size: exactly(1.0) for size in (1, 64, 320, 640, 850)}})


def test_texts_stand_at_the_ends_of_their_lines_and_not_above_each_other():
    curves = {name: {1: exactly(1.0), 64: exactly(end)} for name, end in (("a", 20), ("b", 19), ("c", 2))}

    def labelled(axes):
        scale_by_size(axes, curves)
        label_ends(axes, curves, {"a": "of a", "b": "of b", "c": "of c"})

    [axes] = draw_panels("title", curves, labelled).axes
    axes.figure.figure.draw_without_rendering()
    boxes = {text.get_text(): text.get_window_extent() for text in axes.texts}
    assert sorted(boxes, key=lambda text: boxes[text].y0) == ["of c", "of b", "of a"]
    assert not boxes["of a"].overlaps(boxes["of b"])
    assert axes.texts[0].xy == (64, pytest.approx(2))
    assert {text.xy[0] for text in axes.texts} == {64}


@pytest.mark.parametrize(
    ("heights", "expected"),
    [
        ([], []),
        ([1, 3], [1, 3]),
        ([1, 1], [0.5, 1.5]),
        ([0, 0.5, 1.4], [-0.366667, 0.633333, 1.633333]),
        ([1, 1, 1.6, 9], [0.2, 1.2, 2.2, 9]),
    ],
)
def test_heights_are_spread_about_their_middle(heights, expected):
    assert spread(heights, 1) == pytest.approx(expected)
