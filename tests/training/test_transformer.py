"""Training with a pretrained transformer, alone and combined with other settings of runs."""

import json
import os
import shutil
import signal
from itertools import chain

import pytest
import torch
from extended import extended, first_of
from programs import together
from safetensors.torch import load_file, save_file
from small_transformers import make_transformer, transformers
from stopped_runs import Stops, left_behind

from parser.api.parser import load
from parser.batching.functional import computing_in
from parser.cli import main
from parser.evaluation.evaluate import evaluate
from parser.models.model import Model, ModelChoice, load_models
from parser.models.model_files import contents
from parser.networks.transformer.pieces import PieceTokenizer
from parser.networks.transformer.pretrained import read_pretrained
from parser.system.interruption import Interrupted, StoppedError
from parser.training import data, transformer
from parser.training.config import read_config
from parser.training.prepared import cache_folder
from parser.training.processes import ALONE
from parser.training.run import train
from parser.treebank.conllu import read_treebank

CPU = torch.device("cpu")
MODES = ["frozen", "lora", "all"]


def with_transformer(folder, **settings):
    own = {"model": str(folder), "layers": 2, "learning_rate": 1e-3, **settings}
    return f"parser.network.transformer={json.dumps(own)}"


KINDS = [*(("bert", mode) for mode in MODES), ("roberta", "lora"), ("xlm-roberta", "all")]


@pytest.mark.parametrize("kind_and_mode", first_of(KINDS), ids=" ".join)
def test_the_model_in_the_folder_parses_as_the_one_that_was_trained(kind_and_mode, config_file, tmp_path):
    kind, mode = kind_and_mode
    folder = make_transformer(tmp_path / "pretrained", kind)
    run = tmp_path / "run"
    changes = [with_transformer(folder, train=mode), "training.epochs=4", "training.average=0.9"]
    config = read_config(config_file, changes)
    scores = train(config, run, CPU)
    shutil.rmtree(folder)  # the model needs it no longer
    model = Model.load(run / "model", CPU)
    sentences = read_treebank(config.treebank.dev)
    assert evaluate(model, sentences) == scores
    kept = {path.name for path in (run / "model" / "transformer").iterdir()}
    assert kept == {
        "config.json",
        "tokenizer.json",
        "tokenizer_config.json",
        *(["model.safetensors"] if mode != "all" else []),
    }


@pytest.mark.extended
@pytest.mark.parametrize("mode", MODES)
def test_a_run_that_was_stopped_ends_as_one_that_never_was(mode, config_file, tmp_path, monkeypatch):
    own = with_transformer(make_transformer(tmp_path / "pretrained"), train=mode, dropout=0.2)
    config = read_config(config_file, [own, "training.epochs=6", "training.average=0.9"])
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
    own = {path.name: path.read_bytes() for path in folder.iterdir()}
    shutil.rmtree(folder)
    return left_behind(run), own


def test_vectors_of_a_frozen_transformer_are_computed_once(config_file, tmp_path, monkeypatch):
    config = read_config(config_file, [with_transformer(make_transformer(tmp_path / "pretrained"))])
    _, computed = data.load(config, CPU, cache_folder())
    monkeypatch.setattr(transformer, "_fill", None)
    model, mapped = data.load(config, CPU, cache_folder())
    for before, after in ((computed.train, mapped.train), (computed.dev, mapped.dev)):
        assert before.tokens.vectors.dtype == torch.float16
        assert torch.equal(before.tokens.vectors, after.tokens.vectors)
    # Dev sentences are not read by the transformer again.
    assert model.vocabulary.encode_tokens(mapped.dev_sentences).vectors is not None
    strange = read_treebank(config.treebank.train)[:1]
    tokens = model.vocabulary.encode_tokens([*mapped.dev_sentences, *strange])
    assert (tokens.vectors is None) == (strange[0].forms not in {s.forms for s in mapped.dev_sentences})


