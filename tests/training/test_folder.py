import pytest

from parser.config.file import read_config
from parser.training.folder import claim, refuse_other_config, write_config


def test_an_earlier_run_is_moved_aside_and_nothing_else_is(tmp_path):
    run = tmp_path / "run"
    with claim(run, resume=False) as moved:
        assert moved is None
    for number in (1, 2):
        (run / "metrics.jsonl").write_text(str(number))
        with claim(run, resume=False) as moved:
            assert moved == tmp_path / f"run.{number}"
            assert (moved / "metrics.jsonl").read_text() == str(number)
            assert sorted(path.name for path in run.iterdir()) == ["lock", "metrics.jsonl"]
    other = tmp_path / "other"
    other.mkdir()
    (other / "precious").touch()
    with pytest.raises(ValueError, match="not a run"), claim(other, resume=False):
        pass
    assert [path.name for path in other.iterdir()] == ["precious"]


@pytest.mark.parametrize("resume", [False, True])
def test_a_second_run_in_a_folder_is_refused(tmp_path, resume):
    run = tmp_path / "run"
    first = claim(run, resume=False)
    first.__enter__()
    with pytest.raises(ValueError, match="another process is training there"), claim(run, resume):
        pass
    first.__exit__(None, None, None)
    with claim(run, resume=True) as moved:
        assert moved is None


def test_another_config_is_refused_with_all_differences(config_file, tmp_path):
    write_config(tmp_path, read_config(config_file))
    refuse_other_config(tmp_path, read_config(config_file))
    changed = read_config(config_file, ["training.seed=7", "parser.network.layers=3"])
    with pytest.raises(ValueError, match="was started with another config") as error:
        refuse_other_config(tmp_path, changed)
    assert "training.seed: was 1, is now 7" in str(error.value)
    assert "parser.network.layers: was 1, is now 3" in str(error.value)
    assert "batch_size" not in str(error.value)
