"""The visit to a machine with a GPU: stages with limits, one after the other, whose results are kept."""

import json
import os
import subprocess
import sys
import time
from zipfile import ZipFile

import pytest
from gpu_visit.device import Kernel, described, kind_of
from gpu_visit.runner import LOG, ROWS, Stage, Visit, run_stages
from programs import SCRIPTS, is_mentioned, running, script, wait_until

REPORT = "from gpu_visit.runner import report; "
MACHINE = Stage("machine", ["-c", f"{REPORT}report(gpu='some')"], 60, each_call=True)


def stage(name, program, limit=60, **how):
    return Stage(name, ["-c", REPORT + program], limit, **how)


@pytest.fixture
def visit(tmp_path):
    paths = os.pathsep.join(map(str, [SCRIPTS.parent, SCRIPTS]))
    return Visit(tmp_path / "out", {**os.environ, "PYTHONPATH": paths}, is_rehearsal=True, commit="abc")


def run(visit, *stages, seconds=600, again=()):
    """Returns what is left, and the rows of these stages."""
    left = run_stages(visit, [MACHINE, *stages], seconds, again)
    return left, [row for row in visit.rows() if row["stage"] != MACHINE.name]


def test_results_and_output_of_stages_are_kept(visit):
    left, [one, other] = run(
        visit, stage("one", "report(speed=1.5); print('said')"), stage("other", "report(a=1); report(a=2)")
    )
    assert not left
    assert (one["status"], one["results"]) == ("ok", [{"speed": 1.5}])
    assert other["results"] == [{"a": 1}, {"a": 2}]
    assert one["machine"] == {"gpu": "some"}
    assert (one["rehearsal"], one["commit"]) == (True, "abc")
    assert one["seconds"] > 0
    log = (visit.folder / LOG).read_text()
    assert log.index("===== one") < log.index("said") < log.index("===== other")


HANGS = "import time; time.sleep(600)"


def wait_for_end(mark):
    """Wait until no process mentions the path."""
    end = time.monotonic() + 20
    while is_mentioned(mark):
        assert time.monotonic() < end
        time.sleep(0.05)


def test_a_stage_that_hangs_is_killed_with_its_children_and_its_output_stays(visit, tmp_path):
    mark = tmp_path / "child-of-the-stage"
    child = f"import subprocess, sys; subprocess.Popen([sys.executable, '-c', {HANGS!r}, {str(mark)!r}]); "
    program = f"report(done=1); {child}import os; os.write(1, b'half a line RESULT {{'); {HANGS}"
    _, [hung, after] = run(visit, stage("hung", program, limit=3), stage("after", "report(b=1)"))
    assert (hung["status"], hung["results"]) == ("timed out", [{"done": 1}])
    assert "3 s" in hung["why"]
    assert "half a line" in (visit.folder / LOG).read_text()
    assert after["status"] == "ok"
    wait_for_end(mark)


def test_a_stage_that_is_killed_or_fails_does_not_stop_the_others(visit):
    killed = stage("killed", "report(a=1); import os; os.kill(os.getpid(), 9)")
    failing = stage("failing", "report(a=2); raise ValueError('too bad')")
    _, rows = run(visit, killed, failing, stage("last", "report(a=3)"))
    assert [row["status"] for row in rows] == ["failed", "failed", "ok"]
    assert [row["results"] for row in rows] == [[{"a": 1}], [{"a": 2}], [{"a": 3}]]
    assert "SIGKILL" in rows[0]["why"]
    assert rows[1]["why"] == "ValueError: too bad"


def test_a_stage_whose_package_is_missing_is_skipped_and_tried_again(visit):
    missing = stage("missing", "import absent_package.part")
    _, [row] = run(visit, missing)
    assert (row["status"], row["why"]) == ("skipped", "the package absent_package is missing")
    (visit.folder / "absent_package").mkdir()
    (visit.folder / "absent_package/part.py").touch()
    paths = os.pathsep.join([visit.environment["PYTHONPATH"], str(visit.folder)])
    later = Visit(visit.folder, {**visit.environment, "PYTHONPATH": paths}, True, "abc")
    assert [row["status"] for row in run(later, missing)[1]] == ["skipped", "ok"]