def test_there_may_be_no_dev(config_file, tmp_path):
    changes = ["treebank.dev=null", "training.learning_rate.decay=linear"]
    changes.append(with_transformer(make_transformer(tmp_path / "pretrained")))
    model, loaded = data.load(read_config(config_file, changes), CPU, cache_folder())
    assert len(loaded.train) == 16
    assert len(loaded.dev) == 0
    assert model.dev_shares == {}


@pytest.mark.extended
def test_other_settings_have_other_vectors(config_file, tmp_path):
    folder = make_transformer(tmp_path / "pretrained")
    names = []
    for more in ({}, {"layers": 1}, {"pooling": "first"}, {}, {"max_pieces": 8}, {"layers": 3}):
        data.load(read_config(config_file, [with_transformer(folder, **more)]), CPU, cache_folder())
        names.append({path.name for path in cache_folder().glob("*.vectors")})
    assert [len(own) for own in names] == [1, 2, 3, 3, 4, 4]
    assert transformer.KEPT == 4
    assert names[0] < names[-1]  # used later than the second


@pytest.mark.extended
def test_a_full_disk_keeps_the_vectors_in_memory(config_file, tmp_path, monkeypatch, capsys):
    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(transformer.os, "posix_fallocate", full)
    config = read_config(config_file, [with_transformer(make_transformer(tmp_path / "pretrained"))])
    _, loaded = data.load(config, CPU, cache_folder())
    assert loaded.train.tokens.vectors.isfinite().all()
    assert (
        "No space left on device; the transformer's vectors are kept in memory, 0.0 GB; set XDG"
        in capsys.readouterr().out
    )
    assert not [path for path in cache_folder().iterdir() if path.suffix != ".prepared"]


@pytest.mark.extended
@pytest.mark.parametrize("damage", ["cut", "changed"])
def test_a_damaged_file_of_vectors_is_computed_again(damage, config_file, tmp_path, capsys):
    config = read_config(config_file, [with_transformer(make_transformer(tmp_path / "pretrained"))])
    _, first = data.load(config, CPU, cache_folder())
    wanted = first.train.tokens.vectors.clone()
    [path] = cache_folder().glob("*.vectors")
    content = path.read_bytes()
    path.unlink()  # what is mapped stays as it is
    path.write_bytes(content[:-10] if damage == "cut" else bytes(100) + content[100:])
    _, second = data.load(config, CPU, cache_folder())
    assert torch.equal(second.train.tokens.vectors, wanted)
    assert f"{path} is damaged" in capsys.readouterr().out
    assert path.read_bytes() == content


@pytest.mark.extended
def test_what_half_precision_can_not_hold_is_refused(config_file, tmp_path):
    folder = make_transformer(tmp_path / "pretrained")
    change_weights(folder, "encoder.layer.2.output.LayerNorm.weight", lambda weight: weight * 1e6)
    with pytest.raises(ValueError, match="numbers that half precision cannot hold; set train: lora or all"):
        data.load(read_config(config_file, [with_transformer(folder)]), CPU, cache_folder())
    assert not [path for path in cache_folder().iterdir() if path.suffix != ".prepared"]


def change_weights(folder, name, change):
    path = folder / "model.safetensors"
    weights = load_file(path)
    weights[name] = change(weights[name])
    save_file({name: weight for name, weight in weights.items() if weight is not None}, path)


def test_a_transformer_without_some_weights_is_refused(config_file, tmp_path):
    folder = make_transformer(tmp_path / "pretrained")
    change_weights(folder, "encoder.layer.1.output.dense.weight", lambda _: None)
    with pytest.raises(ValueError, match=r"have no weights encoder\.layer\.1\.output\.dense\.weight"):
        data.load(read_config(config_file, [with_transformer(folder)]), CPU)


