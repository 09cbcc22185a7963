"""Draw the reports and plots of the measurements from the rows in docs/measurements.

python scripts/write_reports.py                                     all, below runs/reports/
python scripts/write_reports.py speed/levels/quiet accuracy/parts   these
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from figures.pages import reports

REPORTS = Path("runs/reports")


def main() -> int:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("names", nargs="*", help="of reports, such as speed/levels/quiet")
    known = reports()
    names = arguments.parse_args().names or list(known)
    if unknown := [name for name in names if name not in known]:
        print(f"there is no {unknown[0]}; available: {', '.join(known)}", file=sys.stderr)
        return 2
    for name in names:
        known[name](REPORTS / name)
        print(f"report: {REPORTS / name / 'report.html'}", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
