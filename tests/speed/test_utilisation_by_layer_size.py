import pytest

from parser.speed.document import Heading, Picture, Table
from parser.speed.utilisation_by_layer_size import utilisation_by_layer_size_parts


def row(
    experiment, method, batch_size, mfu, size, status="ok", plugin="recurrent_language_model", **settings
):
    sizes = {"inputs": size, "hidden_size": size, "outputs": size, "embedding_size": 0}
    return {
        "status": status,
        "plugin": plugin,
        "experiment": experiment,
        "mode": "train",
        "device": "cpu",
        "threads": 1,
        "precision": "float32",
        "method": method,
        "batch_size": batch_size,
        "mfu": mfu,
        "settings": {**sizes, "network": "peephole-lstm", **settings},
    }


ROWS = [
    row("medium", "both", 64, 0.4, 256),
    row("medium", "none", 1, 0.1, 256),
    row("small", "both", 64, 0.2, 128),
    row("small", "none", 1, 0.05, 128),
    row("large", "both", 64, 0.8, 512),
    row("large", "both", 1024, 0.9, 512),
    row("large", "none", 1, 0.0, 512, status="failed: memory"),
]
METHODS = ("stream by stream, all frame by frame, at 1", "all streams, only cycles frame by frame, at 64")


def test_methods_are_drawn_over_the_size_of_the_layers():
    heading, picture, table = utilisation_by_layer_size_parts(ROWS)
    assert heading == Heading(2, "medium, train, cpu, utilisation by layer size")
    assert isinstance(picture, Picture)
    assert picture.file == "medium-train-cpu-utilisation-by-layer-size.svg"
    assert table == Table(
        ("MFU, at units of a layer", "128", "256", "512"),
        [[METHODS[0], "0.050", "0.100", ""], [METHODS[1], "0.200", "0.400", "0.800"]],
    )


@pytest.mark.parametrize("other", [{"network": "lstm"}, {"embedding_size": 512}])
def test_networks_that_differ_in_more_are_not_compared(other):
    assert utilisation_by_layer_size_parts([ROWS[0], row("other", "both", 64, 0.5, 512, **other)]) == []


def test_plugins_without_sizes_of_layers_are_left_out():
    rows = [row(str(size), "both", 64, 0.5, size, plugin="stack_parser") for size in (128, 256)]
    assert utilisation_by_layer_size_parts(rows) == []
