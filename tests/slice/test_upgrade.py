"""A cluster that runs an earlier version of the module, with pods on its cards, is upgraded in place.

The earlier version is brought up from the repository's history, by its own tools; what replaces it is this checkout.
"""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from controllers.api import names, resources
from controllers.api.conditions import MANAGED_ELSEWHERE, find
from controllers.api.kube import Pod
from sim import controlplane
from sim.cluster import Options, put_module
from sim.controlplane import ControlPlane
from sim.module.install import ROOT
from sim.view import View
from tests.kit import planes
from tests.kit.waiting import PATIENCE
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
        pytest.skip(f"needs the history with {EARLIER}: git fetch --unshallow")
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
        restarts = people.restarts()

        await asyncio.to_thread(put_module, earlier, planes.tools(earlier), Options(), Silent())

        assert people.restarts().keys() == restarts.keys(), "each process of the earlier version was replaced"
        await replaced(people)
        assert chosen(people, TOOK) == took, "same pod, same cards"
        assert [card.name for card in people.cards("before")] == [card.name for card in members]
        await people.settled("before", (3, 2, 0, 1))
        await people.pod("after", TEAM, "before")
        await people.running(TEAM, 2)
        await people.settled("before", (3, 3, 0, 0))
        await people.pod("beyond", TEAM, "before")  # which the earlier version would have refused
        await people.remove(resources.POD, TOOK, TEAM)
        await people.running(TEAM, 2)
        await people.settled("before", (3, 2, 0, 1))
        for pod in ("after", "beyond"):
            await people.remove(resources.POD, pod, TEAM)
        await people.settled("before", (3, 0, 0, 3))
        await people.retire("before")


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


async def replaced(people: People) -> None:
    """The processes of this version have taken over: nodes say what the earlier version did not know."""

    def silent() -> list[str]:
        inventories = people.view.inventories
        return [one.name for one in inventories if find(one.status.conditions, MANAGED_ELSEWHERE) is None]

    await people.view.until(lambda: not silent(), PATIENCE, lambda: f"without {MANAGED_ELSEWHERE}: {silent()}")
    await people.ready_nodes()
