"""One visit to a machine with a GPU: tests and measurements, those of most worth first, in little time.

python3 scripts/measure_gpu.py OUT --seconds 450 --wheels WHEELS
python3 scripts/measure_gpu.py OUT --seconds 300 --wheels WHEELS    # goes on

Each stage is a process with a time limit. As it ends, its results are added to OUT/visit.jsonl; OUT/log has
what it printed. A stage that needs more time than is left is not started, and a second call goes on. Stages
that failed or were killed at their limit are repeated only with --again; skipped ones, for which a package or
data were missing, are tried again.

The machine needs a checkout of this project, a Python of 3.11 or later with PyTorch, and in the folder that
PARSER_DATA names the treebank English EWT and CLEVR's questions, but no network: --wheels names a folder with
wheels of packages that it lacks. The stages `all tests` and `tests that failed` need the packages of tests.
docs/speed.md lists what to bring.

--rehearse runs all stages on a simulated GPU or the CPU, with tiny sizes, to find mistakes in the stages. Its
rows say so, and its numbers say nothing about a GPU.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))  # `parser` may be installed or not

from gpu_visit.runner import FAILED, LOG, ROWS, TIMED_OUT, Stage, Visit, run_stages, summary  # noqa: E402

from parser.system.version import git  # noqa: E402

EWT = tuple(f"ud/UD_English-EWT/en_ewt-ud-{part}.conllu" for part in ("train", "dev", "test"))
CLEVR = "clevr/CLEVR_val_questions_generated.json", "clevr/CLEVR_val_scenes_500.json"
ALWAYS = "machine"
SECONDS, REHEARSAL_SECONDS = 750, 3600
SLOWNESS = 10
"""How many times as long as on a GPU a stage may take in a rehearsal, on a busy machine."""


def stage(
    name: str, program: str, limit: float, data: tuple[str, ...] = EWT, least: float | None = None
) -> Stage:
    """A stage that runs a script of studies/gpu. For the other arguments see `Stage`."""
    script, *arguments = program.split()
    return Stage(name, [f"scripts/studies/gpu/{script}.py", *arguments], limit, least, data, name == ALWAYS)


STAGES = (
    stage(ALWAYS, "print_versions", 60, data=()),
    stage("tests that failed", "run_tests once-failed", 120, data=()),
    stage("double precision", "compare_in_double_precision", 90),
    stage("failed capture", "try_failed_captures pytorch wait", 45, data=()),
    stage("failed capture, training", "try_failed_captures training wait", 60),
    stage("full memory", "try_failed_captures pytorch memory", 45, data=()),
    stage("full memory, training", "try_failed_captures training memory", 60),
    stage("seeds", "train_seeds float32 5 false true", 150),
    stage("replays", "profile_replays 256 1024", 80),
    stage("batches", "measure_batches 256 1024", 70),
    stage("tf32", "train_seeds tf32 3 true", 70),
    stage("parsing", "measure_methods ding-koehn-2019-parsing infer step,step-graph 256,1024", 90),
    stage("parse", "measure_parsing", 90),
    stage(
        "stack-lstm",
        "measure_methods ding-koehn-2019 train step-naive,replay,replay-graph 64,256,1024,8,1",
        150,
    ),
    stage(
        "modules",
        "measure_methods programs-clevr train none,columns,levels,sliced 64 --phases",
        80,
        data=CLEVR,
    ),
    stage(
        "modules, batched",
        "measure_methods programs-clevr train columns,levels,sliced 640 --phases",
        60,
        data=CLEVR,
    ),
    stage("experts", "measure_methods experts-100 infer none,static,grouped 10000 --phases", 60, data=()),
    stage("all tests", "run_tests quick", 400, data=(), least=60),
)
"""In the order in which they are run."""


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    options.add_argument("folder", type=Path, metavar="OUT", help="folder of the results; it is created")
    options.add_argument("--seconds", type=float, help=f"of this call (default: {SECONDS})")
    options.add_argument("--wheels", type=Path, help="folder with wheels of packages that this Python lacks")
    options.add_argument(
        "--again", action="append", default=[], metavar="STAGE", choices=[each.name for each in STAGES]
    )
    options.add_argument("--commit", help="of the checkout, if it is a copy without .git")
    options.add_argument("--rehearse", action="store_true", help="on a simulated GPU, with tiny sizes")
    given = options.parse_args()
    out = given.folder.resolve()
    if folder := os.environ.get("PARSER_DATA"):
        os.environ["PARSER_DATA"] = os.path.abspath(folder)
    with ExitStack() as stack:
        paths = [str(ROOT), str(ROOT / "scripts")]
        if given.wheels:
            site = stack.enter_context(TemporaryDirectory(prefix="wheels-"))
            install(given.wheels, site)
            paths.append(site)
        paths += filter(None, [os.environ.get("PYTHONPATH")])
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONUNBUFFERED": "1"}
        commit = given.commit or git(Path(__file__), "describe", "--always", "--abbrev=40", "--dirty")
        os.chdir(ROOT)  # where stages run
        visit = Visit(out, environment, given.rehearse, commit)
        stages = [rehearsed(each, environment) for each in STAGES] if given.rehearse else STAGES
        try:
            seconds = given.seconds or (REHEARSAL_SECONDS if given.rehearse else SECONDS)
            left = run_stages(visit, stages, seconds, given.again)
        except ValueError as error:
            sys.exit(str(error))
    sys.exit(told(visit, left))


def install(wheels: Path, site: str) -> None:
    """Install all wheels of a folder into another one. Raises SystemExit with pip's message."""
    files = sorted(map(str, wheels.glob("*.whl")))
    if not files:
        sys.exit(f"--wheels {wheels}: no wheels there")
    how = ["--quiet", "--no-index", "--no-deps", "--no-compile", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "install", *how, "--target", site, *files]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"--wheels {wheels}: pip could not install them:\n{done.stderr}")


def rehearsed(stage: Stage, environment: Mapping[str, str]) -> Stage:
    """The stage with tiny sizes. Without a data folder, it takes the treebank that ships with the project."""
    needs_treebank = set(stage.data) <= set(EWT)
    data = () if needs_treebank and not environment.get("PARSER_DATA") else stage.data
    arguments = [*stage.arguments, "--rehearse"]
    return stage._replace(arguments=arguments, data=data, limit=SLOWNESS * stage.limit)


def told(visit: Visit, left: list[str]) -> int:
    """Print the latest outcome of each stage, and what is left. Returns the exit status: 1 if any failed."""
    latest = {row["stage"]: row for row in visit.rows()}
    print(f"\n{visit.folder / ROWS}, {visit.folder / LOG}{', a rehearsal' if visit.is_rehearsal else ''}:")
    for name, row in latest.items():
        print(f"  {name}: {summary(row)}")
    if left:
        print(f"left: {', '.join(left)}; the same command goes on")
    return int(any(row["status"] in (FAILED, TIMED_OUT) for row in latest.values()))


if __name__ == "__main__":
    main()
