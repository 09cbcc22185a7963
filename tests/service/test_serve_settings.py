"""Settings of `serve`: flags before the environment, before a file, before defaults."""

import re
from pathlib import Path

import psutil
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from programs import children_of
from services import serving

from parser.cli import main
from parser.commands.serve_settings import CONFIG, PREFIX, as_yaml, flags, options_of, settle

httpx = pytest.importorskip("httpx")

NAMES = [name for name in flags() if name != CONFIG]
TEXTS = st.text(st.characters(exclude_categories=["C"]), min_size=1).filter(lambda text: text[0] != "-")
COUNTS = st.integers(1, 60_000)


def values_of(name):
    """Values of a setting, as texts or numbers."""
    action = flags()[name]
    if action.choices:
        return st.sampled_from(action.choices)
    if isinstance(action.default, list):
        return st.lists(TEXTS, min_size=1, max_size=3)
    return COUNTS if isinstance(action.default, int) else TEXTS


def quoted(text):
    return '"' + re.sub(r'([\\"$`])', r"\\\1", text) + '"'


def settled(tmp_path, of_flags=None, of_variables=None, of_file=None):
    """The settings from these three sources."""
    arguments = list((of_flags or {}).get("models", []))
    for name, value in (of_flags or {}).items():
        if name != "models":
            several = value if isinstance(value, list) else [value]
            arguments += [f"--{name.replace('_', '-')}={one}" for one in several]
    variables = {
        PREFIX + name.upper(): " ".join(map(quoted, value)) if isinstance(value, list) else str(value)
        for name, value in (of_variables or {}).items()
    }
    if of_file is not None:
        path = tmp_path / "service.yaml"
        path.write_text(yaml.safe_dump(of_file, allow_unicode=True) if isinstance(of_file, dict) else of_file)
        variables[f"{PREFIX}CONFIG"] = str(path)
    return settle(arguments, variables)


@pytest.fixture(name="folder", scope="module")
def folder_fixture(tmp_path_factory):
    return tmp_path_factory.mktemp("settings")


@given(st.data())
def test_any_setting_comes_from_the_first_source_that_has_it(folder, data):
    name = data.draw(st.sampled_from(NAMES))
    sources = {}
    for source in ("of_flags", "of_variables", "of_file"):
        if data.draw(st.booleans()):
            sources[source] = {name: data.draw(values_of(name))}
    setting = settled(folder, **sources)[name]
    if not sources:
        assert setting == (flags()[name].default, "default")
        return
    first = next(iter(sources))
    told = {"of_flags": "flag", "of_variables": PREFIX + name.upper(), "of_file": f"{folder}/service.yaml:1"}
    wanted = sources[first][name]
    assert setting.source == told[first]
    assert setting.value == (Path(wanted) if name == "token_file" else wanted)


OTHERS = {name: values_of(name) for name in NAMES if name != "models"}


@given(st.fixed_dictionaries({"models": values_of("models")}, optional=OTHERS))
def test_what_is_printed_and_what_processes_get_are_the_same_settings(folder, wanted):
    settings = settled(folder, of_file=wanted)
    values = [setting.value for name, setting in settings.items() if name != CONFIG]
    for again in (
        settle(options_of(settings).arguments[1:], {}),
        settled(folder, of_file="\n".join(as_yaml(settings))),
    ):
        assert [setting.value for name, setting in again.items() if name != CONFIG] == values


def test_the_example_of_the_page_is_a_file(folder):
    page = Path("docs/service.md").read_text(encoding="utf-8")
    [example] = re.findall(r"^```yaml\n(.*?)^```$", page, re.MULTILINE | re.DOTALL)
    settings = settled(folder, {"max_requests": 32}, {"port": 8002}, example)
    assert settings["models"].value == ["english-ewt", "fr-sequoia=runs/french/model"]
    assert settings["cors"].value == ["https://example.org"]
    assert (settings["max_requests"].value, settings["port"].value) == (32, 8002)


