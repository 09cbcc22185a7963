"""Figures of small treebanks."""

import json

from figures import kept, sizes


def test_small_treebanks_are_ordered_by_size_and_score(tmp_path, monkeypatch):
    def row(name, epochs, las):
        scores = {"las": las, "uas": las + 5}
        return json.dumps({"name": name, "epochs": epochs, "dev": scores, "test": scores}) + "\n"

    monkeypatch.setattr(kept, "MEASUREMENTS", tmp_path)
    kept.rows.cache_clear()
    (tmp_path / "accuracy").mkdir()
    rows = row("1,188, large", 40, 80.0), row("100, small, 9 epochs", 9, 50.0), row("100, small", 3, 10.0)
    (tmp_path / "accuracy/sizes.jsonl").write_text("".join(rows))
    try:
        assert sizes.small_treebanks().splitlines()[2:] == [
            "| 100 | `small` | 3 | 10.00 | 15.00 | 10.00 |",
            "| 100 | `small` | 9 | 50.00 | 55.00 | 50.00 |",
            "| 1,188 | `large` | 40 | 80.00 | 85.00 | 80.00 |",
        ]
    finally:
        kept.rows.cache_clear()


def test_minutes_are_those_of_the_kept_rows():
    lines = sizes.minutes_by_size().splitlines()
    assert lines[0] == "| | training trees | words | `ud-fast` | `ud-any` | `ud-untagged` |"
    assert [line.split(" | ")[1] for line in lines[2:]] == ["727", "1,656", "2,231", "12,544"]
