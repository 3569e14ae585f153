"""ModuleConfig while everything runs: each setting, wrong ones, the module off and on again, none and anew."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest

from controllers.api import names, resources
from controllers.api.crdgen import config_values
from controllers.runtime.errors import ApiError
from sim.cluster import Options
from sim.controlplane import ControlPlane
from sim.module.processes import Timers
from tests.kit import planes
from tests.kit.worker_plane import WorkerPlane
from tests.slice.live import POOL, TEAM, Live
from tests.slice.people import People
from tests.slice.settings_cases import CASES, FIELDS, SICK

pytestmark = pytest.mark.cluster
CONTROLLERS = (names.INVENTORY, names.BOOTSTRAP, names.POOL_CONTROLLER)
PROCESSES = (*CONTROLLERS, names.WEBHOOK, f"{names.WEBHOOK}-2")


def settings() -> set[str]:
    """Every setting by its path; a component counts as one."""

    def leaves(schema: dict[str, Any], path: str) -> set[str]:
        parts = schema.get("properties")
        if not parts or "matchLabels" in parts:
            return {path}
        if set(FIELDS) <= set(parts):
            return {path, *(f"{path}.{name}" for name in parts if name not in FIELDS)}
        return {leaf for name, part in parts.items() for leaf in leaves(part, f"{path}.{name}".lstrip("."))}

    return leaves(config_values(), "")


def test_every_setting_has_a_case() -> None:
    """Those of the optional process are `tests/slice/test_drivers.py`'s, in a cluster that has it."""
    of_drivers = {setting for setting in settings() if setting.startswith("driver.")}
    assert settings() - of_drivers == set(CASES) - of_drivers


@pytest.fixture(scope="module")
def cluster(worker_plane: WorkerPlane) -> ControlPlane:
    """A cluster of its own: what is set here is set for everybody.

    Its leases are long: a process that ends because a busy machine kept it from renewing one is not what is asked here.
    """
    options = Options(profile="a30-4=4", timers=Timers(lease_duration=90.0, renew_deadline=60.0, retry_period=2.0))
    return worker_plane.take("settings", lambda folder: planes.module(folder, options))


@pytest.fixture
async def live(people: People) -> AsyncIterator[Live]:
    """The usual settings of these tests, and a pool with three cards; nothing is restarted meanwhile."""
    made, before = Live(people), people.restarts()
    await made.set()
    await made.ready("gpu-1", "gpu-2", "gpu-3", "gpu-4")
    await made.shared()
    yield made
    await made.fault("gpu-3")
    await made.set()
    assert {name: people.restarts()[name] for name in PROCESSES} == {name: before[name] for name in PROCESSES}


@pytest.mark.parametrize(
    "name", [min(n for n, c in CASES.items() if c is case) for case in dict.fromkeys(CASES.values())]
)
async def test_a_setting_is_followed_without_a_restart(live: Live, name: str) -> None:
    await CASES[name](live)


async def test_a_moduleconfig_of_an_earlier_version_is_followed_and_what_is_gone_from_it_counts_for_nothing(
    live: Live,
) -> None:
    """Deckhouse converts settings for itself: what is stored stays as it is, and is what the processes read."""
    gone = {"discover": {"runtimeClassName": "nvidia", "askRuntime": True}}
    await live.people.settings(1, nodeAgent=gone, admission={"runtimeClassName": names.RUNTIME_CLASS})

    async def followed() -> bool:
        return bool((await live.tried()).get("runtimeClassName") == names.RUNTIME_CLASS)

    await live.eventually(followed, "settings of version 1 are not followed")
    for process in PROCESSES:
        assert await live.metric(process, "gpu_settings_invalid") == 0


