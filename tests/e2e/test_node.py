"""A card reaches a container: the real kubelet, the real scheduler and webhook, the real device plugin.

Every test leaves the node as it found it: four free cards, no pool.
"""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from controllers.api import names, resources
from nodeagent.host.system import container_runtime
from sim.realnode import agents, kubelet
from sim.realnode.cards import variable
from tests.e2e.admin import NAMESPACE, Admin, process_of
from tests.e2e.ask import Kubelet

pytestmark = pytest.mark.e2e
BUDGET = 1.0
"""Seconds from a changed ConfigMap to kubelet's allocatable."""


@pytest.fixture(autouse=True)
async def as_it_was(admin: Admin) -> AsyncIterator[None]:
    assert len(admin.free()) == 4
    yield
    for pool in [pool.name for pool in admin.view.pools]:
        await admin.end(pool)
    await admin.view.until(lambda: len(admin.free()) == 4, 30, lambda: f"only {admin.free()} are free")


@pytest.fixture
async def ask(admin: Admin) -> AsyncIterator[Kubelet]:
    made = Kubelet(admin.places.pod_resources)
    yield made
    await made.close()


async def test_a_container_has_the_card_that_was_reserved_and_no_other(admin: Admin):
    await admin.start("one", 2)
    await admin.offers("one", 1)
    pod = await admin.run("alone", "one")
    assert pod.metadata.annotations[names.DEVICES] == admin.card(2).status.inventory_id
    assert await admin.shown("alone") == ({variable(2): admin.uuid(2)}, ["nvidia2"])
    assert "InsufficientCapacity" in await admin.refusal("second", "one")


async def test_from_within_a_container_its_runtime_is_known(admin: Admin, tmp_path: Path):
    await admin.start("one", 1)
    await admin.offers("one", 1)
    await admin.run("inside", "one")
    container, _ = await admin.container("inside")
    (tmp_path / "self").symlink_to(process_of(container.removeprefix("containerd://")))
    assert container_runtime(tmp_path) == "containerd"
    assert container_runtime(Path("/proc")) == ""


async def test_without_cdi_a_container_has_the_same_by_device_nodes_and_environment(admin: Admin, in_dev: None):
    await admin.start("specs", 1, strategy="device-specs")
    await admin.offers("specs", 1)
    await admin.run("classic", "specs")
    said = await admin.said("classic")
    assert said["env"]["NVIDIA_VISIBLE_DEVICES"] == admin.uuid(1)
    assert await admin.shown("classic") == ({}, ["nvidia1"])


async def test_what_a_pod_says_of_cards_does_not_win_over_the_plugin(admin: Admin, in_dev: None):
    await admin.start("own", 1, strategy="device-specs")
    await admin.offers("own", 1)
    greedy = {"NVIDIA_VISIBLE_DEVICES": "all", "MINE": "1"}
    await admin.create("greedy", {names.resource_name("own"): "1"}, env=greedy)
    await admin.runs("greedy")
    said = await admin.said("greedy")
    assert said["env"]["NVIDIA_VISIBLE_DEVICES"] == admin.uuid(1)
    assert said["env"]["MINE"] == "1"


async def test_two_pods_have_two_cards_and_the_report_says_which(admin: Admin):
    await admin.start("two", 0, 1)
    await admin.offers("two", 2)
    for name in ("left", "right"):
        await admin.run(name, "two")
    shown = {name: await admin.shown(name) for name in ("left", "right")}
    assert sorted(dev for _, devs in shown.values() for dev in devs) == ["nvidia0", "nvidia1"]
    for marked, _ in shown.values():
        assert marked in ({variable(0): admin.uuid(0)}, {variable(1): admin.uuid(1)})

    def reported() -> dict[str, str]:
        cards = (admin.card(minor) for minor in range(4))
        return {taken.pod: card.status.hardware.uuid for card in cards for taken in card.status.allocations}

    expected = {name: next(iter(marked.values())) for name, (marked, _) in shown.items()}
    await admin.view.until(lambda: reported() == expected, 15, lambda: f"{reported()}, not {expected}")
    await admin.settled("two", (2, 2, 0, 0))


async def test_a_pod_with_two_cards_has_both(admin: Admin):
    await admin.start("pair", 1, 3)
    await admin.offers("pair", 2)
    await admin.run("both", "pair", 2)
    expected = {variable(1): admin.uuid(1), variable(3): admin.uuid(3)}
    assert await admin.shown("both") == (expected, ["nvidia1", "nvidia3"])


