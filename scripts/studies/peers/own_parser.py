"""This program's parser in Python, compared with other parsers: timed on gold words and UPOS.

python scripts/studies/peers/own_parser.py MODEL TEST.conllu [--together N]

The script prints LAS and sentences per second, from words to trees.
"""

from __future__ import annotations

import argparse

import torch
from harness import Tree, add_arguments_of_parse, las, timed, trees

import parser
from parser.treebank.conllu import read_treebank


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    add_arguments_of_parse(options)
    given = options.parse_args()
    loaded = parser.load(given.model, device="cpu")
    torch.set_num_threads(1)
    sentences = [
        {"words": list(sentence.forms), "upos": list(sentence.column("upos"))}
        for sentence in read_treebank(str(given.test))
    ]
    parsed, speed = timed(lambda group: list(loaded.parse_all(group)), sentences, given.together)
    times = [
        Tree(list(tree.words), list(tree.heads), [label.split(":")[0] for label in tree.labels])
        for tree in parsed
    ]
    gold = trees(given.test.read_text(encoding="utf-8"))
    print(f"LAS {las(gold, times):.2f}, {speed:,.1f} sentences/s")


if __name__ == "__main__":
    main()
