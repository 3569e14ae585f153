"""The inventory process keeps the NodeFeatureRule on a real API server."""

from __future__ import annotations

import copy
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names, resources
from controllers.inventory.rule import node_feature_rule
from controllers.runtime.client import APPLY
from controllers.runtime.errors import Forbidden, Invalid, NotFound
from tests.data import facts
from tests.inventory.plane import CRD, Plane, Running
from tests.kit.reports import reported
from tests.kit.waiting import at_rest

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

pytestmark = pytest.mark.cluster
MODULE = "controllers.inventory"
RULE = names.NODE_FEATURE_RULE
KIND = "nodefeaturerules.nfd.k8s-sigs.io"
WANTED = node_feature_rule.manifest()["spec"]["rules"]


@pytest.fixture(autouse=True)
async def no_rule(plane: Plane) -> None:
    try:
        await plane.delete(resources.NODEFEATURERULE, RULE)
    except NotFound:
        return


async def kept(plane: Plane) -> dict[str, Any]:
    """Wait until the rule is there as we want it."""

    async def as_wanted() -> dict[str, Any] | None:
        found = await plane.get(resources.NODEFEATURERULE, RULE)
        return found if found is not None and found["spec"]["rules"] == WANTED else None

    found: dict[str, Any] = await plane.until(as_wanted, "the rule as it is wanted")
    return found


async def writes(process: Running) -> float:
    """How often the process has written the rule; nodes of other tests are none of ours."""
    kind = 'gpu_writes_total{kind="NodeFeatureRule"'
    return sum(value for name, value in (await process.metrics()).items() if name.startswith(kind))


async def served(plane: Plane) -> bool:
    return await plane._served(resources.NODEFEATURERULE.path())


@asynccontextmanager
async def without_nfd(plane: Plane) -> AsyncIterator[None]:
    """An API server that does not have the kind; afterwards it has the simulation's again."""

    async def gone() -> bool:
        return not await served(plane) and await plane.get(CRD, KIND) is None

    await plane.delete(CRD, KIND)
    await plane.until(gone, "the kind to be gone")
    try:
        yield
    finally:
        await plane.install()


async def taken_as_it_is(plane: Plane) -> None:
    """Nothing is pruned or defaulted, or the process would see a difference for ever; and the schema does look."""
    await plane.put(resources.NODEFEATURERULE, {**node_feature_rule.manifest(), "metadata": {"name": RULE}})
    found = await plane.get(resources.NODEFEATURERULE, RULE)
    assert found is not None
    assert found["spec"] == node_feature_rule.manifest()["spec"]
    broken = copy.deepcopy(node_feature_rule.manifest()["spec"])
    broken["rules"][0]["matchFeatures"][0]["matchExpressions"]["vendor"]["op"] = "Like"
    with pytest.raises(Invalid, match="Unsupported value"):
        await plane.put(resources.NODEFEATURERULE, {"metadata": {"name": "broken"}, "spec": broken})


async def test_the_simulated_kind_takes_the_rule_as_it_is(plane: Plane) -> None:
    await taken_as_it_is(plane)


def nfds_own() -> dict[str, Any]:
    """The definition of the kind that NFD brings, but for its words."""
    facts_of = facts.read("nodefeature/nfd-api-crds.yaml")["definition"]
    version = {"name": facts_of["version"], "served": True, "storage": True}
    spec = {
        "group": facts_of["group"],
        "names": facts_of["names"],
        "scope": facts_of["scope"],
        "versions": [{**version, "schema": {"openAPIV3Schema": facts_of["schema"]}}],
    }
    return {"apiVersion": "apiextensions.k8s.io/v1", "metadata": {"name": KIND}, "spec": spec}


async def test_nfds_own_kind_takes_the_rule_as_it_is(plane: Plane) -> None:
    async with without_nfd(plane):
        await plane.client.create(CRD, nfds_own(), manager="test")
        await plane.until(lambda: served(plane), "NFD's kind")
        await taken_as_it_is(plane)
        await plane.delete(CRD, KIND)

        async def gone() -> bool:
            return await plane.get(CRD, KIND) is None

        await plane.until(gone, "NFD's kind to be gone")


