"""For each setting what comes of changing it while everything runs. A case that returns has seen it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import orjson

from controllers.api import names, resources
from controllers.bootstrap.preparation.phases import PHASES
from controllers.components.build import object_name
from controllers.domain.clock import seconds
from controllers.runtime.errors import ApiError
from sim.nodes.leaving import bury
from sim.workload import gpu_pod
from tests.slice.live import POOL, TEAM, Live
from tests.slice.machines import cards, joins
from tests.templates.chart_settings import SHOWN, nested

Case = Callable[[Live], Awaitable[None]]
CASES: dict[str, Case] = {}
HEALTHY, SICK = "gpu-2", "gpu-3"
NODE = "gpu-4"


def case(*settings: str) -> Callable[[Case], Case]:
    def add(made: Case) -> Case:
        CASES.update(dict.fromkeys(settings, made))
        return made

    return add


# --- which nodes, which cards ----------------------------------------------------------------


@case("managedNodes.labelKey")
async def label_key(live: Live) -> None:
    await live.label(NODE, "example.com/cards", "false")
    await live.set(managedNodes={"labelKey": "example.com/cards"})
    await live.says(live.view.inventories, NODE, "ManagedDisabled", ("True", "NodeLabel"))
    await live.label(NODE, "example.com/cards", None)
    await live.says(live.view.inventories, NODE, "ManagedDisabled", ("False", "ManagedByDefault"))


@case("managedNodes.enabledByDefault")
async def enabled_by_default(live: Live) -> None:
    others = ("gpu-1", "gpu-2", "gpu-3")
    for node in others:
        await live.label(node, names.LABEL_ENABLED, "true")
        await live.says(live.view.inventories, node, "ManagedDisabled", ("False", "NodeLabel"))
    await live.set(managedNodes={"enabledByDefault": False})
    await live.says(live.view.inventories, NODE, "ManagedDisabled", ("True", "NotManaged"))
    await live.set()
    await live.says(live.view.inventories, NODE, "ManagedDisabled", ("False", "ManagedByDefault"))
    for node in others:
        await live.label(node, names.LABEL_ENABLED, None)


async def takes_by_itself(live: Live, pool: str, approval: dict[str, Any]) -> None:
    """A pool without a word about approval takes a card once the settings say so, and not before."""
    spec = {"matchLabels": {names.LABEL_HOSTNAME: HEALTHY}}
    await live.people.pool(pool, nodeSelector=spec, allocation={"mode": "Exclusive", "maxDevicesPerNode": 1})

    def pending() -> list[str]:
        inventory = live.view.inventories.get(HEALTHY)
        pools = inventory.status.pools if inventory else None
        return [entry.reason for entry in (pools.pending if pools else ()) if entry.pool == pool]

    await live.until(lambda: "AwaitingApproval" in pending(), lambda: str(pending()))
    assert live.people.cards(pool) == []
    await live.set(deviceApproval=approval)
    await live.until(lambda: len(live.people.cards(pool)) == 1, lambda: f"{pool} takes no card")
    await live.set()
    await live.people.retire(pool)


@case("deviceApproval.mode")
async def approval_mode(live: Live) -> None:
    await takes_by_itself(live, "by-mode", {"mode": "Automatic"})


@case("deviceApproval.selector")
async def approval_selector(live: Live) -> None:
    selector = {"matchLabels": {names.LABEL_NODE: HEALTHY}}
    await takes_by_itself(live, "by-selector", {"mode": "Selector", "selector": selector})


@case("inventory.resyncPeriod")
async def resync_period(live: Live) -> None:
    async def looks() -> float:
        return await live.metric(names.INVENTORY, "gpu_reconciles_total")

    await live.set(inventory={"resyncPeriod": "100ms"})
    before = await looks()

    async def many() -> bool:
        return await looks() >= before + 200  # at 30 s they would take twenty minutes on four nodes

    await live.eventually(many, "nodes are not looked at again")


@case("inventory.rememberFor")
async def remember_for(live: Live) -> None:
    """A Node is deleted: a card that somebody confirmed is remembered, and forgotten when the time is changed."""
    node = "remembered-1"
    await joins(live.people, node)
    card = cards(live.people, node)[0]
    await live.people.annotate_unjudged(card, "nowhere")
    await live.set(inventory={"rememberFor": "1h"})
    await live.people.remove(resources.NODE, node)
    await live.says(live.view.devices, card, "InventoryIncomplete", ("True", names.REASON_NODE_GONE))
    await live.until(lambda: cards(live.people, node) == [card], lambda: f"{cards(live.people, node)} stay")
    await live.set(inventory={"rememberFor": "500ms"})
    await live.until(lambda: live.view.devices.get(card) is None, lambda: f"{card} is still remembered")
    await live.set()
    await bury(live.people.client, node)


# --- what prepares a node ---------------------------------------------------------------------

FIELDS = ("enabled", "repository", "image", "version", "args", "env", "resources")
"""Of each component."""
COMPONENTS = {
    "driverValidator": "driver-validator",
    "toolkit": "toolkit",
    "gfd": "gfd",
    "dcgm": "dcgm",
    "dcgmExporter": "dcgm-exporter",
    "validator": "validator",
}


async def container(live: Live, component: str) -> dict[str, Any] | None:
    """The first container of a component's DaemonSet; None where there is no such DaemonSet."""
    path = resources.DAEMONSET.path(names.NAMESPACE)
    items = orjson.loads(await live.client.request("GET", path))["items"]
    found = [item for item in items if item["metadata"]["name"] == object_name(component)]
    return found[0]["spec"]["template"]["spec"]["containers"][0] if found else None


