"""Training with a pretrained transformer, alone and combined with other settings of runs."""

import json
import os
import shutil
import signal
import subprocess
import sys
from dataclasses import replace
from itertools import chain

import numpy as np
import pytest
import torch
from extended import extended, first_of
from programs import together
from safetensors.torch import load_file, save_file
from small_transformers import TEXT, make_transformer, transformer_of, transformers
from stopped_runs import Stops, left_behind
from torch.testing import assert_close

from parser.batching.functional import computing_in
from parser.cli import main
from parser.evaluation.evaluate import evaluate
from parser.models.loading import ModelChoice, load_models
from parser.models.model_files import contents
from parser.models.network_model import load_network, with_kept_vectors
from parser.networks.transformer.pretrained import read_pretrained
from parser.networks.transformer.tokenizer import PieceTokenizer
from parser.parsing.engine import parse
from parser.system.interruption import Interrupted, StoppedError
from parser.training import data, transformer
from parser.training.config import read_config
from parser.training.prepared import cache_folder
from parser.training.processes import ALONE
from parser.training.run import train
from parser.treebank.conllu import read_treebank
from parser.treebank.tokens import encode_tokens

CPU = torch.device("cpu")
MODES = ["frozen", "lora", "all"]


@pytest.fixture
def folder(tmp_path):
    """The folder of a small BERT."""
    return make_transformer(tmp_path / "pretrained")


@pytest.fixture
def configured(config_file, folder):
    """configured(*changes, **settings): the tiny config with that transformer and these settings of it."""
    return lambda *changes, **settings: read_config(
        config_file, [transformer_of(folder, **settings), *changes]
    )


TAUGHT = "training.distillation={models: [tests/model], weight: 0.5}"
CASES = [
    ("bert", "frozen"),
    ("bert", "lora", TAUGHT),
    ("bert", "all"),
    ("roberta", "lora"),
    ("xlm-roberta", "all"),
]


@pytest.mark.parametrize("case", first_of(CASES), ids=lambda case: " ".join(case[:2]))
def test_the_model_in_the_folder_parses_as_the_one_that_was_trained(case, config_file, tmp_path):
    kind, mode, *changes = case
    folder, run = make_transformer(tmp_path / "pretrained", kind), tmp_path / "run"
    changes += [transformer_of(folder, train=mode), "training.epochs=4", "training.average=0.9"]
    config = read_config(config_file, changes)
    scores = train(config, run, CPU)
    shutil.rmtree(folder)  # the model needs it no longer
    assert (
        evaluate(load_network(run / "model", CPU), read_treebank(config.treebank.dev)).as_dict()
        == scores.as_dict()
    )
    kept = {path.name for path in (run / "model" / "transformer").iterdir()}
    weights = {"model.safetensors"} if mode != "all" else set()
    assert kept == {"config.json", "tokenizer.json", "tokenizer_config.json", *weights}


def test_a_pruned_transformer_is_in_the_model(config_file, tmp_path):
    folder = make_transformer(tmp_path / "pretrained", "xlm-roberta", text=[*TEXT, "γάτες κοιμούνται"])
    changes = [transformer_of(folder, train="all", prune=True), "training.epochs=1"]
    train(read_config(config_file, changes), tmp_path / "run", CPU)
    whole, pruned = (
        json.loads((path / "config.json").read_text())["vocab_size"]
        for path in (folder, tmp_path / "run" / "model" / "transformer")
    )
    assert pruned < whole
    weights = load_file(tmp_path / "run" / "model" / "weights.safetensors")
    vectors = [each for name, each in weights.items() if name.endswith("word_embeddings.weight")]
    assert [len(each) for each in vectors] == [pruned]


def test_vectors_that_are_kept_are_those_of_the_sentences(configured, tmp_path):
    """Parsing dev again with another bonus reads no sentence again."""
    config = configured("training.epochs=1")
    train(config, tmp_path / "run", CPU)
    model, dev = load_network(tmp_path / "run" / "model", CPU), read_treebank(config.treebank.dev)
    plain, read = model.as_arrays().transform, []

    def counted(sentences):
        read.extend(sentences)
        return plain(sentences)

    kept = with_kept_vectors(replace(model, transform=counted))
    for sentences in (dev[:3], [*reversed(dev), *dev]):
        assert_close(kept.as_arrays().transform(sentences), plain(sentences))
    assert parse(kept, dev) == parse(model, dev)
    assert len(read) == len({sentence.forms for sentence in dev})


