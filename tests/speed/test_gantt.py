from parser.batching.messages.worker import Span
from parser.speed.gantt import gantt


def test_a_lane_for_each_worker():
    spans = [
        Span(0, "first", 1, True, 10.0, 10.1, 0),
        Span(1, "second", 1, True, 10.1, 10.3, 2),
        Span(0, "first", 2, True, 10.1, 10.2, 1),
        Span(1, "second", 1, False, 10.3, 10.35, 0),
    ]
    picture = gantt(spans)
    assert picture.startswith("<svg")
    for text in ("worker 1", "worker 2", "milliseconds", "forward", "backward"):
        assert f">{text}<" in picture
    assert ">worker 3<" not in picture