async def test_wrong_settings_change_nothing_and_are_told(live: Live) -> None:
    usual, other = names.RUNTIME_CLASSES
    wrong = {"maxUnseen": 0, "runtimeClassName": other}
    with pytest.raises(ApiError, match="maxUnseen"):
        await live.people.settings(admission=wrong)
    await live.set(admission={"runtimeClassName": usual})

    async def given() -> str | None:
        return (await live.tried()).get("runtimeClassName")

    async def good() -> bool:
        return await given() == usual

    async def told(value: float) -> bool:
        return all([await live.metric(process, "gpu_settings_invalid") == value for process in PROCESSES])

    await live.eventually(good, "the good settings are not followed")
    async with live.unjudged():

        async def taken() -> bool:
            try:
                await live.people.settings(admission=wrong)
            except ApiError:
                return False  # the API server reads webhook configurations by watch
            return True

        await live.eventually(taken, "the webhook still judges settings")
        await live.eventually(lambda: told(1), "nobody says that the settings are wrong")
        assert await given() == usual

        await live.people.told(names.EVENT_SETTINGS_INVALID, "admission.maxUnseen", "last good settings")
    await live.set(admission={"runtimeClassName": other})
    await live.eventually(lambda: told(0), "the settings still count as wrong")

    async def mended() -> bool:
        return await given() == other

    await live.eventually(mended, "the mended settings are not followed")


async def operands(live: Live) -> list[str]:
    """What our controllers made that is on nodes or for programs there, and our finalizers."""
    found = []
    for kind in (resources.DAEMONSET, resources.CONFIGMAP):
        query = {"labelSelector": f"{names.LABEL_COMPONENT},{names.LABEL_COMPONENT}!=discover"}
        items = orjson.loads(await live.client.request("GET", kind.path(names.NAMESPACE), query=query))["items"]
        found += [f"{kind.kind} {item['metadata']['name']}" for item in items]
    query = {"labelSelector": f"{names.LABEL_MODULE}={names.MODULE}"}
    items = orjson.loads(await live.client.request("GET", resources.RUNTIMECLASS.path(), query=query))["items"]
    found += [f"RuntimeClass {item['metadata']['name']}" for item in items]
    for node in orjson.loads(await live.client.request("GET", resources.NODE.path()))["items"]:
        ours = (names.deploy_label(""), names.pool_node_label(""))
        found += [f"{key} of {node['metadata']['name']}" for key in node["metadata"]["labels"] if key.startswith(ours)]
        found += [f"taint {one['key']}" for one in node["spec"].get("taints", ()) if one["key"] == "gpu-only"]
    pools = orjson.loads(await live.client.request("GET", resources.GPUPOOL.path()))["items"]
    return found + [f"finalizer of {pool['metadata']['name']}" for pool in pools if pool["metadata"].get("finalizers")]


async def enabled(live: Live, *, on: bool) -> None:
    await live.client.merge(resources.MODULECONFIG, names.MODULE, {"spec": {"enabled": on}}, manager="test")


async def test_a_toolkit_that_one_node_does_not_take_reaches_no_other(live: Live) -> None:
    """By the real controller of DaemonSets. The pod is ready where the runtime knows the handlers; else it halts."""
    await live.fault(SICK, "not-ready:toolkit")
    await live.says(
        live.view.inventories, SICK, "ReadyForPooling", ("True", "Restarting"), ("False", "ToolkitNotReady")
    )
    nodes = {node.name for node in live.view.nodes if node.name.startswith("gpu-")}

    for version in ("v101", "v102"):  # the second one shows that the first went no further when it was looked at again
        await live.set(bootstrap={"toolkit": {"version": version}})

        async def halted(version: str = version) -> bool:
            versions, current = await toolkits(live)
            reached = {node for node, tag in versions.items() if tag.startswith("v10")}
            assert reached <= {SICK}, f"it went on: {versions}"
            return current and versions.get(SICK) == version

        await live.eventually(halted, "the node that does not take it has no pod of it")

    await live.fault(SICK)

    async def everywhere() -> bool:
        return (await toolkits(live))[0] == dict.fromkeys(nodes, "v102")

    await live.eventually(everywhere, "it does not go on once the node has taken it")