@pytest.mark.extended
@pytest.mark.parametrize("mode", MODES)
def test_a_run_that_was_stopped_ends_as_one_that_never_was(mode, configured, tmp_path, monkeypatch):
    config = configured("training.epochs=6", "training.average=0.9", train=mode, dropout=0.2)
    stops = Stops(monkeypatch)
    train(config, tmp_path / "whole", CPU)
    stops.batches, stops.at = 0, {2, 5}
    for number in range(len(stops.at)):
        with pytest.raises(StoppedError):
            train(config, tmp_path / "stopped", CPU, resume=number > 0)
    train(config, tmp_path / "stopped", CPU, resume=True)
    assert files_of(tmp_path / "stopped") == files_of(tmp_path / "whole")


def files_of(run):
    folder = run / "model" / "transformer"
    files = {path.name: path.read_bytes() for path in folder.iterdir()}
    shutil.rmtree(folder)
    return left_behind(run), files


def test_vectors_of_a_frozen_transformer_are_computed_once(configured, monkeypatch):
    config = configured()
    _, computed = data.load(config, CPU, cache_folder())
    monkeypatch.setattr(transformer, "_fill", None)
    model, mapped = data.load(config, CPU, cache_folder())
    for before, after in ((computed.train, mapped.train), (computed.dev, mapped.dev)):
        assert before.tokens.vectors.dtype == torch.float16
        assert torch.equal(before.tokens.vectors, after.tokens.vectors)
    # Dev sentences are not read by the transformer again.
    assert encode_tokens(model.vocabulary, mapped.dev_sentences).vectors is not None
    strange = read_treebank(config.treebank.train)[:1]
    tokens = encode_tokens(model.vocabulary, [*mapped.dev_sentences, *strange])
    assert (tokens.vectors is None) == (strange[0].forms not in {s.forms for s in mapped.dev_sentences})


def test_there_may_be_no_dev(configured):
    config = configured("treebank.dev=null", "training.learning_rate.decay=linear")
    model, loaded = data.load(config, CPU, cache_folder())
    assert (len(loaded.train), len(loaded.dev), model.dev_shares) == (16, 0, {})


@pytest.mark.extended
def test_other_settings_have_other_vectors(configured):
    names = []
    for more in ({}, {"layers": 1}, {"pooling": "first"}, {}, {"max_pieces": 8}, {"layers": 3}):
        data.load(configured(**more), CPU, cache_folder())
        names.append({path.name for path in cache_folder().glob("*.vectors")})
    assert [len(own) for own in names] == [1, 2, 3, 3, 4, 4]
    assert transformer.KEPT == 4
    assert names[0] < names[-1]  # used later than the second


def no_vectors_are_cached():
    return all(path.suffix == ".prepared" for path in cache_folder().iterdir())


