"""Whose names of pods and namespaces stand where those may read who ask for cards."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
import yaml

from tests.module import module as dmt
from tests.templates.harness import ROOT

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.cluster  # it asks Helm for the chart
LEVEL = "user-authz.deckhouse.io/access-level"
OF_TENANTS = {"User", "PrivilegedUser", "Editor", "Admin"}
"""Deckhouse's levels that are given for namespaces."""
READS = {"get", "list", "watch"}
NAMING = ("pod", "namespace", "serviceaccount", "user", "group")


def fields(schema: dict[str, Any]) -> Iterator[str]:
    """Every name in a schema."""
    for name, each in schema.get("properties", {}).items():
        yield name
        yield from fields(each)
    if "items" in schema:
        yield from fields(schema["items"])


def test_what_tenants_may_read_of_the_module_names_no_pod() -> None:
    """Pools alone; a pool's conditions, which are sentences, are tested where they are made."""
    roles = [role for _, role in dmt.load().of("ClusterRole") if _level(role) in OF_TENANTS]
    rules = [rule for role in roles for rule in role["rules"]]
    assert rules
    assert {resource for rule in rules for resource in rule["resources"]} == {"gpupools"}
    assert {verb for rule in rules for verb in rule["verbs"]} <= READS

    (version,) = yaml.safe_load((ROOT / "crds/gpupool.yaml").read_text("utf-8"))["spec"]["versions"]
    status = version["schema"]["openAPIV3Schema"]["properties"]["status"]
    assert "capacity" in set(fields(status))
    assert [name for name in fields(status) if name.lower().rstrip("s") in NAMING or "podU" in name] == []


def _level(role: dict[str, Any]) -> str:
    return str(role["metadata"].get("annotations", {}).get(LEVEL, ""))
