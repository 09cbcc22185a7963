"""What is kept for the next start, and batches that are prepared before they are asked for."""

import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
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
        for part, ragged in parts.items():
            assert torch.equal(ragged.values, others[part].values)
            assert torch.equal(ragged.lengths, others[part].lengths)
    assert model.vocabulary.as_json() == other_model.vocabulary.as_json()
    vectors, others = (each.network.tokens.pretrained_weights() for each in (model, other_model))
    torch.testing.assert_close(vectors, others, rtol=0, atol=0)
    assert (one.crossing, one.dev_sentences) == (other.crossing, other.dev_sentences)


@pytest.fixture
def counted(monkeypatch):
    """A list that gets longer whenever data are prepared."""
    prepared = []
    monkeypatch.setattr(
        data, "_prepare", lambda *given, prepare=data._prepare: prepared.append(1) or prepare(*given)
    )
    return prepared


@pytest.fixture
def load_cached(config_file, tmp_path):
    """load_cached(*changes): loads data by way of a cache."""
    return lambda *changes: data.load(read_config(config_file, changes), CPU, tmp_path / "cache")


@pytest.mark.extended
@pytest.mark.parametrize("pretrained", [False, True])
def test_a_second_start_finds_what_the_first_prepared(load_cached, tmp_path, counted, pretrained):
    (tmp_path / "vectors.txt").write_text(VECTORS)
    changes = [f"parser.network.pretrained={tmp_path}/vectors.txt"] if pretrained else []
    assert_same(load_cached(*changes), load_cached(*changes))
    load_cached(*changes, "training.seed=7")
    assert len(counted) == 1
    for number, change in enumerate(
        (
            "parser.system=arc-eager",
            "treebank.non_projective=drop",
            "treebank.roots=attach-to-first",
            "treebank.train_sentences=5",
            "treebank.partial=true",
        ),
        2,
    ):
        load_cached(*changes, change)
        assert len(counted) == number
    with (tmp_path / "tiny.conllu").open("a") as file:
        file.write("1\tmore\tmore\tX\tX\t_\t0\troot\t_\t_\n\n")
    load_cached(*changes)
    assert len(counted) == 7
    (tmp_path / "vectors.txt").write_text(VECTORS.replace("4", "5"))
    load_cached(*changes)
    assert len(counted) == 7 + pretrained


def test_what_is_known_of_trees_is_kept(load_cached, tmp_path, counted):
    train = tmp_path / "part.conllu"
    train.write_text((tmp_path / "tiny.conllu").read_text().replace("\t2\tpunct\t", "\t_\t_\t"))
    loaded = [load_cached(f"treebank.train={train}", "treebank.partial=true") for _ in range(2)]
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
def test_a_damaged_cache_is_noticed_and_rebuilt(load_cached, tmp_path, counted, capsys, damage):
    first = load_cached()
    [path] = (tmp_path / "cache").iterdir()
    whole = path.read_bytes()
    path.write_bytes(damage(whole))
    assert_same(first, load_cached())
    assert f"{path} is damaged" in capsys.readouterr().out
    assert path.read_bytes() == whole
    assert len(counted) == 2


def test_a_cache_that_can_not_be_written_is_no_error(load_cached, tmp_path, capsys):
    (tmp_path / "cache").write_text("in the way")
    load_cached()
    assert "the next start will read the treebanks again" in capsys.readouterr().out


def test_the_parts_of_columns_come_back_in_any_order(config_file, load_cached, tmp_path, monkeypatch):
    """As from safetensors; a run recognizes by a digest what it continues with."""
    changes = ["parser.network.tag_sizes={feats: 4}", "parser.network.characters={size: 4, filters: 4}"]
    _, first = load_cached(*changes)
    assert len(first.train.tokens.parts) == 2
    [path] = (tmp_path / "cache").iterdir()
    digests, settings = {first.digest}, read_config(config_file, changes).parser
    for backwards in (False, True):
        sort = partial(sorted, reverse=backwards)
        monkeypatch.setattr(prepared, "load", lambda content, sort=sort: dict(sort(load(content).items())))
        digests.add(load_prepared(path, settings).digest())
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


def test_other_predicted_columns_are_prepared_anew(load_cached):
    """Because they are part of the vocabulary."""
    for predicted in (["upos"], ["lemma"], ["lemma", "upos"]):
        told = f"parser.network.tags.predict=[{', '.join(predicted)}]"
        model, _ = load_cached("parser.network.tag_sizes={}", told)
        assert list(model.vocabulary.predicted) == predicted


def test_the_last_that_were_used_stay(load_cached, tmp_path, monkeypatch):
    monkeypatch.setattr(prepared, "KEPT", 2)
    cache = tmp_path / "cache"
    load_cached("parser.system=arc-eager")
    [first] = cache.iterdir()
    load_cached("parser.system=arc-hybrid")
    for path in cache.iterdir():
        os.utime(path, (1, 1 + (path != first)))  # both are old, the first one a little older
    (cache / ".x.prepared.unfinished").touch()
    os.utime(cache / ".x.prepared.unfinished", (0, 0))
    load_cached("parser.system=arc-eager")
    load_cached("parser.system=arc-standard")
    assert first.exists()
    assert len(list(cache.iterdir())) == 2


def test_a_hash_tells_files_apart(tmp_path):
    for name, content in (("a", "12"), ("b", "3"), ("c", "1"), ("d", "23")):
        (tmp_path / name).write_text(content)
    one, other = (hash_of([str(tmp_path / name) for name in names]) for names in ("ab", "cd"))
    assert one != other


def test_only_the_first_sentences_are_read(config_file):
    config = read_config(config_file, ["treebank.train_sentences=2"])  # dogs sleep, dogs bark
    model, loaded = data.load(config, CPU)
    assert (len(loaded.train), len(loaded.dev)) == (2, 16)
    trees = read_training_trees(config.treebank).all
    assert [tree.identifier for tree in trees] == ["dogs-sleep", "dogs-bark"]
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
