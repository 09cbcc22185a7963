"""A parser in other processes: forked and newly started ones, by pickling, and as copies."""

import asyncio
import copy
import json
import os
import pickle
import shutil
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context

import pytest
from extended import first_of

import parser
from parser.models.model_files import TOKENIZER
from parser.training.config import read_config
from parser.transitions import SYSTEMS, transition_system

MODEL = "tests/model"
CAT = ["The", "cat", "sleeps", "."]
SENTENCES = [CAT[:words] for words in (1, 2, 3, 4)] * 4
SECONDS = 120
"""A process that only has to parse a few sentences and takes longer hangs."""


@pytest.fixture(scope="module")
def english():
    return parser.load(MODEL, device="cpu")


@pytest.mark.usefixtures("several_threads")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("method", first_of(["fork", "spawn", "forkserver"]))
def test_processes_parse_as_one_does(english, method):
    alone = [english.parse(words) for words in SENTENCES]
    with get_context(method).Pool(2) as pool:
        assert pool.map_async(english.parse, SENTENCES, chunksize=4).get(SECONDS) == alone


@pytest.mark.extended
@pytest.mark.usefixtures("several_threads")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_a_forked_process_has_tasks_of_its_own(english):
    alone = [english.parse(words) for words in SENTENCES]
    assert asyncio.run(parse_as_tasks(english)) == alone
    if not (child := os.fork()):
        os._exit(asyncio.run(parse_as_tasks(english)) != alone)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert asyncio.run(parse_as_tasks(english)) == alone


async def parse_as_tasks(own):
    return await asyncio.gather(*map(own.parse_async, SENTENCES))


@pytest.mark.extended
@pytest.mark.usefixtures("several_threads")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("method", ["fork", "spawn", "forkserver"])
def test_processes_load_parsers_of_their_own(english, method):
    with ProcessPoolExecutor(1, get_context(method)) as pool:
        loaded = pool.submit(parser.load, MODEL, device="cpu").result(SECONDS)
    assert loaded.parse(CAT) == english.parse(CAT)


def pickled(own):
    return pickle.loads(pickle.dumps(own))


@pytest.mark.parametrize("copied", first_of([pickled, copy.deepcopy, copy.copy]))
@pytest.mark.parametrize("text_first", first_of([False, True]))
def test_a_copy_parses_text_without_the_files(copied, text_first, tmp_path):
    shutil.copytree(MODEL, tmp_path / "model")
    (tmp_path / "model" / TOKENIZER).write_text(
        '{"settings": {"kind": "spacy", "language": "en"}, "contents": {}}'
    )
    own = parser.load(tmp_path / "model", device="cpu")
    if text_first:
        own.parse_text("It barks.")
    shutil.rmtree(tmp_path / "model")
    again = copied(own)
    assert [tree.words for tree in again.parse_text("It barks.")] == [("It", "barks", ".")]
    assert again.parse_text("It barks.") == own.parse_text("It barks.")


@pytest.mark.parametrize("which", ["reader_of_tags", "reader_of_treebanks", "both"])
def test_copies_of_models_of_all_kinds(which, request):
    names = ["reader_of_tags", "reader_of_tags"] if which == "both" else [which]
    own = parser.load([request.getfixturevalue(name) for name in names], device="cpu")
    again = pickle.loads(pickle.dumps(own))
    assert again.parse(CAT, upos=["X"] * 4, feats=["Case=Nom"] * 4, probabilities=True) == own.parse(
        CAT, upos=["X"] * 4, feats=["Case=Nom"] * 4, probabilities=True
    )


@pytest.mark.extended
def test_copies_of_models_with_a_transformer(config_file, tmp_path):
    from small_transformers import make_transformer  # skips this test without its libraries

    own = {"model": str(make_transformer(tmp_path / "pretrained")), "layers": 2}
    changes = [f"parser.network.transformer={json.dumps(own)}", "training.epochs=1"]
    trained = parser.train(read_config(config_file, changes), tmp_path / "run")
    loaded = parser.load(trained.model, device="cpu")
    tags = ["DET", "NOUN", "VERB", "PUNCT"]
    assert pickle.loads(pickle.dumps(loaded)).parse(CAT, upos=tags) == loaded.parse(CAT, upos=tags)


def test_what_is_wrong_with_a_tokenizer_stays_so(english):
    for own in (english, pickle.loads(pickle.dumps(english))):
        with pytest.raises(ValueError, match="tests/model: the model has no tokenizer"):
            own.parse_text("The cat.")


@pytest.mark.parametrize("composition", [False, True])
@pytest.mark.parametrize("name", SYSTEMS)
def test_transition_systems_are_pickled(name, composition):
    system = transition_system(name, composition)
    assert pickle.loads(pickle.dumps(system)) == copy.deepcopy(system) == system
