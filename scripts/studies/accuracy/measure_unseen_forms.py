"""Print the scores of words whose form train has, and of the others, by treebank. Words are gold.

Words whose gold value train lacks are left out of the scores of tags and lemmas.

python scripts/studies/accuracy/measure_unseen_forms.py runs/models data/ud UD_Lithuanian-HSE UD_Marathi-UFAL
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from parser.config.data_folder import data_path
from parser.evaluation.errors import find_errors
from parser.evaluation.known import DEPREL, KnownValues
from parser.evaluation.value_errors import KNOWN_FORM, UNKNOWN_FORM
from parser.models.loading import ModelChoice, load_models
from parser.models.named_models import SUFFIX
from parser.parsing.engine import parse_stream
from parser.treebank.conllu import read_treebank
from parser.treebank.ud_folders import find_treebanks


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("models", type=Path, help="folder of packed models")
    arguments.add_argument("treebanks", help="folder of treebanks")
    arguments.add_argument("names", nargs="+", help="of treebanks")
    given = arguments.parse_args()
    for treebank in find_treebanks(Path(data_path(given.treebanks)), given.names).treebanks:
        model = load_models(ModelChoice((given.models / f"{treebank.model_name}{SUFFIX}",)))
        gold = read_treebank(str(treebank.test))
        errors = find_errors(gold, [tree for _, tree in parse_stream(model, gold)], KnownValues.of(model))
        of_trees, of_values = (errors.as_dict()[key] for key in ("groups", "values"))
        known, unknown = of_trees["known and unknown words"].values()
        told = {
            "treebank": treebank.name,
            "unknown_forms": unknown["words"] / (known["words"] + unknown["words"]),
            "las": [known["las"], unknown["las"]],
        }
        for column, groups in of_values.items():
            if column != DEPREL:
                told[column] = [groups[name]["percent"] for name in (KNOWN_FORM, UNKNOWN_FORM)]
        print(json.dumps(told))


if __name__ == "__main__":
    main()
