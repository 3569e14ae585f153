"""The plugin as a process: a kubelet over real sockets, a real API server, RBAC and policies in force."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc.aio
import pytest

from controllers.api import names
from controllers.api.resources import NODE
from controllers.domain.plugin_settings import PluginSettings
from sim.nvml import Config, build, environment
from tests.kit.pace import Stretch
from tests.tools.lacking import lacking

if TYPE_CHECKING:
    from tests.nodeagent.deviceplugin.conftest import Node
    from tests.nodeagent.deviceplugin.kubelet import Kubelet
    from tests.nodeagent.deviceplugin.node import World

pytestmark = pytest.mark.cluster
POOL = "alpha"
RESOURCE = names.resource_name(POOL)
CARDS = PluginSettings(POOL, "Exclusive", 1)


async def test_registers_and_offers_what_the_list_names(node: Node, world: World, kubelet: Kubelet) -> None:
    await world.configure(POOL, CARDS, 0, 2)
    agent = await node.plugin(POOL)
    await node.offered(POOL, 2)
    assert kubelet.healthy(RESOURCE) == {world.uuid(0), world.uuid(2)}
    (request,) = kubelet.registrations
    assert (request.version, request.endpoint, request.resource_name) == ("v1beta1", f"{POOL}.sock", RESOURCE)
    assert request.options.get_preferred_allocation_available
    assert [n.ID for n in kubelet.listed(RESOURCE)[world.uuid(0)].topology.nodes] == [0]
    await world.until(world.published, {0: (POOL, 1), 2: (POOL, 1)})
    assert (await world.get(0)).status.published == CARDS.of(world.id(0))
    await agent.until(agent.ready, "readiness")
    assert await agent.writes() == 2


async def test_published_comes_before_the_list_and_goes_after_it(node: Node, world: World, kubelet: Kubelet) -> None:
    await world.configure(POOL, CARDS, 0)
    agent = await node.plugin(POOL)
    await node.offered(POOL, 1)
    assert list(await world.published()) == [0]
    with Stretch() as machine:
        changed = await world.configure(POOL, CARDS, 1)
        await node.offered(POOL, 1)
        await kubelet.until(lambda: kubelet.healthy(RESOURCE) == {world.uuid(1)}, "the other card")
    seen = kubelet.endpoints[RESOURCE].lists
    told = seen[-1][0]
    assert {world.uuid(0): "Healthy"} in [ids for _, ids in seen]
    assert {} in [ids for _, ids in seen[1:]], "the old card falls off the list before anything is written"
    await world.until(world.published, {1: (POOL, 1)})
    with pytest.raises(grpc.aio.AioRpcError, match="does not offer device"):
        await kubelet.allocate(RESOURCE, [world.uuid(0)])
    with pytest.raises(grpc.aio.AioRpcError, match="does not offer device GPU-nobody"):
        await kubelet.allocate(RESOURCE, ["GPU-nobody"])
    assert "refused to kubelet" in agent.log
    machine.judge("telling kubelet of the other card", told - changed, 1.0)


async def test_slots(node: Node, world: World, kubelet: Kubelet) -> None:
    await world.configure(POOL, PluginSettings(POOL, "TimeSlice", 4), 3)
    await node.plugin(POOL)
    await node.offered(POOL, 4)
    assert kubelet.healthy(RESOURCE) == {f"{world.uuid(3)}::{slot}" for slot in range(4)}
    for pod in ("a", "b"):
        await world.pod(f"{world.name}-{pod}", POOL, 2)
        answer = await kubelet.admit("default", f"{world.name}-{pod}", RESOURCE, 2)
        assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == world.uuid(3)
    wanted = {3: [(f"{world.name}-a", "main", 2), (f"{world.name}-b", "main", 2)]}
    await world.until(world.allocations, wanted)
    await world.configure(POOL, PluginSettings(POOL, "TimeSlice", 8), 3)
    await node.offered(POOL, 8)
    await world.until(world.published, {3: (POOL, 8)})
    await world.configure(POOL, PluginSettings(POOL, "TimeSlice", 2), 3)
    await node.offered(POOL, 2)
    await world.until(world.published, {3: (POOL, 2)})


async def test_shards_and_other_nodes_lines(node: Node, world: World, kubelet: Kubelet) -> None:
    await world.configure(POOL, CARDS, others=1000)
    await world.configure(POOL, CARDS, 1, others=999, shard=".0")
    await node.plugin(POOL)
    await node.offered(POOL, 1)
    assert kubelet.healthy(RESOURCE) == {world.uuid(1)}


async def test_settings_that_cannot_be_read_change_nothing(node: Node, world: World) -> None:
    await world.configure(POOL, CARDS, 0)
    agent = await node.plugin(POOL)
    await node.offered(POOL, 1)
    await world.configure(POOL, "{", 0)

    async def said() -> bool:
        return "settings cannot be read" in agent.log

    await agent.until(said, "a complaint")
    await node.offered(POOL, 1)
    assert await world.published() == {0: (POOL, 1)}
    agent.kill()
    await node.plugin(POOL)
    await node.offered(POOL, 1)  # what it had acknowledged tells the settings


async def test_the_report_follows_kubelet(node: Node, world: World, kubelet: Kubelet) -> None:
    await world.configure(POOL, CARDS, 0, 1)
    agent = await node.plugin(POOL, "--report-period=0.5")
    await node.offered(POOL, 2)
    pod = f"{world.name}-p"
    await world.pod(pod, POOL, devices=(1,))

    async def known() -> bool:
        return await agent.metric('gpu_cached_objects{kind="Pod"}') == 1

    await agent.until(known, "the pod to be known")
    await kubelet.admit("default", pod, RESOURCE)
    assert kubelet.held(RESOURCE) == {world.uuid(1)}, "the card that the webhook named"
    await world.until(world.allocations, {1: [(pod, "main", 1)]})
    agent.kill()
    kubelet.release("default", pod)
    await world.delete_pod(pod)
    await node.plugin(POOL)
    await world.until(world.allocations, {})


async def test_a_finished_pod_holds_nothing(node: Node, world: World, kubelet: Kubelet) -> None:
    await world.configure(POOL, CARDS, 0)
    await node.plugin(POOL)
    await node.offered(POOL, 1)
    pod = f"{world.name}-p"
    await world.pod(pod, POOL)
    await kubelet.admit("default", pod, RESOURCE)
    await world.until(world.allocations, {0: [(pod, "main", 1)]})
    await world.phase(pod, "Succeeded")
    await world.until(world.allocations, {})


async def test_a_kubelet_that_starts_anew_is_registered_with_again(node: Node, world: World, kubelet: Kubelet) -> None:
    await world.configure(POOL, CARDS, 0)
    agent = await node.plugin(POOL)
    await node.offered(POOL, 1)
    await kubelet.stop()
    assert (kubelet.plugins / f"{POOL}.sock").exists()
    await kubelet.start()
    await node.offered(POOL, 1)
    assert len(kubelet.registrations) == 2
    await agent.until(agent.ready, "readiness")
    assert agent.process.poll() is None


async def test_it_waits_for_a_kubelet_that_is_not_there(node: Node, world: World, kubelet: Kubelet) -> None:
    await kubelet.stop()
    await world.configure(POOL, CARDS, 0)
    agent = await node.plugin(POOL)

    async def asked() -> bool:
        return await agent.metric('gpu_device_plugin_reports_total{result="failed"}') > 0

    await agent.until(asked, "kubelet to be asked in vain")
    assert await world.published() == {}, "it alone knows whether others have the card"
    assert not await agent.ready()
    await kubelet.start()
    await node.offered(POOL, 1)


async def test_a_taken_socket_is_refused(node: Node, world: World) -> None:
    await world.configure(POOL, CARDS, 0)
    first = await node.plugin(POOL)
    await node.offered(POOL, 1)
    second = await node.plugin(POOL)
    assert await asyncio.to_thread(second.process.wait, 20) == 2
    assert "is served by another program" in second.log
    assert '"reason":"SocketTaken"' in second.log
    assert first.process.poll() is None
    await node.offered(POOL, 1)
    assert await world.published() == {0: (POOL, 1)}


async def test_a_socket_left_by_a_killed_plugin_is_replaced(node: Node, world: World, kubelet: Kubelet) -> None:
    await world.configure(POOL, CARDS, 0)
    first = await node.plugin(POOL)
    await node.offered(POOL, 1)
    first.kill()
    await node.offered(POOL, 0)
    assert (kubelet.plugins / f"{POOL}.sock").exists()
    second = await node.plugin(POOL)
    await node.offered(POOL, 1)
    assert await second.writes() == 0, "what was published stands"


async def test_told_to_end_it_closes_the_socket(node: Node, world: World, kubelet: Kubelet) -> None:
    await world.configure(POOL, CARDS, 0)
    agent = await node.plugin(POOL)
    await node.offered(POOL, 1)
    assert await asyncio.to_thread(agent.end) == 0, agent.log
    assert not (kubelet.plugins / f"{POOL}.sock").exists()
    await node.offered(POOL, 0)


async def test_a_card_that_falls_out_makes_capacity_fall(node: Node, world: World, kubelet: Kubelet) -> None:
    await world.configure(POOL, CARDS, 0, 1)
    await node.plugin(POOL)
    await node.offered(POOL, 2)
    link = node.tree.sys / "bus" / "pci" / "devices" / world.addresses[0]
    target = link.readlink()
    link.unlink()
    await node.offered(POOL, 1)
    assert kubelet.listed(RESOURCE)[world.uuid(0)].health == "Unhealthy"
    await world.until(world.published, {1: (POOL, 1)})
    link.symlink_to(target)
    await node.offered(POOL, 2)
    await world.until(world.published, {0: (POOL, 1), 1: (POOL, 1)})


async def test_a_faulted_card_is_unhealthy_and_stays_published(node: Node, world: World, kubelet: Kubelet) -> None:
    await world.configure(POOL, CARDS, 0, 1)
    await node.plugin(POOL)
    await node.offered(POOL, 2)
    fault = {
        "type": "Faulted", "status": "True", "reason": "CriticalXid", "message": "m",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    await world.status(names.BOOTSTRAP, 1, {"conditions": [fault]})
    await node.offered(POOL, 1)
    assert kubelet.listed(RESOURCE)[world.uuid(1)].health == "Unhealthy"
    with pytest.raises(grpc.aio.AioRpcError, match="is not healthy"):
        await kubelet.allocate(RESOURCE, [world.uuid(1)])
    assert list(await world.published()) == [0, 1]


async def test_two_pools_never_have_one_card(node: Node, world: World, kubelet: Kubelet) -> None:
    """Both lists name both cards; whoever is first has a card, and the other gets it when it is let go."""
    beta = "beta"
    await world.configure(POOL, CARDS, 0, 1, 2, 3)
    await world.configure(beta, PluginSettings(beta, "TimeSlice", 2), 0, 1, 2, 3)
    await asyncio.gather(node.plugin(POOL), node.plugin(beta))

    async def all_published() -> int:
        return len(await world.published())

    await world.until(all_published, 4)
    await kubelet.until(lambda: len(kubelet.endpoints) == 2, "both to register")
    told = await world.published()
    mine = {card for card, (pool, _) in told.items() if pool == POOL}
    await node.offered(POOL, len(mine))
    await node.offered(beta, 2 * (4 - len(mine)))
    ids = {id_.partition("::")[0] for id_ in kubelet.healthy(names.resource_name(beta))}
    assert not ids & kubelet.healthy(RESOURCE)
    await world.configure(POOL, CARDS)
    await node.offered(beta, 8)
    assert set((await world.published()).values()) == {(beta, 2)}
    held = {id_ for _, seen in kubelet.endpoints[RESOURCE].lists for id_ in seen}
    assert held == {world.uuid(card) for card in mine}, "no list of the other ever had what it had not published"


async def test_device_nodes_and_environment(node: Node, world: World, kubelet: Kubelet) -> None:
    for name in ("nvidia0", "nvidia1", "nvidiactl", "nvidia-uvm"):
        (node.dev / name).touch()
    await world.configure(POOL, CARDS, 1)
    await node.plugin(POOL)
    await node.offered(POOL, 1)
    answer = await kubelet.allocate(RESOURCE, [world.uuid(1)])
    assert dict(answer.envs) == {"NVIDIA_VISIBLE_DEVICES": world.uuid(1)}
    paths = ["/dev/nvidia1", "/dev/nvidiactl", "/dev/nvidia-uvm"]
    assert [(d.host_path, d.container_path, d.permissions) for d in answer.devices] == [(p, p, "rw") for p in paths]
    assert not answer.cdi_devices


async def test_cdi_where_a_specification_names_the_card_and_the_runtime_applies_it(
    node: Node, world: World, kubelet: Kubelet
) -> None:
    specs = node.tree.root / "etc" / "cdi"
    specs.mkdir(parents=True)
    (specs / "nvidia.yaml").write_text(f"kind: nvidia.com/gpu\ndevices: [{{name: {world.uuid(0)}}}]\n")
    info = {
        "status": {
            "nodeInfo": dict.fromkeys(
                ("machineID", "systemUUID", "bootID", "kernelVersion", "osImage", "kubeletVersion",
                 "kubeProxyVersion", "operatingSystem", "architecture"), "x"
            ) | {"containerRuntimeVersion": "containerd://2.1.4"}
        }
    }  # fmt: skip
    await world.cluster.client.merge(NODE, world.name, info, manager="test", subresource="status")
    await world.configure(POOL, CARDS, 0, 1)
    await node.plugin(POOL)
    await node.offered(POOL, 2)
    answer = await kubelet.allocate(RESOURCE, [world.uuid(0)])
    assert [device.name for device in answer.cdi_devices] == [f"nvidia.com/gpu={world.uuid(0)}"]
    assert (list(answer.devices), dict(answer.envs)) == ([], {"NVIDIA_VISIBLE_DEVICES": "void"})
    without = await kubelet.allocate(RESOURCE, [world.uuid(1)])
    assert not without.cdi_devices, "no specification names it"


@pytest.mark.parametrize("world", ["a30-4"], indirect=True)
@pytest.mark.skipif(bool(lacking("cc")), reason=f"the fake driver library cannot be built: {lacking('cc')}")
async def test_instances_that_appear_are_offered_and_told_by_their_card(
    node: Node, world: World, kubelet: Kubelet
) -> None:
    offer, file = PluginSettings(POOL, "MIG", 2, "2g.12gb"), node.folder / "driver.conf"
    whole = Config.of(world.shape, world.name)
    whole.write(file)
    node.driver = environment(build(), file)
    await world.configure(POOL, offer, 0)
    await node.plugin(POOL)
    await kubelet.until(lambda: kubelet.registrations, "a registration")
    assert await world.published() == {}, "the card is not divided yet"
    whole.partitioned(world.addresses[0], ("2g.12gb", 0), ("2g.12gb", 2)).write(file)
    for number in (1, 2):  # by these files the driver shows that there are instances
        (node.tree.proc / f"driver/nvidia/capabilities/gpu0/mig/gi{number}").mkdir(parents=True)
    await node.offered(POOL, 2)
    await world.until(world.published, {0: (POOL, 2)})
    pod = f"{world.name}-p"
    await world.pod(pod, POOL)
    answer = await kubelet.admit("default", pod, RESOURCE)
    (held,) = kubelet.held(RESOURCE)
    assert answer.envs["NVIDIA_VISIBLE_DEVICES"] == held
    assert held.startswith("MIG-")
    await world.until(world.allocations, {0: [(pod, "main", 1)]})