def test_a_transformer_is_the_same_elsewhere(tmp_path):
    folder = make_transformer(tmp_path / "here")
    digest = read_pretrained(str(folder)).digest
    shutil.copytree(folder, tmp_path / "there")
    there = read_pretrained(f"{tmp_path}/there/")
    assert there.digest == digest
    assert str(tmp_path) not in there.config


@pytest.mark.extended
def test_words_keep_their_case_and_the_library_reads_the_folder_of_a_model(config_file, tmp_path):
    """The library reads a folder without a tokenizer config as that of an uncased BERT."""
    folder, run = make_transformer(tmp_path / "pretrained"), tmp_path / "run"
    words = ["the", "Don't", "wake"]
    tokenizer = PieceTokenizer(read_pretrained(str(folder)).tokenizer)
    wanted = tokenizer.pieces(words)
    assert wanted != tokenizer.pieces([word.lower() for word in words])
    (folder / "tokenizer_config.json").unlink()
    assert PieceTokenizer(read_pretrained(str(folder)).tokenizer).pieces(words) == wanted
    train(read_config(config_file, [with_transformer(folder), "training.epochs=1"]), run, CPU)
    theirs = transformers.AutoTokenizer.from_pretrained(run / "model" / "transformer")
    pieces = theirs(words, is_split_into_words=True, add_special_tokens=False).input_ids
    assert pieces == list(chain.from_iterable(wanted))
    assert "transformer/tokenizer_config.json" in contents([run / "model"])  # also what `pack` gives away


@pytest.mark.extended
def test_a_stop_while_vectors_are_computed_leaves_no_file(config_file, tmp_path, monkeypatch):
    abandoned = cache_folder() / "killed.part"
    abandoned.parent.mkdir(parents=True, exist_ok=True)
    abandoned.write_bytes(b"0")
    os.utime(abandoned, (0, 0))

    def stopped(*_):
        os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(transformer, "_fill", stopped)
    config = read_config(config_file, [with_transformer(make_transformer(tmp_path / "pretrained"))])
    with pytest.raises(Interrupted):
        data.load(config, CPU, cache_folder())
    assert not [path for path in cache_folder().iterdir() if path.suffix != ".prepared"]


@pytest.mark.extended
def test_packages_and_programs_parse_with_it(config_file, tmp_path):
    folder = make_transformer(tmp_path / "pretrained")
    run = tmp_path / "run"
    train(read_config(config_file, [with_transformer(folder, train="lora"), "training.epochs=4"]), run, CPU)
    package = tmp_path / "one.stackparser"
    assert main(["pack", str(run / "model"), "-o", str(package)]) == 0
    words = ["the", "cat", "sleeps", "."]
    tags = {"upos": ["DET", "NOUN", "VERB", "PUNCT"]}
    trees = [load(path, "cpu").parse(words, **tags) for path in (run / "model", package)]
    assert trees[0] == trees[1]


@pytest.mark.extended
def test_several_processes_parse_as_one_does(config_file, tmp_path):
    run = tmp_path / "run"
    config = read_config(
        config_file, [with_transformer(make_transformer(tmp_path / "pretrained")), "training.epochs=2"]
    )
    train(config, run, CPU)
    outputs = [tmp_path / "1.conllu", tmp_path / "2.conllu"]
    for count, output in enumerate(outputs, 1):
        arguments = ["parse", str(run / "model"), config.treebank.dev, "-o", str(output)]
        assert main([*arguments, "--processes", str(count), "--device", "cpu"]) == 0
    assert outputs[0].read_bytes() == outputs[1].read_bytes()


