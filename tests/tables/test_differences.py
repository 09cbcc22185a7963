from parser.tables.report import difference


def test_seeds_are_paired():
    """The means differ by +2, but whoever has both seeds sees -1."""
    assert difference({1: 80.0}, {1: 81.0, 2: 75.0}) == "-1.00, one seed"
    assert difference({2: 76.0, 3: 90.0}, {1: 85.0, 2: 75.0}) == "+1.00, one seed"


def test_several_seeds_have_an_interval():
    # Student's t for two degrees of freedom: 4.303 * 1 / 3 ** 0.5
    assert difference({1: 1.0, 2: 3.0, 3: 5.0}, {3: 2.0, 2: 1.0, 1: 0.0}) == "+2.00 [-0.48, +4.48], 3 seeds"
    many = {seed: float(seed % 2) for seed in range(100)}
    assert difference(many, dict.fromkeys(many, 0.0)) == "+0.50 [+0.39, +0.61], 100 seeds"


def test_nothing_in_common():
    assert difference({1: 1.0}, {2: 1.0}) == "no common seed"
