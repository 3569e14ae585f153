"""What people's hands do to nodes and operands: ours is put back, theirs stays."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from controllers.api import names, resources
from controllers.api.resources import Resource
from controllers.runtime.errors import Conflict, NotFound, RuntimeFault
from tests.kit.waiting import PATIENCE
from tests.slice.people import People

pytestmark = pytest.mark.cluster
OURS = {"key": "example.com/gpu", "value": "train", "effect": "NoSchedule"}
THEIRS = {"key": "example.com/theirs", "value": "x", "effect": "PreferNoSchedule"}


def on(people: People, node: str) -> list[str]:
    return sorted(device.name for device in people.view.devices if device.status.node_name == node)


async def read(people: People, resource: Resource, name: str) -> Any:
    return orjson.loads(await people.client.get(resource, name, names.NAMESPACE if resource.namespaced else None))


async def taints(people: People, node: str) -> list[dict[str, str]]:
    """The taints of people and pools."""
    found = (await read(people, resources.NODE, node))["spec"].get("taints") or []
    return [taint for taint in found if taint["key"].startswith("example.com/")]


async def eventually(people: People, what: Any) -> None:
    async def asked() -> bytes:
        if (found := await what()) is not True:
            raise RuntimeFault(f"not yet: {found}")
        return b""

    await people.eventually(asked)


async def taint(people: People, node: str, change: Any) -> None:
    """As kubectl taint: read, change, write on the version that was read."""
    for _ in range(5):
        obj = await read(people, resources.NODE, node)
        body = {
            "metadata": {"resourceVersion": obj["metadata"]["resourceVersion"]},
            "spec": {"taints": change(obj["spec"].get("taints") or [])},
        }
        try:
            await people.client.merge(resources.NODE, node, body, manager="test")
        except Conflict:
            continue
        return
    raise AssertionError("somebody else writes this node without end")


async def test_taints_come_with_a_card_go_with_the_last_and_a_foreign_one_stays(people: People) -> None:
    pool, team, node = "tainted", "tainted", "gpu-3"
    await people.namespace(team)
    await taint(people, node, lambda there: [*there, THEIRS])
    await people.pool(pool, scheduling={"taints": [OURS]})
    assert await taints(people, node) == [THEIRS]
    for card in on(people, node)[:2]:
        await people.annotate(card, pool)
    await people.offered(pool, 2)

    async def has_ours() -> Any:
        found = await taints(people, node)
        return found == [THEIRS, OURS] or found

    await eventually(people, has_ours)
    await taint(people, node, lambda there: [entry for entry in there if entry["key"] != OURS["key"]])
    await eventually(people, has_ours)  # somebody took it off

    await people.pod("p", team, pool)
    await people.running(team, 1)  # the webhook gave it the toleration
    assert people.pods(team)[0].node == node
    await people.remove(resources.POD, "p", team)
    await people.settled(pool, (2, 0, 0, 2))

    first, second = on(people, node)[:2]
    await people.annotate(first, None)
    await people.view.until(lambda: len(people.cards(pool)) == 1, PATIENCE, lambda: str(people.cards(pool)))
    assert await taints(people, node) == [THEIRS, OURS]
    await people.annotate(second, None)

    async def has_only_theirs() -> Any:
        found = await taints(people, node)
        return found == [THEIRS] or found

    await eventually(people, has_only_theirs)
    marks = (await read(people, resources.NODE, node))["metadata"].get("annotations", {})
    assert names.POOL_TAINTS not in marks

    # Deleting the pool does the same while it has cards.
    await people.annotate(first, pool)
    await eventually(people, has_ours)
    await people.retire(pool)
    await eventually(people, has_only_theirs)
    await taint(people, node, lambda there: [entry for entry in there if entry["key"] != THEIRS["key"]])


async def values_of(people: People, node: str, since: str, until_: str) -> list[list[str]]:
    """The values of our taint in every event of the node after a version, up to the one that has only that value."""
    found: list[list[str]] = []
    query = {"watch": "true", "fieldSelector": f"metadata.name={node}", "resourceVersion": since}
    async with people.client.stream(resources.NODE.path(None), query=query, idle=PATIENCE) as batches:
        async for lines in batches:
            for line in lines:
                there = orjson.loads(line)["object"]["spec"].get("taints") or []
                found.append([one["value"] for one in there if one["key"] == OURS["key"]])
                if found[-1] == [until_]:
                    return found
    raise AssertionError(f"the watch ended before that: {found}")


async def test_a_taint_whose_value_changes_leaves_the_node_open_at_no_moment(people: People) -> None:
    pool, team, node = "exchanged", "exchanged", "gpu-3"
    later = {**OURS, "value": "infer"}
    await people.namespace(team)
    await people.pool(pool, scheduling={"taints": [OURS]})
    for card in on(people, node)[:2]:
        await people.annotate(card, pool)
    await people.offered(pool, 2)

    async def has_ours() -> Any:
        found = await taints(people, node)
        return found == [OURS] or found

    await eventually(people, has_ours)
    # One that was admitted before, does not tolerate the new value, and is on no node while its volume is not there.
    missing = {"name": "data", "persistentVolumeClaim": {"claimName": "missing"}}
    await people.pod("older", team, pool, volumes=[missing])
    since = (await read(people, resources.NODE, node))["metadata"]["resourceVersion"]
    watching = asyncio.create_task(values_of(people, node, since, later["value"]))
    change = {"spec": {"scheduling": {"taints": [later]}}}
    await people.client.merge(resources.GPUPOOL, pool, change, manager="test")
    await people.told(names.EVENT_TAINT_WITHHELD, "pod exchanged/older", "the node keeps its value 'train'", about=node)
    assert await taints(people, node) == [OURS]

    # A newer one comes to the node as it is, and stays when it changes.
    made = orjson.loads(await people.pod("newer", team, pool))
    given = {one["value"] for one in made["spec"]["tolerations"] if one.get("key") == OURS["key"]}
    assert given == {OURS["value"], later["value"]}
    await people.running(team, 1)
    await people.remove(resources.POD, "older", team)
    values = await asyncio.wait_for(watching, PATIENCE)
    assert {len(found) for found in values} == {1}, values
    assert [found for found in values if found == [later["value"]]] == values[-1:]
    assert people.pods(team)[0].node == node
    await people.remove(resources.POD, "newer", team)
    await people.retire(pool)


async def test_operands_that_somebody_edits_or_deletes_come_back(people: People) -> None:
    pool, node = "repaired", "gpu-3"
    card = on(people, node)[0]
    await people.filled(pool, [card])
    name = names.plugin_object(pool)
    built = await read(people, resources.DAEMONSET, name)
    container = built["spec"]["template"]["spec"]["containers"][0]
    edited = {**container, "args": ["device-plugin", "--pool", "another"]}
    spec = {"nodeSelector": {names.pool_node_label(pool): "true", "x": "y"}, "containers": [edited]}
    hand = {"metadata": {"annotations": {names.SPEC_HASH: None}}, "spec": {"template": {"spec": spec}}}
    await people.client.merge(resources.DAEMONSET, name, hand, manager="test", namespace=names.NAMESPACE)

    async def as_built() -> Any:
        try:
            found = await read(people, resources.DAEMONSET, name)
        except NotFound:
            return "no DaemonSet"
        same = found["spec"] == built["spec"] and found["metadata"]["annotations"].get(names.SPEC_HASH)
        return same == built["metadata"]["annotations"][names.SPEC_HASH] or found["spec"]["template"]["spec"]

    await eventually(people, as_built)
    await people.remove(resources.DAEMONSET, name, names.NAMESPACE)
    await eventually(people, as_built)
    made = (await read(people, resources.DAEMONSET, name))["metadata"]["uid"]

    def runs() -> bool:
        pods = (pod for pod in people.view.pods if pod.ready)
        return any(made == owner.uid for pod in pods for owner in pod.metadata.owner_references)

    await people.view.until(runs, PATIENCE, lambda: f"no pod of DaemonSet {made} is ready")

    listed = (await read(people, resources.CONFIGMAP, name))["data"]

    async def as_listed() -> Any:
        try:
            return (await read(people, resources.CONFIGMAP, name))["data"] == listed
        except NotFound:
            return "no ConfigMap"

    wrong = {"data": {names.ALLOWED_DEVICES: ""}, "metadata": {"labels": {names.LABEL_POOL: None}}}
    await people.client.merge(resources.CONFIGMAP, name, wrong, manager="test", namespace=names.NAMESPACE)
    await eventually(people, as_listed)
    await people.remove(resources.CONFIGMAP, name, names.NAMESPACE)
    await eventually(people, as_listed)
    await people.offered(pool, 1)
    await people.retire(pool)
