from safetensors import safe_open

from parser.config.file import read_config
from parser.training import data
from parser.training.checkpoint import load_checkpoint, save_checkpoint
from parser.training.run import new_training, train


def read(path):
    """What is told, and the tensors' bytes."""
    with safe_open(path, "pt") as file:
        told = file.metadata()
        return told, {name: file.get_tensor(name).numpy().tobytes() for name in file.keys()}  # noqa: SIM118


def test_what_is_loaded_is_saved_again(config_file, tmp_path, device):
    config = read_config(config_file, ["training.epochs=3", "parser.network.dropout=0.2"])
    train(config, tmp_path / "run", device)
    model, loaded = data.load(config, device)
    training = new_training(model, loaded, config)
    path = tmp_path / "run" / "checkpoint.safetensors"
    load_checkpoint(path, training)
    assert (training.progress.epoch, training.progress.finished) == (4, True)
    assert training.progress.best.las > 0
    save_checkpoint(tmp_path / "again", training)
    assert read(tmp_path / "again") == read(path)
