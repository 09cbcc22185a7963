"""What docs/transformers.md tells of kept rows."""

import json
from statistics import mean

import pytest
from rows_of_accuracy import by_name
from rows_of_measurements import MEASURED, ROOT, rows

pytestmark = pytest.mark.extended

TEXT = " ".join((ROOT / "docs/transformers.md").read_text(encoding="utf-8").split())


def test_what_training_a_whole_transformer_is_predicted_to_need():
    found = {(row["device"], row["precision"]): row for row in rows("predicted-gpu/transformer.jsonl")}
    [memory] = {tuple(row["memory_gib"].values()) for row in found.values()}
    weights, kept = (f"{number:.1f} GiB" for number in memory)
    assert f"the optimizer's state take {weights}, and" in TEXT
    assert f"keeps for the backward pass up to {kept} more" in TEXT
    devices = "T4", "A100 SXM 80 GB", "H100 SXM"
    speeds = [f"{found[device, 'float32']['words_per_second']:,.0f}" for device in devices]
    assert f"{speeds[0]} words/s on a T4, {speeds[1]} on an A100 and {speeds[2]} on an H100" in TEXT
    faster = [f"{found[device, 'bfloat16']['words_per_second']:,.0f}" for device in devices[1:]]
    assert f"a T4 does not have, at {faster[0]} and {faster[1]} on the other two" in TEXT


def test_what_cached_vectors_cost_beside_pretrained_ones():
    [row] = rows("transformer-2026-11-24/rows.jsonl")
    *_, ratio = row["printed"]
    assert f"training has {ratio.rpartition('ones: ')[2]} of the speed" in TEXT


def test_how_long_the_table_took():
    by_row = by_name("transformer-2026-11-24/table/rows.jsonl")
    none, frozen, all_of_it, lora = (mean(run["seconds"] for run in runs) / 60 for runs in by_row.values())
    assert f"took {none:.1f} minutes without, {frozen:.1f} frozen, and {all_of_it:.0f} to {lora:.0f}" in TEXT


def test_what_the_small_transformer_was_pretrained_on():
    told = json.loads((MEASURED / "transformer-2026-11-24/pretraining.json").read_text(encoding="utf-8"))
    assert f"{told['layers']} layers of {told['hidden']} numbers on {told['sentences']:,} sentences" in TEXT
    assert f"in {told['minutes']:.0f} minutes of one core:" in TEXT
    assert f"from {told['losses'][0]:.2f} in the first epoch to {told['losses'][-1]:.2f} in the last" in TEXT
    assert f"{told['held_out_loss']:.2f} on held-out text" in TEXT
    assert f"{told['losses'][8]:.2f} after 9 epochs" in TEXT
