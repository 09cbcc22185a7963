"""One of the programs that scripts/studies/text/measure_pipelines.py compares, in its own environment.

python scripts/studies/peers/text_pipeline.py stack-parser|spacy MODEL TEXTS.json

It answers each line of standard input. A batch size: parses all paragraphs; `alone`: the sentences, one after
the other; the answer is the CPU time in seconds, of all threads. `state`: resident memory in bytes, and the
versions of what is imported. The results of this program are CoNLL-U; those of spaCy are its documents.
"""

from __future__ import annotations

import importlib
import json
import platform
import sys
import time
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from importlib import metadata
from pathlib import Path
from typing import Any

PACKAGES = "numpy", "torch", "spacy", "thinc"
Parse = Callable[[Sequence[str], int], Iterable[object]]
"""Called with texts and a batch size; yields the result of each text."""
ParseOne = Callable[[str], object]


def stack_parser(model: str) -> tuple[Parse, ParseOne]:
    loaded = importlib.import_module("parser").load(model, device="cpu")

    def conllu(trees: Iterable[Any]) -> str:
        return "".join(tree.to_conllu() for tree in trees)

    return (
        lambda texts, batch_size: map(conllu, loaded.parse_texts(texts, batch_size=batch_size)),
        lambda text: conllu(loaded.parse_text(text)),
    )


def spacy(model: str) -> tuple[Parse, ParseOne]:
    nlp = importlib.import_module(model).load(exclude=["ner"])
    return lambda texts, batch_size: nlp.pipe(texts, batch_size=batch_size), nlp


def main() -> None:
    program, model, texts = sys.argv[1:]
    parse, parse_one = {"stack-parser": stack_parser, "spacy": spacy}[program](model)
    paragraphs, sentences = json.loads(Path(texts).read_text(encoding="utf-8"))
    for line in map(str.strip, sys.stdin):
        if line == "state":
            print(json.dumps({"resident": resident(), "versions": versions()}), flush=True)
            continue
        began = time.process_time()
        results = map(parse_one, sentences) if line == "alone" else parse(paragraphs, int(line))
        deque(results, maxlen=0)
        print(time.process_time() - began, flush=True)


def resident() -> int:
    """The resident memory of this process in bytes."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return 1024 * int(next(line for line in lines if line.startswith("VmRSS")).split()[1])


def versions() -> dict[str, str]:
    imported = {name: metadata.version(name) for name in PACKAGES if name in sys.modules}
    return {"python": platform.python_version(), **imported}


if __name__ == "__main__":
    main()
