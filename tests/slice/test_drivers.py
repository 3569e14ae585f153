"""A node with nothing on it but an operating system gets its driver from the module, and serves."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import names, resources
from controllers.runtime.errors import ApiError
from sim import controlplane
from sim.nodes.leaving import remove_node
from sim.nodes.reboot import reboot
from tests.kit.waiting import PATIENCE, at_rest, until
from tests.slice.drivers import BARE, NEWER, WANTED, Drivers
from tests.slice.fleets import cluster, drivers

if TYPE_CHECKING:
    pass

__all__ = ["cluster", "drivers"]
pytestmark = [pytest.mark.cluster]


async def test_a_bare_node_gets_its_driver_and_a_pod_gets_a_card(drivers: Drivers) -> None:
    (node,) = await drivers.nodes()
    await drivers.view.until(
        lambda: (found := drivers.inventory(node)) is not None and bool(found.status.conditions), PATIENCE, drivers.told
    )
    assert drivers.label(node) is None
    await drivers.driver()
    await drivers.in_service([node])

    label = drivers.label(node)
    assert label is not None
    assert await drivers.daemonsets() == [f"gpu-driver-{label}"]
    (pod,) = drivers.pods(node)
    assert pod.ready
    inventory = drivers.inventory(node)
    assert inventory is not None
    assert inventory.status.last_driver_work is not None
    assert inventory.status.last_driver_work.result == "Good"
    assert not drivers.node(node).spec.unschedulable
    assert not drivers.node(node).spec.taints
    await drivers.says("Ready", "True")
    await until(lambda: not drivers.pods(node, checks=True), "the check pod to go")

    people = drivers.people
    await people.namespace("drivers")
    await people.filled("fresh", [min(d.name for d in drivers.view.devices if d.status.node_name == node)])
    await people.pod("one", "drivers", "fresh")
    await people.running("drivers", 1)
    await people.remove(resources.POD, "one", "drivers")
    await people.retire("fresh")


async def test_a_node_that_joins_later_gets_the_good_revision_at_once(drivers: Drivers) -> None:
    await drivers.driver()
    (first,) = await drivers.nodes()
    await drivers.in_service([first])
    others = await drivers.nodes(BARE, BARE, prefix=f"{drivers.name}-late")
    await drivers.in_service(others)
    found = drivers.found()
    assert found is not None
    assert [(one.result, one.version) for one in found.status.revisions] == [("Good", WANTED)]
    assert {drivers.label(node) for node in others} == {drivers.label(first)}


async def test_a_version_that_does_not_exist_stops_nothing_else_and_a_good_one_is_taken_up(drivers: Drivers) -> None:
    await drivers.driver("599.1.1")
    nodes = await drivers.nodes(BARE, BARE)
    for node in nodes:
        assert "599.1.1-ubuntu24.04" in await drivers.works(node, "Blocked", "ImageMissing")
        assert drivers.label(node) is None, "nothing was started"
    await drivers.view.until(lambda: "2 nodes" in drivers.said("Blocked")[2], PATIENCE, drivers.told)
    assert drivers.said("Blocked")[:2] == ("True", "ImageMissing")
    assert not any(drivers.pods(node) for node in nodes)
    await drivers.change(version=NEWER)
    await drivers.in_service(nodes, NEWER)
    await drivers.says("Blocked", "False")


@pytest.mark.parametrize(
    ("shape", "fault", "spec", "reason"),
    [
        (BARE, "driver=header-missing", {"mode": "Compiled"}, "HeadersMissing"),
        (BARE, "driver=disk-full", {"mode": "Compiled"}, "DiskFull"),
        (BARE, "driver=holder-process", {"mode": "Compiled"}, "DevicesHeld"),
        (f"{BARE}+secure-boot", "", {"mode": "Compiled"}, "ModulesUnsigned"),
        ("l40s-4@debian12+bare", "", {"mode": "Compiled"}, "NoImageForSystem"),
        ("l40s-4@rhel9+bare", "", {"mode": "Precompiled", "version": "580"}, "NoImageForSystem"),
        (BARE, "", {"mode": "Precompiled", "version": "610"}, "NoImageForBranch"),
        (BARE, "", {"version": "610"}, "VersionIsBranch"),
        ("l40s-4", "", {"mode": "Compiled"}, "HostDriver"),
        (BARE, "", {"build": {"secretEnv": "nobody"}}, "SecretMissing"),
    ],
)
async def test_what_a_node_cannot_have_is_told_with_its_cure_and_no_other_node_waits(
    drivers: Drivers, shape: str, fault: str, spec: dict[str, object], reason: str
) -> None:
    (node,) = await drivers.nodes(shape, fault=fault)
    well = Drivers(drivers.people, f"{drivers.name}-well")
    (other,) = await well.nodes()
    await drivers.driver(**{"version": WANTED} | spec)  # type: ignore[arg-type]
    await well.driver()

    assert await drivers.works(node, "Blocked", reason)
    assert await drivers.says("Blocked", "True", reason)
    assert drivers.label(node) is None
    await well.in_service([other])


async def test_a_kernel_that_no_image_serves_is_told(drivers: Drivers) -> None:
    from sim.nodes.manifests import create_nodes, node_manifests
    from tests.slice.drivers import TEST

    (made,) = node_manifests([BARE], prefix=drivers.name)
    made["metadata"]["labels"][TEST] = drivers.name
    made["status"]["nodeInfo"]["kernelVersion"] = "6.8.0-71-lowlatency"
    await create_nodes(drivers.client, [made])
    await drivers.driver("580", mode="Precompiled")
    message = await drivers.works(made["metadata"]["name"], "Blocked", "NoImageForKernel")
    assert "6.8.0-71-lowlatency" in message
    assert drivers.label(made["metadata"]["name"]) is None


@pytest.mark.parametrize(
    "spec",
    [
        {"version": "newest"},
        {"version": "580.1.2.3"},
        {"version": "580", "mode": "Compiled"},
        {"image": {"overrides": [{"system": "ubuntu24.04", "image": f"r/driver:{n}"} for n in range(65)]}},
    ],
)
async def test_a_driver_that_can_never_be_is_refused(drivers: Drivers, spec: dict[str, object]) -> None:
    with pytest.raises(ApiError) as error:
        await drivers.driver(**{"version": WANTED} | spec)  # type: ignore[arg-type]
    assert error.value.status in (400, 422)


async def test_overlapping_drivers_are_told_and_the_node_has_the_one_of_higher_priority(drivers: Drivers) -> None:
    low, high = f"{drivers.name}-low", f"{drivers.name}-high"
    await drivers.driver(WANTED, low, priority=1)
    await drivers.driver(NEWER, high, priority=2)
    (node,) = await drivers.nodes()
    await drivers.in_service([node], NEWER)
    assert high in await drivers.says("Overlaps", "True", name=low)


async def test_a_hosts_own_driver_is_left_alone(drivers: Drivers) -> None:
    (node,) = await drivers.nodes("l40s-4")
    await drivers.driver()
    await drivers.view.until(lambda: drivers.view.ready() == 1, PATIENCE, drivers.told)

    def counted() -> int:
        found = drivers.found()
        return found.status.counts.host if found is not None and found.status.counts is not None else 0

    await drivers.view.until(lambda: counted() == 1, PATIENCE, drivers.told)
    assert drivers.label(node) is None
    assert not drivers.pods(node)
    assert drivers.work(node) is None


async def test_an_opted_out_node_is_left_alone(drivers: Drivers) -> None:
    first, second = await drivers.nodes(BARE, BARE)
    body = {"metadata": {"labels": {names.DRIVER_OPT_OUT: "true"}}}
    await drivers.client.merge(resources.NODE, first, body, manager="test")
    await drivers.driver()
    await drivers.in_service([second])
    assert drivers.label(first) is None
    assert drivers.work(first) is None


async def test_a_bad_revision_strikes_one_node_of_a_kind_and_a_better_one_is_taken_up(drivers: Drivers) -> None:
    nodes = await drivers.nodes(BARE, BARE, BARE, fault=f"driver@{WANTED}=insmod-fails")
    await drivers.driver()
    await drivers.view.until(lambda: any(_phase(drivers, node) == "Failed" for node in nodes), PATIENCE, drivers.told)
    message = await drivers.says("Halted", "True")
    assert message
    failed = [node for node in nodes if _phase(drivers, node) == "Failed"]
    assert len(failed) == 1
    assert [node for node in nodes if drivers.label(node) is not None] == failed
    found = drivers.found()
    assert found is not None
    assert found.status.revisions[0].result == "Bad"
    await drivers.change(version=NEWER)
    await drivers.in_service(nodes, NEWER)
    await drivers.says("Halted", "False")


@pytest.mark.parametrize(
    ("shape", "fault", "failed", "reason"),
    [
        (BARE, "cuda802", "FabricMismatch", "CudaError802"),
        (BARE, "cuda803", "CudaFailed", "CudaError803"),
        ("h100-sxm-8@ubuntu24.04+bare", "fabric-mismatch", "FabricMismatch", "FabricIncomplete"),
    ],
)
async def test_a_driver_that_a_nodes_checks_do_not_pass_goes_to_no_other_node_of_its_kind(
    drivers: Drivers, shape: str, fault: str, failed: str, reason: str
) -> None:
    nodes = await drivers.nodes(shape, shape, fault=f"driver@{WANTED}={fault}")
    await drivers.driver()
    await drivers.says("Halted", "True", failed)
    (node,) = (one for one in nodes if drivers.label(one) is not None)
    await drivers.works(node, "Failed", failed)
    await drivers.view.until(lambda: drivers.ready(node) == ("False", reason), PATIENCE, drivers.told)
    await drivers.change(version=NEWER)
    await drivers.in_service(nodes, NEWER)


def _phase(drivers: Drivers, node: str) -> str:
    work = drivers.work(node)
    return work.phase if work is not None else ""


async def test_a_reboot_in_the_middle_is_nobodys_fault(drivers: Drivers) -> None:
    await drivers.driver()
    (node,) = await drivers.nodes(fault="driver=reboot-in-Installing", takes="pull=0,prepare=0,install=4")
    boot = ""

    def rebooted() -> bool:
        nonlocal boot
        found = drivers.view.nodes.get(node)
        boot, before = found.status.node_info.boot_id if found is not None else "", boot
        return bool(before) and boot != before

    await drivers.view.until(rebooted, PATIENCE, drivers.told)
    await drivers.in_service([node])
    last = drivers.inventory(node)
    assert last is not None
    assert last.status.last_driver_work is not None
    assert last.status.last_driver_work.result == "Good"


async def test_a_node_that_is_rebooted_comes_back_by_itself(drivers: Drivers) -> None:
    await drivers.driver()
    (node,) = await drivers.nodes()
    await drivers.in_service([node])
    (before,) = drivers.pods(node)
    await reboot(drivers.client, node)
    await drivers.view.until(lambda: not drivers.serves(node, WANTED), PATIENCE, drivers.told)
    await drivers.in_service([node])
    assert [pod.metadata.uid for pod in drivers.pods(node)] == [before.metadata.uid]


async def test_a_driver_stays_under_pods_when_its_gpudriver_goes(drivers: Drivers) -> None:
    await drivers.driver()
    (node,) = await drivers.nodes()
    await drivers.in_service([node])
    label, pods = drivers.label(node), [pod.metadata.uid for pod in drivers.pods(node)]
    await drivers.client.request("DELETE", resources.GPUDRIVER.path(None, drivers.name))
    await drivers.view.until(lambda: drivers.found() is None, PATIENCE, drivers.told)
    assert drivers.serves(node, WANTED)
    assert (drivers.label(node), [pod.metadata.uid for pod in drivers.pods(node)]) == (label, pods)
    await drivers.driver()
    await drivers.says("Ready", "True")
    assert (drivers.label(node), [pod.metadata.uid for pod in drivers.pods(node)]) == (label, pods)


async def test_the_module_is_disabled_and_the_driver_stays(drivers: Drivers) -> None:
    await drivers.driver()
    (node,) = await drivers.nodes()
    await drivers.in_service([node])
    label, pods = drivers.label(node), [pod.metadata.uid for pod in drivers.pods(node)]
    await drivers.people.settings(driver={"enabled": False})
    try:
        (late,) = await drivers.nodes(prefix=f"{drivers.name}-late")
        await drivers.says("Ready", "False")
        await drivers.view.until(lambda: drivers.inventory(late) is not None, PATIENCE, drivers.told)
        assert (drivers.label(node), [pod.metadata.uid for pod in drivers.pods(node)]) == (label, pods)
        assert drivers.label(late) is None
    finally:
        await drivers.people.settings(driver={"enabled": True})
    await drivers.in_service([node, late])


async def test_settings_are_followed_without_a_restart(drivers: Drivers) -> None:
    restarts = drivers.people.restarts()[names.DRIVER_CONTROLLER]
    given = {"enabled": True, "prefetchParallel": 1, "installParallel": 1, "rebootSentinel": True}
    await drivers.people.settings(driver=given)
    try:
        # A revision of its own: drivers of one content share a DaemonSet, and a former test's may not have gone yet.
        await drivers.driver(rolloutNonce=drivers.name)
        (first,) = await drivers.nodes()
        await drivers.in_service([first])
        (daemonset,) = await drivers.objects(resources.DAEMONSET)
        assert "--reboot-sentinel" in str(daemonset)

        for setting, phase, takes in (
            ("prefetchParallel", "Preflight", "pull=900"),
            ("installParallel", "Installing", "pull=0,look=0,prepare=0,install=900"),
        ):
            nodes = await drivers.nodes(BARE, BARE, BARE, takes=takes, prefix=f"{drivers.name}-{phase.lower()}")

            async def there(nodes: list[str] = nodes, phase: str = phase) -> int:
                return sum((work := drivers.work(node)) is not None and work.phase == phase for node in nodes)

            await until(there, f"a node in {phase}")
            assert await at_rest(there, f"nodes in {phase}") == 1
            given[setting] = len(nodes)
            await drivers.people.settings(driver=given)
            await drivers.view.until(
                lambda nodes=nodes, phase=phase: all(  # type: ignore[misc]
                    (work := drivers.work(node)) is not None and work.phase == phase for node in nodes
                ),
                PATIENCE,
                drivers.told,
            )
            for node in nodes:
                await remove_node(drivers.client, node)
    finally:
        await drivers.people.settings(driver={"enabled": True})
    assert drivers.people.restarts()[names.DRIVER_CONTROLLER] == restarts


async def test_a_controller_that_is_killed_midway_goes_on_from_there(drivers: Drivers) -> None:
    await drivers.driver()
    nodes = await drivers.nodes(BARE, "t4-4@ubuntu22.04+bare", takes="pull=1,prepare=1,install=4")
    people = drivers.people
    for phase in ("Preflight", "Installing"):
        await drivers.works(nodes[0], phase)
        restarts = people.kill(names.DRIVER_CONTROLLER)
        await people.back(names.DRIVER_CONTROLLER, restarts)
    await drivers.in_service(nodes)
    assert all(len(drivers.pods(node)) == 1 for node in nodes)


async def test_nobody_else_sets_the_label_or_deletes_the_drivers_pod(drivers: Drivers) -> None:
    await drivers.driver()
    (node,) = await drivers.nodes()
    await drivers.in_service([node])
    (pod,) = drivers.pods(node)
    body = {"metadata": {"labels": {names.DRIVER_VARIANT: "0000000000-ubuntu24.04-any"}}}
    with pytest.raises(ApiError, match="driver"):
        await drivers.client.merge(resources.NODE, node, body, manager="test")
    with pytest.raises(ApiError, match="driver"):
        await drivers.people.remove(resources.POD, pod.name, names.NAMESPACE)
    assert controlplane.status(drivers.people.plane.dir).up
