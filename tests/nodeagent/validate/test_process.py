"""nodeagent validate as a process: a real API server, the policies in force, tokens bound to the node."""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from sim.nvml import build, environment
from tests.nodeagent.discover.node import Agent
from tests.nodeagent.validate.machine import CONTAINER, Machine, machine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.nodeagent.discover.node import Cluster

pytestmark = pytest.mark.cluster
TIMES = ("--driver-period", "0.5", "--driver-deadline", "60")
FEATURE, OF_CARDS = names.FEATURE_VALIDATION, names.FEATURE_NVML
CARDS = 8


@pytest.fixture
def at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    made = machine(tmp_path)
    for name, value in environment(build(), made.nvml).items():
        monkeypatch.setenv(name, value)
    return made


class Node:
    """One node of the cluster, its machine, and the agents that are started on it."""

    def __init__(self, cluster: Cluster, at: Machine, name: str) -> None:
        self.cluster, self.at, self.name = cluster, at, name

    @asynccontextmanager
    async def discover(self) -> AsyncIterator[Agent]:
        config = await self.cluster.kubeconfig(self.name, self.at.folder)
        async with self._running(config, ("nodeagent.discover", "--scan-period", "0.2", *TIMES)) as agent:
            yield agent

    @asynccontextmanager
    async def validate(self, role: str, *flags: str) -> AsyncIterator[Agent]:
        config = await self.cluster.kubeconfig(self.name, self.at.folder, names.MANAGER_VALIDATE)
        async with self._running(config, ("nodeagent.validate", role, "--period", "0.2", *TIMES, *flags)) as agent:
            yield agent

    @asynccontextmanager
    async def _running(self, config: Path, program: tuple[str, ...]) -> AsyncIterator[Agent]:
        agent = Agent(self.name, config, self.at, program)
        try:
            yield agent
        finally:
            agent.end()

    async def told(self) -> dict[str, str]:
        return (await self.cluster.attributes(self.name)).get(FEATURE, {})

    async def nvml(self) -> list[dict[str, str]]:
        """What the report says of the cards by NVML."""
        found = await self.cluster.report(self.name)
        feature = (found or {}).get("spec", {}).get("features", {}).get("instances", {}).get(OF_CARDS, {})
        return [each["attributes"] for each in feature.get("elements", [])]

    async def says(self, agent: Agent, **wanted: str) -> None:
        """Wait until the feature has these values (`driver_reason` for `driver.reason`)."""

        async def has() -> bool:
            told = await self.told()
            return all(told.get(key.replace("_", ".", 1)) == value for key, value in wanted.items())

        await agent.until(has, f"{wanted}")

    async def whole(self, agent: Agent) -> None:
        """Wait until discover tells what the driver answers; where that takes long, it is a second write."""

        async def answered() -> bool:
            driver = (await self.cluster.attributes(self.name)).get(names.FEATURE_DRIVER, {})
            return len(await self.cluster.cards(self.name) or {}) == CARDS and "cuda_version" in driver

        await agent.until(answered, f"{CARDS} cards, and CUDA's version, which only the driver's library tells")

    async def report(self) -> dict[str, Any]:
        """The whole report: where a version moved, the comparison shows what did."""
        found = await self.cluster.report(self.name)
        assert found is not None
        return found


async def looks(agent: Agent, count: int) -> None:
    """Wait for so many more looks."""
    wanted = await agent.metric("gpu_validate_looks_total") + count

    async def enough() -> bool:
        return await agent.metric("gpu_validate_looks_total") >= wanted

    await agent.until(enough, f"{count} looks")


async def tried(agent: Agent, count: int) -> None:
    """Wait until CUDA has been tried so often, and two looks have found what came of it."""

    async def enough() -> bool:
        return await agent.metric("gpu_validate_cuda_tries_total") >= count

    await agent.until(enough, f"{count} tries of CUDA")
    await looks(agent, 2)


