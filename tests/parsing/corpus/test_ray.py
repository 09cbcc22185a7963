"""`stack-parser parse-corpus` by workers of Ray, which may be killed, as the program may."""

import json
import os
import random
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest
from programs import running, wait_until

pytestmark = pytest.mark.extended

pytest.importorskip("ray")

MODEL = "tests/model"
TREES = Path(MODEL, "parsed.conllu").read_text()


def program(corpus, target, *options):
    arguments = [
        "parse-corpus",
        MODEL,
        str(corpus),
        str(target),
        "--workers",
        "2",
        "--device",
        "cpu",
        *options,
    ]
    return [sys.executable, "-m", "parser", *arguments]


def write_corpus(folder, files, copies):
    """Write files of different sizes, whose sentences have unique names. Returns their contents."""
    folder.mkdir()
    contents = {}
    for number in range(files):
        once = TREES.replace("# sent_id = ", f"# sent_id = {number}-%d-")
        contents[f"{number}.conllu"] = "".join(
            once.replace("%d", str(copy)) for copy in range(copies + number)
        )
        (folder / f"{number}.conllu").write_text(contents[f"{number}.conllu"])
    return contents


def names_of(trees):
    return [line for line in trees.splitlines() if line.startswith("# sent_id")]


def assert_complete(contents, target):
    """No sentence is missing, none is there twice."""
    for name, content in contents.items():
        assert names_of((target / name).read_text()) == names_of(content)


def test_workers_of_ray_parse_a_corpus(tmp_path):
    contents, target = write_corpus(tmp_path / "in", 3, 10), tmp_path / "out"
    (tmp_path / "in" / "faulty.conllu").write_text("1\tfaulty\n")
    done = subprocess.run(program(tmp_path / "in", target), capture_output=True, text=True)
    assert done.returncode == 2
    summary, fault, failures = done.stderr.splitlines()
    assert summary.startswith("3 files; ")
    assert "faulty.conllu:1: sentence " in fault
    assert failures.startswith("1 file could not be parsed")
    assert_complete(contents, target)
    assert json.loads((target / ".parse-corpus" / "report.json").read_text())["workers"] == 2


def test_a_signal_ends_the_program_with_one_message(tmp_path):
    write_corpus(tmp_path / "in", 1, 20_000)
    with running(program(tmp_path / "in", tmp_path / "out"), stderr=subprocess.PIPE, text=True) as process:
        wait_until(lambda: any((tmp_path / "out").rglob("*.attempts")), process)
        process.send_signal(signal.SIGTERM)
        assert (process.wait(), process.stderr.read()) == (128 + signal.SIGTERM, "interrupted\n")


def children_of(process, name):
    """The descendants of a process whose command line starts with the name."""
    found = []
    for child in psutil.Process(process.pid).children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if " ".join(child.cmdline()).startswith(name):
                found.append(child)
    return found


@pytest.mark.parametrize(
    ("kills_of_workers", "kills_of_programs"), [(6, 1), pytest.param(20, 5, marks=pytest.mark.soak)]
)
def test_nothing_is_lost_when_workers_and_programs_are_killed(tmp_path, kills_of_workers, kills_of_programs):
    contents, target = write_corpus(tmp_path / "in", 12, 125 * kills_of_workers), tmp_path / "out"
    draw, workers, programs = random.Random(1), 0, 0
    while True:
        with running(program(tmp_path / "in", target), stderr=subprocess.PIPE, text=True) as process:
            dies_after = draw.uniform(14, 24) if programs < kills_of_programs else float("inf")
            began = time.monotonic()
            while process.poll() is None:
                time.sleep(draw.uniform(1, 4))
                if time.monotonic() - began > dies_after:
                    process.send_signal(signal.SIGKILL)
                    programs += 1
                    break
                own = children_of(process, "ray::MapWorker")
                if own and workers < kills_of_workers:
                    with suppress(psutil.NoSuchProcess):
                        draw.choice(own).kill()
                        workers += 1
            if process.wait() == 0:
                break
            assert process.returncode == -signal.SIGKILL, process.stderr.read()
    assert workers == kills_of_workers
    assert programs == kills_of_programs
    assert_complete(contents, target)
    assert not (target / ".parse-corpus" / "parts").exists()


def test_a_cluster_that_asks_for_a_token(tmp_path):
    """Without the token the message says what to set, and with it the files are parsed."""
    contents = write_corpus(tmp_path / "corpus", 1, 1)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    without = {name: value for name, value in os.environ.items() if not name.startswith("RAY_AUTH")}
    token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": secrets.token_hex(32)}
    address = ["--address", f"127.0.0.1:{port}"]
    command = program(tmp_path / "corpus", tmp_path / "out", *address)
    ray = [str(Path(sys.executable).with_name("ray")), "start", "--head", "--block", "--port", str(port)]
    ray += ["--num-cpus", "1", "--include-dashboard", "false", "--node-ip-address", "127.0.0.1"]
    with tempfile.TemporaryDirectory(dir="/tmp", ignore_cleanup_errors=True) as place:  # a short path
        ray += ["--temp-dir", place]
        with subprocess.Popen(ray, env=without | token, stdout=subprocess.DEVNULL) as head:
            try:
                wait_until(lambda: answers_at(port), head)
                refused = subprocess.run(command, env=without, capture_output=True, text=True, check=False)
                assert refused.returncode == 2
                assert "set RAY_AUTH_MODE=token" in refused.stderr
                subprocess.run(command, env=without | token, check=True)
            finally:
                head.terminate()
    assert_complete(contents, tmp_path / "out")


def answers_at(port):
    with socket.socket() as connection:
        return connection.connect_ex(("127.0.0.1", port)) == 0
