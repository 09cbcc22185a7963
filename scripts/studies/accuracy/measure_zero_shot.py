"""Print UAS and LAS of other treebanks' models on a test set with gold tokens, the best first.

python scripts/studies/accuracy/measure_zero_shot.py runs/models data/ud/UD_Kazakh-KTB/kk_ktb-ud-test.conllu
"""

from __future__ import annotations

import argparse
from pathlib import Path

from parser import evaluate, load
from parser.config.data_folder import data_path
from parser.models.named_models import SUFFIX
from parser.treebank.ud_folders import find_treebanks


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("models", type=Path, help="folder of packed models")
    arguments.add_argument("treebank", help="the test set")
    given = arguments.parse_args()
    treebank = Path(data_path(given.treebank))
    [folder] = find_treebanks(treebank.parent.parent, [treebank.parent.name]).treebanks
    name_of_treebank = folder.model_name
    by_model = {
        path.stem: evaluate(load(path), treebank)
        for path in sorted(given.models.glob(f"*{SUFFIX}"))
        if path.stem != name_of_treebank
    }
    print(f"{name_of_treebank}, by the models of other treebanks")
    for name, scores in sorted(by_model.items(), key=lambda pair: -pair[1].las):
        print(f"{name}: UAS {scores.uas:.2f}  LAS {scores.las:.2f}")


if __name__ == "__main__":
    main()