async def test_three_writers_of_one_report_never_fight(cluster: Cluster, at: Machine) -> None:
    node = Node(cluster, at, "three")
    # The validators come first: they wait for the report, which discover alone makes.
    async with node.validate("driver") as driver, node.validate("container") as container:
        await looks(driver, 3)
        assert await cluster.report("three") is None
        assert not await driver.ready()
        await tried(container, CARDS)  # else the first of its verdicts says that CUDA has not answered yet
        async with node.discover() as discover:
            await node.says(driver, driver="ok", container="ok")
            for agent in (driver, container, discover):
                await agent.until(agent.ready, "readiness")
            found = await cluster.attributes("three")
            ours = {names.FEATURE_AGENT, names.FEATURE_DRIVER, names.FEATURE_TOOLKIT, names.FEATURE_SYSTEM}
            assert set(found) == {*ours, FEATURE}
            await node.whole(discover)
            before = await node.report()
            writes = [await agent.writes() for agent in (driver, container, discover)]
            for agent in (driver, container):
                await looks(agent, 10)
            await discover.scans(10)
            assert [await agent.writes() for agent in (driver, container, discover)] == writes
            assert writes[:2] == [1, 1]
            assert await node.report() == before

            # What one changes leaves the others' as it was.
            at.remove("nvidia-uvm")
            await node.says(container, container="failed", container_reason="DevicesMissing", driver="ok")
            at.install(at.root, "999.1.2")
            await node.says(driver, driver="failed", driver_reason="LibraryMismatch", container_reason="DevicesMissing")
            at.device("nvidia-uvm")
            at.install(at.root, at.version)
            await node.says(driver, driver="ok", container="ok")
            told = await node.told()
            assert "driver.reason" not in told
            assert "container.message" not in told
            assert await discover.writes() == writes[2]
            assert (await cluster.attributes("three"))[names.FEATURE_DRIVER]["version"] == at.version


async def test_readiness_follows_the_checks_and_health_does_not(cluster: Cluster, at: Machine) -> None:
    node = Node(cluster, at, "ready")
    async with node.discover() as discover, node.validate("driver") as driver:
        await driver.until(driver.ready, "readiness")
        at.uninstall(at.root)

        async def unready() -> bool:
            return not await driver.ready()

        await driver.until(unready, "readiness to end")
        assert "200 OK" in await driver._get("/healthz")
        await node.says(driver, driver="failed", driver_reason="LibraryMissing")
        at.install(at.root, at.version)
        await driver.until(driver.ready, "readiness to return")
        assert discover.process.poll() is None


async def test_a_killed_validator_goes_on_without_a_write(cluster: Cluster, at: Machine) -> None:
    node = Node(cluster, at, "killed-validator")
    async with node.discover() as discover:
        await node.whole(discover)
        async with node.validate("container") as container:
            await node.says(container, container="ok", container_cards="8")
            container.kill()
        before = await node.report()
        async with node.validate("container") as container:
            await container.until(container.ready, "readiness")
            await looks(container, 3)
            assert await container.writes() == 0
            assert await container.metric("gpu_validate_cuda_tries_total") == 0, "the report says that it works"
            assert await node.report() == before


async def test_cuda_is_tried_again_until_it_works_and_anew_in_another_boot(cluster: Cluster, at: Machine) -> None:
    node = Node(cluster, at, "fabric")
    at.config.also("cuda cuInit 802").write(at.nvml)
    async with node.discover(), node.validate("container", "--fabric-grace", "1") as container:
        await node.says(container, container="failed", container_reason="CudaError802")
        assert not await container.ready()
        assert "container.cuda" not in await node.told()
        at.config.write(at.nvml)  # the fabric manager has been started
        await node.says(container, container="ok", container_cards="8")
        await container.until(container.ready, "readiness")
        marks = (await node.told())["container.cuda"]
        before = await container.metric("gpu_validate_cuda_tries_total")
        (at.proc / "sys" / "kernel" / "random" / "boot_id").write_text("11111111-1111-4222-8333-444455556666\n")

        async def anew() -> bool:
            return (await node.told()).get("container.cuda", marks) != marks

        await container.until(anew, "marks of the new boot")
        assert await container.metric("gpu_validate_cuda_tries_total") == before + CARDS


