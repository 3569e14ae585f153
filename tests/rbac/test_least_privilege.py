"""Each identity may do what it does and nothing else, by the API server's own audit log."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from controllers.api import names, resources
from controllers.runtime.client import Client
from controllers.runtime.errors import Forbidden
from sim.controlplane.layout import Layout
from sim.module.identities import kubeconfig_for
from tests.kit import planes
from tests.kit.waiting import PATIENCE
from tests.rbac.exempt import EXEMPT
from tests.rbac.judge import problems
from tests.rbac.log import Log
from tests.rbac.story import COVERAGE, coverage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.rbac.conftest import Played
    from tests.rbac.grants import Chart

pytestmark = pytest.mark.cluster
ROLES = "/apis/rbac.authorization.k8s.io/v1/clusterroles/d8:gpu-control-plane:"


@pytest.fixture
async def admin(played: Played) -> AsyncIterator[Client]:
    """The cluster of the processes, which have done what they may."""
    client = await Client.connect(played.plane.kubeconfig, user_agent="test")
    yield client
    await client.close()


@pytest.mark.slow("for all of the file, each process and each program of a node does once what it has rights for")
def test_what_is_granted_is_used_and_what_is_used_is_granted(played: Played, chart: Chart) -> None:
    found = problems(chart.grants, played.uses, EXEMPT)
    assert not found, "\n".join(found)


def test_a_verb_that_is_added_to_any_rule_is_found(played: Played, chart: Chart) -> None:
    more = {replace(grant, verb="deletecollection") for grant in chart.grants}
    found = problems([*chart.grants, *more], played.uses, EXEMPT)
    assert {f"granted and never used: {grant}" for grant in more} <= set(found)


async def test_a_verb_that_is_taken_away_is_found(played: Played, chart: Chart, admin: Client) -> None:
    plane = played.plane
    tools = planes.tools(plane)
    rules = await _rules(admin, COVERAGE)
    await _change(admin, COVERAGE, [rule for rule in rules if rule["resources"] != ["nodes"]])
    log = Log(Layout(plane.dir).log("audit"))
    wanted = f"used and not granted: {COVERAGE}: list nodes"
    try:
        # RBAC follows its roles by watch: it may be a moment late.
        async with asyncio.timeout(PATIENCE):
            while wanted not in problems(chart.grants, log.refresh() | played.uses, EXEMPT):
                await coverage(plane, tools, fails=True)
    finally:
        await _change(admin, COVERAGE, rules)


async def test_a_pools_operands_need_the_right_to_its_finalizers(played: Played, admin: Client, tmp_path: Path) -> None:
    """Admission asks for it: what a pool owns keeps the pool from going."""
    plane, account = played.plane, names.POOL_CONTROLLER
    tools = planes.tools(plane)
    controller = await Client.connect(kubeconfig_for(plane, tools, account, tmp_path), user_agent="test")
    owner = {"apiVersion": resources.GPUPOOL.api_version, "kind": "GPUPool", "name": "p", "uid": "u"}
    body = {"metadata": {"name": "probe", "ownerReferences": [{**owner, "blockOwnerDeletion": True}]}}
    path, query = resources.CONFIGMAP.path(names.NAMESPACE), {"dryRun": "All"}
    rules = await _rules(admin, account)

    async def make() -> None:
        await controller.request("POST", path, query=query, body=body)

    async def again() -> None:
        async with asyncio.timeout(PATIENCE):
            while True:
                await make()

    try:
        await make()
        await _change(admin, account, [rule for rule in rules if rule["resources"] != ["gpupools/finalizers"]])
        with pytest.raises(Forbidden, match="blockOwnerDeletion"):
            await again()
    finally:
        await _change(admin, account, rules)
        await controller.close()


async def _rules(admin: Client, account: str) -> list[Any]:
    found: list[Any] = orjson.loads(await admin.request("GET", ROLES + account))["rules"]
    return found


async def _change(admin: Client, account: str, rules: list[Any]) -> None:
    body, kind = {"rules": rules}, "application/merge-patch+json"
    await admin.request("PATCH", ROLES + account, body=body, content_type=kind)
