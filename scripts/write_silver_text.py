"""Write text for silver trees: the sentences of WikiNER and of the Stanford Sentiment Treebank.

PARSER_DATA=../data python scripts/write_silver_text.py silver.txt

Each line is a sentence with blanks between its words, for `stack-parser parse --tokenized`. Words that the
Penn Treebank escapes are written as in Universal Dependencies.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from pathlib import Path

from parser.config.data_folder import data_path
from parser.speed.tasks.tagged_text import read_tagged_text
from parser.speed.tasks.tree_lstm.tree_lstm_plugin import read_labelled_trees
from parser.system.files import atomic_file

WIKINER = "wikiner_train10k", "wikiner_dev"
SENTIMENT = "train", "dev", "test"
ESCAPED = {"``": '"', "''": '"', "-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]"}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("output", type=Path)
    given = arguments.parse_args()
    given.output.parent.mkdir(parents=True, exist_ok=True)
    lines = dict.fromkeys(" ".join(map(unescaped, words)) for words in sentences())
    with atomic_file(str(given.output)) as file:
        file.write("".join(f"{line}\n" for line in lines).encode())
    print(f"{given.output}: {len(lines):,} sentences, {sum(line.count(' ') + 1 for line in lines):,} words")


def sentences() -> Iterator[list[str]]:
    for name in WIKINER:
        for sentence in read_tagged_text(Path(data_path(f"${{PARSER_DATA}}/tags/{name}.txt"))):
            yield [word for word, _ in sentence]
    for name in SENTIMENT:
        for tree in read_labelled_trees(Path(data_path(f"${{PARSER_DATA}}/sst/dynet-benchmark/{name}.txt"))):
            yield list(tree.words)


def unescaped(word: str) -> str:
    """The word as written in Universal Dependencies. Blanks inside it are removed, since blanks end words."""
    return "".join(ESCAPED.get(word, word).replace("\\/", "/").replace("\\*", "*").split())


if __name__ == "__main__":
    main()
