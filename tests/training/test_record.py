import pytest

from parser.training.record import make_way


def test_an_earlier_run_is_moved_aside_and_nothing_else_is(tmp_path):
    run = tmp_path / "run"
    assert make_way(run) is None
    for number in (1, 2):
        run.mkdir()
        assert make_way(run) is None
        (run / "metrics.jsonl").write_text(str(number))
        assert make_way(run) == tmp_path / f"run.{number}"
        assert (tmp_path / f"run.{number}" / "metrics.jsonl").read_text() == str(number)
    run.mkdir()
    (run / "precious").touch()
    with pytest.raises(ValueError, match="not a run"):
        make_way(run)
    assert (run / "precious").exists()