async def test_a_card_that_kubelet_gives_was_free_by_the_verdict_or_promised_to_the_pod(admin: Admin):
    await admin.start("said", 0, 1, 2)
    await admin.offers("said", 3)
    for name, units in (("one", 1), ("both", 2)):
        before = admin.reasons("said", units)
        chosen = await admin.taken(await admin.run(name, "said", units), units)
        assert {before[card] for card in chosen} <= {"Free", "Promised"}, before
        after = admin.reasons("said", 1)
        assert {after[card] for card in chosen} == {"InUse"}


async def test_who_is_refused_a_pool_gets_no_card_of_it_by_a_resize(admin: Admin):
    """A tenant with every right in the namespace; the pod goes on, and has no card."""
    await admin.start("secret", 2, access={"namespaces": ["somebody-else"]})
    await admin.offers("secret", 1)
    async with admin.tenant(NAMESPACE) as tenant:
        assert "AccessDenied" in await tenant.refusal("direct", "secret")
        await tenant.create("sneak", {}, schedulingGates=[{"name": "example.com/wait"}])
        refusal = await tenant.resize("sneak", NAMESPACE, {names.resource_name("secret"): "1"})
        assert "container main limits gpu.deckhouse.io/secret=1 was not requested when the pod was created" in refusal
        ungated = {"spec": {"schedulingGates": None}}
        await tenant.client.merge(resources.POD, "sneak", ungated, manager="test", namespace=NAMESPACE)
        await admin.runs("sneak")
        refusal = await tenant.resize("sneak", NAMESPACE, {names.resource_name("secret"): "1"})
        assert "was not requested when the pod was created" in refusal, "not while it runs, either"
    assert await admin.shown("sneak") == ({}, [])
    await admin.settled("secret", (1, 0, 0, 1))
    await admin.gone("sneak")


async def test_cpu_of_a_container_with_a_card_is_resized(admin: Admin):
    await admin.start("resized", 0)
    await admin.offers("resized", 1)
    await admin.run("works", "resized", cpu="100m")
    before = await admin.container("works")
    assert await admin.resize("works", NAMESPACE, {"cpu": "200m"}) == ""
    refusal = await admin.resize("works", NAMESPACE, {names.resource_name("resized"): "2"})
    assert "only cpu and memory resources are mutable" in refusal
    assert await admin.shown("works") == ({variable(0): admin.uuid(0)}, ["nvidia0"])
    assert await admin.container("works") == before
    await admin.settled("resized", (1, 1, 0, 0))


