import time

import torch

from parser.speed.measuring.stopwatch import PhaseClock, time_steps


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


def test_a_phase_inside_of_another_takes_its_time_from_it(device):
    clock = PhaseClock(device)
    clock.on = True
    began = time.perf_counter()
    for _ in range(2):
        with clock("forward"):
            time.sleep(0.01)
            for _ in range(3):
                with clock("cells"):
                    time.sleep(0.05)
    assert clock.seconds["cells"] >= 0.3
    assert clock.seconds["forward"] >= 0.02
    assert sum(clock.seconds.values()) <= time.perf_counter() - began