@pytest.mark.extended
def test_a_full_disk_keeps_the_vectors_in_memory(configured, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(transformer.os, "posix_fallocate", full)
    _, loaded = data.load(configured(), CPU, cache_folder())
    assert loaded.train.tokens.vectors.isfinite().all()
    assert "No space left on device; the transformer's vectors are kept in memory" in capsys.readouterr().out
    assert no_vectors_are_cached()


@pytest.mark.extended
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_file_of_vectors_is_computed_again(damage, configured, capsys):
    _, first = data.load(configured(), CPU, cache_folder())
    wanted = first.train.tokens.vectors.clone()
    [path] = cache_folder().glob("*.vectors")
    content = path.read_bytes()
    path.unlink()  # what is mapped stays as it is
    path.write_bytes(content[:-10] if damage == "cut" else bytes(100) + content[100:])
    _, second = data.load(configured(), CPU, cache_folder())
    assert torch.equal(second.train.tokens.vectors, wanted)
    assert f"{path} is damaged" in capsys.readouterr().out
    assert path.read_bytes() == content


@pytest.mark.extended
def test_a_stop_while_vectors_are_computed_leaves_no_file(configured, monkeypatch):
    abandoned = cache_folder() / "killed.part"
    abandoned.parent.mkdir(parents=True, exist_ok=True)
    abandoned.write_bytes(b"0")
    os.utime(abandoned, (0, 0))
    monkeypatch.setattr(transformer, "_fill", lambda *_: os.kill(os.getpid(), signal.SIGTERM))
    with pytest.raises(Interrupted):
        data.load(configured(), CPU, cache_folder())
    assert no_vectors_are_cached()


def change_weights(folder, name, change):
    path = folder / "model.safetensors"
    weights = load_file(path)
    weights[name] = change(weights[name])
    save_file({name: weight for name, weight in weights.items() if weight is not None}, path)


@pytest.mark.extended
def test_what_half_precision_can_not_hold_is_refused(configured, folder):
    change_weights(folder, "encoder.layer.2.output.LayerNorm.weight", lambda weight: weight * 1e6)
    with pytest.raises(ValueError, match="half precision cannot hold"):
        data.load(configured(), CPU, cache_folder())
    assert no_vectors_are_cached()


def test_a_transformer_without_some_weights_is_refused(configured, folder):
    change_weights(folder, "encoder.layer.1.output.dense.weight", lambda _: None)
    with pytest.raises(ValueError, match=r"have no weights encoder\.layer\.1\.output\.dense\.weight"):
        data.load(configured(), CPU)


def test_a_transformer_is_the_same_elsewhere(folder, tmp_path):
    shutil.copytree(folder, tmp_path / "there")
    here, there = (read_pretrained(path) for path in (str(folder), f"{tmp_path}/there/"))
    assert there.digest == here.digest
    assert str(tmp_path) not in there.config


@pytest.mark.extended
def test_words_keep_their_case_and_the_library_reads_the_folder_of_a_model(configured, folder, tmp_path):
    """The library reads a folder without a tokenizer config as that of an uncased BERT."""
    run, words = tmp_path / "run", ["the", "Don't", "wake"]
    tokenizer = PieceTokenizer(read_pretrained(str(folder)).tokenizer)
    wanted = tokenizer.pieces(words)
    assert wanted != tokenizer.pieces([word.lower() for word in words])
    (folder / "tokenizer_config.json").unlink()
    assert PieceTokenizer(read_pretrained(str(folder)).tokenizer).pieces(words) == wanted
    train(configured("training.epochs=1"), run, CPU)
    theirs = transformers.AutoTokenizer.from_pretrained(run / "model" / "transformer")
    pieces = theirs(words, is_split_into_words=True, add_special_tokens=False).input_ids
    assert pieces == list(chain.from_iterable(wanted))
    assert "transformer/tokenizer_config.json" in contents([run / "model"])  # also what `pack` gives away


@pytest.mark.extended
def test_packages_and_several_processes_parse_with_it(configured, tmp_path):
    run, package = tmp_path / "run", tmp_path / "one.stackparser"
    train(configured("training.epochs=4", train="lora"), run, CPU)
    assert main(["pack", str(run / "model"), "-o", str(package)]) == 0
    outputs = []
    for model, count in ((run / "model", 1), (package, 1), (run / "model", 2)):
        output = tmp_path / f"{len(outputs)}.conllu"
        arguments = ["parse", str(model), str(tmp_path / "tiny.conllu"), "-o", str(output)]
        assert main([*arguments, "--processes", str(count), "--device", "cpu"]) == 0
        outputs.append(output.read_bytes())
    assert outputs[0] == outputs[1] == outputs[2]


WITHOUT_PYTORCH = """
import sys
sys.modules |= dict.fromkeys(("torch", "transformers", "peft"))
from parser.cli import main
sys.exit(main(sys.argv[1:]))
"""
"""A program in which these packages cannot be imported. It parses like the command."""


@pytest.mark.parametrize("mode", first_of(MODES))
def test_parsing_needs_neither_pytorch_nor_the_library(mode, configured, tmp_path):
    config, model = configured("training.epochs=4", train=mode), tmp_path / "run" / "model"
    scores = train(config, tmp_path / "run", CPU)
    sentences = read_treebank(config.treebank.dev)
    for loaded in (load_models(ModelChoice((model,))), load_network(model, CPU)):
        assert evaluate(loaded, sentences).as_dict() == scores.as_dict()
    arguments = ["parse", str(model), config.treebank.dev, "--device", "cpu", "-o"]
    assert main([*arguments, str(tmp_path / "here.conllu")]) == 0
    program = [sys.executable, "-c", WITHOUT_PYTORCH, *arguments, str(tmp_path / "there.conllu")]
    done = subprocess.run(program, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "there.conllu").read_bytes() == (tmp_path / "here.conllu").read_bytes()


def test_a_transformer_that_only_pytorch_computes_is_told(configured, tmp_path, capsys, monkeypatch):
    config, model = configured("training.epochs=1"), tmp_path / "run" / "model"
    train(config, tmp_path / "run", CPU)
    changed(model / "transformer" / "config.json", hidden_act="mish")
    sentences = read_treebank(config.treebank.dev)
    capsys.readouterr()
    by_arrays, by_pytorch = (
        evaluate(loaded, sentences)
        for loaded in (load_models(ModelChoice((model,))), load_network(model, CPU))
    )
    assert by_arrays == by_pytorch
    told = "PyTorch computes the transformer, which takes longer: hidden_act is 'mish'\n"
    assert told in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "peft", None)
    with pytest.raises(ValueError, match=r"hidden_act is 'mish': .* transformers and peft: pip install"):
        load_models(ModelChoice((model,)))


