import pytest
from speed_rows import speed_row

from parser.speed.reporting.comparison_plots import plots
from parser.speed.reporting.speed_ups import comparisons, gains_of_parts

UNBATCHED = {"scheduling": 1.0, "forward": 1.0, "cells": 2.0, "cells backward": 4.0, "update": 2.0}
BATCHED = {"scheduling": 2.0, "forward": 2.0, "cells": 2.0, "cells backward": 2.0, "update": 2.0}


def row(method, size, speed, phase_seconds):
    return speed_row(speed, method=method, batch_size=size, phase_seconds=phase_seconds)


def test_parts_are_compared_with_none_at_the_same_size():
    rows = [row("none", 8, 10, UNBATCHED), row("levels", 8, 40, BATCHED), row("levels", 64, 90, BATCHED)]
    (comparison,) = comparisons(rows)
    gains = gains_of_parts(comparison)
    # A step of none takes 100 ms, of which the cells take 20 and 40; one of levels 25 ms, 5 and 5 of them.
    assert gains["cells, forward"] == {"levels": {8: pytest.approx(4)}}
    assert gains["forward"] == {"levels": {8: pytest.approx(40 / 15)}}
    assert gains["cells, backward"] == gains["backward"] == {"levels": {8: pytest.approx(8)}}
    assert gains["whole step"] == {"levels": {8: pytest.approx(4)}}
    assert "parts" in plots(comparison)


def test_plugins_that_do_not_measure_modules_have_no_parts():
    phases = {"forward": 1.0, "backward": 2.0}
    (comparison,) = comparisons([row("none", 8, 10, phases), row("levels", 8, 40, phases)])
    assert gains_of_parts(comparison) == {}
    assert "parts" not in plots(comparison)