@case(*(f"bootstrap.{name}" for name in COMPONENTS))
async def components(live: Live) -> None:
    """All of them at once: each is a roll-out on every node."""
    assert {phase.name for phase in PHASES} == set(COMPONENTS.values())
    change = {
        "repository": "registry.example.com/gpu",
        "image": "other",
        "version": "v9",
        "args": ["--of-the-test"],
        "env": [{"name": "OF_THE_TEST", "value": "1"}],
        "resources": {"requests": {"cpu": "11m"}},
    }
    await live.set(bootstrap=dict.fromkeys(COMPONENTS, change))
    for component in COMPONENTS.values():

        async def changed(component: str = component) -> bool:
            made = await container(live, component)
            return (
                made is not None
                and made["image"] == "registry.example.com/gpu/other:v9"
                and "--of-the-test" in made.get("args", ())
                and {"name": "OF_THE_TEST", "value": "1"} in made.get("env", ())
                and made["resources"].get("requests") == {"cpu": "11m"}
            )

        await live.eventually(changed, f"{component} is not as the settings say")
    await live.set(bootstrap={name: {"enabled": False} for name in COMPONENTS})
    for component in COMPONENTS.values():

        async def gone(component: str = component) -> bool:
            return await container(live, component) is None

        await live.eventually(gone, f"{component} is still there")


@case("bootstrap.toolkit.runtimeConfig")
async def runtime_config(live: Live) -> None:
    await live.set(bootstrap={"toolkit": {"runtimeConfig": "Never"}})

    async def told() -> bool:
        path = resources.DAEMONSET.path(names.NAMESPACE, object_name("toolkit"))
        spec = orjson.loads(await live.client.request("GET", path))["spec"]["template"]["spec"]
        (runtime,) = (one for one in spec["containers"] if one["name"] == "runtime")
        return "--runtime-config=Never" in runtime["args"]

    await live.eventually(told, "the toolkit's pod is not told to leave the runtime's configuration alone")


@case("bootstrap.toolkit.runtimeRestarts")
async def runtime_restarts(live: Live) -> None:
    """Of two nodes that wait for their turn one has it, and the other when more may have it at once."""
    await live.set(bootstrap={"toolkit": {"runtimeRestarts": 1}})

    def turns() -> list[str]:
        found = ((one.name, one.status.runtime) for one in live.view.inventories)
        return [name for name, runtime in found if runtime is not None and runtime.restart_allowed]

    await live.fault(SICK, "runtime-waits")
    await live.until(lambda: turns() == [SICK], lambda: f"{turns()} have their turn")
    await live.fault(NODE, "runtime-waits")
    await live.until(
        lambda: (one := live.view.inventories.get(NODE)) is not None and one.status.runtime is not None,
        lambda: f"nothing is recorded of the runtime of {NODE}",
    )
    assert turns() == [SICK]
    await live.set(bootstrap={"toolkit": {"runtimeRestarts": 2}})
    await live.until(lambda: sorted(turns()) == sorted((NODE, SICK)), lambda: f"{turns()} have their turn")
    for node in (NODE, SICK):
        await live.fault(node, "runtime-restarted")
    await live.until(lambda: turns() == [], lambda: f"{turns()} have their turn still")
    for node in (NODE, SICK):
        await live.fault(node)


