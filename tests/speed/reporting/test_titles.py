import pytest
from speed_rows import cell

from parser.benchmarks.discovery import find, installed
from parser.speed.reporting.titles import data_title, method_title, plot_title


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
    assert cell(plugin="unheard").examples == "sentences"
