"""Molecules as graphs: QM9 (Ramakrishnan et al. 2014) with dipole moments in GGNN's format, and made ones."""

from __future__ import annotations

import json
import math
import random
import reprlib
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch

from parser.benchmarks.graphs.labelled_graph import Edge, LabelledGraph, both_ways, labelled_graph
from parser.benchmarks.json_records import checked, field, index

ELEMENTS = ("H", "C", "N", "O", "F")
"""An atom's features are 1 at its element's place, and 0 elsewhere."""
HYDROGEN, CARBON, NITROGEN, OXYGEN, FLUORINE = range(len(ELEMENTS))

SINGLE, DOUBLE, TRIPLE, AROMATIC = range(4)
"""Kinds of bonds; in the files from 1."""
ORDERS = (1, 2, 3, 1.5)
"""Of the kinds of bonds: what they take of an atom's valence."""


class Molecule(NamedTuple):
    graph: LabelledGraph
    """Its nodes are atoms; each bond is two edges, one either way."""
    target: float
    """The dipole moment, less the mean of the training part and divided by its standard deviation."""


def read_molecules(path: Path) -> list[Molecule]:
    """Raises ValueError, with the molecule's place in the list, for what is not in the format."""
    try:
        content = json.loads(path.read_bytes())
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path}: no JSON: {error}") from None
    records = checked(content, list, "this", str(path))
    if not records:
        raise ValueError(f"{path}: no molecules")
    return [_molecule(record, f"{path}: molecule {position}") for position, record in enumerate(records)]


def _molecule(record: object, place: str) -> Molecule:
    atoms = field(record, "node_features", list, place)
    if not atoms:
        raise ValueError(f"{place}: there are no atoms")
    elements = [_element(atom, f"{place}, atom {number}") for number, atom in enumerate(atoms)]
    return Molecule(_graph(elements, _bonds(record, len(elements), place)), _target(record, place))


def _graph(elements: Sequence[int], bonds: Sequence[Edge]) -> LabelledGraph:
    features = torch.eye(len(ELEMENTS))[torch.tensor(elements)]  # [atoms, elements]
    return both_ways(labelled_graph(features, bonds))


def _element(features: object, place: str) -> int:
    marks = checked(features, list, "this", place)
    if len(marks) != len(ELEMENTS) or marks.count(1) != 1 or marks.count(0) != len(ELEMENTS) - 1:
        raise ValueError(
            f"{place}: this must be a 1 for one of {', '.join(ELEMENTS)}, and a 0 for each of the others, "
            f"and is {reprlib.repr(marks)}"
        )
    return marks.index(1)


def _bonds(record: object, atoms: int, place: str) -> list[Edge]:
    bonds = []
    bonded = set()
    for number, given in enumerate(field(record, "graph", list, place)):
        bond = _bond(given, atoms, f"{place}, bond {number}")
        pair = frozenset((bond.source, bond.target))
        if pair in bonded:
            raise ValueError(f"{place}, bond {number}: {bond.source} and {bond.target} have a bond already")
        bonded.add(pair)
        bonds.append(bond)
    return bonds


def _bond(record: object, atoms: int, place: str) -> Edge:
    numbers = checked(record, list, "this", place)
    if len(numbers) != 3:
        raise ValueError(f"{place}: this must be source, kind, target, and is {reprlib.repr(numbers)}")
    source, target = (index(numbers[end], atoms, "atom", place) for end in (0, 2))
    if source == target:
        raise ValueError(f"{place}: atom {source} has a bond to itself")
    kind = checked(numbers[1], int, "a kind", place)
    if not 1 <= kind <= len(ORDERS):
        raise ValueError(f"{place}: there is no kind {kind}: they are 1 to {len(ORDERS)}")
    return Edge(source, kind - 1, target)


def _target(record: object, place: str) -> float:
    match field(record, "targets", list, place):
        case [[int() | float() as target]] if not isinstance(target, bool) and _finite(target):
            return float(target)
        case given:
            shown = reprlib.repr(given)
            raise ValueError(
                f"{place}: 'targets' must be a finite number in two lists, [[0.5]], and is {shown}"
            )


def _finite(number: float) -> bool:
    try:
        return math.isfinite(number)
    except OverflowError:  # an integer beyond what a float holds
        return False


VALENCES = (1, 4, 3, 2, 1)
"""Of the elements; made molecules have no charged atoms."""
ELECTRONEGATIVITIES = np.array([2.20, 2.55, 3.04, 3.44, 3.98])
"""Of the elements, Pauling's."""
FEWEST = 6
"""Atoms of a molecule; the most are 29, of nine heavy ones."""

