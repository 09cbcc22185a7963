import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from parser.speed.tasks.graphs.network import Edge, LabelledGraph
from parser.speed.tasks.graphs.qm9 import (
    ELEMENTS,
    ORDERS,
    SINGLE,
    VALENCES,
    Molecule,
    make_molecules,
    polarity,
    read_molecules,
)

H, C, N, O, F = torch.eye(5, dtype=torch.int64).tolist()  # noqa: E741
FORMALDEHYDE = {
    "targets": [[-0.5]],
    "graph": [[0, 2, 1], [0, 1, 2], [3, 1, 0]],
    "node_features": [C, O, H, H],
}


def write(folder: Path, *molecules: object) -> Path:
    path = folder / "molecules.json"
    path.write_text(json.dumps(molecules), encoding="utf-8")
    return path


def read_one(folder: Path, **changes: object) -> Molecule:
    return read_molecules(write(folder, FORMALDEHYDE | changes))[0]


def edges_of(graph: LabelledGraph) -> list[Edge]:
    columns = (graph.sources.tolist(), graph.kinds.tolist(), graph.targets.tolist())
    return [Edge(*edge) for edge in zip(*columns, strict=True)]


def elements_of(molecule: Molecule) -> list[str]:
    return [ELEMENTS[element] for element in molecule.graph.features.argmax(dim=1)]


def bonds_of(molecule: Molecule) -> list[Edge]:
    return [edge for edge in edges_of(molecule.graph) if edge.source < edge.target]


def test_a_molecule(tmp_path):
    read = read_one(tmp_path)
    assert read.target == -0.5
    assert read.graph.features.tolist() == [C, O, H, H]
    assert edges_of(read.graph) == [(0, 1, 1), (0, 0, 2), (3, 0, 0), (1, 1, 0), (2, 0, 0), (0, 0, 3)]


def test_molecules_in_the_order_of_the_file(tmp_path):
    path = write(tmp_path, FORMALDEHYDE, FORMALDEHYDE | {"targets": [[2]]})
    assert [each.target for each in read_molecules(path)] == [-0.5, 2]


def test_an_atom_alone(tmp_path):
    read = read_one(tmp_path, node_features=[F], graph=[])
    assert (read.graph.nodes, read.graph.edges) == (1, 0)


