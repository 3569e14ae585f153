"""A cluster that runs an earlier version of the module, with pods on its cards, is upgraded in place.

The earlier version is brought up from the repository's history, by its own tools; what replaces it is this checkout.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import pytest

from controllers.api import names, resources
from controllers.api.conditions import MANAGED_ELSEWHERE, find
from controllers.api.kube import Pod
from controllers.runtime.errors import AlreadyExists
from sim import controlplane
from sim.cluster import Options, put_module
from sim.controlplane import ControlPlane
from sim.controlplane.state import ProcessState
from sim.module.install import ROOT
from sim.module.processes import MODULES, STAGE
from sim.view import View
from tests.kit import planes
from tests.kit.waiting import PATIENCE, until
from tests.slice.people import People
from tools.programs import Silent

WHY: Final = "two versions of the module are brought up in turn"
pytestmark = [pytest.mark.cluster, pytest.mark.more(WHY), pytest.mark.slow(WHY)]
EARLIER: Final = "2c8dc3d"
"""The first stage of the module, whole: before it had any of what came with stage two."""
SECONDS: Final = 600
"""For the earlier version to come up; its own rule program may have to be built."""
TEAM: Final = "team"
TOOK: Final = "took"


@pytest.fixture
def earlier(tmp_path: Path) -> Iterator[ControlPlane]:
    """A cluster of the earlier version: four simulated nodes, all of the module."""
    tree, folder = tmp_path / "earlier", tmp_path / "run"
    tree.mkdir()
    packed = subprocess.run(["git", "archive", EARLIER], cwd=ROOT, capture_output=True, check=False)
    if packed.returncode:
        missing = f"needs the history with {EARLIER}: git fetch --unshallow"
        # `.ci/run` fetches it; a copy without its repository, or a clone whose origin is out of reach, cannot have it.
        git = ["git", "rev-parse", "--is-shallow-repository"]
        asked = subprocess.run(git, cwd=ROOT, capture_output=True, text=True, check=False)
        assert not os.environ.get("CI") or asked.stdout.strip() != "false", f"in CI this is a failure: {missing}"
        pytest.skip(f"{missing} ({packed.stderr.decode().strip()})")
    subprocess.run(["tar", "-x"], cwd=tree, input=packed.stdout, check=True)
    command = [sys.executable, "-m", "sim", "--dir", str(folder), "up"]
    try:
        env = os.environ | {"PYTHONPATH": str(tree)}
        done = subprocess.run(command, cwd=tree, env=env, capture_output=True, text=True, timeout=SECONDS, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        plane = controlplane.load(folder)
        assert plane is not None
        yield plane
    finally:
        controlplane.down(folder)


async def test_pods_keep_their_cards_and_pools_go_on(earlier: ControlPlane) -> None:
    async with View(earlier.kubeconfig) as view:
        people = People(earlier, view)
        await people.ready_nodes()
        await people.namespace(TEAM)
        cards = sorted(device.name for device in view.devices if device.status.node_name == "gpu-1")[:3]
        await people.filled("before", cards)
        await people.pod(TOOK, TEAM, "before", 2)
        await people.running(TEAM, 1)
        await people.settled("before", (3, 2, 0, 1))
        took, members = chosen(people, TOOK), people.cards("before")
        before, seen = processes(earlier), versions(people, TOOK)

        upgrade = asyncio.create_task(
            asyncio.to_thread(put_module, earlier, planes.tools(earlier), Options(), Silent())
        )
        try:
            await until(lambda: upgrade.done() or ended(before), "the upgrade to end a process of the earlier version")
            # What a workload's controller does too: a webhook that is away meanwhile refuses, and is asked again.
            await people.eventually(lambda: created(people, "meanwhile"))
        finally:
            await upgrade

        replaced(before, processes(earlier))
        await taken_over(people)
        assert chosen(people, TOOK) == took, "same pod, same cards"
        assert [card.name for card in people.cards("before")] == [card.name for card in members]
        await people.running(TEAM, 2)
        await people.settled("before", (3, 3, 0, 0))
        await until(lambda: len(chosen(people, "meanwhile")[2]) == 1, "the pod of meanwhile to have a card of its own")
        # The watch that has shown this pod running has shown before it what became of the other.
        assert set(seen) == {(took[0], "Running", True, took[1])}, "it ran all the time, with its cards"
        await people.pod("beyond", TEAM, "before")  # which the earlier version would have refused
        await people.remove(resources.POD, TOOK, TEAM)
        await people.running(TEAM, 2)
        await people.settled("before", (3, 2, 0, 1))
        for pod in ("meanwhile", "beyond"):
            await people.remove(resources.POD, pod, TEAM)
        await people.settled("before", (3, 0, 0, 3))
        await people.retire("before")


async def created(people: People, name: str) -> None:
    with contextlib.suppress(AlreadyExists):  # by a request whose answer did not come
        await people.pod(name, TEAM, "before")


def chosen(people: People, name: str) -> tuple[str, str, tuple[tuple[str, str], ...]]:
    """Which pod it is, the cards that it was given, and those that kubelet tells it has."""
    (pod,) = (each for each in people.pods(TEAM) if each.name == name)
    return pod.metadata.uid, pod.metadata.annotations[names.DEVICES], held(people, pod)


def held(people: People, pod: Pod) -> tuple[tuple[str, str], ...]:
    return tuple(
        sorted(
            (card.name, taken.pod)
            for card in people.cards("before")
            for taken in card.status.allocations
            if taken.pod == pod.name
        )
    )


def versions(people: People, name: str) -> list[tuple[str, str, bool, str] | None]:
    """Each version of a pod from now on: its uid, phase, whether it is ready, its cards; None when it is deleted."""

    def told(pod: Pod) -> tuple[str, str, bool, str]:
        return pod.metadata.uid, pod.status.phase, pod.ready, pod.metadata.annotations.get(names.DEVICES, "")

    def is_it(pod: Pod | None) -> bool:
        return pod is not None and (pod.metadata.namespace, pod.name) == (TEAM, name)

    seen: list[tuple[str, str, bool, str] | None] = [told(pod) for pod in people.pods(TEAM) if pod.name == name]

    def note(before: Pod | None, after: Pod | None) -> None:
        if is_it(before) or is_it(after):
            seen.append(told(after) if after is not None else None)

    people.view.pods.subscribe(note)
    return seen


def processes(plane: ControlPlane) -> Mapping[str, ProcessState]:
    return controlplane.status(plane.dir).processes


def ended(before: Mapping[str, ProcessState]) -> list[str]:
    """Processes of the earlier version that are there no more."""
    return [name for name, one in before.items() if one.identity is not None and not one.identity.alive]


def replaced(before: Mapping[str, ProcessState], after: Mapping[str, ProcessState]) -> None:
    """Each process of the module is another one, of another description, and those of the cluster went on."""
    assert after.keys() == before.keys()
    ours = {name for name, one in before.items() if one.stage == STAGE}
    assert {"simulated-agent", *MODULES} <= ours
    assert {name for name in before if after[name].digest != before[name].digest} == ours
    assert {name for name in before if after[name].pid != before[name].pid} == ours
    assert set(ended(before)) == ours, "none of the earlier version is left"
    assert all(after[name].phase == "ready" for name in before)


async def taken_over(people: People) -> None:
    """The processes of this version have taken over: nodes say what the earlier version did not know."""

    def silent() -> list[str]:
        inventories = people.view.inventories
        return [one.name for one in inventories if find(one.status.conditions, MANAGED_ELSEWHERE) is None]

    await people.view.until(lambda: not silent(), PATIENCE, lambda: f"without {MANAGED_ELSEWHERE}: {silent()}")
    await people.ready_nodes()