async def test_the_rule_is_made_repaired_and_made_anew(plane: Plane, tmp_path: Path) -> None:
    async with plane.run(MODULE, tmp_path) as process:
        first = await kept(plane)
        assert first["metadata"]["labels"] == node_feature_rule.LABELS
        assert {entry["manager"] for entry in first["metadata"]["managedFields"]} == {names.MANAGER_INVENTORY}
        assert await writes(process) == 1

        theirs = {
            "metadata": {"labels": {"theirs": "stays", "app.kubernetes.io/name": "theirs"}},
            "spec": {"rules": []},
        }
        await plane.client.merge(resources.NODEFEATURERULE, RULE, theirs, manager="somebody")
        repaired = await kept(plane)
        assert repaired["metadata"]["labels"] == {**node_feature_rule.LABELS, "theirs": "stays"}
        assert repaired["metadata"]["uid"] == first["metadata"]["uid"]

        await plane.delete(resources.NODEFEATURERULE, RULE)
        assert (await kept(plane))["metadata"]["uid"] != first["metadata"]["uid"]
        assert await writes(process) == 3

        other = {"metadata": {"name": "of-others"}, "spec": {"rules": [{"name": "theirs"}]}}
        await plane.put(resources.NODEFEATURERULE, other)
        assert await at_rest(lambda: writes(process), "the count of writes") == 3
        assert process.end() == 0
    await plane.delete(resources.NODEFEATURERULE, "of-others")


async def test_a_rule_that_was_changed_while_nobody_looked_is_repaired_at_the_start(
    plane: Plane, tmp_path: Path
) -> None:
    await plane.put(resources.NODEFEATURERULE, {"metadata": {"name": RULE}, "spec": {"rules": [{"name": "theirs"}]}})
    async with plane.run(MODULE, tmp_path) as process:
        await kept(plane)
        assert await writes(process) == 1
    async with plane.run(MODULE, tmp_path) as process:
        assert await at_rest(lambda: writes(process), "the count of writes") == 0


async def test_nfd_may_come_later(plane: Plane, tmp_path: Path) -> None:
    async with without_nfd(plane), plane.run(MODULE, tmp_path) as process:
        await plane.install()
        await kept(plane)
        assert await writes(process) == 1
        assert '"level":"error"' not in process.log.read_text()


POLICY = resources.Resource(
    "admissionregistration.k8s.io", "v1", "validatingadmissionpolicies", "ValidatingAdmissionPolicy", namespaced=False
)
BINDING = resources.Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingadmissionpolicybindings",
    "ValidatingAdmissionPolicyBinding",
    namespaced=False,
)


@asynccontextmanager
async def without_match_name(plane: Plane) -> AsyncIterator[None]:
    """An API server that refuses our rule, as one with an old NFD's kinds does."""
    rules = [
        {
            "apiGroups": ["nfd.k8s-sigs.io"],
            "apiVersions": ["*"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["nodefeaturerules"],
        }
    ]
    checks = [{"expression": "false", "message": "unknown field matchName"}]
    policy = {"matchConstraints": {"resourceRules": rules}, "validations": checks}
    await plane.put(POLICY, {"metadata": {"name": "old"}, "spec": policy})
    binding = {"policyName": "old", "validationActions": ["Deny"]}
    await plane.put(BINDING, {"metadata": {"name": "old"}, "spec": binding})

    async def in_force() -> bool:
        query = {"dryRun": "All", "fieldManager": "test"}
        kind = {"apiVersion": "nfd.k8s-sigs.io/v1alpha1", "kind": "NodeFeatureRule"}
        body = {**kind, "metadata": {"name": "probe"}, "spec": {"rules": []}}
        path = resources.NODEFEATURERULE.path(None, "probe")
        try:
            await plane.client.request("PATCH", path, query=query, body=body, content_type=APPLY)
        except (Invalid, Forbidden) as error:
            return "matchName" in str(error)
        return False

    await plane.until(in_force, "the policy")
    try:
        yield
    finally:
        with suppress(NotFound):
            await plane.delete(BINDING, "old")
        await plane.delete(POLICY, "old")


async def test_a_refused_rule_is_told_on_every_node_until_it_is_taken(plane: Plane, tmp_path: Path) -> None:
    await plane.node("refused")
    await plane.report("refused", [reported(0)])

    async def prerequisite(reason: str) -> dict[str, Any] | None:
        found = await plane.condition(resources.GPUNODEINVENTORY, "refused", "PrerequisiteNotMet")
        return found if found and found["reason"] == reason else None

    async with without_match_name(plane), plane.run(MODULE, tmp_path) as process:
        told = await plane.until(lambda: prerequisite("RuleRefused"), "the refusal")
        assert told["status"] == "True"
        assert "unknown field matchName" in told["message"]
        assert "0.15 or newer" in told["message"]
        assert (await process.metrics())["gpu_inventory_rule_refused"] == 1
        await plane.delete(BINDING, "old")
        await plane.until(lambda: prerequisite("PrerequisitesMet"), "the rule to be taken")
        await kept(plane)