@case("bootstrap.monitoring.scrapePeriod")
async def scrape_period(live: Live) -> None:
    await live.set(bootstrap={"monitoring": {"scrapePeriod": "50ms"}})
    before = await live.metric(names.BOOTSTRAP, "gpu_scrapes_total")

    async def many() -> bool:
        return await live.metric(names.BOOTSTRAP, "gpu_scrapes_total") >= before + 600

    await live.eventually(many, "exporters are not asked oftener")  # at 500 ms it would take 75 s on four nodes


@case("bootstrap.monitoring.compatibility")
async def compatibility(live: Live) -> None:
    await live.set(bootstrap={"monitoring": {"compatibility": True}})

    async def told() -> bool:
        return await live.metric(names.BOOTSTRAP, "gpu_operator_node_driver_ready") > 0

    await live.eventually(told, "no metric has the operator's name")


@case("bootstrap.monitoring.readyAfter", "bootstrap.monitoring.missingAfter")
async def ready_and_missing_after(live: Live) -> None:
    await live.fault(SICK, "exporter-down")
    never = {"readyAfter": 100, "scrapePeriod": "1s"}
    await live.set(bootstrap={"monitoring": never | {"missingAfter": "2s"}, "restartGrace": "100ms"})
    await live.says(live.view.inventories, SICK, "MonitoringMissing", ("True", "HeartbeatMissing"))
    await live.fault(SICK)
    await live.set(bootstrap={"monitoring": {"readyAfter": 2}})
    await live.says(live.view.inventories, SICK, "MonitoringMissing", ("False", "MonitoringReady"))


@case("bootstrap.phaseDeadline")
async def phase_deadline(live: Live) -> None:
    await live.fault(SICK, "not-ready:toolkit")
    await live.says(live.view.inventories, SICK, "ReadyForPooling", ("True", "Restarting"))
    await live.set(bootstrap={"phaseDeadline": "500ms"})
    await live.says(live.view.inventories, SICK, "ToolkitMissing", ("True", "ToolkitOverdue"))


@case("bootstrap.restartGrace")
async def restart_grace(live: Live) -> None:
    await live.fault(SICK, "not-ready:toolkit")
    await live.says(live.view.inventories, SICK, "ReadyForPooling", ("True", "Restarting"))
    await live.set(bootstrap={"restartGrace": "100ms"})
    await live.says(live.view.inventories, SICK, "ReadyForPooling", ("False", "ToolkitNotReady"))


# --- pods ----------------------------------------------------------------------------------------


def gated(spec: dict[str, Any]) -> bool:
    """Whether a pod that was created waits in its pool's queue."""
    return {"name": names.CARDS_GATE} in spec.get("schedulingGates", ())


async def gets_cards_of(live: Live, pool: str, node: str) -> bool:
    """Whether a pod of the pool would get cards of this node."""
    return await live.chosen(pool) == node


@case("scheduling.defaultStrategy")
async def default_strategy(live: Live) -> None:
    """Of the two nodes one has a pod: it is filled first, or has fewer of its cards free."""
    async with live.stranded("begins", nodeSelector={names.LABEL_HOSTNAME: "gpu-1"}):
        await live.eventually(lambda: gets_cards_of(live, POOL, "gpu-2"), "pods are not spread")
        await live.set(scheduling={"defaultStrategy": "BinPack"})
        await live.eventually(lambda: gets_cards_of(live, POOL, "gpu-1"), "pods are still spread")


@case("scheduling.topologyKey")
async def topology_key(live: Live) -> None:
    """Of its cards gpu-2 has given a half, gpu-3 a quarter and gpu-4 none; gpu-2 and gpu-4 together a third."""
    pool, racks = "by-rack", {"gpu-2": "a", "gpu-3": "b", "gpu-4": "a"}
    wanted = [*live.cards("gpu-2")[-2:], *live.cards("gpu-3")[-4:], live.cards("gpu-4")[-1]]
    await live.people.filled(pool, [card.name for card in wanted])
    try:
        for node, rack in racks.items():
            await live.label(node, "example.com/rack", rack)
        await live.set(scheduling={"topologyKey": names.LABEL_HOSTNAME})
        async with (
            live.stranded("half", pool, nodeSelector={names.LABEL_HOSTNAME: "gpu-2"}),
            live.stranded("quarter", pool, nodeSelector={names.LABEL_HOSTNAME: "gpu-3"}),
        ):
            await live.eventually(lambda: gets_cards_of(live, pool, "gpu-4"), "pods are not spread over nodes")
            await live.set(scheduling={"topologyKey": "example.com/rack"})
            await live.eventually(lambda: gets_cards_of(live, pool, "gpu-3"), "pods are not spread over racks")
    finally:
        await live.people.retire(pool)
        for node in racks:
            await live.label(node, "example.com/rack", None)