@pytest.mark.extended
def test_training_goes_on_from_a_model_with_a_transformer(config_file, tmp_path):
    folder = make_transformer(tmp_path / "pretrained")
    changes = [with_transformer(folder, train="lora"), "training.epochs=3"]
    train(read_config(config_file, changes), tmp_path / "first", CPU)
    shutil.rmtree(folder)
    model = tmp_path / "first" / "model"
    more = read_config(config_file, [*changes, f"initial_model={model}", "training.learning_rate.peak=1e-9"])
    network = data.load(more, CPU)[0].network
    for name, weight in Model.load(model, CPU).network.state_dict().items():
        assert torch.equal(network.state_dict()[name], weight), name
    frozen = network.tokens.transformer.frozen_weights()
    loaded = Model.load(model, CPU).network.tokens.transformer.frozen_weights()
    assert all(torch.equal(frozen[name], loaded[name]) for name in loaded)


def test_what_could_execute_code_is_refused(config_file, tmp_path):
    folder = make_transformer(tmp_path / "pretrained")

    def message():
        with pytest.raises(ValueError, match=r"parser\.network\.transformer\.model") as error:
            data.load(read_config(config_file, [with_transformer(folder)]), CPU)
        return str(error.value)

    config = folder / "config.json"
    content = config.read_text()
    config.write_text(json.dumps({**json.loads(content), "auto_map": {"AutoModel": "evil.Model"}}))
    assert "needs code of its own" in message()
    config.write_text(json.dumps({**json.loads(content), "attn_implementation": "kernels-community/own"}))
    assert "attn_implementation, which may load other code" in message()
    config.write_text(content)
    (folder / "adapter_config.json").write_text("{}")
    assert "has an adapter; merge it" in message()
    (folder / "adapter_config.json").unlink()
    (folder / "tokenizer.json").rename(folder / "vocab.json")
    assert "it has no tokenizer.json; load and save its tokenizer" in message()
    (folder / "vocab.json").rename(folder / "tokenizer.json")
    (folder / "model.safetensors").rename(folder / "pytorch_model.bin")
    assert "pytorch_model.bin is not read" in message()
    config.unlink()
    assert "config.json is missing" in message()
    shutil.rmtree(folder)
    assert "no transformer can be read" in message()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"num_hidden_layers": 10_000_000}, "num_hidden_layers is 10,000,000, and at most 2,000,000"),
        *extended(
            ({"num_hidden_layers": 1e7}, "num_hidden_layers is 10,000,000"),
            ({"num_hidden_layers": 10**4}, "it has 10,000 layers, and at most 200 is sensible"),
            ({"vocab_size": 100_000_000}, "vocab_size is 100,000,000"),
            ({"vocab_size": 2_000_000, "hidden_size": 2_000_000}, "asks for .* weights, and .* bytes"),
            ({"pruned_heads": {"0": [10**8]}}, "0 is 100,000,000"),
            ({"model_type": "albert", "num_hidden_groups": 2_000_000}, "it has 6,000,000 layers"),
        ),
    ],
)
def test_a_transformer_of_absurd_size_is_refused_before_it_is_built(change, message, config_file, tmp_path):
    folder = make_transformer(tmp_path / "pretrained")
    config = folder / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **change}))
    with pytest.raises(ValueError, match=rf"transformer\.model: .*/pretrained: .*{message}"):
        data.load(read_config(config_file, [with_transformer(folder)]), CPU)


@pytest.mark.extended
@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"model_type": "none-such"}, "none-such"),
        ({"model_type": "detr", "backbone": "microsoft/resnet-50"}, "its model_type is 'detr'"),
        ({"attn_implementation": "kernels-community/flash-attn2"}, "which may load other code"),
        ({"hidden_size": "large"}, "the transformer's config is broken"),
        ({"num_hidden_layers": 10**9}, "num_hidden_layers is 1,000,000,000"),
        ({"num_hidden_layers": 10**4}, "at most 200 is sensible"),
        ({"num_labels": 10**9}, "num_labels is 1,000,000,000"),
        ({"rope_parameters": {"rope_theta": 10**9}}, "rope_theta is 1,000,000,000"),
        ({"hidden_size": 4096}, "is .*, not"),
        ({"auto_map": {}}, "code of its own"),
    ],
)
def test_a_model_with_a_broken_transformer_is_refused(change, message, config_file, tmp_path):
    folder, run = make_transformer(tmp_path / "pretrained"), tmp_path / "run"
    train(read_config(config_file, [with_transformer(folder), "training.epochs=1"]), run, CPU)
    config = run / "model" / "transformer" / "config.json"
    config.write_text(json.dumps({**json.loads(config.read_text()), **change}))
    with pytest.raises(ValueError, match=message):
        Model.load(run / "model", CPU)