@pytest.mark.parametrize("kind", [torch.bfloat16, torch.float16])
def test_the_weights_of_a_transformer_may_have_16_bits(kind, configured, tmp_path):
    model = tmp_path / "run" / "model"
    train(configured("training.epochs=1"), tmp_path / "run", CPU)
    path = model / "transformer" / "model.safetensors"
    rounded = {name: weight.to(kind) for name, weight in load_file(path).items()}
    save_file(rounded, path)
    found = load_models(ModelChoice((model,))).transformer.weights
    assert found.keys() == rounded.keys()
    for name, weight in rounded.items():
        np.testing.assert_array_equal(found[name].astype(np.float32), weight.float().numpy())


@pytest.mark.extended
def test_training_goes_on_from_a_model_with_a_transformer(configured, folder, tmp_path):
    train(configured("training.epochs=3", train="lora"), tmp_path / "first", CPU)
    shutil.rmtree(folder)
    path = tmp_path / "first" / "model"
    more = configured(f"initial_model={path}", "training.learning_rate.peak=1e-9", train="lora")
    network, expected = data.load(more, CPU)[0].network, load_network(path, CPU).network
    assert_close(network.state_dict(), expected.state_dict(), rtol=0, atol=0)
    frozen = network.tokens.transformer.frozen_weights()
    wanted = expected.tokens.transformer.frozen_weights()
    assert_close({name: frozen[name] for name in wanted}, wanted, rtol=0, atol=0)


@pytest.mark.parametrize("mode", first_of(MODES[::-1]))
def test_a_transformer_can_be_pruned_when_training_goes_on(mode, config_file, tmp_path):
    folder = make_transformer(tmp_path / "pretrained", "xlm-roberta", text=[*TEXT, "γάτες κοιμούνται"])

    def started(*changes, **settings):
        return read_config(config_file, [transformer_of(folder, train=mode, **settings), *changes])

    train(started("training.epochs=1"), tmp_path / "first", CPU)
    path = tmp_path / "first" / "model"
    whole, pruned = (
        data.load(started(f"initial_model={path}", prune=prune), CPU)[0] for prune in (False, True)
    )
    sizes = [
        len(model.network.tokens.transformer.model.get_input_embeddings().weight) for model in (whole, pruned)
    ]
    assert sizes[1] < sizes[0]
    train_sentences = read_treebank(str(config_file.parent / "tiny.conllu"))
    assert parse(pruned, train_sentences) == parse(whole, train_sentences)


