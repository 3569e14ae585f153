"""What our tools read of a cluster waits as the module's reflectors do, against a real API server."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest
import yaml

from controllers.api.kube import ConfigMap
from controllers.api.resources import CONFIGMAP, GPUNODEINVENTORY, Resource
from controllers.runtime.client import APPLY
from controllers.runtime.errors import AlreadyExists, NotFound
from controllers.runtime.reflector import Reflector, Scope
from controllers.runtime.store import Store
from reliability.bench.fleet import fleet, writes
from reliability.bench.records import Records
from reliability.bench.watch import following
from reliability.kit.caches import kept, listed
from reliability.kit.fault_proxy import reads_of
from tests.kit.waiting import PATIENCE, until
from tests.runtime.helpers import LISTS, WATCHES
from tools.errors import UserError

if TYPE_CHECKING:
    from controllers.runtime.client import Client
    from reliability.kit.fault_proxy import FaultProxy
    from tests.runtime.helpers import Space

CRD = Path(__file__).parents[2] / "crds" / "gpunodeinventory.yaml"
CRDS = Resource("apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False)


async def _serve(admin: Client) -> None:
    """Make GPUNodeInventory known, and wait until it is served."""
    with suppress(AlreadyExists):
        await admin.create(CRDS, yaml.safe_load(CRD.read_text()), manager="test")
    async with asyncio.timeout(PATIENCE):
        while True:
            with suppress(NotFound):
                await admin.request("GET", GPUNODEINVENTORY.path(), query={"limit": "1"})
                return
            await asyncio.sleep(0.05)


async def test_the_benchmark_waits_while_the_api_server_fills_its_cache(
    client: Client, proxy: FaultProxy, admin: Client
) -> None:
    """`429 storage is (re)initializing`, where the watch opens that tells when everything is recorded."""
    await _serve(admin)
    refused = proxy.fail(reads_of("gpunodeinventories", "watch"), 429, times=2, retry_after=1)
    records = Records(client)
    complete = asyncio.create_task(records.complete(1))
    await until(lambda: refused.hits == 2, "the watch to be refused twice")
    (member,) = fleet(1)
    for write in writes(member, 0.0):
        if write.resource is GPUNODEINVENTORY:
            query = {"fieldManager": "test", "force": "true"}
            await admin.request("PATCH", write.path, query=query, body=write.body, content_type=APPLY)
    async with asyncio.timeout(PATIENCE):
        assert await complete > 0
    assert records.summaries == {member.name}
    await admin.request("DELETE", GPUNODEINVENTORY.path(None, member.name))


async def test_a_sight_waits_too_and_sees_on_after_a_break(client: Client, proxy: FaultProxy, space: Space) -> None:
    name = f"sight-{uuid4().hex[:8]}"
    refused = proxy.fail(WATCHES, 429, times=1, retry_after=1)
    await space.put(name, v="0")
    async with following(client, CONFIGMAP) as sight:
        first = sight.expect(name, lambda config: config.data.get("v") == "1")
        fails = sight.expect(name, lambda config: config.data["missing"])
        assert sight.events == {}, "what was there before is no change"
        meta = await space.put(name, v="1")
        async with asyncio.timeout(PATIENCE):
            await first
        with pytest.raises(KeyError):
            await fails
        assert refused.hits == 1
        assert sight.meta[name].uid == meta["uid"]
        second = sight.expect(name, lambda config: config.data.get("v") == "2")
        proxy.fail(WATCHES, 410, times=1)
        proxy.cut()
        await space.put(name, v="2")
        async with asyncio.timeout(PATIENCE):
            await second
        await space.delete(name)
        await until(lambda: sight.events[name] == 3, "its end to count as a change")
        assert len(sight) == 0, "of objects it keeps the metadata alone"


async def test_a_cluster_that_does_not_answer_is_a_sentence(client: Client, proxy: FaultProxy) -> None:
    proxy.fail(LISTS, 503)
    with pytest.raises(UserError, match="could not be listed in 1 s") as told:
        async with kept(Reflector(client, CONFIGMAP, ConfigMap, Store("ConfigMap")), seconds=1.0):
            pass
    assert "API server" in told.value.do


async def test_everything_of_a_namespace(client: Client, proxy: FaultProxy, space: Space) -> None:
    for n in range(3):
        await space.put(f"c{n}", v="0")
    proxy.fail(LISTS, 429, times=1, retry_after=1)
    found = await listed(client, CONFIGMAP, ConfigMap, scope=Scope(namespace=space.name))
    assert sorted(config.name for config in found) == ["c0", "c1", "c2"]
