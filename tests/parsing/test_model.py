import json

import pytest
import torch
import yaml
from hypothesis import assume, given
from hypothesis import strategies as st
from plain_transitions import sentence as made_up

from parser.config import NetworkSettings, ParserSettings
from parser.parsing.model import FORMAT, Model
from parser.parsing.parse import parse, parse_stream
from parser.treebank.conllu import read_treebank, stream_sentences
from parser.treebank.conllu_output import with_tree
from parser.treebank.vocabulary import Lexicon, Vocabulary

CPU = torch.device("cpu")
TRAIN = [made_up((2, 0, 2)), made_up((0, 1))]


@pytest.mark.parametrize("pretrained", [[], ["word0", "other"]])
def test_a_loaded_model_parses_as_before_without_other_files(tmp_path, pretrained):
    vocabulary = Vocabulary.build(TRAIN, ["form", "upos"], pretrained)
    vectors = torch.randn(2, 3) if pretrained else None
    settings = ParserSettings(
        system="arc-eager", network=NetworkSettings(pretrained="is/not/read/again.txt", dropout=0.5)
    )
    model = Model.build(settings, vocabulary, CPU, vectors)
    model.network.eval()
    model.save(tmp_path, {"dev": {"las": 12.5}})
    loaded = Model.load(tmp_path, CPU)
    assert loaded.settings == settings
    for name, weight in model.network.state_dict().items():
        assert torch.equal(loaded.network.state_dict()[name], weight), name
    sentences = [made_up((0, 1, 1, 2, 3)), made_up((2, 0))]
    assert parse(loaded, sentences) == parse(model, sentences)
    assert json.loads((tmp_path / "scores.json").read_text())["dev"]["las"] == 12.5


def test_a_folder_that_is_not_a_model_is_refused(tmp_path):
    with pytest.raises(
        ValueError, match=r"not a model's folder, config.yaml, vocabulary.json, weights.safetensors missing"
    ):
        Model.load(tmp_path, CPU)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("weights.safetensors", b"\0" * 20),
        ("vocabulary.json", b"{}"),
        ("config.yaml", b"network: {hidden_size: 8}"),
    ],
)
def test_damaged_files_are_refused(tmp_path, name, content):
    Model.build(ParserSettings(), Vocabulary.build(TRAIN, ["form", "upos"]), CPU).save(tmp_path, {})
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match="broken or not of one model"):
        Model.load(tmp_path, CPU)


def vocabulary_with(labels, root_labels=(1,), word_labels=(2,)):
    numbers = {"root_labels": root_labels, "word_labels": word_labels}
    return json.dumps({"columns": {"form": [], "upos": []}, "labels": labels, **numbers})


def saved(folder):
    Model.build(ParserSettings(), Vocabulary.build(TRAIN, ["form", "upos"]), CPU).save(folder, {})
    return yaml.safe_load((folder / "config.yaml").read_text()), json.loads(
        (folder / "vocabulary.json").read_text()
    )


def test_the_model_of_a_newer_version_is_refused(tmp_path):
    settings, _ = saved(tmp_path)
    newer = {**settings, "format": FORMAT + 1, "miracles": True}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(newer))
    with pytest.raises(ValueError, match="made by a newer program"):
        Model.load(tmp_path, CPU)


