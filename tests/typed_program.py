"""A user's program, with everything that is public. It is not run: `mypy --strict` reads it."""

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from conllu import SentenceList, TokenList
from spacy.language import Language

import parser
from parser import (
    Alternative,
    Constraints,
    Parser,
    Scores,
    StoppedError,
    Token,
    TrainingResult,
    Tree,
    evaluate,
    load,
    spacy_pipeline,
    train,
)
from parser.client import AsyncClient, Client, ServiceError
from parser.client.messages import AnsweredSentence, ParseAnswer

limits = Constraints(keep="given", at_most_one=("nsubj", "obj"), not_root=("PUNCT",))
english: Parser = load(Path("model"), device="cpu", treebank=None, folder="models")
ensemble: Parser = load(["one/model", Path("two/model")])
version: str = parser.__version__


def trees(words: Sequence[str], text: str) -> Iterator[Tree]:
    yield english.parse(words)
    yield english.parse(words, upos=["NOUN", "VERB"], heads=[2, None], labels=None, constraints=limits)
    yield from english.parse_all([words, {"words": words, "upos": ["NOUN", "VERB"]}], batch_size=8)
    yield from english.parse_text(text, probabilities=True, constraints=limits)
    for of_text in english.parse_texts([text]):
        yield from of_text
    yield asyncio.run(parsed(words))


async def parsed(words: Sequence[str]) -> Tree:
    return await english.parse_async(words, probabilities=True)


def columns(tree: Tree) -> Mapping[str, tuple[str, ...] | None]:
    heads: tuple[int, ...] = tree.heads
    probabilities: tuple[float, ...] | None = tree.probabilities
    tokens: Sequence[Token] = tree.tokens or ()
    places: list[tuple[int, int]] = [(token.start, token.end) for token in tokens]
    print(len(tree), heads, probabilities, places, tree.text, tree.sent_id, tree.begins_paragraph)
    print(tree, tree.to_conllu(), tree.violations)
    return {"words": tree.words, "labels": tree.labels, "upos": tree.upos, "lemmas": tree.lemmas}


def best_heads(words: Sequence[str]) -> list[tuple[int, str, float]]:
    arcs: Sequence[Sequence[Alternative]] = english.alternatives(words, 3, upos=["NOUN", "VERB"])
    return [(best.head, best.label, best.probability) for best, *_ in arcs]


def token_lists(one: TokenList, several: SentenceList) -> list[TokenList]:
    return [english.parse(one), *english.parse(several), *english.parse_all([one], probabilities=True)]


def trained(config: Mapping[str, Any]) -> float:
    try:
        result: TrainingResult = train(config, run="runs/mine", resume=True)
    except StoppedError as stopped:
        raise SystemExit(128 + stopped.signal) from stopped
    best: Path = result.model
    print(result.dev and result.dev["las"], result.test, result.text)
    print(result.best_epoch, result.epochs, result.seconds)
    scores: Scores = evaluate(best, "test.conllu", roots="refuse")
    by_name: Mapping[str, Any] = scores.as_dict()
    print(by_name["mlas"])
    return evaluate(english, Path("test.conllu"), device="cpu", punctuation=False).las


def pipeline() -> Language:
    return spacy_pipeline("model", "en", device="auto")


def remote(texts: list[str]) -> list[str]:
    try:
        with Client("http://127.0.0.1:8001", token="0123456789abcdef", retry_seconds=10.0) as client:
            answer: ParseAnswer = client.parse(texts=texts, probabilities=True)
            words: Sequence[AnsweredSentence] = [
                *answer["sentences"],
                *client.stream(sentences=[{"words": texts}]),
            ]
            return [client.conllu(texts=texts), *(word for sentence in words for word in sentence["words"])]
    except ServiceError as error:
        return [error.message, str(error.status or 0)]


async def streamed(texts: list[str]) -> Sequence[int]:
    async with AsyncClient("http://127.0.0.1:8001", timeout=10.0) as client:
        return [head async for sentence in client.stream(texts=texts) for head in sentence["heads"]]


client = Client("http://127.0.0.1:8001")
client.parse(texts="Cats sleep.")  # type: ignore[arg-type]
client.parse(text=["Cats sleep."])  # type: ignore[call-arg]

# Were the package without types, mypy would say that nothing is to be ignored here.
load(1)  # type: ignore[arg-type]
print(english.parse("Cats sleep").head)  # type: ignore[attr-defined]
english.parse(["Cats", "sleep"], tags=["NOUN", "VERB"])  # type: ignore[call-overload]
