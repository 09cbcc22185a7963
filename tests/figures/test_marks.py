"""Figures between marks on pages."""

import pytest
from figures.pages import names_in, with_figures, without_figures

PAGE = """Before

<!-- rows: one -->

old

<!-- end -->

between `<!-- rows: NAME -->`

<!-- rows: two -->
<!-- end -->
"""


def test_what_stands_between_marks_is_replaced():
    written = with_figures(PAGE, {"one": "| new |\n|---|", "two": "2", "other": "3"})
    assert written == (
        "Before\n\n<!-- rows: one -->\n\n| new |\n|---|\n\n<!-- end -->\n\nbetween `<!-- rows: NAME -->`\n\n"
        "<!-- rows: two -->\n\n2\n\n<!-- end -->\n"
    )
    assert with_figures(written, {"one": "| new |\n|---|", "two": "2"}) == written


def test_names_and_what_is_left():
    assert names_in(PAGE) == ["one", "two"]
    assert without_figures(PAGE).split() == ["Before", "between", "`<!--", "rows:", "NAME", "-->`"]


def test_a_figure_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="there is no figure two"):
        with_figures(PAGE, {"one": ""})


@pytest.mark.parametrize(
    "page",
    [
        "<!-- rows: one -->\n",
        "<!-- end -->\n",
        "<!-- end -->\n<!-- rows: one -->\n",
        "<!-- rows: one -->\n<!-- rows: two -->\n<!-- end -->\n<!-- end -->\n",
        "<!-- rows: one -->\n<!-- end -->\n<!-- end -->\n",
    ],
)
def test_a_mark_without_its_other_one_is_refused(page):
    with pytest.raises(ValueError, match="needs an `<!-- end -->`"):
        names_in(page)
