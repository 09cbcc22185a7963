"""Molecular graphs from the table of QM9 that `make data SET=qm9` downloads, for `graph_network`.

pip install rdkit==2026.9.1
python scripts/make_molecules.py data/qm9

The script writes molecules_train.json and molecules_valid.json. The nodes are all atoms, hydrogens included;
each bond is listed once. Repeated rows are dropped. The molecules named in valid_idx.json are the held-out
part. The target is the dipole moment, standardised by the mean and standard deviation of the training part.
"""

from __future__ import annotations

import argparse
import csv
import json
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

ELEMENTS = "H", "C", "N", "O", "F"
BONDS = {"SINGLE": 1, "DOUBLE": 2, "TRIPLE": 3, "AROMATIC": 4}


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    arguments.add_argument("folder", type=Path, help="that of qm9_small.csv and valid_idx.json")
    folder = arguments.parse_args().folder
    with (folder / "qm9_small.csv").open(encoding="utf-8", newline="") as file:
        rows = {int(row["mol_id"].removeprefix("gdb_")): row for row in csv.DictReader(file)}
    held_out = {int(number) for number in json.loads((folder / "valid_idx.json").read_text())["valid_idxs"]}
    parts: dict[str, list[dict[str, str]]] = {"train": [], "valid": []}
    for number, row in sorted(rows.items()):
        parts["valid" if number in held_out else "train"].append(row)
    moments = [float(row["mu"]) for row in parts["train"]]
    mean, deviation = fmean(moments), pstdev(moments)
    for name, molecules in parts.items():
        lines = [json.dumps(molecule(row, mean, deviation), separators=(",", ":")) for row in molecules]
        (folder / f"molecules_{name}.json").write_text("[\n" + ",\n".join(lines) + "\n]\n", encoding="utf-8")


def molecule(row: dict[str, str], mean: float, deviation: float) -> dict[str, Any]:
    """The molecule in the format of the GGNN sample code."""
    from rdkit import Chem

    graph = Chem.AddHs(Chem.MolFromSmiles(row["smiles"]))
    moment = float(row["mu"])
    return {
        "id": row["mol_id"],
        "smiles": row["smiles"],
        "mu": moment,
        "targets": [[(moment - mean) / deviation]],
        "graph": [
            [bond.GetBeginAtomIdx(), BONDS[bond.GetBondType().name], bond.GetEndAtomIdx()]
            for bond in graph.GetBonds()
        ],
        "node_features": [
            [int(atom.GetSymbol() == element) for element in ELEMENTS] for atom in graph.GetAtoms()
        ],
    }


if __name__ == "__main__":
    main()