async def test_four_pods_share_one_card_in_time_slices(admin: Admin):
    sliced = {"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 4}}
    await admin.start("sliced", 3, allocation=sliced)
    await admin.offers("sliced", 4)
    for number in range(4):
        await admin.run(f"slice-{number}", "sliced")
        assert await admin.shown(f"slice-{number}") == ({variable(3): admin.uuid(3)}, ["nvidia3"])
    assert "InsufficientCapacity" in await admin.refusal("fifth", "sliced")


async def test_a_card_is_free_soon_after_its_pod_is_gone(admin: Admin):
    """Also where kubelet still names the pod in the moment in which the API server forgets it."""
    await admin.start("reuse", 1)
    await admin.offers("reuse", 1)
    for number in range(5):
        await admin.run(f"guest-{number}", "reuse")
        await admin.settled("reuse", (1, 1, 0, 0))
        await admin.gone(f"guest-{number}")
        await admin.settled("reuse", (1, 0, 0, 1))


async def test_a_card_moves_to_another_pool_while_its_neighbour_works_on(admin: Admin):
    await admin.start("from", 0, 1)
    await admin.offers("from", 2)
    await admin.run("works", "from")
    _, [held] = await admin.shown("works")
    before = await admin.container("works")
    moved = 1 if held == "nvidia0" else 0

    await admin.annotate(admin.card(moved).name, None)
    await admin.offers("from", 1)
    await admin.view.until(lambda: admin.card(moved).status.pool_ref is None, 30, lambda: str(admin.card(moved).status))
    await admin.start("to", moved)
    await admin.offers("to", 1)
    await admin.run("newcomer", "to")
    assert await admin.shown("newcomer") == ({variable(moved): admin.uuid(moved)}, [f"nvidia{moved}"])
    assert await admin.container("works") == before, "same container, no restart"


async def test_a_card_that_falls_off_the_bus_is_offered_no_more_and_comes_back(admin: Admin, ask: Kubelet):
    await admin.start("sick", 0, 1)
    await admin.offers("sick", 2)
    await admin.run("stays", "sick")
    _, [held] = await admin.shown("stays")
    before = await admin.container("stays")
    idle = 1 if held == "nvidia0" else 0
    hardware = admin.card(idle).status.hardware
    assert hardware is not None
    link = admin.bed.node.tree.sys / "bus" / "pci" / "devices" / hardware.pci.address
    away = link.rename(admin.places.root / "unplugged")
    await admin.offers("sick", 1)
    assert await ask.devices(names.resource_name("sick")) == {admin.uuid(1 - idle)}
    away.rename(link)
    await admin.offers("sick", 2, seconds=60)
    assert await admin.container("stays") == before


async def test_kubelet_restarts_and_the_plugin_registers_again(admin: Admin):
    await admin.start("steady", 0, 1)
    await admin.offers("steady", 2)
    await admin.run("old", "steady")
    before, registered = await admin.container("old"), admin.registrations("steady")
    await admin.again(kubelet.NAME, signal.SIGTERM)
    await admin.registered("steady", registered)
    await admin.offers("steady", 2)
    await admin.run("new", "steady")
    (_, [one]), (_, [other]) = await admin.shown("old"), await admin.shown("new")
    assert {one, other} == {"nvidia0", "nvidia1"}, "kubelet remembers what it gave"
    assert await admin.container("old") == before
    await admin.settled("steady", (2, 2, 0, 0))


async def test_a_killed_plugin_comes_back_and_its_pods_do_not_notice(admin: Admin):
    await admin.start("fragile", 2, 3)
    await admin.offers("fragile", 2)
    await admin.run("old", "fragile")
    before, registered = await admin.container("old"), admin.registrations("fragile")
    await admin.again(agents.plugin_name("fragile"), signal.SIGKILL)
    await admin.registered("fragile", registered)
    await admin.offers("fragile", 2)
    await admin.run("new", "fragile")
    (_, [one]), (_, [other]) = await admin.shown("old"), await admin.shown("new")
    assert {one, other} == {"nvidia2", "nvidia3"}
    assert await admin.container("old") == before
    await admin.settled("fragile", (2, 2, 0, 0))


async def test_a_changed_list_reaches_kubelet_within_a_second(
    admin: Admin, ask: Kubelet, capsys: pytest.CaptureFixture[str]
):
    """From the API server's answer to the changed ConfigMap, to kubelet's own account of what it may hand out."""
    await admin.start("quick", 0)
    await admin.offers("quick", 1)
    config, key = names.plugin_object("quick"), names.resource_name("quick")
    listed = asyncio.Event()

    async def watch() -> float:
        """When the list had two cards."""
        path = f"/api/v1/namespaces/{names.NAMESPACE}/configmaps"
        query = {"watch": "1", "fieldSelector": f"metadata.name={config}"}
        async with admin.client.stream(path, query=query, idle=30) as batches:
            listed.set()
            async for lines in batches:
                if any(line.count(b"real-1-0000") >= 2 for line in lines):
                    return time.monotonic()
        raise AssertionError("the watch ended")

    task = asyncio.create_task(watch())
    await listed.wait()
    began = time.monotonic()
    await admin.annotate(admin.card(1).name, "quick")
    async with asyncio.timeout(30):
        while len(await ask.devices(key)) < 2:  # noqa: ASYNC110 - kubelet tells nobody; each question takes a while
            await asyncio.sleep(0.005)
    reached = time.monotonic()
    took = reached - await task
    await admin.offers("quick", 2)
    by_node = time.monotonic() - reached
    with capsys.disabled():
        told = f"{took:.3f} s from the ConfigMap (budget {BUDGET:g} s), {reached - began:.3f} s from the annotation"
        print(f"\nkubelet's allocatable: {told}; then {by_node:.3f} s to the Node")  # noqa: T201
    assert took <= BUDGET


async def test_a_pod_without_a_card_has_none(admin: Admin):
    await admin.start("aside", 0)
    await admin.run("plain", None)
    assert await admin.shown("plain") == ({}, [])
    await admin.gone("plain")