def test_weights_of_other_sizes_are_named(tmp_path):
    settings, _ = saved(tmp_path)
    network = {**settings["network"], "hidden_size": 60_000, "layers": 3}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump({**settings, "network": network}))
    with pytest.raises(ValueError, match=r"buffer\.weight_hh_l2 is missing, not \(240000, 60000\)"):
        Model.load(tmp_path, CPU)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("config.yaml", "!!python/object/apply:os.system ['touch {trap}']"),
        ("config.yaml", "network: &a [*a]"),
        ("config.yaml", "- 1"),
        (
            "config.yaml",
            "a0: &a0 [1]\n" + "".join(f"a{n}: &a{n} [{9 * f'*a{n - 1},'}]\n" for n in range(1, 30)),
        ),
        ("config.yaml", "network: {layers: 1000000000}"),
        ("config.yaml", f"network: {{characters: {{widths: [{'3, ' * 199_999}]}}}}"),
        ("config.yaml", "a: 1" + 400_000 * " "),
        ("config.yaml", "network: {hidden_size: 1" + 40 * "0" + "}"),
        ("vocabulary.json", "[" * 100_000),
        ("vocabulary.json", '{"columns": {"form": 3}, "labels": [], "root_labels": [], "word_labels": []}'),
        ("vocabulary.json", '{"columns": {"lemma": []}, "labels": [], "root_labels": [], "word_labels": []}'),
        ("vocabulary.json", '{"columns": {}, "labels": ["a"], "root_labels": [99], "word_labels": [-7]}'),
        (
            "vocabulary.json",
            '{"columns": {"pretrained": []}, "labels": [], "root_labels": [], "word_labels": []}',
        ),
        ("vocabulary.json", vocabulary_with(["root", "a\tb"])),
        ("vocabulary.json", vocabulary_with(["root", "a\n1\tx"])),
        ("vocabulary.json", vocabulary_with(["root", "root"])),
        *[
            ("vocabulary.json", vocabulary_with(["root", label]))
            for label in ("\ud800", "", "_", "↑", "↑x", "x↑", "x↑_", "x↑y↑z", "a\rb", "a\0", "a\u2028b")
        ],
        *[
            ("vocabulary.json", vocabulary_with(["root", "x"], numbers, [2]))
            for numbers in ([0], [-1], [3], [], [True], [1.0])
        ],
        ("vocabulary.json", vocabulary_with(["root", "x"], [1], [-1])),
        ("weights.safetensors", b"\xff" * 8 + b"{}"),
        ("weights.safetensors", b"\x80\x04cos\nsystem\n"),
    ],
)
def test_malicious_files_are_refused(tmp_path, name, content):
    saved(tmp_path)
    trap = tmp_path / "trap"
    path = tmp_path / name
    path.write_bytes(content) if isinstance(content, bytes) else path.write_text(
        content.replace("{trap}", str(trap))
    )
    with pytest.raises(ValueError, match="broken or not of one model"):
        Model.load(tmp_path, CPU)
    assert not trap.exists()


USUAL_LABELS = st.sampled_from(["root", "a", "b", "a↑b", "b↑a", "a b"])
ODD_LABELS = st.one_of(
    st.sampled_from(["", "_", "↑", "a↑", "↑b", "a↑b↑a", "a\r", "\u2028"]), st.text(max_size=3)
)


@given(
    st.lists(USUAL_LABELS, min_size=1, unique=True),
    st.one_of(st.just([]), st.just([]), st.lists(ODD_LABELS, max_size=1)),
    st.data(),
    st.integers(0, 1000),
)
def test_any_accepted_vocabulary_gives_readable_output(tmp_path_factory, usual, odd, data, seed):
    labels = usual + odd
    numbers = st.sets(st.integers(0 if seed % 4 == 0 else 1, len(labels)), min_size=1)
    vocabulary = Vocabulary(
        columns={"form": Lexicon([]), "upos": Lexicon([])},
        labels=Lexicon(labels),
        root_labels=frozenset(data.draw(numbers)),
        word_labels=frozenset(data.draw(numbers)),
    )
    content = vocabulary.as_json().encode("utf-8", "surrogatepass")
    assume(accepted(content))
    folder = tmp_path_factory.mktemp("strange")
    torch.manual_seed(seed)
    Model.build(ParserSettings(network=NetworkSettings(hidden_size=4, layers=1)), vocabulary, CPU).save(
        folder, {}
    )
    (folder / "vocabulary.json").write_bytes(content)
    path = folder / "parsed.conllu"
    path.write_text("".join(f"{number}\ta\t_\tX\t_\t_\t_\t_\t_\t_\n" for number in range(1, 9)) + "\n")
    [(sentence, tree)] = parse_stream(Model.load(folder, CPU), stream_sentences(str(path), tree=False))
    path.write_text("".join(with_tree(sentence, tree.heads, tree.labels)), encoding="utf-8")
    assert len(read_treebank(str(path))[0]) == 8


def accepted(content):
    try:
        Vocabulary.from_json(content.decode())
    except ValueError:
        return False
    return True


def test_weights_that_are_not_finite_are_refused(tmp_path):
    model = Model.build(ParserSettings(), Vocabulary.build(TRAIN, ["form", "upos"]), CPU)
    torch.nn.init.constant_(model.network.scores.bias, float("nan"))
    model.save(tmp_path, {})
    with pytest.raises(ValueError, match=r"scores\.bias has values that are not finite"):
        Model.load(tmp_path, CPU)