async def test_a_driver_in_a_container_is_seen_when_it_comes_when_it_goes_and_when_another_comes(
    cluster: Cluster, at: Machine
) -> None:
    at.uninstall(at.root)
    node = Node(cluster, at, "contained")

    async def root(agent: Agent, wanted: str | None) -> None:
        async def told() -> bool:
            return (await cluster.attributes("contained")).get(names.FEATURE_DRIVER, {}).get("root") == wanted

        await agent.until(told, f"root {wanted}")

    async with node.discover() as discover, node.validate("driver") as driver:
        await node.says(driver, driver="failed", driver_reason="LibraryMissing")
        await root(discover, None)
        for version, told in (
            (at.version, {"driver": "ok"}),
            ("999.1.2", {"driver": "failed", "driver_reason": "LibraryMismatch"}),
            (at.version, {"driver": "ok"}),
        ):
            at.contain(version)
            await node.says(driver, **told)
            await root(discover, f"/{CONTAINER}")
        await driver.until(driver.ready, "readiness")
        at.end_container()
        await node.says(driver, driver="failed", driver_reason="LibraryMissing")
        await root(discover, None)
        at.install(at.root, at.version)
        await node.says(driver, driver="ok")
        for agent in (discover, driver):
            assert agent.end() == 0, "none was started anew"


async def test_what_others_do_to_its_keys_is_put_right_once(cluster: Cluster, at: Machine) -> None:
    node = Node(cluster, at, "edited-validator")

    async def clean(role: str) -> bool:
        told = await node.told()
        return f"{role}.bogus" not in told and told.get(role) == "ok"

    async with node.discover() as discover, node.validate("driver") as driver, node.validate("container") as container:
        await node.says(driver, driver="ok", container="ok")
        before = await container.writes()
        assert before <= 2, "that CUDA is awaited, where that was to be told, and that it works"
        elements = {"driver": "failed", "driver.bogus": "x", "other": "stays"}
        change = {"spec": {"features": {"attributes": {FEATURE: {"elements": elements}}}}}
        await cluster.change("edited-validator", change)
        await driver.until(lambda: clean("driver"), "its keys as they were")
        assert (await node.told())["other"] == "stays"
        await cluster.delete("edited-validator")
        await node.says(driver, driver="ok", container="ok")
        written = [await agent.writes() for agent in (discover, driver, container)]
        assert written[2] == before + 1
        await looks(driver, 5)
        assert [await agent.writes() for agent in (discover, driver, container)] == written


async def test_a_driver_that_hangs_costs_readiness_and_not_health(cluster: Cluster, at: Machine) -> None:
    node = Node(cluster, at, "hangs")
    async with node.discover(), node.validate("container") as container:
        await node.says(container, container="ok")
        at.config.also("hang nvmlInit 600").write(at.nvml)
        at.remove("nvidia7")  # what can be seen without the driver is told meanwhile
        await node.says(container, container="ok", container_reason="DeviceMissing")
        assert "200 OK" in await container._get("/healthz")
        assert container.end() == 0


async def test_the_policy_lets_it_speak_of_its_own_node_only(cluster: Cluster, at: Machine) -> None:
    node, other = Node(cluster, at, "mine"), Node(cluster, at, "theirs")
    async with other.discover() as discover:

        async def there() -> bool:
            return await cluster.report("theirs") is not None

        await discover.until(there, "the other node's report")
        config = await cluster.kubeconfig("mine", at.folder, names.MANAGER_VALIDATE)
        async with node._running(config, ("nodeagent.validate", "driver", "--node", "theirs", *TIMES)) as stranger:

            async def refused() -> bool:
                return "writes only NodeFeature gpu-mine, not gpu-theirs" in stranger.log

            await stranger.until(refused, "the API server to refuse")
            assert not await stranger.ready()
            assert await other.told() == {}


