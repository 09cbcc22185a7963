"""Write the scores that UDPipe's authors publish for their models as a file for `train-all --published`.

python scripts/treebank/read_udpipe_scores.py manual_model_ud-2.5.t2t udpipe-ud-2.5.json

The manual is a file of https://github.com/ufal/udpipe, in its folder doc.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from parser.models.model_card import OF_TAGS, OF_TEXT, OF_TOKENS, Given
from parser.tables.treebank_report import PublishedScores

SOURCE = "https://github.com/ufal/udpipe/blob/master/doc/manual_model_ud-2.5.t2t"
GIVEN: dict[str, Given] = {"Raw text": OF_TEXT, "Gold tok": OF_TOKENS, "Gold tok+mor": OF_TAGS}
MEASURES = (
    *("words", "sentences", "upos", "xpos", "ufeats", "alltags", "lemmas"),
    *("uas", "las", "mlas", "blex"),
)
"""The measures in the columns of the manual's table."""
HEADER = "Treebank", "Mode"


def read(manual: str) -> PublishedScores:
    lines = [[cell.strip() for cell in line.strip(" |\n").split("|")] for line in manual.split("\n")]
    scores: dict[str, dict[Given, dict[str, float]]] = {}
    for treebank, mode, *cells in (line for line in lines if len(line) == len(MEASURES) + len(HEADER)):
        if mode in GIVEN:
            by_treebank = {
                name: float(cell.removesuffix("%"))
                for name, cell in zip(MEASURES, cells, strict=True)
                if cell != "-"
            }
            scores.setdefault(f"UD_{treebank.replace(' ', '_')}", {})[GIVEN[mode]] = by_treebank
    return PublishedScores(name="UDPipe 1.2", source=SOURCE, scores=scores)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("manual", type=Path)
    parser.add_argument("output", type=Path)
    options = parser.parse_args()
    published = read(options.manual.read_text(encoding="utf-8"))
    content = published.model_dump()
    treebanks = ",\n".join(
        f"    {json.dumps(name)}: {json.dumps(scores)}" for name, scores in content.pop("scores").items()
    )
    head = json.dumps(content, indent=2).removesuffix("\n}")
    options.output.write_text(f'{head},\n  "scores": {{\n{treebanks}\n  }}\n}}\n', encoding="utf-8")
    print(f"{options.output}: {len(published.scores)} treebanks")


if __name__ == "__main__":
    main()
