"""Molecules as graphs: QM9 (Ramakrishnan et al. 2014) in the GGNN format, or generated molecules."""

from __future__ import annotations

import math
import random
import reprlib
from collections.abc import Sequence
from contextlib import suppress
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from parser.speed.tasks.graphs.network import Edge, LabelledGraph, both_ways, labelled_graph
from parser.speed.tasks.json_records import checked_type, field, read_json, record_index

ELEMENTS = ("H", "C", "N", "O", "F")
"""The features of an atom are a one-hot vector of its element."""
HYDROGEN, CARBON, NITROGEN, OXYGEN, FLUORINE = range(len(ELEMENTS))

SINGLE, DOUBLE, TRIPLE, AROMATIC = range(4)
"""Kinds of bonds; numbered from 1 in the files."""
ORDERS = (1, 2, 3, 1.5)
"""The order of each kind of bond, which counts against an atom's valence."""


VALENCES = (1, 4, 3, 2, 1)
"""The valence of each element; generated molecules have no charged atoms."""
ELECTRONEGATIVITIES = np.array([2.20, 2.55, 3.04, 3.44, 3.98])
"""The electronegativity of each element, on the Pauling scale."""
FEWEST_ATOMS = 6
"""The minimum number of atoms; the maximum is 29, with nine heavy atoms."""
# In percent, similar to QM9.
HEAVY_ATOMS = {9: 83, 8: 14, 7: 2, 6: 1}
HEAVY_ELEMENTS = {CARBON: 71, NITROGEN: 12, OXYGEN: 16, FLUORINE: 1}
RINGS = {0: 11, 1: 40, 2: 31, 3: 15, 4: 3}
AROMATIC_RING = 15
AROMATIC_ELEMENTS = {CARBON: 85, NITROGEN: 15}
HIGHER_BOND = 30
"""The share of single bonds that become double, and of double bonds that become triple, if valences allow."""
MEAN, DEVIATION = 5.79, 1.51
"""The mean and standard deviation of the polarity of 100,000 generated molecules."""


class Molecule(NamedTuple):
    graph: LabelledGraph
    """Nodes are atoms; a bond is two edges, one in each direction."""
    target: float
    """The dipole moment, standardised by mean and standard deviation of the training part."""


def read_molecules(path: Path) -> list[Molecule]:
    """Read a file of molecules. Raises ValueError, with a molecule's position, for malformed files."""
    records = checked_type(read_json(path), list, "this", str(path))
    if not records:
        raise ValueError(f"{path}: no molecules")
    molecules = []
    for position, record in enumerate(records):
        place = f"{path}: molecule {position}"
        atoms = field(record, "node_features", list, place)
        if not atoms:
            raise ValueError(f"{place}: there are no atoms")
        elements = [_element(atom, f"{place}, atom {number}") for number, atom in enumerate(atoms)]
        bonds: dict[frozenset[int], Edge] = {}
        for number, given in enumerate(field(record, "graph", list, place)):
            bond = _bond(given, len(elements), f"{place}, bond {number}")
            pair = frozenset((bond.source, bond.target))
            if pair in bonds:
                both = f"{bond.source} and {bond.target}"
                raise ValueError(f"{place}, bond {number}: {both} have a bond already")
            bonds[pair] = bond
        molecules.append(Molecule(_graph(elements, list(bonds.values())), _target(record, place)))
    return molecules


def _graph(elements: Sequence[int], bonds: Sequence[Edge]) -> LabelledGraph:
    features = torch.eye(len(ELEMENTS))[torch.tensor(elements)]  # [atoms, elements]
    return both_ways(labelled_graph(features, bonds))


def _element(features: object, place: str) -> int:
    marks = checked_type(features, list, "this", place)
    if len(marks) != len(ELEMENTS) or marks.count(1) != 1 or marks.count(0) != len(ELEMENTS) - 1:
        raise ValueError(
            f"{place}: this must be a 1 for one of {', '.join(ELEMENTS)}, and a 0 for each of the others, "
            f"and is {reprlib.repr(marks)}"
        )
    return marks.index(1)


def _bond(record: object, atoms: int, place: str) -> Edge:
    numbers = checked_type(record, list, "this", place)
    if len(numbers) != 3:
        raise ValueError(f"{place}: this must be source, kind, target, and is {reprlib.repr(numbers)}")
    source, target = (record_index(numbers[end], atoms, "atom", place) for end in (0, 2))
    if source == target:
        raise ValueError(f"{place}: atom {source} has a bond to itself")
    kind = checked_type(numbers[1], int, "a kind", place)
    if not 1 <= kind <= len(ORDERS):
        raise ValueError(f"{place}: there is no kind {kind}: they are 1 to {len(ORDERS)}")
    return Edge(source, kind - 1, target)


