from parser.speed.document import Heading, Picture, Table
from parser.speed.utilisation import utilisation_parts


def row(experiment, method, size, mfu, status="ok"):
    return {
        "status": status,
        "plugin": "reading",
        "experiment": experiment,
        "mode": "train",
        "device": "cpu",
        "threads": 1,
        "precision": "float32",
        "method": method,
        "batch_size": size,
        "mfu": mfu,
        "settings": {},
    }


ROWS = [
    row("small", "both", 1, 0.1),
    row("small", "both", 64, 0.4),
    row("small", "streams", 64, 0.3),
    row("large", "both", 1, 0.2),
    row("large", "both", 64, 0.8),
    row("large", "both", 256, 0.0, status="failed: memory"),
    row("single", "both", 1, 0.5),
]


def test_experiments_are_compared_by_their_best_methods():
    heading, picture, table = utilisation_parts(ROWS)
    assert heading == Heading(2, "reading, train, cpu, utilisation")
    assert isinstance(picture, Picture)
    assert picture.file == "reading-train-cpu-utilisation.svg"
    assert table == Table(
        ("MFU, at batch size", "1", "64"),
        [["small: both", "0.100", "0.400"], ["large: both", "0.200", "0.800"]],
    )


def test_one_experiment_is_not_compared():
    assert utilisation_parts(ROWS[:3]) == []
