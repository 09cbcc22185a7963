from collections import Counter
from itertools import pairwise

import pytest

from parser.benchmarks.language_model.running_text import END, generate_words, ranks, read_words, replace_rare

TREE = "1\tThe\t_\tDET\t_\t_\t2\tdet\t_\t_\n2\tdog\t_\tNOUN\t_\t_\t0\troot\t_\t_\n\n"


def test_words_come_from_treebanks_and_from_tagged_text(tmp_path):
    (tmp_path / "a.conllu").write_text(TREE, encoding="utf-8")
    (tmp_path / "b.txt").write_text("A|D cat|N\nIt|P\n", encoding="utf-8")
    words = read_words([str(tmp_path / "a.conllu"), str(tmp_path / "b.txt")])
    assert words == ["the", "dog", END, "a", "cat", END, "it", END]


def test_what_is_wrong_with_a_text_is_told_with_its_line(tmp_path):
    (tmp_path / "b.txt").write_text("A|D cat|N\nIt\n", encoding="utf-8")
    with pytest.raises(ValueError, match=r"b\.txt:2: 'It' is not a word"):
        read_words([str(tmp_path / "b.txt")])


def test_the_most_frequent_words_keep_their_numbers():
    found = ranks(["a", "b", "b", "c", "b", "c", "d"])
    assert found == {"b": 1, "c": 2, "a": 3, "d": 4}
    assert replace_rare([3, 1, 1, 2], 3) == [0, 1, 1, 2]


def test_made_words_are_frequent_as_zipf_found_and_depend_on_the_one_before():
    words = generate_words(30_000, 500, seed=3)
    assert words == generate_words(30_000, 500, seed=3)
    counts = [count for _, count in Counter(words).most_common()]
    assert counts[0] > 3 * counts[9] > 6 * counts[99]
    pairs = Counter(pairwise(words))
    often = Counter(words)
    usual = sum(max(count for (first, _), count in pairs.items() if first == word) for word in often)
    assert usual > 0.5 * len(words)
