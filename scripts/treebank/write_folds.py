"""Write the folds of a training file as treebanks, for cross-validation by `stack-parser train-all`.

    python scripts/treebank/write_folds.py data/ud/UD_Kazakh-KTB -o runs/folds/kazakh
    stack-parser train-all runs/folds/kazakh configs/ud-untagged.yaml -o runs/kazakh --processes 2

Each treebank (UD_Kazakh-KTBfold1 and so on) has one fold as its test and the other folds as its train.
Consecutive sentences are in one fold, so that few texts are in both train and test. There is no dev:
`train-all` trains without it, or, from a hundred sentences on, with a tenth of train as dev. The averages in
its report are averages over the folds.
"""

from __future__ import annotations

import argparse
from itertools import pairwise
from pathlib import Path

from parser.config.data_folder import data_path
from parser.treebank.conllu import read_treebank
from parser.treebank.conllu_output import as_conllu
from parser.treebank.sentence import Sentence
from parser.treebank.ud_folders import UDTreebank, find_treebanks


def folds_of(sentences: list[Sentence], number: int) -> list[tuple[list[Sentence], list[Sentence]]]:
    """For each fold, the sentences of the other folds and its own. Fold sizes differ by at most one."""
    bounds = [len(sentences) * fold // number for fold in range(number + 1)]
    return [(sentences[:begin] + sentences[end:], sentences[begin:end]) for begin, end in pairwise(bounds)]


def write_folds(treebank: UDTreebank, number: int, output: Path) -> None:
    """Write a treebank for each of `number` folds to `output`.

    Raises ValueError without exactly one train file with that many sentences, or if output has treebanks.
    """
    if len(treebank.train) != 1:
        raise ValueError(f"{treebank.folder}: has {len(treebank.train)} train files, not one")
    [path] = treebank.train
    sentences = read_treebank(str(path))
    if not 2 <= number <= len(sentences):
        raise ValueError(f"{path}: has {len(sentences)} sentences, which cannot be in {number} folds")
    if any(output.glob("UD_*")):
        raise ValueError(f"{output}: has treebanks already; choose another folder")
    for fold, parts in enumerate(folds_of(sentences, number), 1):
        folder = output / f"{treebank.name}fold{fold}"
        folder.mkdir(parents=True, exist_ok=True)
        for split, part in zip(("train", "test"), parts, strict=True):
            (folder / path.name.replace("-ud-train", f"-ud-{split}")).write_bytes(as_conllu(part))


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("treebank", help="folder with a name such as UD_Kazakh-KTB")
    arguments.add_argument("--folds", type=int, default=10)
    arguments.add_argument("-o", "--output", type=Path, required=True, help="folder for the treebanks")
    given = arguments.parse_args()
    folder = Path(data_path(given.treebank))
    [treebank] = find_treebanks(folder.parent, [folder.name]).treebanks
    write_folds(treebank, given.folds, given.output)


if __name__ == "__main__":
    main()