def without(key: str) -> dict[str, Any]:
    return {name: value for name, value in FORMALDEHYDE.items() if name != key}


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (7, ": this must be an object, and is 7"),
        (without("node_features"), ": 'node_features' is missing"),
        (without("graph"), ": 'graph' is missing"),
        (without("targets"), ": 'targets' is missing"),
        (FORMALDEHYDE | {"node_features": []}, ": there are no atoms"),
        (FORMALDEHYDE | {"node_features": [C, 3]}, ", atom 1: this must be a list, and is 3"),
        (FORMALDEHYDE | {"node_features": [C, [0, 0, 0, 1]]}, ", atom 1: this must be a 1 for one of H, C"),
        (FORMALDEHYDE | {"node_features": [C, [0, 0, 0, 0, 0]]}, ", atom 1: this must be a 1 for one"),
        (FORMALDEHYDE | {"node_features": [C, [1, 0, 0, 1, 0]]}, ", atom 1: this must be a 1 for one"),
        (FORMALDEHYDE | {"node_features": [C, [1, 0, 0, 0, [0]]]}, ", atom 1: this must be a 1 for one"),
        (FORMALDEHYDE | {"graph": [[0, 1, 1], 4]}, ", bond 1: this must be a list, and is 4"),
        (FORMALDEHYDE | {"graph": [[0, 1]]}, r", bond 0: this must be source, kind, target, and is \[0, 1\]"),
        (FORMALDEHYDE | {"graph": [[0, 1, 4]]}, ", bond 0: atom 4 does not exist: the last is 3"),
        (FORMALDEHYDE | {"graph": [[-1, 1, 1]]}, ", bond 0: atom -1 does not exist"),
        (FORMALDEHYDE | {"graph": [[0, 1, "1"]]}, ", bond 0: atom must be a whole number, and is '1'"),
        (FORMALDEHYDE | {"graph": [[0, 1, 1.0]]}, ", bond 0: atom must be a whole number, and is 1.0"),
        (FORMALDEHYDE | {"graph": [[0, 0, 1]]}, ", bond 0: there is no kind 0: they are 1 to 4"),
        (FORMALDEHYDE | {"graph": [[0, 5, 1]]}, ", bond 0: there is no kind 5: they are 1 to 4"),
        (FORMALDEHYDE | {"graph": [[0, True, 1]]}, ", bond 0: a kind must be a whole number, and is True"),
        (FORMALDEHYDE | {"graph": [[2, 1, 2]]}, ", bond 0: atom 2 has a bond to itself"),
        (FORMALDEHYDE | {"graph": [[0, 1, 1], [1, 2, 0]]}, ", bond 1: 1 and 0 have a bond already"),
        (FORMALDEHYDE | {"targets": 0.5}, ": 'targets' must be a list, and is 0.5"),
        (FORMALDEHYDE | {"targets": [0.5]}, ": 'targets' must be a finite number in two lists"),
        (FORMALDEHYDE | {"targets": [[0.5], [1.5]]}, ": 'targets' must be a finite number in two lists"),
        (FORMALDEHYDE | {"targets": [[]]}, ": 'targets' must be a finite number in two lists"),
        (FORMALDEHYDE | {"targets": [["0.5"]]}, ": 'targets' must be a finite number in two lists"),
        (FORMALDEHYDE | {"targets": [[True]]}, ": 'targets' must be a finite number in two lists"),
        (
            FORMALDEHYDE | {"targets": [[float("nan")]]},
            r": 'targets' must .*, \[\[0.5\]\], and is \[\[nan\]\]",
        ),
        (FORMALDEHYDE | {"targets": [[float("inf")]]}, ": 'targets' must be a finite number in two lists"),
        (FORMALDEHYDE | {"targets": [[10**400]]}, ": 'targets' must be a finite number in two lists"),
    ],
)
def test_what_is_no_molecule(tmp_path, record, message):
    path = write(tmp_path, FORMALDEHYDE, record)
    with pytest.raises(ValueError, match=f"^{path}: molecule 1{message}"):
        read_molecules(path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "not JSON: "),
        (b'[{"graph": ', "not JSON: "),
        (b'["\xff"]', "not JSON: "),
        (b"[" * 100_000, "not JSON: "),
        (b"{}", "this must be a list, and is {}"),
        (b"[]", "no molecules"),
    ],
)
def test_broken_files(tmp_path, content, message):
    path = tmp_path / "molecules.json"
    path.write_bytes(content)
    with pytest.raises(ValueError, match=f"^{path}: {message}"):
        read_molecules(path)


def test_polarity(tmp_path):
    # Each hydrogen loses 2.55 - 2.20 to the carbon, which loses twice 3.44 - 2.55 to the oxygen.
    assert polarity(read_one(tmp_path).graph) == pytest.approx(2 * 0.89)
    ring = [[0, 4, 1], [1, 4, 2], [2, 4, 0]]
    aromatic = read_one(tmp_path, node_features=[C, C, N], graph=ring)
    assert polarity(aromatic.graph) == pytest.approx(2 * 1.5 * 0.49)
    assert polarity(read_one(tmp_path, node_features=[C, C], graph=[[0, 3, 1]]).graph) == 0


def polarity_by_hand(molecule: Molecule) -> float:
    drawing = {"H": 2.20, "C": 2.55, "N": 3.04, "O": 3.44, "F": 3.98}
    elements, charges = elements_of(molecule), Counter[int]()
    for source, kind, target in bonds_of(molecule):
        moved = ORDERS[kind] * (drawing[elements[target]] - drawing[elements[source]])
        charges[target] += moved  # type: ignore[assignment]
        charges[source] -= moved  # type: ignore[assignment]
    return sum(charge for charge in charges.values() if charge > 0)


def parts(molecule: Molecule) -> int:
    """The number of connected parts."""
    part = list(range(molecule.graph.nodes))
    for source, _, target in bonds_of(molecule):
        one, other = part[source], part[target]
        part = [one if each == other else each for each in part]
    return len(set(part))


