"""All treebanks of a folder on a Ray cluster of two machines: a worker is killed, and a whole machine."""

import signal
import subprocess
import sys
from contextlib import suppress

import psutil
import pytest
from programs import running, wait_until
from ud_folders import make_treebank, sentences

from parser.cli import main
from parser.models.model_files import Package

pytestmark = [pytest.mark.extended, pytest.mark.filterwarnings("default")]  # Ray's own warnings

pytest.importorskip("ray")

CONFIG = """
treebank: {train: x, dev: x}
parser: {network: {word_size: 8, tag_sizes: {}, characters: {}, token_size: 12, hidden_size: 16, layers: 1}}
training: {epochs: 30, batch_size: 8, learning_rate: {start: 1e-2, peak: 1e-2, warmup_epochs: 1}}
device: cpu
"""


@pytest.fixture(scope="module")
def machines():
    from ray.cluster_utils import Cluster

    cluster = Cluster()
    for _ in range(2):
        add_machine(cluster)
    yield cluster
    cluster.shutdown()


def add_machine(cluster):
    return cluster.add_node(num_cpus=1, object_store_memory=100 << 20, include_dashboard=False)


@pytest.fixture
def address(machines):
    return machines.address


@pytest.fixture
def arguments(tmp_path):
    make_treebank(tmp_path / "ud", "UD_Toy-Long", train=sentences("train", 60), dev=sentences("dev", 10))
    make_treebank(tmp_path / "ud", "UD_Toy-Short", train=sentences("train", 30))
    (tmp_path / "toys.yaml").write_text(CONFIG)
    return ["train-all", str(tmp_path / "ud"), str(tmp_path / "toys.yaml")]


def weights(folder):
    return {
        path.name: Package(path).content("weights.safetensors")
        for path in sorted(folder.glob("*.stackparser"))
    }


def workers(name):
    """The processes of Ray that run the task of this name."""
    found = []
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            if " ".join(process.cmdline()).startswith(f"ray::{name}"):
                found.append(process)
    return found


def begun(folder, name):
    return any(path.stat().st_size for path in folder.glob(f"runs/{name}*/metrics.jsonl"))


def test_a_run_whose_worker_dies_goes_on_and_all_models_are_the_same(arguments, address, tmp_path):
    assert main([*arguments, "-o", str(tmp_path / "alone")]) == 0
    out = tmp_path / "cluster"
    command = [sys.executable, "-m", "parser", *arguments, "-o", str(out), "--address", address]
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as program:
        wait_until(lambda: begun(out, "UD_Toy-Long") and workers("UD_Toy-Long"), program)
        [worker] = workers("UD_Toy-Long")
        worker.kill()
        printed, _ = program.communicate()
    assert program.returncode == 0, printed
    assert "2 runs on a cluster with room for 2" in printed
    [log] = out.glob("runs/UD_Toy-Long*.log")
    assert "resuming" in log.read_text()
    assert weights(out) == weights(tmp_path / "alone")
    assert len(weights(out)) == 2


def test_the_run_of_a_machine_that_dies_goes_on_at_another(arguments, machines, tmp_path):
    names = "UD_Toy-Long", "UD_Toy-Longer"  # both run when one of the machines dies
    make_treebank(tmp_path / "ud", names[1], train=sentences("train", 70), dev=sentences("dev", 10))
    (tmp_path / "toys.yaml").write_text(CONFIG.replace("epochs: 30", "epochs: 60"))
    arguments += [f"--only={name}" for name in names]
    assert main([*arguments, "-o", str(tmp_path / "alone")]) == 0
    out = tmp_path / "cluster"
    command = [sys.executable, "-m", "parser", *arguments, "-o", str(out), "--address", machines.address]
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as program:
        wait_until(lambda: all(begun(out, f"{name}-seed") for name in names), program)
        [dying] = machines.worker_nodes  # the head, which knows of everything, is not included
        [raylet] = dying.all_processes["raylet"]
        [worker] = [own for own in workers("UD_Toy-Long") if own.ppid() == raylet.process.pid]
        lost = worker.cmdline()[0].removeprefix("ray::")
        machines.remove_node(dying, allow_graceful=False)
        printed, _ = program.communicate()
    add_machine(machines)
    assert program.returncode == 0, printed
    [log] = out.glob(f"runs/{lost}-seed*.log")
    assert "resuming" in log.read_text()
    assert weights(out) == weights(tmp_path / "alone")
    assert len(weights(out)) == 2


def test_a_signal_lets_runs_save_and_the_same_command_goes_on(arguments, address, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-m", "parser", *arguments, "-o", str(out), "--address", address]
    with running(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as program:
        wait_until(lambda: begun(out, "UD_Toy-Long"), program)
        program.send_signal(signal.SIGTERM)
        printed, _ = program.communicate()
    assert program.returncode == 128 + signal.SIGTERM, printed
    assert "continue with the same command" in printed
    assert not workers("UD_Toy")
    assert main([*arguments, "-o", str(out)]) == 0
    assert len(weights(out)) == 2


def test_one_that_fails_does_not_end_the_others(arguments, address, tmp_path, capsys):
    make_treebank(tmp_path / "ud", "UD_Toy-Bad", train=sentences("train", 20), dev="1\tfaulty\n")
    assert main([*arguments, "-o", str(tmp_path / "out"), "--address", address]) == 2
    assert "UD_Toy-Bad, seed 1: failed: " in capsys.readouterr().err
    assert len(weights(tmp_path / "out")) == 2
