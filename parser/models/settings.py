"""The settings that a model is saved with: what a parser is, besides its weights."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

from pydantic import AfterValidator, Field, TypeAdapter, WithJsonSchema

from parser.networks.settings import NetworkSettings, known
from parser.system.settings import Settings
from parser.transitions import SYSTEMS


class CalibrationSettings(Settings):
    """Calibration of an arc's probability p, so that it is the share of correct arcs among those with the
    same probability (beta calibration, Kull, Silva Filho & Flach 2017, equation 5). The result is the
    logistic function of right ln p - wrong ln(1 - p) + offset. With the defaults 1, 1 and 0, it is p."""

    right: float = Field(1.0, ge=0)
    """Weight of the logarithm of p. Values above 1 make low probabilities lower."""
    wrong: float = Field(1.0, ge=0)
    """Weight of the logarithm of 1 - p. Values below 1 make high probabilities lower."""
    offset: float = 0.0
    """Constant term. Values above 0 make all probabilities higher."""


Calibrations = Mapping[str, CalibrationSettings]
"""Those of the probabilities of predicted columns, such as `upos`."""
CALIBRATIONS = TypeAdapter(dict[str, CalibrationSettings])


def calibrations_as_json(calibrations: Calibrations) -> str:
    return CALIBRATIONS.dump_json(dict(calibrations)).decode()


class ParserSettings(Settings):
    system: Annotated[
        str,
        AfterValidator(lambda name: known(name, SYSTEMS)),
        WithJsonSchema({"type": "string", "enum": list(SYSTEMS)}),
    ] = "arc-hybrid"
    """The transition system."""
    network: NetworkSettings = NetworkSettings()
    int8: bool = False
    """Whether products of matrices round to 8 bits when sentences are parsed on a CPU, which is
    faster. `pack --precision int8` turns it on if the trees on dev are as good."""
    enhanced: bool = False
    """Whether to learn enhanced dependencies from the DEPS of train, at the end of training. Parsing then
    writes them."""
    calibration: CalibrationSettings | None = None
    """Calibration of the probabilities of arcs. Default: fitted on dev at the end of training, so that each
    probability is a share of correct arcs, labels included. Until then, and without dev, the probabilities of
    the parser and the scorers are used unchanged."""