@case("admission.reservationTTL", "admission.unseenTTL")
async def lives_of_reservations(live: Live) -> None:
    await live.set(admission={"reservationTTL": "7m", "unseenTTL": "33s"})

    async def both() -> bool:
        async with live.stranded("stranded") as versions:
            await live.until(lambda: any(r.seen for r in versions), lambda: str(versions))
            lives = {round(seconds(r.expires_at) - seconds(r.since)) for r in versions}
        return {33, 420} <= lives  # a replica may not have read the settings yet

    await live.eventually(both, "reservations live as long as before")


@case("admission.maxUnseen")
async def max_unseen(live: Live) -> None:
    quota = {"metadata": {"name": "none"}, "spec": {"hard": {"pods": "0"}}}
    path = f"/api/v1/namespaces/{TEAM}/resourcequotas"
    await live.client.request("POST", path, body=quota)
    await live.set(admission={"maxUnseen": 1, "unseenTTL": "20s"})

    async def enforced() -> bool:
        return "exceeded quota" in await live.refusal()

    async def capped() -> bool:
        return "admission.maxUnseen allows 1" in await live.refusal()

    await live.eventually(enforced, "the quota is not enforced")
    try:
        await live.people.refused("unseen", TEAM, POOL)  # something after us refuses it, and nobody sees the pod
        await live.eventually(capped, f"not refused for that: {await live.refusal()}")
    finally:
        await live.client.request("DELETE", f"{path}/none")
        await live.set(admission={"unseenTTL": "1s"})
    await live.until(lambda: not any(d.status.reservations for d in live.view.devices), lambda: "the reservation stays")


@case("admission.runtimeClassName")
async def runtime_class(live: Live) -> None:
    assert (await live.tried()).get("runtimeClassName") is None
    await live.set(admission={"runtimeClassName": names.RUNTIME_CLASS})

    async def named() -> bool:
        return (await live.tried()).get("runtimeClassName") == names.RUNTIME_CLASS

    await live.eventually(named, "pods get no runtime class")


@case("admission.onShortage")
async def on_shortage(live: Live) -> None:
    """A pool that says nothing about it, and has no card."""
    pool = "by-shortage"
    await live.people.pool(pool, queue={})

    async def becomes(what: str) -> bool:
        """Whether this becomes of a pod: Queued or Refused."""
        try:
            made = await live.tried(pool)
        except ApiError as error:
            return what == "Refused" and "InsufficientCapacity" in error.message
        assert gated(made), "there is no card that it could have got"
        return what == "Queued"

    await live.set(admission={"onShortage": "Refuse"})
    await live.eventually(lambda: becomes("Refused"), "pods still wait")
    await live.set(admission={"onShortage": "Queue"})
    await live.eventually(lambda: becomes("Queued"), "pods are still refused")
    await live.people.retire(pool)


@case("admission.queueLabels")
async def queue_labels(live: Live) -> None:
    """There are cards, and a pod that another queue manager looks after waits all the same."""
    key = "example.com/queue"
    assert not gated(await live.tried(labels={key: "a"}))
    await live.set(admission={"queueLabels": [key]})

    async def waits() -> bool:
        return gated(await live.tried(labels={key: "a"}))

    await live.eventually(waits, "its pods get cards at once")
    assert not gated(await live.tried())


@case("admission.reservationsInFlight")
async def reservations_in_flight(live: Live) -> None:
    """There are cards for all pods, and some wait because they come at once."""
    pool, cards = "at-once", [card.name for card in live.cards(HEALTHY)[1:]]
    await live.people.filled(pool, cards, queue={})

    async def left_to_queue() -> float:
        """Pods that were not reserved for since too many were being written."""
        of = 'gpu_webhook_reservations_left_to_queue_total{why="InFlight"}'
        return sum([await live.metric(one, of) for one in (names.WEBHOOK, f"{names.WEBHOOK}-2")])

    async def grows() -> bool:
        """Whether it does by as many pods as there are cards, created at once."""
        before, pods = await left_to_queue(), [f"at-once-{number}" for number in range(len(cards))]
        await asyncio.gather(*(live.people.pod(name, TEAM, pool) for name in pods))
        await live.people.running(TEAM, len(pods))
        for name in pods:
            await live.people.remove(resources.POD, name, TEAM)
        await live.people.settled(pool, (len(cards), 0, 0, len(cards)))
        return await left_to_queue() > before

    assert not await grows(), "eight may be written at a time"
    await live.set(admission={"reservationsInFlight": 1})
    await live.eventually(grows, "nobody waits for others' reservations to be written")
    await live.people.retire(pool)


