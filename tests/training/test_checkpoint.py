from parser.config_file import read_config
from parser.training import data, loop
from parser.training.checkpoint import load_checkpoint, save_checkpoint


def test_what_is_loaded_is_saved_again(config_file, tmp_path, device):
    config = read_config(config_file, ["training.epochs=3", "parser.network.dropout=0.2"])
    loop.train(config, tmp_path / "run", device)
    model, _ = data.load(config, device)
    training = loop._fresh(model, config)
    path = tmp_path / "run" / "checkpoint.safetensors"
    load_checkpoint(path, training)
    assert (training.progress.epoch, training.progress.finished) == (4, True)
    assert training.progress.best.las > 0
    save_checkpoint(tmp_path / "again", training)
    assert (tmp_path / "again").read_bytes() == path.read_bytes()
