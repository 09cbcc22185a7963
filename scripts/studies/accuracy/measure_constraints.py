"""What learned constraints change: scores of a treebank's gold words, and errors at level 3 of the validator
of Universal Dependencies in trees of raw text, of the treebank and of others, which xz may have compressed.

python scripts/studies/accuracy/measure_constraints.py MODEL TEST.conllu TEXT... --sentences 1000
"""

from __future__ import annotations

import argparse
import io
import lzma
from collections import Counter
from itertools import islice
from pathlib import Path

from udtools.validator import Validator

from parser import Constraints, load
from parser.evaluation.evaluate import score
from parser.models.loading import ModelChoice, load_models
from parser.models.named_models import find_model
from parser.parsing.engine import parse
from parser.parsing.options import LearnedOrNone, ParseOptions
from parser.text.of_model import text_reader
from parser.treebank.conllu import read_treebank

LEVEL, MOST_LINES = 3, 3
"""Of the validator; and the lines that are read for each sentence, of which there are mostly more."""
WAYS: tuple[LearnedOrNone, LearnedOrNone] = "none", "learned"


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("model")
    arguments.add_argument("test")
    arguments.add_argument("texts", nargs="*", metavar="TEXT")
    arguments.add_argument("--sentences", type=int, default=1000, help="of each text (default: %(default)s)")
    options = arguments.parse_args()
    test, folder = read_treebank(options.test), find_model(options.model)
    model = load_models(ModelChoice((folder,)))
    for way in WAYS:
        scores = score(test, parse(model, test, options=ParseOptions(constraints=way)))
        print(f"{way}: LAS {scores.las:.2f}, UAS {scores.uas:.2f}")
    texts = {Path(options.test).name: text_reader(folder, "raw").text_of(test)}
    for path in options.texts:
        with (lzma.open if path.endswith(".xz") else open)(path, "rt", encoding="utf-8") as file:
            texts[Path(path).name] = "".join(islice(file, MOST_LINES * options.sentences))
    parser = load(options.model)
    for name, text in texts.items():
        for way in WAYS:
            constraints = Constraints(learned=way == "learned")
            trees = parser.parse_text(text, constraints=constraints)[: options.sentences]
            found = errors("".join(tree.to_conllu() for tree in trees))
            most = ", ".join(f"{count} {check}" for check, count in found.most_common(3))
            print(f"{name}, {way}: {found.total()} errors in {len(trees):,} sentences: {most}")


def errors(text: str) -> Counter[str]:
    """The number of errors at the level, by check."""
    validator = Validator(level=LEVEL, output=None)
    state = validator.validate_file_handle(io.StringIO(text))
    found = validator.validate_end(state).error_tracker
    return Counter(error.testid for error in found if error.is_error() and error.level == LEVEL)


if __name__ == "__main__":
    main()
