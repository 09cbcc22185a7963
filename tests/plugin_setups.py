"""Plugins of the speed harness with small settings, prepared for one cell."""

from __future__ import annotations

from contextlib import nullcontext

import torch
from pydantic import create_model

from parser.speed.tasks.plugin import Setup


def with_settings(plugin, /, methods=None, **defaults):
    """A subclass of the plugin whose settings have these defaults, with all its methods or only some."""
    fields = {
        name: (plugin.Settings.model_fields[name].annotation, value) for name, value in defaults.items()
    }
    settings = create_model("ChangedSettings", __base__=plugin.Settings, **fields)
    return type(plugin.__name__, (plugin,), {"Settings": settings, "methods": methods or plugin.methods})


def setup_of(
    plugin, method="none", mode="train", size=4, device="cpu", phase=lambda _: nullcontext(), **settings
):
    return Setup(plugin.Settings(**settings), method, mode, size, torch.device(device), 1, phase, threads=2)


def prepared(plugin, *arguments, **changed):
    """The plugin, prepared for a cell, which `setup_of` takes."""
    own, setup = plugin(), setup_of(plugin, *arguments, **changed)
    assert own.skip(setup) is None
    own.prepare(setup)
    return own
