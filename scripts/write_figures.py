"""Write the tables and pictures of measurements in README.md and docs/ from the rows in docs/measurements.

python scripts/write_figures.py            writes all tables between marks, and the pictures
python scripts/write_figures.py --check    exits with 1 if a page is out of date

The figure NAME is written between the lines `<!-- rows: NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from figures.pages import figures_by_name, names_in, pictures, with_figures

from parser.system.files import write_atomically

ROOT = Path(__file__).parent.parent


def pages() -> list[Path]:
    """README and all pages of docs/ and of the measurements."""
    return [
        ROOT / "README.md",
        *sorted(ROOT.glob("docs/*.md")),
        *sorted(ROOT.glob("docs/measurements/**/*.md")),
    ]


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument(
        "--check", action="store_true", help="write nothing; exit with 1 if a page is out of date"
    )
    only_check = arguments.parse_args().check
    try:
        stale = {path: text for path, text in new_texts().items() if text != path.read_text(encoding="utf-8")}
    except ValueError as error:
        print(error, file=sys.stderr)
        return 1
    if only_check:
        for path in stale:
            print(f"{path.relative_to(ROOT)} is out of date: run `make figures`", file=sys.stderr)
        return int(bool(stale))
    for path, text in stale.items():
        write_atomically(path, text.encode())
    for name, picture in pictures().items():
        write_atomically(ROOT / "docs" / name, picture.encode())
    return 0


def new_texts() -> dict[Path, str]:
    """The new text of every page, with its figures.

    Raises ValueError for faulty marks, with the page, and for a figure that no page shows.
    """
    texts = {path: path.read_text(encoding="utf-8") for path in pages()}
    known, figures, written = figures_by_name(), {}, {}
    for path, text in texts.items():
        try:
            for name in names_in(text):
                if name in known and name not in figures:
                    figures[name] = known[name]()
            written[path] = with_figures(text, figures)
        except ValueError as error:
            raise ValueError(f"{path.relative_to(ROOT)}: {error}") from None
    for name in known.keys() - figures.keys():
        raise ValueError(f"no page shows the figure {name}")
    return written


if __name__ == "__main__":
    sys.exit(main())