@pytest.mark.parametrize(
    ("folder", "why"), [(None, "PARSER_DATA is not set"), ("there", "PARSER_DATA holds no a/file")]
)
def test_a_stage_whose_data_are_missing_is_skipped(visit, folder, why):
    environment = {name: value for name, value in visit.environment.items() if name != "PARSER_DATA"}
    without = Visit(visit.folder, environment | ({"PARSER_DATA": folder} if folder else {}), True, None)
    _, [row] = run(without, stage("with data", "report(a=1)", data=["a/file"]))
    assert (row["status"], row["why"]) == ("skipped", why)


def test_a_second_call_goes_on_and_repeats_only_what_it_is_asked_to(visit):
    stages = [stage("good", "report(a=1)"), stage("bad", "1 / 0"), stage("late", "report(b=1)", limit=300)]
    left, rows = run(visit, *stages, seconds=200)
    assert left == ["late"]
    assert [row["stage"] for row in rows] == ["good", "bad"]
    left, rows = run(visit, *stages)
    assert not left
    assert [row["stage"] for row in rows] == ["good", "bad", "late"]
    _, rows = run(visit, *stages, again=["bad"])
    assert [row["stage"] for row in rows] == ["good", "bad", "late", "bad"]


def test_a_stage_that_does_not_fit_is_left_and_smaller_ones_are_run(visit):
    large, small = stage("large", "report(a=1)", limit=300), stage("small", "report(a=2)", limit=60)
    some = stage("some", "report(a=3)", limit=300, least=50)
    left, rows = run(visit, large, small, some, seconds=100)
    assert left == ["large"]
    assert [row["stage"] for row in rows] == ["small", "some"]


def test_without_the_machine_nothing_is_run(visit):
    none = Stage("machine", ["-c", "exit('there is no GPU')"], 60, each_call=True)
    with pytest.raises(ValueError, match="machine failed"):
        run_stages(visit, [none, stage("one", "report(a=1)")], 100, ())
    assert [row["stage"] for row in visit.rows()] == ["machine"]
    assert visit.rows()[0]["why"] == "there is no GPU"


def test_rehearsals_and_visits_are_not_mixed(visit):
    run(visit, stage("one", "report(a=1)"))
    real = Visit(visit.folder, visit.environment, is_rehearsal=False, commit="abc")
    with pytest.raises(ValueError, match="holds a rehearsal: name another folder"):
        run_stages(real, [MACHINE], 100, ())


def test_a_stage_ends_with_a_visit_that_is_killed_and_its_output_stays(visit, tmp_path):
    mark = tmp_path / "stage-of-the-visit"
    program = (
        "import os\nfrom pathlib import Path\nfrom gpu_visit.runner import Stage, Visit, run_stages\n"
        f"stage = Stage('long', ['-c', \"print('here', flush=True); {HANGS}\", {str(mark)!r}], 500)\n"
        f"run_stages(Visit(Path({str(visit.folder)!r}), dict(os.environ), True, None), [stage], 600, ())\n"
    )
    log = visit.folder / LOG
    with running([sys.executable, "-c", program], env=visit.environment) as process:
        wait_until(lambda: log.exists() and "here" in log.read_text(), process)
        assert is_mentioned(mark)
        process.kill()
        process.wait()
    wait_for_end(mark)
    assert not (visit.folder / ROWS).exists()
    _, [row] = run(visit, stage("long", "report(a=1)"))
    assert row["results"] == [{"a": 1}]


@pytest.mark.extended
def test_failed_tests_are_reported_even_if_a_later_one_hangs(visit, tmp_path):
    """pytest itself prints failures when all tests have run."""
    tests = tmp_path / "test_some.py"
    tests.write_text(f"def test_wrong():\n    assert 1 == 2\n\ndef test_hangs():\n    {HANGS}\n")
    program = (
        "import pytest; from gpu_visit.runner import TestReporter; "
        f"pytest.main(['-pno:cacheprovider', '-c/dev/null', {str(tests)!r}], plugins=[TestReporter()])"
    )
    _, [row] = run(visit, stage("tests", program, limit=15))
    assert row["status"] == "timed out"
    [failure] = row["results"]
    assert (failure["test"].rpartition("::")[2], failure["outcome"]) == ("test_wrong", "failed")
    assert "assert 1 == 2" in "\n".join(failure["lines"])