@case("maintenance.deadline")
async def maintenance_deadline(live: Live) -> None:
    pool, card = "late", live.cards("gpu-1")[2].name
    await live.people.filled(pool, [card])
    await live.people.pod("stays", TEAM, pool)
    await live.people.running(TEAM, 1)
    body = {"spec": {"allocation": {"mode": "TimeSlice"}}}
    await live.client.merge(resources.GPUPOOL, pool, body, manager="test")
    await live.says(live.view.pools, pool, "Maintenance", ("True", "WaitingForPods"))
    await live.set(maintenance={"deadline": "500ms"})
    await live.says(live.view.pools, pool, "Maintenance", ("True", "PodsOverdue"))
    await live.people.remove(resources.POD, "stays", TEAM)
    await live.people.retire(pool)


@case("pools.danglingAfter")
async def dangling_after(live: Live) -> None:
    card = live.cards("gpu-1")[3].name
    await live.people.annotate_unjudged(card, "nowhere")
    await live.says(live.view.devices, card, "Configured", ("Unknown", "PoolUnknown"))
    await live.set(pools={"danglingAfter": "100ms"})

    def named() -> str | None:
        found = live.view.devices.get(card)
        return found.metadata.annotations.get(names.ASSIGNMENT) if found else None

    await live.until(lambda: named() is None, lambda: f"{card} still names {named()}")


@case("pools.pluginPatience")
async def plugin_patience(live: Live) -> None:
    pool, card = "silent", live.cards(SICK)[0].name
    await live.set(pools={"pluginPatience": "10m"})
    await live.fault(SICK, "no-ack")
    await live.people.pool(pool)
    await live.people.annotate(card, pool)
    await live.until(lambda: len(live.people.cards(pool)) == 1, lambda: "the card does not come in")
    await live.people.settled(pool, (1, 0, 0, 0))
    assert live.said(live.view.devices, card, "Configured") == ("", "")
    await live.set(pools={"pluginPatience": "100ms"})
    await live.says(live.view.devices, card, "Configured", ("False", "AwaitingPlugin"))
    await live.fault(SICK)
    await live.says(live.view.devices, card, "Configured", ("True", "Published"))
    await live.people.retire(pool)


@case("deviceStrategy")
async def device_strategy(live: Live) -> None:
    async def strategy() -> str:
        found = orjson.loads(await live.client.get(resources.DAEMONSET, names.plugin_object(POOL), names.NAMESPACE))[
            "spec"
        ]["template"]["spec"]["containers"][0]["env"]
        return next(str(one["value"]) for one in found if one["name"] == "DEVICE_STRATEGY")

    before = await strategy()
    await live.set(deviceStrategy="CDI")

    async def other() -> bool:
        return await strategy() not in (before, "")

    await live.eventually(other, "the plugins go on as before")


# --- health --------------------------------------------------------------------------------------


async def faults(live: Live, *words: str) -> list[str]:
    """Let faults befall the first cards of the node; returns those cards."""
    cards = [card.name for card in live.cards(SICK)[: len(words)]]
    pairs = zip(words, cards, strict=True)
    await live.fault(SICK, *(word.format(live.address(card)) for word, card in pairs if word))
    return cards


async def faulted(live: Live, card: str, *wanted: tuple[str, str]) -> None:
    await live.says(live.view.devices, card, "Faulted", *wanted)


async def well(live: Live, *cards: str) -> None:
    """Mend the node and have a person take its cards back."""
    await live.fault(SICK)
    await live.set(health={"recoveryScrapes": 1})
    for card in cards:
        await live.until(
            lambda card=card: live.said(live.view.devices, card, "Faulted")[0] in ("", "False"),  # type: ignore[misc]
            lambda card=card: f"{card} stays faulted",  # type: ignore[misc]
        )