@pytest.mark.parametrize(
    ("of_variables", "of_file", "told"),
    [
        ({"prot": "1"}, None, "STACK_PARSER_SERVE_PROT: unknown key; did you mean STACK_PARSER_SERVE_PORT?"),
        ({"port": "x"}, None, "STACK_PARSER_SERVE_PORT: 'x' is not a port: a number up to 65535"),
        ({"port": ""}, None, "STACK_PARSER_SERVE_PORT: '' is not a port"),
        ({"precision": "int4"}, None, "STACK_PARSER_SERVE_PRECISION: 'int4' is not one of auto, int8,"),
        ({"models": "'a"}, None, "STACK_PARSER_SERVE_MODELS: No closing quotation"),
        ({"config": "-"}, None, "STACK_PARSER_SERVE_CONFIG: standard input cannot be a config"),
        ({}, "max-bytes: 1\n", "service.yaml:1: max-bytes: unknown key; did you mean max_bytes?"),
        ({}, "config: a\n", "service.yaml:1: config: unknown key; "),
        ({}, "port: 1\nport: 2\n", "service.yaml:2: port is a duplicate key"),
        ({}, "port: 1\n\ntimeout: 0\n", "service.yaml:3: timeout: '0' is not a whole number of at least 1"),
        (
            {},
            "host: off\n",
            "service.yaml:1: host: should be a number or a text; put a text such",
        ),
        ({}, "port: [1, 2]\n", "service.yaml:1: port: should be a number or a text"),
        ({}, "cors: {a: b}\n", "service.yaml:1: cors: should be a text, or a list of texts"),
        ({}, "- a\n", "service.yaml:1: a config has keys and values"),
        ({}, "port: 010\n", "service.yaml:1: YAML reads '010' as 8; write a decimal number"),
    ],
)
def test_what_is_wrong_is_named(of_variables, of_file, told, tmp_path):
    with pytest.raises(ValueError, match=re.escape(told)):
        settled(tmp_path, None, of_variables, of_file)


def test_a_model_is_needed(monkeypatch, capsys):
    assert main(["serve"]) == 2
    told = (
        "serve needs a model: name one, or set models in the file of --config, or STACK_PARSER_SERVE_MODELS"
    )
    assert told in capsys.readouterr().err
    monkeypatch.setenv("STACK_PARSER_SERVE_CONFIG", "nowhere.yaml")
    assert main(["serve", "a"]) == 2
    assert "nowhere.yaml: No such file" in capsys.readouterr().err


def test_the_settings_are_printed_without_tokens(tmp_path, monkeypatch, capsys):
    tokens = tmp_path / "tokens"
    tokens.write_text("0123456789abcdef\n")
    monkeypatch.setenv("STACK_PARSER_SERVE_TOKEN_FILE", str(tokens))
    assert main(["serve", "--print-config", "--cors", "*"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert f'token_file: "{tokens}"  # STACK_PARSER_SERVE_TOKEN_FILE' in lines
    assert 'cors: ["*"]  # flag' in lines
    assert "models: []  # default" in lines
    assert "port: 8001  # default" in lines
    assert not [line for line in lines if "0123456789abcdef" in line]


@pytest.mark.extended
def test_a_process_that_is_replaced_gets_the_settings_of_the_others(model, tmp_path, monkeypatch):
    """Even if the file has changed since, or is gone."""
    config = tmp_path / "service.yaml"
    config.write_text(f"models: [first={model}, second=tests/model]\nmax_bytes: 1000\n")
    monkeypatch.setenv("STACK_PARSER_SERVE_DEFAULT", "second")
    with serving("--config", config, "--processes=2") as service:
        config.write_text("nonsense: 1\n")
        told = service.next("process ready")
        psutil.Process(told["pid"]).kill()
        service.next("process ready")
        for child in children_of(service.process):
            if child.pid != told["pid"]:
                assert "--max-bytes=1000" in child.cmdline()
        answer = httpx.get(f"{service.url}/models").json()
        assert list(answer["models"]) == ["first", "second"]
        assert answer["default_model"] == "second"
        assert httpx.post(f"{service.url}/v1/parse", json={"texts": ["a" * 1_000]}).status_code == 413