def changed(path, **change):
    """Change a JSON file."""
    path.write_text(json.dumps({**json.loads(path.read_text()), **change}))


def halved(path):
    """Cut off the second half of a file."""
    os.truncate(path, path.stat().st_size // 2)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda own: changed(own / "config.json", auto_map={"AutoModel": "evil.Model"}), "code of its own"),
        (lambda own: changed(own / "config.json", attn_implementation="hub/own"), "may load other code"),
        (lambda own: (own / "adapter_config.json").write_text("{}"), "has an adapter"),
        (lambda own: (own / "tokenizer.json").rename(own / "vocab.json"), "it has no tokenizer.json"),
        (lambda own: (own / "model.safetensors").rename(own / "pytorch_model.bin"), "pytorch_model.bin"),
        (lambda own: (own / "config.json").unlink(), "config.json is missing"),
        (lambda own: (own / "config.json").write_text("{"), "not a valid JSON file"),
        (lambda own: changed(own / "config.json", model_type="gpt2"), "its model_type is 'gpt2'"),
        (lambda own: changed(own / "config.json", intermediate_size="many"), "'intermediate_size'.*many"),
        (lambda own: changed(own / "config.json", vocab_size=20), "tokenizer.json is of another transformer"),
        (lambda own: halved(own / "model.safetensors"), "incomplete metadata"),
        (lambda own: halved(own / "tokenizer.json"), "EOF while parsing"),
        (shutil.rmtree, "there is no such folder"),
    ],
)
def test_what_could_execute_code_or_is_not_whole_is_refused(spoil, message, configured, folder):
    spoil(folder)
    with pytest.raises(ValueError, match=rf"parser\.network\.transformer\.model.*{message}"):
        data.load(configured(), CPU)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hidden_layers": 10_000_000}, "num_hidden_layers is 10,000,000, and at most 2,000,000"),
        *extended(
            ({"num_hidden_layers": 1e7}, "num_hidden_layers is 10,000,000"),
            ({"num_hidden_layers": 10**4}, "it has 10,000 layers"),
            ({"vocab_size": 100_000_000}, "vocab_size is 100,000,000"),
            ({"vocab_size": 2_000_000, "hidden_size": 2_000_000}, "asks for .* weights, and .* bytes"),
            ({"pruned_heads": {"0": [10**8]}}, "0 is 100,000,000"),
            ({"model_type": "albert", "num_hidden_groups": 2_000_000}, "it has 6,000,000 layers"),
        ),
    ],
)
def test_a_transformer_of_absurd_size_is_refused_before_it_is_built(change, message, configured, folder):
    changed(folder / "config.json", **change)
    with pytest.raises(ValueError, match=rf"transformer\.model: .*/pretrained: .*{message}"):
        data.load(configured(), CPU)


