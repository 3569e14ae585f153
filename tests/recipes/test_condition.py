"""CONTRIBUTING.md, "a condition": two files, the rows with its reasons, and the planner that sets it."""

from __future__ import annotations

import re
from typing import Final

from tests.recipes.tree import Tree

ROWS: Final = "controllers/api/reasons/watching.py"
"""A file whose OWNER is the process that will set the condition."""
NEW: Final = """    Row(
        "PersistenceOff",
        "True",
        "PersistenceModeDisabled",
        "the driver is unloaded whenever nobody uses a card",
        "`nvidia-smi -pm 1` on <node>; [bootstrap](bootstrap.md)",
    ),
    Row("PersistenceOff", "False", "PersistenceModeEnabled", "the driver stays loaded", NOTHING),
"""
SET: Final = '''

def persistence(enabled: bool) -> Finding:
    """The condition PersistenceOff."""
    reason: Reason = "PersistenceModeEnabled" if enabled else "PersistenceModeDisabled"
    return Finding(not enabled, reason, "found so by the validator")
'''
PLANNER: Final = "controllers/bootstrap/persistence.py"
HEAD: Final = '''"""The condition PersistenceOff of a GPUNodeInventory. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api.conditions import Finding

if TYPE_CHECKING:
    from controllers.api.reasons.typed import Reason
'''
CHECK: Final = """
from controllers.api import ownership, reasons
from controllers.bootstrap.persistence import persistence

found = persistence(False)
print(reasons.NODE_OWNERS["PersistenceOff"])
print(reasons.find("node", "PersistenceOff", "True", found.reason).spoken(node="gpu-1"))
"""


def with_condition(tree: Tree) -> Tree:
    tree.insert(ROWS, "    Row(\n", NEW)
    tree.create(PLANNER, HEAD + SET)
    tree.generate("docs")
    return tree


def test_a_condition_is_two_files(tree: Tree) -> None:
    with_condition(tree)
    owner, cure = tree.run("-c", CHECK).splitlines()

    assert tree.changed == {ROWS, PLANNER}
    assert owner == "gpu-bootstrap"
    assert cure == "nvidia-smi -pm 1 on gpu-1; bootstrap (docs/bootstrap.md)"


def test_what_is_generated_knows_it(tree: Tree) -> None:
    with_condition(tree)
    owners = tree.read("templates/policies/_owners.tpl")
    controller = owners.partition("gpunodeinventories:")[2].partition("gpu-bootstrap-controller:")[2]

    assert "| `PersistenceOff` | `True` | `PersistenceModeDisabled` |" in tree.read("docs/conditions.md")
    assert "[bootstrap](./bootstrap.html)" in tree.read("docs/conditions.md")
    assert re.search(r"conditions: \[.*PersistenceOff.*\]", controller.partition("gpupool-controller:")[0])
    assert '"PersistenceModeDisabled",' in tree.read("controllers/api/reasons/typed.py")
    assert "`PersistenceOff`" in tree.read("docs/dev/design.md")


def test_a_reason_without_a_row_cannot_be_spelled(tree: Tree) -> None:
    tree.create(PLANNER, HEAD + SET)
    check = ["-m", "mypy", "--cache-dir", str(tree.root / ".mypy"), PLANNER]
    refused = tree.fails(*check)
    with_condition(tree)

    assert "PersistenceModeDisabled" in refused
    assert "Success" in tree.run(*check)
