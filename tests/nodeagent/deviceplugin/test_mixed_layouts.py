"""Pools of a mixed MIG layout on a node: a resource for each profile, and what containers hold of which."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from controllers.api import names
from controllers.domain.plugin_settings import PluginSettings, read
from nodeagent.deviceplugin.devices import allocations, offers, preferred_allocation
from nodeagent.deviceplugin.devices.allocate import ContainerDevices
from nodeagent.deviceplugin.devices.records import ContainerHolding, Listed, NodeScan
from nodeagent.deviceplugin.kubelet import Sockets
from nodeagent.deviceplugin.resources import Resources
from nodeagent.deviceplugin.service import Service
from tests.nodeagent.deviceplugin import make
from tests.nodeagent.deviceplugin.kubelet import Kubelet
from tests.nodeagent.deviceplugin.make import POOL, address, asked, card

MIXED = PluginSettings(POOL, "MIG", 3, profiles={"1g.10gb": 2, "2g.20gb": 1})
ALONE = PluginSettings(POOL, "MIG", 2, "1g.10gb")
MADE = (make.instance("MIG-a", 1), make.instance("MIG-b", 2), make.instance("MIG-c", 3, "2g.20gb"))
SEEN = NodeScan(instances={address(0): MADE})
SMALL, LARGE = f"{POOL}.1g.10gb", f"{POOL}.2g.20gb"


def test_the_settings_are_read_back_and_tell_of_every_profile() -> None:
    assert read(POOL, MIXED.text()) == MIXED
    assert MIXED.suffixes == (SMALL, LARGE)
    published = MIXED.of("any")
    assert [(each.profile, each.slots) for each in published.profiles or ()] == [("1g.10gb", 2), ("2g.20gb", 1)]
    assert published.slots == 3
    assert published.config_version != ALONE.of("any").config_version
    assert read(POOL, MIXED.text().replace('"1g.10gb": 2', '"1g.10gb": -2')) is None


def test_each_instance_is_listed_under_the_resource_of_its_profile() -> None:
    known = card(0, published=MIXED.of(""), mig=True)
    listed = offers.listing(POOL, [known], asked(MIXED, 0), SEEN)
    assert [(each.id, each.suffix) for each in listed] == [("MIG-a", SMALL), ("MIG-b", SMALL), ("MIG-c", LARGE)]
    assert offers.suffixes(POOL, asked(MIXED, 0), listed) == {SMALL, LARGE}


def test_a_card_is_published_when_it_holds_every_instance_and_no_more_of_a_profile_is_listed() -> None:
    few = NodeScan(instances={address(0): MADE[:2]})
    assert offers.wanted(POOL, [card(0, mig=True)], asked(MIXED, 0), few) == {"card-0": None}
    assert offers.wanted(POOL, [card(0, mig=True)], asked(MIXED, 0), SEEN) == {"card-0": MIXED.of("")}
    more = NodeScan(instances={address(0): (*MADE, make.instance("MIG-d", 4))})
    listed = offers.listing(POOL, [card(0, published=MIXED.of(""), mig=True)], asked(MIXED, 0), more)
    assert [each.id for each in listed] == ["MIG-a", "MIG-b", "MIG-c"]


def test_what_was_acknowledged_is_known_after_a_restart() -> None:
    known = card(0, published=MIXED.of(""), mig=True)
    assert [each.suffix for each in offers.listing(POOL, [known], asked(None, 0), SEEN)] == [SMALL, SMALL, LARGE]


def test_a_profile_that_is_not_acknowledged_yet_is_not_listed() -> None:
    before = PluginSettings(POOL, "MIG", 2, profiles={"1g.10gb": 2})
    listed = offers.listing(POOL, [card(0, published=before.of(""), mig=True)], asked(MIXED, 0), SEEN)
    assert [each.id for each in listed] == ["MIG-a", "MIG-b"]


def test_what_containers_hold_is_told_by_profile() -> None:
    known = card(0, published=MIXED.of(""), mig=True)
    held = [
        ContainerHolding("d", "x", "c0", ("MIG-a", "MIG-b"), names.resource_name(SMALL)),
        ContainerHolding("d", "y", "c0", ("MIG-c",), names.resource_name(LARGE)),
    ]
    pods = {"d/x": make.pod("x", 2), "d/y": make.pod("y", 1)}
    told = allocations.allocations([known], held, pods, offers.owners([known], SEEN))["card-0"]
    assert [(each.pod, each.slots, each.profile) for each in told] == [("x", 2, "1g.10gb"), ("y", 1, "2g.20gb")]
    again = card(0, published=MIXED.of(""), mig=True, taken=told)
    assert allocations.allocations([again], held, pods, offers.owners([again], SEEN))["card-0"] == told


def test_a_promise_of_one_profile_claims_no_instance_of_another() -> None:
    small = replace(make.promise("x"), profile="1g.10gb")
    known = card(0, published=MIXED.of(""), mig=True, promised=(small,))
    assert len(preferred_allocation.claims(SMALL, [known], [], [])) == 1
    assert preferred_allocation.claims(LARGE, [known], [], []) == ()


def service(_: str, made: type[Service] = Service) -> Service:
    return made(lambda available, must, size: [*must, *available][:size], lambda _: ContainerDevices({}), lambda: None)


async def test_kubelet_knows_each_profile_and_lets_go_of_what_is_not_wanted_any_more(kubelet: Kubelet) -> None:
    async def before() -> None:
        return None

    decided = asyncio.Event()
    resources = Resources(Sockets(kubelet.plugins, POOL), service, 0.05, before=before, decided=decided)
    task = asyncio.create_task(resources.run())
    await resources.serving.wait()
    instances = [
        Listed(f"MIG-{name}", f"MIG-{name}", "card-0", address(0), suffix=suffix)
        for name, suffix in (("a", SMALL), ("b", SMALL), ("c", LARGE))
    ]
    await resources.show(instances, frozenset({SMALL, LARGE}))
    decided.set()

    await kubelet.until(lambda: kubelet.healthy(names.resource_name(SMALL)) == {"MIG-a", "MIG-b"}, "the small ones")
    await kubelet.until(lambda: kubelet.healthy(names.resource_name(LARGE)) == {"MIG-c"}, "the large one")
    assert resources.listening
    assert {each.resource_name for each in kubelet.registrations} == {
        names.resource_name(SMALL), names.resource_name(LARGE),
    }, "nothing is offered under the pool's name alone"  # fmt: skip
    assert (kubelet.plugins / f"{POOL}.sock").is_socket(), "it keeps a second plugin of the pool off the node"

    await resources.show([Listed("GPU-0", "GPU-0", "card-0", address(0), suffix=POOL)], frozenset({POOL}))
    await kubelet.until(lambda: kubelet.healthy(names.resource_name(POOL)) == {"GPU-0"}, "the whole card")
    await kubelet.until(lambda: not (kubelet.plugins / f"{LARGE}.sock").exists(), "the socket to be closed")
    assert kubelet.healthy(names.resource_name(SMALL)) == set()

    await resources.show(instances, frozenset({SMALL, LARGE}))
    await kubelet.until(lambda: kubelet.healthy(names.resource_name(LARGE)) == {"MIG-c"}, "the large one again")
    await kubelet.until(lambda: kubelet.healthy(names.resource_name(POOL)) == set(), "the whole card to go")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert not list(kubelet.plugins.glob(f"{POOL}*.sock"))


async def test_a_resource_that_is_wanted_again_while_it_ends_comes_back(kubelet: Kubelet) -> None:
    """A pool changes its layout and changes it back, and the socket takes its time to close."""
    decided, closing, go_on, closed = asyncio.Event(), asyncio.Event(), asyncio.Event(), asyncio.Event()
    decided.set()

    async def before() -> None:
        return None

    class Slow(Service):
        async def stop(self) -> None:
            closing.set()
            await go_on.wait()
            await super().stop()
            closed.set()

    def made(suffix: str) -> Service:
        return service(suffix, Slow if suffix == SMALL and not closing.is_set() else Service)

    resources = Resources(Sockets(kubelet.plugins, POOL), made, 0.05, before=before, decided=decided)
    task = asyncio.create_task(resources.run())
    await resources.serving.wait()
    small = [Listed("MIG-a", "MIG-a", "card-0", address(0), suffix=SMALL)]
    await resources.show(small, frozenset({SMALL}))
    await kubelet.until(lambda: kubelet.healthy(names.resource_name(SMALL)) == {"MIG-a"}, "the instance")

    await resources.show([], frozenset({POOL}))
    await closing.wait()
    await resources.show(small, frozenset({SMALL}))
    go_on.set()
    await closed.wait()
    again = names.resource_name(SMALL)
    await kubelet.until(
        lambda: [each.resource_name for each in kubelet.registrations].count(again) == 2, "it to be known"
    )
    await kubelet.until(lambda: resources.listening, "kubelet to have the list again")
    await kubelet.until(lambda: kubelet.healthy(again) == {"MIG-a"}, "the instance again")
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