def test_kernels_are_summed_by_kind_with_the_time_between_them():
    kernels = [
        Kernel("sm90_xmma_gemm_f32", 0, 100),
        Kernel("LSTM_elementWise_fp", 50, 150),  # on another stream
        Kernel("index_select_kernel", 180, 200),
        Kernel("another gemm", 200, 220),
    ]
    summary = described(kernels)
    assert (summary["kernels"], summary["gaps"]) == (4, 1)
    assert (summary["busy_ms"], summary["gaps_ms"], summary["sum_ms"]) == (0.19, 0.03, 0.24)
    assert summary["by_kind"]["products"] == {"count": 2, "ms": 0.12}
    assert next(iter(summary["longest"])) in ("sm90_xmma_gemm_f32", "LSTM_elementWise_fp")
    assert described([]) == {"kernels": 0}


KINDS = {
    "void at::native::(anonymous namespace)::kernel::lstm_cell_forward<float>": "fused LSTM cells",
    "void elemWiseRNNcell<float, float, float, (cudnnRNNMode_t)2>": "cuDNN's LSTM",
    "nvjet_sm90_sss_128x64": "products",
    "Memcpy HtoD (Pinned -> Device)": "copies",
    "void at::native::vectorized_elementwise_kernel<4, at::native::FillFunctor<float>>": "elementwise",
    "void at::native::multi_tensor_apply_kernel": "all weights at once",
    "something": "other",
}


def test_kinds_of_kernels():
    assert {name: kind_of(name) for name in KINDS} == KINDS


def test_wheels_are_installed_beside_the_packages_of_this_python(tmp_path):
    wheels, site = tmp_path / "wheels", tmp_path / "site"
    wheels.mkdir()
    with pytest.raises(SystemExit, match="no wheels there"):
        script("measure_gpu").install(wheels, str(site))
    tag = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    information = {"METADATA": "Metadata-Version: 2.1\nName: brought\nVersion: 1\nRequires-Dist: absent\n"}
    information |= {"WHEEL": tag, "RECORD": ""}
    with ZipFile(wheels / "brought-1-py3-none-any.whl", "w") as file:
        file.writestr("brought.py", "")
        for name, text in information.items():
            file.writestr(f"brought-1.dist-info/{name}", text)
    script("measure_gpu").install(wheels, str(site))
    assert (site / "brought.py").is_file()


def test_a_rehearsal_needs_no_data_for_parsers():
    visit = script("measure_gpu")
    plan = {stage.name: stage for stage in visit.STAGES}
    seeds = visit.rehearsed(plan["seeds"], {})
    assert not seeds.data
    assert seeds.arguments[-1] == "--rehearse"
    assert visit.rehearsed(plan["modules"], {}).data
    assert visit.rehearsed(plan["seeds"], {"PARSER_DATA": "there"}).data


def measure(folder, *options, **changes):
    """Run the script; returns the finished process and the rows."""
    environment = {name: value for name, value in os.environ.items() if name != "PARSER_DATA"} | changes
    command = [sys.executable, SCRIPTS / "measure_gpu.py", folder, *options]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    return done, [json.loads(line) for line in (folder / ROWS).read_text(encoding="utf-8").splitlines()]


@pytest.mark.extended
def test_the_whole_visit_is_rehearsed(tmp_path):
    """With PARSER_DATA, also the modules of CLEVR."""
    data = os.environ.get("PARSER_DATA")
    done, rows = measure(tmp_path, "--rehearse", **({"PARSER_DATA": data} if data else {}))
    assert not done.returncode, done.stdout + (tmp_path / LOG).read_text(encoding="utf-8")
    left_out = {row["stage"] for row in rows if row["status"] != "ok"}
    assert left_out == (set() if data else {"modules", "modules, batched"})
    assert all(row["rehearsal"] and row["results"] for row in rows if row["status"] == "ok")
    assert "nan" not in (tmp_path / ROWS).read_text(encoding="utf-8").lower()


@pytest.mark.extended
def test_a_visit_without_a_gpu_says_so(tmp_path):
    done, [row] = measure(tmp_path, CUDA_VISIBLE_DEVICES="")
    assert done.returncode
    assert "machine failed" in done.stderr
    assert "there is no GPU: torch.cuda.is_available() is False" in row["why"]
    assert not row["rehearsal"]