def _target(record: object, place: str) -> float:
    match given := field(record, "targets", list, place):
        case [[int() | float() as target]] if not isinstance(target, bool):
            with suppress(OverflowError):  # of an integer that is too large for a float
                if math.isfinite(target):
                    return float(target)
    shown = reprlib.repr(given)
    raise ValueError(f"{place}: 'targets' must be a finite number in two lists, [[0.5]], and is {shown}")


def polarity(graph: LabelledGraph) -> float:
    """A measure of charge displacement: half the sum of the absolute charges of atoms. graph: of a molecule.

    A bond moves charge to the more electronegative atom: its order times the difference of the
    electronegativities. The charge of an atom is the sum over its bonds.
    """
    drawing = ELECTRONEGATIVITIES[graph.features.argmax(dim=1).numpy()]  # [atoms]
    moved = np.array(ORDERS)[graph.kinds] * (drawing[graph.targets] - drawing[graph.sources])  # [edges]
    charges = np.bincount(graph.targets, weights=moved, minlength=graph.nodes)
    return float(np.abs(charges).sum() / 2)


def make_molecules(number: int, seed: int) -> list[Molecule]:
    """Generate molecules with the sizes, elements and bonds of QM9, without charged atoms, from a seed.

    Molecules are drawn until one is large enough. The target is the standardised polarity, which depends only
    on the bonds of each atom and its neighbours.
    """
    draw = random.Random(seed)
    molecules: list[Molecule] = []
    while len(molecules) < number:
        draft = _MoleculeBuilder(draw)
        if len(draft.elements) >= FEWEST_ATOMS:
            graph = _graph(draft.elements, draft.bonds())
            molecules.append(Molecule(graph, (polarity(graph) - MEAN) / DEVIATION))
    return molecules


class _MoleculeBuilder:
    """Builds a tree of heavy atoms, closes rings, raises bond orders, and fills valences with hydrogen."""

    def __init__(self, draw: random.Random) -> None:
        self.elements: list[int] = []
        self._left: list[float] = []
        """The free valence of each atom."""
        self._kinds: dict[tuple[int, int], int] = {}
        """The kind of each bond, by its atoms."""
        self._draw = draw
        if self._chance(AROMATIC_RING):
            ring = [self._add_atom(self._weighted(AROMATIC_ELEMENTS)) for _ in range(6)]
            for place, atom in enumerate(ring):
                self._bond(ring[place - 1], atom, AROMATIC)
        heavy = self._weighted(HEAVY_ATOMS)
        if not self.elements:
            self._add_atom(self._weighted(HEAVY_ELEMENTS))
        while len(self.elements) < heavy and (bonded := self._open()):
            self._bond(self._draw.choice(bonded), self._add_atom(self._weighted(HEAVY_ELEMENTS)), SINGLE)
        for _ in range(self._weighted(RINGS)):
            pairs = [pair for pair in combinations(self._open(), 2) if pair not in self._kinds]
            if pairs:
                self._bond(*self._draw.choice(pairs), SINGLE)
        for (source, target), kind in list(self._kinds.items()):
            while kind < TRIPLE and self._left[source] and self._left[target] and self._chance(HIGHER_BOND):
                kind += 1
                self._bond(source, target, kind)
        for atom in self._open():
            for _ in range(int(self._left[atom])):
                self._bond(atom, self._add_atom(HYDROGEN), SINGLE)

    def bonds(self) -> list[Edge]:
        return [Edge(source, kind, target) for (source, target), kind in self._kinds.items()]

    def _open(self) -> list[int]:
        """Atoms with free valence."""
        return [atom for atom, left in enumerate(self._left) if left]

    def _add_atom(self, element: int) -> int:
        self.elements.append(element)
        self._left.append(VALENCES[element])
        return len(self.elements) - 1

    def _bond(self, source: int, target: int, kind: int) -> None:
        """Add a bond, or replace an existing one."""
        pair = min(source, target), max(source, target)
        taken = ORDERS[kind] - (ORDERS[self._kinds[pair]] if pair in self._kinds else 0)
        self._kinds[pair] = kind
        for atom in pair:
            self._left[atom] -= taken

    def _chance(self, percent: int) -> bool:
        return self._draw.random() * 100 < percent

    def _weighted(self, weights: dict[int, int]) -> int:
        return self._draw.choices(list(weights), list(weights.values()))[0]
