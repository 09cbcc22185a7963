import json

import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from plain_parser import sentence as made_up

from parser.models.network_model import NetworkModel, load_network
from parser.models.settings import ParserSettings
from parser.networks.settings import NetworkSettings
from parser.parsing.engine import parse, parse_stream
from parser.system.version import __version__
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
    model = NetworkModel.build(settings, vocabulary, CPU, vectors)
    model.network.eval()
    model.save(tmp_path, {"dev": {"las": 12.5}})
    loaded = load_network(tmp_path, CPU)
    assert loaded.settings == settings
    for name, weight in model.network.state_dict().items():
        assert torch.equal(loaded.network.state_dict()[name], weight), name
    sentences = [made_up((0, 1, 1, 2, 3)), made_up((2, 0))]
    assert parse(loaded, sentences) == parse(model, sentences)
    assert json.loads((tmp_path / "scores.json").read_text())["dev"]["las"] == 12.5


def test_a_folder_that_is_not_a_model_is_refused(tmp_path):
    with pytest.raises(
        ValueError,
        match=r"not a model's folder, settings.json, vocabulary.json, weights.safetensors, columns.json miss",
    ):
        load_network(tmp_path, CPU)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("weights.safetensors", b"\0" * 20),
        ("vocabulary.json", b"{}"),
        ("settings.json", b'{"format": 1, "version": "1", "parser": {"network": {"hidden_size": 8}}}'),
        ("settings.json", b'{"format": 1}'),
        ("columns.json", b"[]"),
    ],
)
def test_damaged_files_are_refused(tmp_path, name, content):
    NetworkModel.build(ParserSettings(), Vocabulary.build(TRAIN, ["form", "upos"]), CPU).save(tmp_path, {})
    (tmp_path / name).write_bytes(content)
    with pytest.raises(ValueError, match="broken or not of one model"):
        load_network(tmp_path, CPU)


def vocabulary_with(labels, root_labels=(1,), word_labels=(2,), **more):
    content = {
        "columns": {"form": [], "upos": []},
        "folded": [],
        "labels": labels,
        "root_labels": root_labels,
        "word_labels": word_labels,
        "predicted": {},
    }
    return json.dumps({**content, **more})


def saved(folder):
    """Save a model, and return the content of its settings."""
    NetworkModel.build(ParserSettings(), Vocabulary.build(TRAIN, ["form", "upos"]), CPU).save(folder, {})
    return json.loads((folder / "settings.json").read_text())


@pytest.mark.parametrize(
    ("number", "told"),
    [
        (2, "format 2"),
        (0, "format 0"),
        ("1", "format '1'"),
        (1.0, "format 1.0"),
        (True, "format True"),
        (None, "a format that it does not name"),
        ("9" * 1000, "format '9{59}…"),
    ],
)
def test_a_model_of_another_format_is_refused(tmp_path, number, told):
    """Whatever else is different in it."""
    content = {**saved(tmp_path), "miracles": True, "format": number}
    (tmp_path / "settings.json").write_text(json.dumps(content))
    (tmp_path / "columns.json").unlink()
    reads = f"this program reads format 1 only: parse with the version, {__version__}, that made the model"
    message = rf"{tmp_path}: settings\.json has {told}, and {reads}"
    with pytest.raises(ValueError, match=f"^{message}"):
        load_network(tmp_path, CPU)
    del content["format"]
    (tmp_path / "settings.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"settings\.json has a format that it does not name"):
        load_network(tmp_path, CPU)


def test_weights_of_other_sizes_are_named(tmp_path):
    content = saved(tmp_path)
    content["parser"]["network"] |= {"hidden_size": 60_000, "layers": 3}
    (tmp_path / "settings.json").write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"buffer\.weight_hh_l2 is missing, not \(240000, 60000\)"):
        load_network(tmp_path, CPU)


def test_faults_of_settings_are_named(tmp_path):
    content = saved(tmp_path)
    content["parser"]["network"] |= {"hidden_size": 10**9, "mystery": 1}
    (tmp_path / "settings.json").write_text(json.dumps(content))
    with pytest.raises(
        ValueError,
        match=r"settings.json: parser.network.hidden_size: Input should be less than or equal to 65536; "
        r"parser.network.mystery: unknown key$",
    ):
        load_network(tmp_path, CPU)


def settings_with(network):
    """Settings as JSON. network: the JSON of their section `network`."""
    return f'{{"format": 1, "version": "1", "parser": {{"network": {network}}}}}'


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("settings.json", "!!python/object/apply:os.system ['touch {trap}']"),
        ("settings.json", "[1]"),
        ("settings.json", settings_with('{"layers": 1000000000}')),
        ("settings.json", settings_with(f'{{"characters": {{"widths": [{", ".join(["3"] * 50_000)}]}}}}')),
        ("settings.json", settings_with("{}") + 400_000 * " "),
        ("settings.json", settings_with('{"hidden_size": 1' + 40 * "0" + "}")),
        ("settings.json", settings_with('{"hidden_size": ' + 5000 * "1" + "}")),
        ("settings.json", settings_with('{"dropout": NaN}')),
        ("settings.json", settings_with('{"dropout": 1e999}')),
        ("settings.json", settings_with('{"pretrained": "a\\u0000b"}')),
        ("settings.json", settings_with("[" * 100_000)),
        ("settings.json", settings_with('{"a":' * 50_000)),
        ("settings.json", '{"format": 1'),
        ("settings.json", b"\xff\xfe"),
        ("columns.json", "[" * 100_000),
        ("columns.json", '{"upos": {"blank": NaN, "unknown": 0}}'),
        ("vocabulary.json", "[" * 100_000),
        ("vocabulary.json", vocabulary_with(["root", "x"], columns={"form": 3})),
        ("vocabulary.json", vocabulary_with(["root", "x"], columns={"lemma": []})),
        ("vocabulary.json", vocabulary_with(["root", "x"], columns={"pretrained": []})),
        ("vocabulary.json", vocabulary_with(["root", "x"], more=1)),
        ("vocabulary.json", vocabulary_with(["root", "x"], [99], [-7])),
        ("vocabulary.json", vocabulary_with(["root", "x"], predicted={"upos": ["X\n1\tmore"]})),
        ("vocabulary.json", vocabulary_with(["root", "x"], predicted={"upos": []})),
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
        load_network(tmp_path, CPU)
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
    NetworkModel.build(
        ParserSettings(network=NetworkSettings(hidden_size=4, layers=1)), vocabulary, CPU
    ).save(folder, {})
    (folder / "vocabulary.json").write_bytes(content)
    path = folder / "parsed.conllu"
    path.write_text("".join(f"{number}\ta\t_\tX\t_\t_\t_\t_\t_\t_\n" for number in range(1, 9)) + "\n")
    [(sentence, tree)] = parse_stream(load_network(folder, CPU), stream_sentences(str(path), tree=False))
    path.write_text("".join(with_tree(sentence, tree.heads, tree.labels)), encoding="utf-8")
    assert len(read_treebank(str(path))[0]) == 8


def accepted(content):
    try:
        Vocabulary.from_json(content.decode())
    except ValueError:
        return False
    return True


def test_weights_that_are_not_finite_are_refused(tmp_path):
    model = NetworkModel.build(ParserSettings(), Vocabulary.build(TRAIN, ["form", "upos"]), CPU)
    torch.nn.init.constant_(model.network.scores.bias, float("nan"))
    model.save(tmp_path, {})
    with pytest.raises(ValueError, match=r"scores\.bias has values that are not finite"):
        load_network(tmp_path, CPU)
