"""The pool's socket: whose it is, and how kubelet is found again."""

from __future__ import annotations

import asyncio
import socket
from typing import TYPE_CHECKING

import pytest

from controllers.runtime.errors import ConfigurationError
from nodeagent.deviceplugin import session
from nodeagent.deviceplugin.devices.allocate import ContainerDevices
from nodeagent.deviceplugin.devices.records import ContainerHolding, Listed
from nodeagent.deviceplugin.kubelet import KubeletUnavailable, Sockets, SocketTaken, holdings, inode
from nodeagent.deviceplugin.service import Service
from nodeagent.deviceplugin.session import Sessions
from tests.kit.waiting import PATIENCE

if TYPE_CHECKING:
    from pathlib import Path

    from tests.nodeagent.deviceplugin.kubelet import Kubelet

RESOURCE = "gpu.deckhouse.io/p"


def service() -> Service:
    return Service(
        lambda available, must, size: [*must, *available][:size], lambda _: ContainerDevices({}), lambda: None
    )


def sessions(kubelet: Kubelet, made: Service) -> Sessions:
    async def before() -> None:
        return None

    decided = asyncio.Event()
    decided.set()
    return Sessions(Sockets(kubelet.plugins, "p"), made, 0.05, before=before, decided=decided)


async def ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


def test_a_dead_programs_socket_is_removed(short: Path) -> None:
    sockets = Sockets(short, "p")
    sockets.claim()
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(sockets.own))
    sockets.claim()
    assert not sockets.own.exists()


def test_a_living_programs_socket_is_left_alone(short: Path) -> None:
    sockets = Sockets(short, "p")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(sockets.own))
        other.listen()
        with pytest.raises(SocketTaken, match="served by another program"):
            sockets.claim()
        assert sockets.own.exists()


def test_what_is_no_socket_is_not_removed(short: Path) -> None:
    sockets = Sockets(short, "p")
    sockets.own.write_text("mine")
    with pytest.raises(ConfigurationError, match="is no socket"):
        sockets.claim()
    with pytest.raises(ConfigurationError, match="too long"):
        Sockets(short / ("x" * 90), "p").claim()


async def test_a_socket_that_another_put_in_its_place_is_left_to_that_one(kubelet: Kubelet) -> None:
    made = service()
    task = asyncio.create_task(sessions(kubelet, made).run())
    own = kubelet.plugins / "p.sock"
    await kubelet.until(lambda: made.streams == 1, "kubelet to listen")
    with socket.socket(socket.AF_UNIX) as other:
        own.unlink()
        other.bind(str(own))
        other.listen()
        theirs = inode(own)
        with pytest.raises(SocketTaken):
            await asyncio.wait_for(task, PATIENCE)
        assert inode(own) == theirs


async def test_a_removed_socket_is_made_again(kubelet: Kubelet) -> None:
    made = service()
    task = asyncio.create_task(sessions(kubelet, made).run())
    await kubelet.until(lambda: made.streams == 1, "kubelet to listen")
    (kubelet.plugins / "p.sock").unlink()
    await kubelet.until(lambda: len(kubelet.registrations) == 2 and made.streams == 1, "another registration")
    await ended(task)
    assert [path.name for path in kubelet.plugins.iterdir()] == ["kubelet.sock"], "and in the end it is gone"


async def test_a_kubelet_that_does_not_listen_is_told_again(kubelet: Kubelet, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "DEAF_SECONDS", 0.3)
    made = service()
    task = asyncio.create_task(sessions(kubelet, made).run())
    await kubelet.until(lambda: made.streams == 1, "kubelet to listen")
    watch = kubelet.endpoints[RESOURCE].watch
    assert watch is not None
    watch.cancel()
    await kubelet.until(lambda: len(kubelet.registrations) >= 2 and made.streams == 1, "another registration")
    await ended(task)


async def test_nothing_is_registered_before_there_is_a_list(kubelet: Kubelet) -> None:
    made, decided = service(), asyncio.Event()

    async def before() -> None:
        assert decided.is_set()

    running = Sessions(Sockets(kubelet.plugins, "p"), made, 0.01, before=before, decided=decided)
    task = asyncio.create_task(running.run())
    await running.serving.wait()
    await made.show((Listed("GPU-1", "GPU-1", "card", "a", numa=3),))
    assert kubelet.registrations == []
    decided.set()
    await kubelet.until(lambda: kubelet.healthy(RESOURCE) == {"GPU-1"}, "the list")
    assert [seen for _, seen in kubelet.endpoints[RESOURCE].lists] == [{"GPU-1": "Healthy"}]
    assert kubelet.listed(RESOURCE)["GPU-1"].topology.nodes[0].ID == 3
    await ended(task)


async def test_a_shown_list_has_been_taken_by_kubelet(kubelet: Kubelet) -> None:
    """Each list is awaited until the stream has it: what falls off may be withdrawn after that."""
    made = service()
    task = asyncio.create_task(sessions(kubelet, made).run())
    await kubelet.until(lambda: made.streams == 1, "kubelet to listen")
    for number in range(20):
        await made.show(tuple(Listed(f"GPU-{n}", "u", "card", "a") for n in range(number % 3)))
        await kubelet.until(lambda number=number: len(kubelet.healthy(RESOURCE)) == number % 3, "the list")
    await ended(task)


async def test_holdings_are_told_apart_by_whose_resource_they_are(kubelet: Kubelet) -> None:
    kubelet.holdings["d", "p", "c"] = (RESOURCE, ("GPU-1",))
    kubelet.holdings["d", "p", "other"] = ("nvidia.com/gpu", ("GPU-2::3", "nvidia0"))
    kubelet.holdings["d", "p", "net"] = ("example.com/nic", ("0000:17:00.1",))
    told = await holdings(kubelet.pod_resources)
    assert told.ours == (ContainerHolding("d", "p", "c", ("GPU-1",), RESOURCE),)
    assert told.foreign == (ContainerHolding("d", "p", "other", ("GPU-2::3",), "nvidia.com/gpu"),)
    await kubelet.stop()
    with pytest.raises(KubeletUnavailable, match="UNAVAILABLE"):
        await holdings(kubelet.pod_resources)
