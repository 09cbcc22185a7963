"""The plugins of operations batched on the fly as the speed harness measures them."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest
import torch
from extended import first_of
from torch.utils.flop_counter import FlopCounterMode

from parser.benchmarks.conformance import faults_of
from parser.benchmarks.feature_parser.dynamic_oracle import FeatureSentence
from parser.benchmarks.feature_parser.network import FeatureParser, FeatureParserSizes
from parser.benchmarks.feature_parser.transition_parser_plugin import (
    TransitionParser,
    TransitionParserSettings,
)
from parser.benchmarks.feature_parser.transition_parser_plugin import (
    forward_operations as operations_of_parse,
)
from parser.benchmarks.message_training import NEEDS_CPU
from parser.benchmarks.plugin import Setup
from parser.benchmarks.tagged_text import TaggedSentence
from parser.benchmarks.taggers.bilstm_char_tagger_plugin import BiLSTMCharTagger, BiLSTMCharTaggerSettings
from parser.benchmarks.taggers.bilstm_tagger_plugin import (
    BiLSTMTagger,
    BiLSTMTaggerSettings,
    MadeSentences,
    Tagger,
    TaggerSizes,
)
from parser.benchmarks.taggers.bilstm_tagger_plugin import tagger_operations as operations_of_sentence
from parser.benchmarks.tree_lstm.tree_lstm_plugin import (
    MadeTrees,
    TreeLSTMPlugin,
    TreeLSTMSettings,
    make_trees,
)

SENTENCES = MadeSentences(sentences=8, longest=7, vocabulary=9)


class SmallTaggerSettings(BiLSTMTaggerSettings):
    made: MadeSentences = SENTENCES
    word_size: int = 6
    hidden_size: int = 5


class SmallTagger(BiLSTMTagger):
    Settings = SmallTaggerSettings


class DeepTaggerSettings(SmallTaggerSettings):
    grain: str = "operation"
    layers: int = 2
    middle_size: int = 0


class DeepTagger(BiLSTMTagger):
    Settings = DeepTaggerSettings


class SmallCharTaggerSettings(BiLSTMCharTaggerSettings):
    made: MadeSentences = SENTENCES
    word_size: int = 6
    hidden_size: int = 5
    rare: int = 3


class SmallCharTagger(BiLSTMCharTagger):
    Settings = SmallCharTaggerSettings


class SmallTreeSettings(TreeLSTMSettings):
    made: MadeTrees = MadeTrees(trees=8, longest=6, vocabulary=9)
    word_size: int = 6
    hidden_size: int = 5


class SmallTree(TreeLSTMPlugin):
    Settings = SmallTreeSettings


class FineTreeSettings(SmallTreeSettings):
    grain: str = "operation"


class FineTree(TreeLSTMPlugin):
    Settings = FineTreeSettings


class SmallParserSettings(TransitionParserSettings):
    word_size: int = 6
    relation_size: int = 3
    hidden_size: int = 5
    middle_size: int = 4


class SmallParser(TransitionParser):
    Settings = SmallParserSettings

    def prepare(self, setup):
        super().prepare(setup)
        self._sentences = sorted(self._sentences, key=lambda sentence: len(sentence.words))[:4]


PLUGINS = (SmallTagger, DeepTagger, SmallCharTagger, SmallTree, FineTree, SmallParser)


def setup_of(plugin, method, size=4, device="cpu", **changed):
    settings = plugin.Settings(**changed)
    return Setup(settings, method, "train", size, torch.device(device), 1, lambda name: nullcontext())


def prepared(plugin, method, *args, **kwargs):
    made = plugin()
    made.prepare(setup_of(plugin, method, *args, **kwargs))
    return made


@pytest.mark.parametrize("plugin", first_of(PLUGINS))
def test_they_do_all_that_plugins_must(plugin):
    assert faults_of(plugin) == []


@pytest.mark.extended
@pytest.mark.parametrize("plugin", PLUGINS)
def test_every_method_gives_the_cpus_results_on_the_device(plugin, device):
    expected = prepared(plugin, "none").check()
    for method in plugin.methods["train"]:
        if plugin().skip(setup_of(plugin, method, device=device)) == NEEDS_CPU:
            continue
        found = prepared(plugin, method, device=device).check().cpu()
        torch.testing.assert_close(found, expected, rtol=2e-4, atol=2e-4)


@pytest.mark.extended
@pytest.mark.parametrize("plugin", [SmallTagger, DeepTagger, SmallTree, FineTree, SmallParser])
@pytest.mark.parametrize("method", ["agenda", "manual"])
def test_training_learns(plugin, method):
    made = prepared(plugin, method, learning_rate=0.03)
    before = made.check()[0]
    for _ in range(80):
        for batch in made.batches():
            made.run(batch)
        if made.check()[0] < before / 2:
            return
    pytest.fail("the loss has not halved in 80 epochs")


def test_a_missing_file_is_a_reason_to_skip():
    for plugin in (BiLSTMTagger, TreeLSTMPlugin):
        settings = plugin.Settings(data="no/such")
        setup = Setup(settings, "none", "train", 1, torch.device("cpu"), 1, lambda name: nullcontext())
        assert plugin().skip(setup) == "no file no/such"


@pytest.mark.parametrize("spelled", [False, True])
def test_the_taggers_operations_are_those_of_its_products(spelled):
    sizes = TaggerSizes(9, 4, 6, 5, layers=2, middle_size=3, characters=7 if spelled else 0, character_size=4)
    sentence = TaggedSentence([1, 2, 3, 4], [0, 1, 2, 3], {1: [1, 2, 3], 3: [4]} if spelled else {})
    tagger = Tagger(sizes).double()  # by torch's own products, which the counter knows
    with FlopCounterMode(display=False) as counter:
        tagger.score([sentence], library=False)
    assert counter.get_total_flops() == pytest.approx(operations_of_sentence(sizes, sentence))


@pytest.mark.parametrize("relation_size", [0, 3])
def test_the_parsers_operations_are_those_of_its_products(relation_size):
    sizes = FeatureParserSizes(9, 4, 3, 5, 2, relation_size, hidden_size=6, middle_size=7)
    words = 4
    sentence = FeatureSentence([1] * 5, [1] * 5, [1, 4, 1, 2], [0, 1, 2, 0], np.ones(2 * words))
    network = FeatureParser(sizes).double()  # by torch's own products, which the counter knows
    with FlopCounterMode(display=False) as counter, torch.no_grad():
        network.loss([sentence], library=False)
    assert counter.get_total_flops() == pytest.approx(operations_of_parse(sizes, words))


def test_made_trees_are_labelled_by_the_sum_of_their_words():
    for tree in make_trees(MadeTrees(trees=20, longest=9, labels=5), seed=3):
        numbers = [int(word[1:]) for word in tree.words]
        for left, right in zip(tree.left, tree.right, strict=True):
            numbers.append(numbers[left] + numbers[right])
        assert [number % 5 for number in numbers] == tree.labels


@pytest.mark.real_data
def test_the_files_of_the_paper_are_read(treebanks: Path):
    folder = treebanks.parent
    if not (folder / "sst").is_dir() or not (folder / "tags").is_dir():
        pytest.skip(f"no sst/ and tags/ in {folder}")
    for plugin, path, examples, tokens in (
        (TreeLSTMPlugin, folder / "sst/dynet-benchmark/train.txt", 8544, 163_563),
        (BiLSTMTagger, folder / "tags/wikiner_train10k.txt", 10_000, 248_038),
    ):
        made = plugin()
        settings = plugin.Settings(data=str(path))
        setup = Setup(settings, "agenda", "train", 64, torch.device("cpu"), 1, lambda name: nullcontext())
        made.prepare(setup)
        works = [made.work(batch) for batch in made.batches()]
        assert sum(work.sentences for work in works) == examples
        assert sum(work.tokens for work in works) == tokens