@pytest.mark.extended
def test_a_model_with_a_broken_transformer_is_refused(configured, tmp_path):
    train(configured("training.epochs=1"), tmp_path / "run", CPU)
    config = tmp_path / "run" / "model" / "transformer" / "config.json"
    content = config.read_text()
    for change, message in (
        ({"model_type": "none-such"}, "none-such"),
        ({"model_type": "detr", "backbone": "microsoft/resnet-50"}, "model_type is 'detr'"),
        ({"attn_implementation": "kernels-community/flash-attn2"}, "may load other code"),
        ({"hidden_size": "large"}, "hidden_size is 'large'"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1000000000"),
        ({"num_hidden_layers": 10**4}, "at most 200 is sensible"),
        ({"num_labels": 10**9}, "num_labels is 1,000,000,000"),
        ({"rope_parameters": {"rope_theta": 10**9}}, "rope_theta is 1,000,000,000"),
        ({"hidden_size": 4096}, "is .*, not"),
        ({"auto_map": {}}, "code of its own"),
    ):
        changed(config, **change)
        with pytest.raises(ValueError, match=message):
            load_network(tmp_path / "run" / "model", CPU)
        config.write_text(content)


@pytest.mark.extended
def test_a_transformer_that_memory_can_not_hold_is_named(config_file, tmp_path, monkeypatch):
    folder = make_transformer(tmp_path / "pretrained", hidden_size=64, intermediate_size=128)
    monkeypatch.setattr(data, "device_memory", lambda _: 1_000_000)
    for mode in ("frozen", "lora"):
        data.load(read_config(config_file, [transformer_of(folder, train=mode)]), CPU)
    with pytest.raises(ValueError, match=r"parser\.network\.transformer\.model is too large"):
        data.load(read_config(config_file, [transformer_of(folder, train="all")]), CPU)


NOTHING_RANDOM = "training.unknown_probability=0.0"


@pytest.fixture
def setting_of(tmp_path):
    """A function that returns the setting of a small transformer that is trained in the given way.

    It has no dropout: each process would draw its own.
    """
    no_dropout = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    folder = make_transformer(tmp_path / "pretrained", **no_dropout)
    return lambda mode: transformer_of(folder, train=mode)


def trained(processes, path, changes, run):
    return train(read_config(path, changes), run, CPU, processes=processes)


def weights_of(run):
    """The weights without biases of attention keys: Adam enlarges the rounding of their zero gradients."""
    weights = load_file(run / "model" / "weights.safetensors")
    return {name: weight for name, weight in weights.items() if not name.endswith("key.bias")}


@pytest.mark.extended
@pytest.mark.parametrize("mode", MODES)
def test_two_processes_train_as_one_does(mode, setting_of, config_file, tmp_path):
    changes = [setting_of(mode), NOTHING_RANDOM, "training.average=0.9", "training.batch_size=4"]
    one = trained(ALONE, config_file, changes, tmp_path / "one")
    first, second = together(2, trained, config_file, changes, tmp_path / "two")
    assert first == second == one
    ours, theirs = (weights_of(tmp_path / run) for run in ("two", "one"))
    assert_close(ours, theirs, rtol=1e-3, atol=1e-5)  # after 24 steps


@pytest.mark.extended
@pytest.mark.parametrize("mode", MODES)
def test_a_parser_of_two_treebanks_follows_the_one_that_is_asked_for(mode, setting_of, config_file, tmp_path):
    """Both have the same sentences, so the same vectors, but different labels. Dev is the one learnt last."""
    text, paths = (tmp_path / "tiny.conllu").read_text(), []
    for name, label, times in (("first", "nsubj", 1), ("second", "agent", 3)):
        path = tmp_path / f"{name}-ud-train.conllu"
        path.write_text(text.replace("nsubj", label) * times)
        paths.append(str(path))
    changes = [
        f"treebank.train=[{', '.join(paths)}]",
        f"treebank.dev={paths[0]}",
        "treebank.test=null",
        "parser.network.treebank_size=16",
        "training.epochs=12",
        "training.average=0.9",
    ]
    train(read_config(config_file, [*changes, setting_of(mode)]), tmp_path / "run", CPU)
    for treebank, path in zip(("first", "second"), paths, strict=True):
        model = load_models(ModelChoice((tmp_path / "run" / "model",), treebank))
        assert evaluate(model, read_treebank(path)).las == 100


@pytest.mark.extended
@pytest.mark.parametrize("mode", MODES)
def test_bfloat16_learns_what_float32_learns(mode, setting_of, config_file, bfloat16):
    changes = [NOTHING_RANDOM, "training.epochs=1", setting_of(mode)]
    gradients = []
    for chosen in ("float32", "bfloat16"):
        config = read_config(config_file, [*changes, f"training.precision={chosen}"])
        torch.manual_seed(1)
        model, loaded = data.load(config, CPU)
        batch = loaded.train.batch(torch.arange(16))
        with computing_in(chosen, CPU):
            model.network(batch, model.inventory).total.backward()
        found = [weight.grad for weight in model.network.parameters() if weight.grad is not None]
        gradients.append(torch.cat([gradient.flatten() for gradient in found]))
    assert not torch.equal(*gradients)
    assert torch.cosine_similarity(*gradients, dim=0) > 0.99