@case("health.maxUnavailablePercent")
async def max_unavailable(live: Live) -> None:
    """Of two nodes on which the toolkit's pod stays away one leaves service, and the other when the share is raised."""
    nodes, away = live.view.inventories, {"restartGrace": "100ms"}
    await live.set(health={"maxUnavailablePercent": 1}, bootstrap=away)
    await live.fault(SICK, "not-ready:toolkit")
    await live.says(nodes, SICK, "ReadyForPooling", ("False", "ToolkitNotReady"))
    await live.fault(NODE, "not-ready:toolkit")
    await live.says(nodes, NODE, "ReadyForPooling", ("True", "Held"))
    await live.set(health={"maxUnavailablePercent": 100}, bootstrap=away)
    await live.says(nodes, NODE, "ReadyForPooling", ("False", "ToolkitNotReady"), ("False", "ToolkitOverdue"))
    for node in (NODE, SICK):
        await live.fault(node)
    await live.ready(NODE, SICK)


@case("health.temperatureFaultC")
async def temperature_fault(live: Live) -> None:
    await live.set(health={"temperatureFaultC": 75, "temperatureClearC": 60})
    (card,) = await faults(live, "hot:{}=80")
    await faulted(live, card, ("True", "Overheated"))
    await well(live, card)


@case("health.temperatureClearC", "health.recoveryScrapes")
async def temperature_clear(live: Live) -> None:
    """Too hot, then in between: what is cool enough, and for how long it has to be, decides."""
    (card,) = await faults(live, "hot:{}=97")
    await live.set(health={"temperatureClearC": 70, "recoveryScrapes": 1})
    await faulted(live, card, ("True", "Overheated"))
    await faults(live, "hot:{}=80")

    async def cooler() -> bool:
        return 80.0 in await temperatures(live, card)

    await live.eventually(cooler, "the new temperature is not seen")
    assert live.said(live.view.devices, card, "Faulted")[0] == "True"  # one scrape below 95 is not one below 70
    await live.set(health={"temperatureClearC": 90, "recoveryScrapes": 10_000})
    before = await live.metric(names.BOOTSTRAP, "gpu_scrapes_total")

    async def looked() -> bool:
        return await live.metric(names.BOOTSTRAP, "gpu_scrapes_total") >= before + 16

    await live.eventually(looked, "the exporters are not asked")
    assert live.said(live.view.devices, card, "Faulted")[0] == "True"  # cool enough, and not for 10,000 scrapes
    await live.set(health={"temperatureClearC": 90, "recoveryScrapes": 2})
    await live.until(
        lambda: live.said(live.view.devices, card, "Faulted")[0] == "False", lambda: "the card does not return"
    )
    await well(live, card)


async def temperatures(live: Live, card: str) -> list[float]:
    name = f'gpu_device_health_temperature_celsius{{device="{card}",node="{SICK}"}}'
    return [await live.metric(names.BOOTSTRAP, name)]


@case("health.criticalXids", "health.ignoredXids")
async def xids(live: Live) -> None:
    await live.set(health={"criticalXids": [13], "ignoredXids": [79]})
    one, other = await faults(live, "xid:{}=13", "xid:{}=79")
    await faulted(live, one, ("True", "CriticalXid"))
    name = f'gpu_device_health_last_xid{{device="{other}",node="{SICK}"}}'

    async def seen() -> bool:
        return await live.metric(names.BOOTSTRAP, name) == 79

    await live.eventually(seen, "the error is not seen")
    assert live.said(live.view.devices, other, "Faulted")[0] in ("", "False")
    await well(live, one, other)


# --- the processes ---------------------------------------------------------------------------


@case("logLevel")
async def log_level(live: Live) -> None:
    """The webhook says "granted" of each pod at level Info."""

    def granted() -> int:
        logs = (names.WEBHOOK, f"{names.WEBHOOK}-2")
        return sum(live.log(process).count('"event":"granted"') for process in logs)

    before = granted()
    await live.tried()
    assert granted() > before
    await live.set(logLevel="Error")

    async def silent() -> bool:
        there = granted()
        for _ in range(4):  # either replica
            await live.tried()
        return granted() == there

    await live.eventually(silent, "it is still said")
    await live.set(logLevel="Info")

    async def said() -> bool:
        there = granted()
        await live.tried()
        return granted() > there

    await live.eventually(said, "it is not said any more")


@case(*SHOWN)
async def settings_of_the_chart(live: Live) -> None:
    """The processes take the values and go on; what the chart makes of each, tests/templates/test_chart_settings.py
    sees.
    """
    await live.set(**nested({path: shown.value for path, shown in SHOWN.items()}))
    for process in (names.INVENTORY, names.BOOTSTRAP, names.POOL_CONTROLLER, names.WEBHOOK):
        assert await live.metric(process, "gpu_settings_invalid") == 0


__all__ = ["CASES", "FIELDS", "gpu_pod"]
