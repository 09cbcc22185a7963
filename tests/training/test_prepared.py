"""What is kept for the next start, and batches that are prepared before they are asked for."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load

from parser.training import data, prepared
from parser.training.config import read_config
from parser.training.epoch import AHEAD, prepared_ahead
from parser.training.prepared import _parts, cache_folder, hash_of, load_prepared
from parser.training.trees import read_training_trees

CPU = torch.device("cpu")
VECTORS = "dogs 1 2\ncats 3 4\n"


def assert_same(first, second):
    (model, one), (other_model, other) = first, second
    for name in ("train", "dev"):
        parts, others = (_parts(getattr(loaded, name)) for loaded in (one, other))
        assert parts.keys() == others.keys()
        for part in parts:
            mine, theirs = parts[part], others[part]
            assert torch.equal(mine.values, theirs.values)
            assert torch.equal(mine.lengths, theirs.lengths)
    assert model.vocabulary.as_json() == other_model.vocabulary.as_json()
    assert one.crossing == other.crossing
    vectors, others = (each.network.tokens.pretrained_weights() for each in (model, other_model))
    torch.testing.assert_close(vectors, others, rtol=0, atol=0)
    assert one.dev_sentences == other.dev_sentences


@pytest.fixture
def counted(monkeypatch):
    prepared = []
    monkeypatch.setattr(
        data, "_prepare", lambda *given, prepare=data._prepare: prepared.append(1) or prepare(*given)
    )
    return prepared


@pytest.mark.extended
@pytest.mark.parametrize("pretrained", [False, True])
def test_a_second_start_finds_what_the_first_prepared(config_file, tmp_path, counted, pretrained):
    (tmp_path / "vectors.txt").write_text(VECTORS)
    changes = [f"parser.network.pretrained={tmp_path}/vectors.txt"] if pretrained else []
    config = read_config(config_file, changes)
    loaded = [data.load(config, CPU, tmp_path / "cache") for _ in range(2)]
    assert len(counted) == 1
    assert_same(*loaded)
    data.load(read_config(config_file, [*changes, "training.seed=7"]), CPU, tmp_path / "cache")
    assert len(counted) == 1
    for change in (
        "parser.system=arc-eager",
        "treebank.non_projective=drop",
        "treebank.roots=attach-to-first",
        "treebank.train_sentences=5",
        "treebank.partial=true",
    ):
        data.load(read_config(config_file, [*changes, change]), CPU, tmp_path / "cache")
    assert len(counted) == 6
    with (tmp_path / "tiny.conllu").open("a") as file:
        file.write("1\tmore\tmore\tX\tX\t_\t0\troot\t_\t_\n\n")
    data.load(config, CPU, tmp_path / "cache")
    assert len(counted) == 7
    if pretrained:
        (tmp_path / "vectors.txt").write_text(VECTORS.replace("4", "5"))
        data.load(config, CPU, tmp_path / "cache")
        assert len(counted) == 8


def test_what_is_known_of_trees_is_kept(config_file, tmp_path, counted):
    train = tmp_path / "part.conllu"
    train.write_text((tmp_path / "tiny.conllu").read_text().replace("\t2\tpunct\t", "\t_\t_\t"))
    config = read_config(config_file, [f"treebank.train={train}", "treebank.partial=true"])
    loaded = [data.load(config, CPU, tmp_path / "cache") for _ in range(2)]
    assert len(counted) == 1
    assert_same(*loaded)
    assert all(found.train.facts for _, found in loaded)


def test_what_a_file_is_for_tells_caches_apart(config_file, tmp_path):
    other = tmp_path / "other.conllu"
    other.write_text((tmp_path / "tiny.conllu").read_text())
    silver = f"treebank.silver={{files: [{tmp_path}/tiny.conllu, {other}]}}"
    both = read_config(config_file, [silver, "treebank.dev=null", "training.learning_rate.decay=linear"])
    one = read_config(config_file, [silver.replace(f", {other}", ""), f"treebank.dev={other}"])
    assert prepared.cache_file(both, tmp_path) != prepared.cache_file(one, tmp_path)


@pytest.mark.parametrize(
    "damage",
    [
        lambda content: b"",
        lambda content: content[:-1],
        lambda content: content[:500] + b"?" + content[501:],
        lambda content: os.urandom(len(content)),
    ],
)
def test_a_damaged_cache_is_noticed_and_rebuilt(config_file, tmp_path, counted, capsys, damage):
    config = read_config(config_file)
    first = data.load(config, CPU, tmp_path / "cache")
    [path] = (tmp_path / "cache").iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    second = data.load(config, CPU, tmp_path / "cache")
    assert f"{path} is damaged: reading the treebanks again" in capsys.readouterr().out
    assert_same(first, second)
    assert path.read_bytes() == whole
    assert len(counted) == 2


def test_a_cache_that_can_not_be_written_is_no_error(config_file, tmp_path, capsys):
    (tmp_path / "cache").write_text("in the way")
    data.load(read_config(config_file), CPU, tmp_path / "cache")
    assert "the next start will read the treebanks again" in capsys.readouterr().out


def test_the_parts_of_columns_come_back_in_any_order(config_file, tmp_path, monkeypatch):
    """As from safetensors; a run recognizes by a digest what it continues with."""
    changes = ["parser.network.tag_sizes={feats: 4}", "parser.network.characters={size: 4, filters: 4}"]
    config = read_config(config_file, changes)
    _, first = data.load(config, CPU, tmp_path / "cache")
    assert len(first.train.tokens.parts) == 2
    [path] = (tmp_path / "cache").iterdir()
    digests = {first.digest}
    for backwards in (False, True):

        def load_in_order(content, backwards=backwards):
            return dict(sorted(load(content).items(), reverse=backwards))

        monkeypatch.setattr(prepared, "load", load_in_order)
        digests.add(load_prepared(path, config.parser).digest())
    assert len(digests) == 1


def test_caches_lie_where_those_of_other_programs_do(monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", "/some/caches")
    assert cache_folder() == Path("/some/caches/stack-parser")
    monkeypatch.setenv("HOME", "/home/somebody")
    for ignored in ("", "relative"):
        monkeypatch.setenv("XDG_CACHE_HOME", ignored)
        assert cache_folder() == Path("/home/somebody/.cache/stack-parser")
    monkeypatch.setenv("HOME", "relative")
    assert cache_folder() is None


def test_other_predicted_columns_are_prepared_anew(config_file, tmp_path):
    """Because they are part of the vocabulary."""
    for predicted in ("[upos]", "[lemma]", "[lemma, upos]"):
        changes = ["parser.network.tag_sizes={}", f"parser.network.tags.predict={predicted}"]
        config = read_config(config_file, changes)
        vocabulary = data.load(config, CPU, tmp_path / "cache")[0].vocabulary
        assert list(vocabulary.predicted) == list(config.parser.network.tags.predict)


def test_what_is_used_stays(config_file, tmp_path, monkeypatch):
    monkeypatch.setattr(prepared, "KEPT", 2)
    configs = [read_config(config_file, [f"parser.system={name}"]) for name in ("arc-eager", "arc-hybrid")]
    for config in configs:
        data.load(config, CPU, tmp_path / "cache")
    [first] = [
        path for path in tmp_path.glob("cache/*") if path == prepared.cache_file(configs[0], path.parent)
    ]
    for path in tmp_path.glob("cache/*"):
        os.utime(path, (1, 1 + (path != first)))  # both are old, the first one a little older
    (tmp_path / "cache" / ".x.prepared.unfinished").touch()
    os.utime(tmp_path / "cache" / ".x.prepared.unfinished", (0, 0))
    data.load(configs[0], CPU, tmp_path / "cache")
    data.load(read_config(config_file, ["parser.system=arc-standard"]), CPU, tmp_path / "cache")
    assert first.exists()
    assert len(list((tmp_path / "cache").iterdir())) == 2


def test_only_the_last_that_were_kept_stay(config_file, tmp_path, monkeypatch):
    monkeypatch.setattr(prepared, "KEPT", 2)
    for system in ("arc-eager", "arc-standard", "arc-hybrid"):
        first = {path.name for path in tmp_path.glob("cache/*")}
        data.load(read_config(config_file, [f"parser.system={system}"]), CPU, tmp_path / "cache")
    last = {path.name for path in tmp_path.glob("cache/*")}
    assert len(first) == len(last) == 2
    assert len(first & last) == 1


def test_a_hash_tells_files_apart(tmp_path):
    for name, content in (("a", "12"), ("b", "3"), ("c", "1"), ("d", "23")):
        (tmp_path / name).write_text(content)
    assert hash_of([str(tmp_path / "a"), str(tmp_path / "b")]) != hash_of(
        [str(tmp_path / "c"), str(tmp_path / "d")]
    )


def test_only_the_first_sentences_are_read(config_file):
    config = read_config(config_file, ["treebank.train_sentences=2"])  # dogs sleep, dogs bark
    model, loaded = data.load(config, CPU)
    assert (len(loaded.train), len(loaded.dev)) == (2, 16)
    assert [tree.identifier for tree in read_training_trees(config.treebank).all] == [
        "dogs-sleep",
        "dogs-bark",
    ]
    assert not model.vocabulary.columns["form"].number("cats")


BATCHES = torch.arange(9).split(1)


@given(st.lists(st.integers(0, 99), max_size=12))
def test_batches_come_in_order(numbers):
    found = prepared_ahead(lambda rows: rows * 2, torch.tensor(numbers).split(1) if numbers else ())
    assert [int(rows) for rows in found] == [2 * number for number in numbers]


def test_they_are_prepared_in_a_thread_before_they_are_asked_for():
    threads, begun = set(), []
    is_third_begun = threading.Event()

    def prepare(rows):
        threads.add(threading.current_thread())
        begun.append(int(rows))
        if len(begun) == 1 + AHEAD:
            is_third_begun.set()
        return rows

    ahead = prepared_ahead(prepare, BATCHES)
    assert int(next(ahead)) == 0
    assert is_third_begun.wait(timeout=60)
    assert begun == list(range(1 + AHEAD))
    ahead.close()
    [thread] = threads
    assert thread is not threading.current_thread()
    assert not thread.is_alive()


def test_what_is_not_begun_when_it_is_closed_is_not_prepared(monkeypatch):
    begun, is_second_begun, may_go_on = [], threading.Event(), threading.Event()
    submit, submitted = ThreadPoolExecutor.submit, []

    def submit_and_note(*given):
        submitted.append(submit(*given))
        return submitted[-1]

    def end_second():
        while not submitted[-1].cancelled():
            time.sleep(0.01)
        may_go_on.set()

    def prepare(rows):
        begun.append(int(rows))
        if len(begun) == 2:
            is_second_begun.set()
            assert may_go_on.wait(timeout=60)
        return rows

    monkeypatch.setattr(ThreadPoolExecutor, "submit", submit_and_note)
    ahead = prepared_ahead(prepare, BATCHES)
    next(ahead)
    assert is_second_begun.wait(timeout=60)
    threading.Thread(target=end_second, daemon=True).start()
    ahead.close()  # waits for the second batch
    assert begun == [0, 1]


def test_what_goes_wrong_is_raised_for_its_batch():
    def prepare(rows):
        if rows == 2:
            raise ValueError("the third batch")
        return rows

    ahead = prepared_ahead(prepare, BATCHES)
    assert [int(next(ahead)), int(next(ahead))] == [0, 1]
    with pytest.raises(ValueError, match="the third batch"):
        next(ahead)
