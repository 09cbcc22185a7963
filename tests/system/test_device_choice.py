"""Devices by name, and GPUs that PyTorch cannot use: an old driver, and a build without CUDA."""

import warnings

import pytest
import torch

from parser.cli import main
from parser.system import device_choice
from parser.system.device_choice import choose_device, warn_of_unused_gpu

TOO_OLD = (
    "The NVIDIA driver on your system is too old (found version 11040). Please update your GPU driver by "
    "downloading and installing a new version from the URL: http://www.nvidia.com/Download/index.aspx"
)


@pytest.fixture
def _gpu(monkeypatch, tmp_path):
    """A machine with an NVIDIA GPU."""
    (tmp_path / "nvidia0").touch()
    monkeypatch.setattr(device_choice, "DEVICE_FILES", tmp_path)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)


@pytest.fixture
def _old_driver(monkeypatch):
    """PyTorch with CUDA, on a driver that is too old for it, as PyTorch behaves there."""

    def is_available():
        warnings.warn(f"CUDA initialization: {TOO_OLD}", stacklevel=2)
        return False

    def init():
        raise RuntimeError(TOO_OLD)

    monkeypatch.setattr(torch.version, "cuda", "13.0")
    monkeypatch.setattr(torch.cuda, "is_available", is_available)
    monkeypatch.setattr(torch.cuda, "init", init)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 1)  # NVML counts it


@pytest.fixture
def _no_cuda(monkeypatch):
    """PyTorch's build for CPUs."""
    monkeypatch.setattr(torch.version, "cuda", None)
    monkeypatch.setattr(torch, "__version__", "2.13.0+cpu")
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.mark.usefixtures("_gpu", "_old_driver")
def test_a_driver_that_is_too_old_is_told_once(capsys):
    warn_of_unused_gpu("auto")
    told = capsys.readouterr().err
    assert told == f"the CPU computes, though this machine has an NVIDIA GPU: {TOO_OLD}\n"
    with pytest.raises(ValueError, match="device 'cuda': The NVIDIA driver on your system is too old"):
        choose_device("cuda")


@pytest.mark.usefixtures("_gpu", "_no_cuda")
def test_a_build_without_cuda_is_named(capsys):
    named = "this PyTorch, 2.13.0+cpu, is built without CUDA; https://pytorch.org"
    warn_of_unused_gpu("auto")
    assert named in capsys.readouterr().err
    for name in ("cuda", "cuda:1"):
        with pytest.raises(ValueError, match=f"device '{name}': ") as refused:
            choose_device(name)
        assert named in str(refused.value)


@pytest.mark.usefixtures("_gpu", "_old_driver")
@pytest.mark.parametrize("choice", ["cpu", "hidden by an empty list", "hidden by -1", "no GPU"])
def test_who_has_no_gpu_or_chooses_the_cpu_is_not_warned(choice, monkeypatch, tmp_path, capsys):
    if choice.startswith("hidden"):
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "-1" if choice.endswith("-1") else "")
    elif choice == "no GPU":
        (tmp_path / "nvidia0").unlink()
    warn_of_unused_gpu("cpu" if choice == "cpu" else "auto")
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("_gpu", "cuda")
def test_too_few_devices():
    assert choose_device("auto") == choose_device("cuda") == "cuda"
    with pytest.raises(ValueError, match="device 'cuda:1': this machine has 1 CUDA devices"):
        choose_device("cuda:1")


def trained_on(device, config_file, run):
    changes = ["--set", "training.epochs=1", "--set", f"device={device}"]
    assert main(["train", str(config_file), "--run", str(run), *changes]) == 0


@pytest.mark.usefixtures("_gpu", "_no_cuda")
def test_training_says_where_it_computes(config_file, tmp_path, capsys):
    trained_on("auto", config_file, tmp_path / "run")
    printed = capsys.readouterr()
    assert "training on cpu\n" in printed.out
    assert printed.err.count("built without CUDA") == 1


@pytest.mark.extended
def test_training_names_the_gpu(config_file, tmp_path, capsys, cuda):
    trained_on("cuda", config_file, tmp_path / "run")
    assert "training on cuda, simulated\n" in capsys.readouterr().out