@given(st.integers(1, 4), st.integers(0, 10_000))
def test_made_molecules(number, seed):
    made = make_molecules(number, seed)
    assert len(made) == number
    for molecule in made:
        assert 6 <= molecule.graph.nodes <= 29
        assert parts(molecule) == 1
        bonds = bonds_of(molecule)
        assert len({(source, target) for source, _, target in bonds}) == len(bonds)
        both = Counter(bonds) + Counter(Edge(target, kind, source) for source, kind, target in bonds)
        assert Counter(edges_of(molecule.graph)) == both
        taken = np.bincount(molecule.graph.sources, weights=np.array(ORDERS)[molecule.graph.kinds])
        assert taken.tolist() == [VALENCES[element] for element in molecule.graph.features.argmax(dim=1)]
        assert polarity(molecule.graph) == pytest.approx(polarity_by_hand(molecule))


MADE = make_molecules(2000, seed=1)


def test_made_molecules_are_like_those_of_qm9():
    sizes = [each.graph.nodes for each in MADE]
    assert np.mean(sizes) == pytest.approx(18, abs=1)
    rings = [each.graph.edges // 2 - each.graph.nodes + 1 for each in MADE]
    assert set(rings) >= {0, 1, 2, 3, 4}
    assert np.mean(rings) == pytest.approx(1.6, abs=0.3)
    assert np.bincount(np.concatenate([each.graph.kinds for each in MADE])).min() > 100
    elements = sum(each.graph.features.sum(dim=0) for each in MADE) / sum(sizes)
    torch.testing.assert_close(elements, torch.tensor([0.51, 0.35, 0.06, 0.08, 0.00]), rtol=0, atol=0.02)


def test_made_targets_have_mean_0_and_deviation_1():
    targets = [each.target for each in MADE]
    assert np.mean(targets) == pytest.approx(0, abs=0.1)
    assert np.std(targets) == pytest.approx(1, abs=0.1)
    assert targets == pytest.approx([(polarity(each.graph) - 5.79) / 1.51 for each in MADE])


def unexplained(counts: np.ndarray, targets: np.ndarray) -> float:
    """The share of the targets' variance that no linear function of the counts [molecules, ...] explains."""
    known = np.column_stack([counts, np.ones(len(counts))])
    left = targets - known @ np.linalg.lstsq(known, targets, rcond=None)[0]
    return float(left.var() / targets.var())


def bonds_by_kind(molecule: Molecule) -> np.ndarray:
    elements = molecule.graph.features.argmax(dim=1).numpy()
    ends = elements[molecule.graph.sources] * len(ELEMENTS) + elements[molecule.graph.targets]
    return np.bincount(ends * len(ORDERS) + molecule.graph.kinds, minlength=len(ELEMENTS) ** 2 * len(ORDERS))


def test_made_targets_take_the_graph_and_not_its_atoms_alone():
    targets = np.array([each.target for each in MADE])
    atoms = np.stack([each.graph.features.sum(dim=0).numpy() for each in MADE])
    assert 0.2 < unexplained(atoms, targets) < 0.6
    assert 0.02 < unexplained(np.stack(list(map(bonds_by_kind, MADE))), targets) < 0.15


def test_the_seed_decides():
    one, again, other = (
        [(edges_of(m.graph), m.target) for m in make_molecules(5, seed)] for seed in (1, 1, 2)
    )
    assert one == again
    assert one != other


@pytest.mark.real_data
@pytest.mark.parametrize(
    ("part", "molecules", "atoms", "bonds"),
    [("train", 13_291, 238_829, 246_936), ("valid", 1_424, 25_772, 26_640)],
)
def test_the_molecules_of_qm9(treebanks: Path, part: str, molecules: int, atoms: int, bonds: int):
    folder = treebanks.parent / "qm9"
    if not folder.is_dir():
        pytest.skip(f"no qm9/ in {treebanks.parent}")
    read = read_molecules(folder / f"molecules_{part}.json")
    assert len(read) == molecules
    sizes = [each.graph.nodes for each in read]
    assert sum(sizes) == atoms
    assert (min(sizes), max(sizes)) == {"train": (6, 29), "valid": (8, 27)}[part]
    assert sum(each.graph.edges for each in read) == 2 * bonds
    targets = [each.target for each in read]
    assert np.mean(targets) == pytest.approx(0, abs=1e-9 if part == "train" else 0.1)
    assert np.std(targets) == pytest.approx(1, abs=1e-9 if part == "train" else 0.1)
    # For hydrogen, which has exactly one bond.
    assert all(
        molecule.graph.kinds[molecule.graph.features[molecule.graph.sources, 0] == 1].tolist()
        == [SINGLE] * elements_of(molecule).count("H")
        for molecule in read[:500]
    )