# In percent, near what QM9 has.
HEAVY_ATOMS = {9: 83, 8: 14, 7: 2, 6: 1}
HEAVY_ELEMENTS = {CARBON: 71, NITROGEN: 12, OXYGEN: 16, FLUORINE: 1}
RINGS = {0: 11, 1: 40, 2: 31, 3: 15, 4: 3}
AROMATIC_RING = 15
AROMATIC_ELEMENTS = {CARBON: 85, NITROGEN: 15}
HIGHER_BOND = 30
"""Single bonds that become double, and double ones that become triple, where the valences allow it."""

MEAN, DEVIATION = 5.79, 1.51
"""Of the polarity of made molecules, measured on 100,000 of them."""


def polarity(graph: LabelledGraph) -> float:
    """How far the bonds move charge: half the sum of the atoms' charges, all taken as positive.

    A bond moves its order times the difference of its atoms' electronegativities, to the atom of the greater
    one; what an atom gains by one bond and loses by another does not count. graph: of a molecule.
    """
    drawing = ELECTRONEGATIVITIES[graph.features.argmax(dim=1).numpy()]  # [atoms]
    moved = np.array(ORDERS)[graph.kinds] * (drawing[graph.targets] - drawing[graph.sources])  # [edges]
    charges = np.bincount(graph.targets, weights=moved, minlength=graph.nodes)
    return float(np.abs(charges).sum() / 2)


def make_molecules(number: int, seed: int) -> list[Molecule]:
    """Of QM9's sizes, elements and kinds of bonds, without charged atoms; the same for the same seed.

    The target is the polarity, less its mean and divided by its standard deviation. It takes knowing each
    atom's neighbours and the bonds to them, and no more.
    """
    draw = random.Random(seed)
    return [_made(draw) for _ in range(number)]


def _made(draw: random.Random) -> Molecule:
    """Draws until there are atoms enough."""
    while True:
        draft = _MoleculeBuilder(draw)
        if len(draft.elements) >= FEWEST:
            graph = _graph(draft.elements, draft.bonds())
            return Molecule(graph, (polarity(graph) - MEAN) / DEVIATION)


class _MoleculeBuilder:
    """A tree of heavy atoms, then rings, then higher bonds, and hydrogen wherever a valence is left."""

    def __init__(self, draw: random.Random) -> None:
        self.elements: list[int] = []
        self._left: list[float] = []
        """Of each atom's valence."""
        self._kinds: dict[tuple[int, int], int] = {}
        """Of the bonds, by their atoms."""
        self._draw = draw
        if self._chance(AROMATIC_RING):
            self._add_aromatic_ring()
        self._add_tree()
        self._close_rings()
        self._raise_bonds()
        self._add_hydrogen()

    def bonds(self) -> list[Edge]:
        return [Edge(source, kind, target) for (source, target), kind in self._kinds.items()]

    def _add_aromatic_ring(self) -> None:
        ring = [self._add_atom(self._weighted(AROMATIC_ELEMENTS)) for _ in range(6)]
        for place, atom in enumerate(ring):
            self._bond(ring[place - 1], atom, AROMATIC)

    def _add_tree(self) -> None:
        """Up to the number of heavy atoms drawn, unless no valence is left before."""
        heavy = self._weighted(HEAVY_ATOMS)
        if not self.elements:
            self._add_atom(self._weighted(HEAVY_ELEMENTS))
        while len(self.elements) < heavy and (bonded := self._open()):
            self._bond(self._draw.choice(bonded), self._add_atom(self._weighted(HEAVY_ELEMENTS)), SINGLE)

    def _close_rings(self) -> None:
        for _ in range(self._weighted(RINGS)):
            pairs = [pair for pair in combinations(self._open(), 2) if pair not in self._kinds]
            if pairs:
                self._bond(*self._draw.choice(pairs), SINGLE)

    def _raise_bonds(self) -> None:
        for (source, target), kind in list(self._kinds.items()):
            while kind < TRIPLE and self._left[source] and self._left[target] and self._chance(HIGHER_BOND):
                kind += 1
                self._bond(source, target, kind)

    def _add_hydrogen(self) -> None:
        for atom in self._open():
            for _ in range(int(self._left[atom])):
                self._bond(atom, self._add_atom(HYDROGEN), SINGLE)

    def _open(self) -> list[int]:
        """Atoms with valence left."""
        return [atom for atom, left in enumerate(self._left) if left]

    def _add_atom(self, element: int) -> int:
        self.elements.append(element)
        self._left.append(VALENCES[element])
        return len(self.elements) - 1

    def _bond(self, source: int, target: int, kind: int) -> None:
        """Instead of the bond that they have, if they do."""
        pair = min(source, target), max(source, target)
        taken = ORDERS[kind] - (ORDERS[self._kinds[pair]] if pair in self._kinds else 0)
        self._kinds[pair] = kind
        for atom in pair:
            self._left[atom] -= taken

    def _chance(self, percent: int) -> bool:
        return self._draw.random() * 100 < percent

    def _weighted(self, weights: dict[int, int]) -> int:
        return self._draw.choices(list(weights), list(weights.values()))[0]