@pytest.mark.extended
def test_a_transformer_that_memory_can_not_hold_is_named(config_file, tmp_path, monkeypatch):
    folder = make_transformer(tmp_path / "pretrained", hidden_size=64, intermediate_size=128)
    monkeypatch.setattr(data, "device_memory", lambda _: 1_000_000)
    for mode, fits in (("frozen", True), ("lora", True), ("all", False)):
        config = read_config(config_file, [with_transformer(folder, train=mode)])
        if fits:
            data.load(config, CPU)
        else:
            with pytest.raises(ValueError, match=r"parser\.network\.transformer\.model is too large"):
                data.load(config, CPU)


NOTHING_RANDOM = "training.unknown_probability=0.0"


@pytest.fixture
def setting_of(tmp_path):
    """A function that returns the setting of a small transformer that is trained in the given way.

    It has no dropout: each process would draw its own.
    """
    folder = make_transformer(
        tmp_path / "pretrained", hidden_dropout_prob=0.0, attention_probs_dropout_prob=0.0
    )

    def setting(mode):
        told = f"{{model: {folder}, layers: 2, train: {mode}, learning_rate: 1e-3}}"
        return f"parser.network.transformer={told}"

    return setting


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
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-5)  # after 24 steps


@pytest.mark.extended
@pytest.mark.parametrize("mode", ["frozen", "all"])
def test_a_teacher_with_a_transformer_says_what_it_predicts(mode, setting_of, config_file, tmp_path):
    """The labels of the trees are wrong. Only the teacher knows the right labels."""
    fast = "training.learning_rate={start: 2e-2, peak: 2e-2, warmup_epochs: 0}"
    changes = [fast, "training.epochs=12"]
    good = read_config(config_file, [*changes, setting_of(mode)])
    assert train(good, tmp_path / "good", CPU).las == 100
    text = (tmp_path / "tiny.conllu").read_text().replace("nsubj", "punct")
    other = "1\tworms\tworm\tNOUN\t_\t_\t2\tnsubj\t_\t_\n2\tcrawl\tcrawl\tVERB\t_\t_\t0\troot\t_\t_\n\n"
    (tmp_path / "wrong.conllu").write_text(text + other)
    changes.append(f"treebank.train={tmp_path}/wrong.conllu")
    teachers = f"training.distillation={{models: [{tmp_path}/good/model]}}"
    for run, more, learns in (("taught", [teachers], True), ("untaught", [], False)):
        las = train(read_config(config_file, [*changes, *more]), tmp_path / run, CPU).las
        assert (las == 100) is learns


@pytest.mark.extended
def test_a_student_with_a_transformer_learns_from_one_without(setting_of, config_file, tmp_path):
    train(read_config(config_file, ["training.epochs=2"]), tmp_path / "teacher", CPU)
    taught = [setting_of("lora"), f"training.distillation={{models: [{tmp_path}/teacher/model]}}"]
    config = read_config(config_file, taught)
    scores = train(config, tmp_path / "student", CPU)
    model = Model.load(tmp_path / "student" / "model", CPU)
    assert evaluate(model, read_treebank(config.treebank.dev)) == scores


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
        model = load_models(ModelChoice((tmp_path / "run" / "model",), treebank), CPU)
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
        gradients.append(
            torch.cat([w.grad.flatten() for w in model.network.parameters() if w.grad is not None])
        )
    assert not torch.equal(*gradients)
    assert torch.cosine_similarity(*gradients, dim=0) > 0.99
