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
    Row("PersistenceOff", "Unknown", "PersistenceModeUnknown", "no validator has looked yet", "wait for the validator"),
"""
PLANNER: Final = "controllers/bootstrap/readiness/conditions.py"
"""The owner's planner, which sets the node's conditions."""
SET: Final = """def _persistence(state: NodeState) -> Finding:
    mode = state.fact("validation", "container.persistence")
    if mode is None:
        return Finding(None, "PersistenceModeUnknown", f"nothing on node {state.name} tells of persistence mode yet")
    if mode == "on":
        return Finding(False, "PersistenceModeEnabled", f"the driver of node {state.name} stays loaded")
    return Finding(True, "PersistenceModeDisabled", f"persistence mode is {mode} on node {state.name}, expected on")


"""
TABLE: Final = "CONDITIONS: Final"
LAST_OF_TABLE: Final = "    kinds.MANAGED_ELSEWHERE: "
ENTRY: Final = '    "PersistenceOff": _persistence,\n'
CHECK: Final = """
from controllers.api import reasons
from tests.bootstrap.world import Cluster

made = Cluster()
made.prepare()
before = made.condition("PersistenceOff")
made.verdict("container", "ok", persistence="off")
made.step()
print(before, made.condition("PersistenceOff"), made.message("PersistenceOff"))
print(made.plan().actions)
print(reasons.NODE_OWNERS["PersistenceOff"])
print(reasons.find("node", *("PersistenceOff", "True", "PersistenceModeDisabled")).spoken(node="gpu-1"))
"""
SPELLED: Final = "controllers/bootstrap/spelled.py"
SPELLING: Final = '''"""A finding with a reason of the new condition. Pure."""

from __future__ import annotations

from controllers.api.conditions import Finding

FOUND = Finding(True, "PersistenceModeDisabled", "found so by the validator")
'''
PLAYED: Final = ("tests/kit", "tests/bootstrap/world.py")
"""A cluster in memory, on which the planner works."""


def with_condition(tree: Tree) -> Tree:
    tree.insert(ROWS, "    Row(\n", NEW)
    tree.insert(PLANNER, TABLE, SET)
    tree.insert(PLANNER, LAST_OF_TABLE, ENTRY)
    tree.generate("docs")
    return tree


def test_a_condition_is_two_files(tree: Tree) -> None:
    with_condition(tree)
    tree.copy(*PLAYED)
    said, rest, owner, cure = tree.run("-c", CHECK).splitlines()

    assert tree.changed == {ROWS, PLANNER}
    unknown, disabled = ("Unknown", "PersistenceModeUnknown"), ("True", "PersistenceModeDisabled")
    assert said == f"{unknown} {disabled} persistence mode is off on node worker-01, expected on"
    assert rest == "()", "planned again, there is nothing left to write"
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
    tree.create(SPELLED, SPELLING)
    check = ["-m", "mypy", "--cache-dir", str(tree.root / ".mypy"), SPELLED]
    refused = tree.fails(*check)
    with_condition(tree)

    assert "PersistenceModeDisabled" in refused
    assert "Success" in tree.run(*check)