async def test_the_container_tells_what_nvml_tells_of_its_cards_and_a_division_at_once(
    cluster: Cluster, at: Machine
) -> None:
    node = Node(cluster, at, "cards")
    async with node.discover() as discover, node.validate("driver") as driver:
        await node.whole(discover)
        await node.says(driver, driver="ok")
        assert await node.nvml() == []
        # NVML is asked seldom: what it is asked after is seen in /proc.
        async with node.validate("container", "--driver-period", "3600") as container:
            await node.says(container, container="ok", container_cuda_version=at.cuda)
            cards = await node.nvml()
            assert [card["address"] for card in cards] == at.addresses
            assert {(card["version"], card["mig_mode"]) for card in cards} == {(at.version, "disabled")}
            by_discover = await cluster.cards("cards") or {}
            for told in cards:
                common = {key: told[key] for key in told.keys() - {"boot_id", "version", "load"}}
                assert common.items() <= by_discover[told["address"]].items()

            at.config.partitioned(at.addresses[0], ("1g.10gb", 0), ("1g.10gb", 1)).write(at.nvml)
            (at.proc / "driver" / "nvidia" / "capabilities" / "gpu0" / "mig" / "gi1").mkdir(parents=True)

            async def divided() -> bool:
                return [card.get("mig_instances") for card in await node.nvml()] == ["1g.10gb=2", *[None] * (CARDS - 1)]

            await container.until(divided, "the instances of the first card")
            written = await container.writes()

            # What others make of it is put right, and what they add is gone.
            change = {"elements": [{"attributes": {"address": at.addresses[0], "mig_mode": "disabled"}}]}
            await cluster.change("cards", {"spec": {"features": {"instances": {OF_CARDS: change}}}})
            await container.until(divided, "its own words")
            assert await container.writes() == written + 1

            at.unload()
            await node.says(container, container="failed", container_reason="ModuleNotLoaded")
            assert await node.nvml() == []
            await cluster.change("cards", {"spec": {"features": {"instances": {OF_CARDS: change}}}})

            async def gone() -> bool:
                return await node.nvml() == []

            await container.until(gone, "what others say of cards to be gone")


async def test_a_container_that_lacks_access_to_new_instances_ends_once_and_the_next_one_tells_of_them(
    cluster: Cluster, at: Machine
) -> None:
    node = Node(cluster, at, "renewed")
    copy = at.made_by_legacy_runtime()

    async def ended(container: Agent) -> None:
        async def over() -> bool:
            return container.process.poll() is not None

        await container.until(over, "the container to end itself")
        assert container.process.returncode == 0
        assert "ending, to be made anew" in container.log

    async with node.discover() as discover, node.validate("driver") as driver:
        await node.whole(discover)
        await node.says(driver, driver="ok")
        # By the legacy runtime: the container sees a copy of the driver's files, and the driver's check tells.
        async with node.validate("container", "--proc", str(copy)) as container:
            await node.says(container, container="ok")
            at.instance(1, 12, 13)
            await ended(container)
        assert (await node.told())["driver.access"] == "12,13"
        mark = (await node.told())["container.ended_for"]
        # In vain: it stays for them, and ends for others.
        async with node.validate("container", "--proc", str(copy)) as container:
            await looks(container, 5)
            assert container.process.poll() is None
            assert (await node.told())["container.ended_for"] == mark
            at.instance(2, 21, 22)
            await ended(container)
        at.device(*(f"nvidia-caps/nvidia-cap{minor}" for minor in (12, 13, 21, 22)))
        at.config.partitioned(at.addresses[0], ("1g.10gb", 0), ("1g.10gb", 1)).write(at.nvml)
        async with node.validate("container") as container:

            async def divided() -> bool:
                told = {card["address"]: card.get("mig_instances") for card in await node.nvml()}
                return told.get(at.addresses[0]) == "1g.10gb=2" and "container.ended_for" not in await node.told()

            await container.until(divided, "the instances, and nothing lacking")
            await looks(container, 3)
            assert container.process.poll() is None
