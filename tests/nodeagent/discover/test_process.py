"""nodeagent discover as a process: a real API server, the policies in force, a token bound to its node."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

from controllers.api import names
from nodeagent.discover import VERSION
from nodeagent.discover.feature.confirm import SCANS
from nodeagent.host import procfs
from sim.hardware import load
from sim.nvml import Config, build, environment
from tests.nodeagent.discover.machine import BOOT, Machine

if TYPE_CHECKING:
    from pathlib import Path

    from tests.nodeagent.discover.node import Agent, Cluster

pytestmark = pytest.mark.cluster
T4 = "0000:00:1e.0"
UUID = "GPU-eaf23aa1-4d3d-596c-da66-b86b0e5db584"
FIRST, SECOND = "0000:19:00.0", "0000:3b:00.0"


async def told(cluster: Cluster, agent: Agent, node: str, count: int) -> dict[str, dict[str, str]]:
    """Wait for a report of so many cards."""

    async def has() -> bool:
        cards = await cluster.cards(node)
        return cards is not None and len(cards) == count

    await agent.until(has, f"{count} cards of {node}")
    return await cluster.cards(node) or {}


async def test_it_publishes_what_it_finds_and_then_writes_nothing(cluster: Cluster, tmp_path: Path) -> None:
    machine = Machine(tmp_path, "h100-8")
    machine.write("usr/bin/nvidia-ctk")
    machine.write("usr/lib64/libnvidia-container.so.1.17.8")
    config = await cluster.kubeconfig("idle", tmp_path)
    async with cluster.agent("idle", config, machine) as agent:
        cards = await told(cluster, agent, "idle", 8)
        await agent.until(agent.ready, "readiness")
        assert cards[FIRST] == {
            "address": FIRST, "vendor": "10de", "device": "2330", "class": "0302", "subsystem_vendor": "10de",
            "subsystem_device": "16c1", "numa_node": "0", "pci_root": "0000:00", "iommu_group": "20",
            "driver": "nvidia", "sriov": "pf",
        }  # fmt: skip
        assert await cluster.attributes("idle") == {
            "gpu.agent": {"boot_id": BOOT, "version": VERSION},
            "gpu.system": {"nvswitch": "true"},
            "gpu.toolkit": {"installed": "true", "version": "1.17.8"},
        }
        found = await cluster.report("idle")
        assert found is not None
        assert found["metadata"]["labels"] == {names.NFD_NODE_NAME: "idle"}
        await agent.scans(10)
        assert await agent.writes() == 1
        assert await cluster.report("idle") == found
        assert '"level":"error"' not in agent.log
        assert agent.end() == 0


async def test_it_restores_what_is_deleted_or_edited_and_leaves_the_validators_part(
    cluster: Cluster, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, "t4")
    machine.load("595.91.07", (T4, "Tesla T4", UUID))
    config = await cluster.kubeconfig("edited", tmp_path)
    async with cluster.agent("edited", config, machine) as agent:
        cards = await told(cluster, agent, "edited", 1)
        good = await cluster.attributes("edited")
        assert (cards[T4]["uuid"], cards[T4]["product"], good["gpu.driver"]["version"]) == (
            UUID,
            "Tesla T4",
            "595.91.07",
        )

        validation = {"spec": {"features": {"attributes": {"gpu.validation": {"elements": {"driver": "ok"}}}}}}
        await cluster.change("edited", validation, manager=names.MANAGER_VALIDATE)
        mischief = {
            "metadata": {"labels": {names.NFD_NODE_NAME: None}},
            "spec": {"features": {
                "attributes": {"gpu.driver": {"elements": {"version": "1", "by_hand": "x"}}},
                "instances": {"gpu.device": {"elements": []}},
            }},
        }  # fmt: skip
        await cluster.change("edited", mischief)

        async def mended() -> bool:
            found = await cluster.report("edited")
            attributes = await cluster.attributes("edited")
            return (
                found is not None
                and found["metadata"].get("labels") == {names.NFD_NODE_NAME: "edited"}
                and await cluster.cards("edited") == cards
                and attributes == {**good, "gpu.validation": {"driver": "ok"}}
            )

        await agent.until(mended, "the edits to be mended")
        await cluster.delete("edited")
        await told(cluster, agent, "edited", 1)
        assert await cluster.attributes("edited") == good
        writes = await agent.writes()
        await agent.scans(5)
        assert await agent.writes() == writes
        assert '"level":"error"' not in agent.log


async def test_it_follows_cards_that_come_and_confirms_those_that_go(cluster: Cluster, tmp_path: Path) -> None:
    machine = Machine(tmp_path, "none")
    config = await cluster.kubeconfig("hot", tmp_path)
    async with cluster.agent("hot", config, machine) as agent:
        assert await told(cluster, agent, "hot", 0) == {}
        machine.plug("t4", T4)
        await told(cluster, agent, "hot", 1)
        machine.plug("a10-vfio", "0000:65:00.0")
        cards = await told(cluster, agent, "hot", 2)
        assert cards["0000:65:00.0"]["driver"] == "vfio-pci"
        machine.bind("0000:65:00.0", "")

        async def unbound() -> bool:
            return "driver" not in (await cluster.cards("hot") or {})["0000:65:00.0"]

        await agent.until(unbound, "the driver to go")
        machine.unplug(T4)
        assert sorted(await told(cluster, agent, "hot", 1)) == ["0000:65:00.0"]
        lines = [line for line in agent.log.splitlines() if T4 in line]
        assert [word for line in lines for word in ("stays in the report", "is gone") if word in line] == [
            "stays in the report",
            "is gone",
        ]


async def test_a_restart_goes_on_from_what_was_published(cluster: Cluster, tmp_path: Path) -> None:
    machine = Machine(tmp_path, "h100-8")
    config = await cluster.kubeconfig("killed", tmp_path)
    async with cluster.agent("killed", config, machine) as agent:
        await told(cluster, agent, "killed", 8)
        before = await cluster.report("killed")
        machine.unplug(FIRST)
        agent.kill()
    async with cluster.agent("killed", config, machine, "--scan-period", "3600") as agent:
        await agent.until(agent.ready, "readiness")
        assert await agent.metric("gpu_discover_missed_cards") == 1
        assert await agent.writes() == 0
        assert await cluster.report("killed") == before
    async with cluster.agent("killed", config, machine) as agent:
        await told(cluster, agent, "killed", 7)
        assert await agent.metric("gpu_discover_scans_total") >= SCANS
        assert await agent.writes() == 1


async def test_a_report_of_this_boot_names_only_cards_that_this_boot_has_seen(cluster: Cluster, tmp_path: Path) -> None:
    machine = Machine(tmp_path, "h100-8")
    config = await cluster.kubeconfig("rebooted", tmp_path)
    async with cluster.agent("rebooted", config, machine) as agent:
        await told(cluster, agent, "rebooted", 8)
        before = await cluster.report("rebooted")
        agent.kill()
    again = "99999999-2222-3333-4444-555555555555"
    (machine.proc / "sys/kernel/random/boot_id").write_text(f"{again}\n")
    machine.unplug(FIRST)
    async with cluster.agent("rebooted", config, machine, "--scan-period", "3600") as agent:
        await agent.scans(1)
        assert not await agent.ready()
        assert await agent.writes() == 0
        assert await cluster.report("rebooted") == before
    async with cluster.agent("rebooted", config, machine) as agent:
        assert FIRST not in await told(cluster, agent, "rebooted", 7)
        assert (await cluster.attributes("rebooted"))["gpu.agent"]["boot_id"] == again
        assert await agent.metric("gpu_discover_scans_total") >= SCANS
        assert await agent.writes() == 1
        await agent.until(agent.ready, "readiness")


async def test_killed_anywhere_between_its_start_and_its_first_report_it_goes_on(
    cluster: Cluster, tmp_path: Path
) -> None:
    machine = Machine(tmp_path, "h100-8")
    config = await cluster.kubeconfig("torn", tmp_path)
    for wait in (0.0, 0.3, 0.5, 0.6, 0.7, 0.8):
        async with cluster.agent("torn", config, machine) as agent:
            await asyncio.sleep(wait)
            agent.kill()
    async with cluster.agent("torn", config, machine) as agent:
        await told(cluster, agent, "torn", 8)
        await agent.until(agent.ready, "readiness")
        assert await agent.writes() <= 1


async def test_it_tells_what_the_driver_says_and_bridges_its_silence(
    cluster: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file, shape = tmp_path / "driver", Config.of(load().shape("h100-sxm-8"))
    for name, value in environment(build(), file).items():
        monkeypatch.setenv(name, value)
    machine = Machine(tmp_path, "h100-8")
    machine.load("580.105.08", *((address, "NVIDIA H100 80GB HBM3", UUID) for address in (FIRST, SECOND)))
    shape.write(file)
    config = await cluster.kubeconfig("driver", tmp_path)
    async with cluster.agent("driver", config, machine, "--driver-period", "0.5", "--driver-deadline", "60") as agent:
        cards = await told(cluster, agent, "driver", 8)
        known = {"version": "580.105.08", "cuda_version": "13.0", "load": procfs.load(machine.sys)}
        assert (await cluster.attributes("driver"))["gpu.driver"] == known
        assert (cards[FIRST]["memory_mib"], cards[FIRST]["mig_mode"]) == ("81559", "disabled")
        assert len(cards[FIRST]["nvlink_peers"].split(",")) == 7
        assert await agent.writes() == 1

        shape.partitioned(FIRST, ("1g.10gb", 0), ("3g.40gb", 4)).write(file)

        async def split() -> bool:
            return (await cluster.cards("driver") or {})[FIRST].get("mig_instances") == "1g.10gb=1,3g.40gb=1"

        await agent.until(split, "the MIG instances")
        shape.card(SECOND, "lost").write(file)

        async def poor() -> bool:
            return "memory_mib" not in (await cluster.cards("driver") or {})[SECOND]

        await agent.until(poor, "the lost card to be believed")
        cards = await cluster.cards("driver") or {}
        assert len(cards) == 8
        assert (cards[SECOND]["uuid"], cards[SECOND]["driver"]) == (UUID, "nvidia")
        assert cards[FIRST]["memory_mib"] == "81559"
        shape.also("hang nvmlInit 600").write(file)
        # A driver that hangs costs neither health nor the look at the bus.
        machine.unplug(FIRST)
        await told(cluster, agent, "driver", 7)
        assert await agent.ready()
        machine.unload()

        async def unloaded() -> bool:
            return "gpu.driver" not in await cluster.attributes("driver")

        await agent.until(unloaded, "the driver to be gone")
        assert "uuid" not in (await cluster.cards("driver") or {})[SECOND]
        assert agent.end() == 0


async def test_a_bus_that_cannot_be_read_changes_nothing_and_ends_readiness(cluster: Cluster, tmp_path: Path) -> None:
    machine = Machine(tmp_path, "t4")
    config = await cluster.kubeconfig("blind", tmp_path)
    async with cluster.agent("blind", config, machine, "--driver-deadline", "0.2") as agent:
        await told(cluster, agent, "blind", 1)
        await agent.until(agent.ready, "readiness")
        machine.devices.rename(machine.devices.with_name("away"))

        async def unready() -> bool:
            return not await agent.ready()

        await agent.until(unready, "readiness to end")
        assert len(await cluster.cards("blind") or {}) == 1
        machine.devices.with_name("away").rename(machine.devices)
        await agent.until(agent.ready, "readiness to return")
        assert await agent.writes() == 1


async def test_the_policy_lets_it_speak_of_its_own_node_only(cluster: Cluster, tmp_path: Path) -> None:
    machine = Machine(tmp_path, "t4")
    config = await cluster.kubeconfig("own", tmp_path)
    async with cluster.agent("another", config, machine) as agent:

        async def refused() -> bool:
            return "writes only NodeFeature gpu-own, not gpu-another" in agent.log

        await agent.until(refused, "the API server to refuse")
        assert not await agent.ready()
        assert await cluster.report("another") is None
