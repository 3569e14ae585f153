"""CONTRIBUTING.md, "a card model": one file."""

from __future__ import annotations

import json
from typing import Any

from tests.kit.reports import report, reported
from tests.recipes.tree import Tree

CATALOGUE = "controllers/domain/catalogue/nvidia.toml"
FAMILY = """[[families]]
chip = "GX999"
compute = "12.7"
mig_needs_reset = false
source = ["published"]
cards = [
  { id = "fff1", product = "NVIDIA X999", gib = 80, geometry = "ga100-80gb" },
]

"""
READ = """
import json, sys
from controllers.api.nodefeature import NodeFeature
from controllers.api.record import adapter
from controllers.domain.catalogue import geometry, model
from controllers.inventory.reports import discovered_cards

(card,) = discovered_cards.read(adapter(NodeFeature).validate_python(json.loads(sys.argv[1]))).cards
pci = card.hardware.pci
known = model(pci.vendor, pci.device)
print(json.dumps({
    "problem": card.problem,
    "reported": card.hardware.product,
    "known": known and [known.product, known.memory_mib, known.compute, bool(geometry(known.geometry))],
}))
"""


def inventoried(tree: Tree) -> Any:
    """What the inventory reads of a report with one card of the new model, and what the catalogue knows of it."""
    card = reported(0, device="fff1", product="NVIDIA X999", memory_mib="81000", compute_major="12", compute_minor="7")
    return json.loads(tree.run("-c", READ, json.dumps(report("w", [card]))))


def test_a_card_model_is_one_file(tree: Tree) -> None:
    before = inventoried(tree)
    tree.insert(CATALOGUE, "[[families]]", FAMILY)

    assert before == {"problem": "", "reported": "NVIDIA X999", "known": None}
    assert inventoried(tree) == {**before, "known": ["NVIDIA X999", 80 * 1024, [12, 7], True]}
    assert tree.changed == {CATALOGUE}


def test_a_slip_in_it_names_the_file_and_the_entry(tree: Tree) -> None:
    tree.insert(CATALOGUE, "[[families]]", FAMILY.replace("ga100-80gb", "ga100-81gb"))

    error = tree.fails("-c", "import controllers.domain.catalogue")
    assert "nvidia.toml" in error
    assert "ga100-81gb" in error
