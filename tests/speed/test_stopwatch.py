import time

import torch

from parser.speed.stopwatch import PhaseClock, time_steps


def test_each_step_has_its_seconds(device):
    seconds = time_steps(time.sleep, [0.01, 0.05, 0.02], device)
    assert len(seconds) == 3
    assert all(measured >= asked for measured, asked in zip(seconds, [0.01, 0.05, 0.02], strict=True))


def test_phases_add_up_only_while_the_clock_is_on(device):
    clock = PhaseClock(device)
    for on in (False, True, True, False):
        clock.on = on
        with clock("forward"):
            torch.ones(3, device=device).sum()
            time.sleep(0.01)
    assert clock.seconds.keys() == {"forward"}
    assert clock.seconds["forward"] >= 0.02