async def toolkits(live: Live) -> tuple[dict[str, str], bool]:
    """The version of each node's toolkit, and whether its DaemonSet's controller has seen the latest."""
    path, name = resources.DAEMONSET.path(names.NAMESPACE, "gpu-toolkit"), "gpu-toolkit"
    found = orjson.loads(await live.client.request("GET", path))
    query = {"labelSelector": f"{names.LABEL_APP}={name}"}
    pods = orjson.loads(await live.client.request("GET", resources.POD.path(names.NAMESPACE), query=query))["items"]
    versions = {
        pod["spec"]["nodeName"]: pod["spec"]["containers"][0]["image"].rpartition(":")[2]
        for pod in pods
        if pod["spec"].get("nodeName") and not pod["metadata"].get("deletionTimestamp")
    }
    return versions, found["status"].get("observedGeneration") == found["metadata"]["generation"]


async def test_a_module_that_is_disabled_leaves_the_nodes_and_comes_back_by_itself(live: Live) -> None:
    people, view = live.people, live.view
    taint = {"key": "gpu-only", "value": "yes", "effect": "NoSchedule"}
    doomed, free = "doomed-while-off", live.cards("gpu-4")[0].name
    await people.filled(doomed, [free])
    body = {"spec": {"scheduling": {"taints": [taint]}}}
    await live.client.merge(resources.GPUPOOL, POOL, body, manager="test")
    tainted = {card.status.node_name for card in people.cards(POOL)}
    await live.until(  # a pod that is admitted before does not tolerate it
        lambda: (
            tainted == {node.name for node in view.nodes if any(one.key == taint["key"] for one in node.spec.taints)}
        ),
        lambda: str({node.name: node.spec.taints for node in view.nodes}),
    )
    await people.pod("runs-through", TEAM, POOL)
    await people.running(TEAM, 1)
    before = await operands(live)
    cards = [card.name for card in people.cards(POOL)]
    pod = orjson.loads(await live.client.get(resources.POD, "runs-through", TEAM))

    await enabled(live, on=False)
    await live.says(view.pools, POOL, "Maintenance", ("True", "ModuleDisabled"))

    async def nothing() -> bool:
        return not await operands(live)

    await live.eventually(nothing, "operands, marks or finalizers stay")
    await people.settled(POOL, (3, 1, 0, 0))
    for node in view.nodes:
        assert names.resource_name(POOL) not in node.status.allocatable
    assert [card.name for card in people.cards(POOL)] == cards
    assert all(card.metadata.annotations[names.ASSIGNMENT] == POOL for card in people.cards(POOL))
    refused = await people.refused("while-off", TEAM, POOL)
    assert "PoolInMaintenance" in refused
    assert "the module is disabled" in refused
    await people.remove(resources.GPUPOOL, doomed)  # nothing holds it
    await live.until(lambda: view.pools.get(doomed) is None, lambda: "the pool does not go")

    await enabled(live, on=True)
    await people.offered(POOL, 3)
    await people.settled(POOL, (3, 1, 0, 2))
    await live.says(view.pools, POOL, "Maintenance", ("False", "AsExpected"))
    await live.until(
        lambda: not [card for card in people.cards(doomed) if card.name == free], lambda: f"{free} is still in {doomed}"
    )
    now = orjson.loads(await live.client.get(resources.POD, "runs-through", TEAM))
    assert (now["metadata"]["uid"], now["spec"], now["status"]["phase"]) == (
        pod["metadata"]["uid"],
        pod["spec"],
        "Running",
    )

    async def back() -> bool:
        return set(before) - set(await operands(live)) <= {one for one in before if doomed in one}

    await live.eventually(back, f"not all of {before} is back")
    await people.annotate(free, None)
    await people.remove(resources.POD, "runs-through", TEAM)


async def test_without_a_moduleconfig_the_defaults_hold_and_a_new_one_is_followed(live: Live) -> None:
    given = {"runtimeClassName": names.RUNTIME_CLASS}
    await live.set(admission=given)

    async def becomes(wanted: str | None) -> bool:
        return (await live.tried()).get("runtimeClassName") == wanted

    await live.eventually(lambda: becomes(names.RUNTIME_CLASS), "the settings are not followed")
    await live.people.no_settings()
    await live.eventually(lambda: becomes(None), "the defaults do not hold")
    await live.set(admission=given)
    await live.eventually(lambda: becomes(names.RUNTIME_CLASS), "the new settings are not followed")
