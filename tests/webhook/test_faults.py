"""Replicas that die, hang or lose their connections: what other pods notice (nothing), what GPU pods are told, and
what is left behind.

Each fault strikes one replica, then the other too, and goes away. Plain pods are created all the time.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import time
from collections import Counter
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from statistics import median
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from controllers.api import names
from controllers.api.resources import MODULECONFIG, POD
from controllers.domain.clock import seconds
from controllers.runtime.errors import ApiError
from tests.kit.pace import Stretch
from tests.kit.waiting import until
from tests.webhook.plane import Api, Front, Plane, Replica, pod

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator
    from pathlib import Path

pytestmark = pytest.mark.cluster
CARDS = 24
PAIRS = 40
UNSEEN = 7.0
"""Seconds until a reservation ends whose pod is never seen."""
HELD_UP = 2.0
"""Seconds: a pod that waits for a webhook which does not answer waits for five."""
ANYWHERE: dict[str, Any] = {"tolerations": [{"operator": "Exists"}]}
CLEAR = re.compile(
    r'failed calling webhook "pods\.gpu\.deckhouse\.io"'
    r"|denied the request: (InsufficientCapacity|ReservationNotWritten|NotReady): "
)
"""How a GPU pod may be refused meanwhile."""


@dataclass
class Pair:
    """Two replicas behind the balancer, each with a way of its own to the API server that can be cut."""

    plane: Plane
    folder: Path
    ways: list[Front]
    accounts: list[Path]
    replicas: list[Replica] = field(default_factory=list)

    def start(self, number: int) -> Replica:
        """Start a replica, or start it anew."""
        log = self.folder / f"{self.plane.unique('webhook')}.log"
        made = Replica(self.plane, log, "--contact-seconds=6", f"--kubeconfig={self.accounts[number]}")
        self.replicas[number : number + 1] = [made]
        return made


@pytest.fixture(scope="module")
def duo(plane: Plane, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    """Both are ready."""
    folder = tmp_path_factory.mktemp("faults")
    server = int(plane.control.server.rpartition(":")[2])
    made = Pair(plane, folder, [Front(), Front()], [])
    for number, way in enumerate(made.ways):
        way.add(server, "")
        config = orjson.loads(plane.account.read_bytes())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{way.port}"
        account = folder / f"{number}.kubeconfig"
        account.write_bytes(orjson.dumps(config))
        made.accounts.append(account)
    for number in range(2):
        made.start(number)
    for replica in made.replicas:
        replica.wait_ready()
    yield made
    for replica in made.replicas:
        if replica.process.poll() is None:
            replica.process.send_signal(signal.SIGCONT)
        replica.end()
    for way in made.ways:
        way.close()


@dataclass(frozen=True)
class Fault:
    """Something that happens to a replica, and its end."""

    strike: Callable[[Pair, int], None]
    heal: Callable[[Pair, int], None]


def _kill(duo: Pair, number: int) -> None:
    duo.replicas[number].process.kill()


def _start_anew(duo: Pair, number: int) -> None:
    duo.replicas[number].end()
    duo.start(number).wait_ready()


def _signal(what: signal.Signals) -> Callable[[Pair, int], None]:
    return lambda duo, number: os.kill(duo.replicas[number].process.pid, what)


def _drop(*, hold: bool) -> Callable[[Pair, int], None]:
    return lambda duo, number: duo.plane.balancer.hold(duo.replicas[number].port, hold=hold)


def _cut_off(*, hold: bool) -> Callable[[Pair, int], None]:
    def cut(duo: Pair, number: int) -> None:
        server = int(duo.plane.control.server.rpartition(":")[2])
        duo.ways[number].hold(server, hold=hold)

    return cut


FAULTS = {
    "killed": Fault(_kill, _start_anew),
    "stopped": Fault(_signal(signal.SIGSTOP), _signal(signal.SIGCONT)),
    "cut off from whoever asks": Fault(_drop(hold=True), _drop(hold=False)),
    "cut off from the API server": Fault(_cut_off(hold=True), _cut_off(hold=False)),
}


@dataclass
class Creations:
    """Pods created one after another, and what became of each."""

    api: Api
    namespace: str
    limits: dict[str, str]
    number: int = 0

    async def one(self) -> tuple[float, str]:
        """Seconds that the API server took, and Created or its refusal."""
        self.number += 1
        body = pod(f"p-{self.number}", self.limits, **ANYWHERE)
        began = time.monotonic()
        try:
            await self.api.make_pod(self.namespace, body)
        except ApiError as error:
            return time.monotonic() - began, error.message
        return time.monotonic() - began, "Created"

    async def several(self, count: int) -> list[tuple[float, str]]:
        return [await self.one() for _ in range(count)]

    @asynccontextmanager
    async def meanwhile(self, at_once: int = 2) -> AsyncIterator[list[str]]:
        """Go on creating; gives what became of them."""
        found: list[str] = []
        over = asyncio.Event()

        async def create() -> None:
            while not over.is_set():
                found.append((await self.one())[1])
                await asyncio.sleep(0.1)

        creating = [asyncio.create_task(create()) for _ in range(at_once)]
        try:
            yield found
        finally:
            over.set()
            await asyncio.gather(*creating)


@pytest.fixture
async def short(api: Api) -> AsyncIterator[None]:
    """Reservations of pods that never appear end soon."""
    body = {"apiVersion": MODULECONFIG.api_version, "kind": MODULECONFIG.kind, "metadata": {"name": names.MODULE}}
    settings = {"admission": {"unseenTTL": f"{UNSEEN:g}s"}}
    await api.create(MODULECONFIG.path(), body | {"spec": {"version": 1, "settings": settings}})
    yield
    await api.client.request("DELETE", MODULECONFIG.path(name=names.MODULE))


@pytest.fixture
async def ground(plane: Plane, api: Api, duo: Pair, short: None) -> AsyncIterator[tuple[Creations, Creations, str]]:
    """Who creates plain pods, who creates GPU pods, and the pool with its cards, which both replicas know."""
    del short
    namespace, pool = await api.namespace(plane.unique("team")), await api.pool(plane.unique("pool"))
    nodes = [plane.unique("node") for _ in range(CARDS // 8)]
    await asyncio.gather(*(api.node(node, pool, 8) for node in nodes))
    plain = Creations(api, await api.namespace(plane.unique("plain")), {"cpu": "1m"})
    gpu = Creations(api, namespace, {names.resource_name(pool): "1"})
    await until(lambda: free(api, namespace, pool), "the replicas to know the pool")
    del duo
    yield plain, gpu, pool
    for node in nodes:
        await api.client.request("DELETE", f"/api/v1/nodes/{node}")


async def free(api: Api, namespace: str, pool: str) -> bool:
    """Whether both replicas see every node empty: connections go to them in turn."""
    body = pod("probe", {names.resource_name(pool): "8"}, **ANYWHERE)
    try:
        for _ in range(4):
            await api.make_pod(namespace, body, {"dryRun": "All"})
    except ApiError:
        return False
    return True


async def reviews(api: Api) -> float:
    """How often the API server has asked the webhook about a pod, answered or not."""
    text = (await api.client.request("GET", "/metrics")).decode()
    name = "apiserver_admission_webhook_request_total{"
    lines = [line for line in text.splitlines() if line.startswith(name) and 'name="pods.gpu.deckhouse.io"' in line]
    return sum(float(line.rpartition(" ")[2]) for line in lines)


async def invariants(api: Api, gpu: Creations, pool: str) -> None:
    """No card twice; whoever has a card reserved exists, or is forgotten in time."""
    reserved = await api.reservations(pool)
    assert max(Counter(entry["card"] for entry in reserved).values(), default=0) <= 1
    pods = (await api.get(POD.path(gpu.namespace)))["items"]
    asked = [item["metadata"]["annotations"][names.REQUEST_ID] for item in pods]
    given = [item["metadata"]["annotations"][names.DEVICES] for item in pods]
    assert len(set(given)) == len(given), "two pods were promised one card"
    assert len(set(asked)) == len(asked)
    for entry in reserved:
        assert seconds(entry["expiresAt"]) <= time.time() + UNSEEN
        assert entry["requestID"] in asked or seconds(entry["expiresAt"]) - seconds(entry["since"]) <= UNSEEN + 0.01


async def cleared(api: Api, namespace: str) -> None:
    await api.client.request("DELETE", POD.path(namespace), query={"gracePeriodSeconds": "0"})

    async def empty() -> bool:
        return not (await api.get(POD.path(namespace)))["items"]

    await until(empty, f"{namespace} to be empty")


@pytest.mark.slow("pods are made without the fault, with it and after it")
@pytest.mark.parametrize("name", FAULTS)
async def test_a_fault_is_noticed_by_nobody_else_and_leaves_nothing(
    api: Api, duo: Pair, ground: tuple[Creations, Creations, str], name: str
) -> None:
    plain, gpu, pool = ground
    fault, front = FAULTS[name], duo.plane.balancer
    asked, reviewed = api.tried, await reviews(api)
    with Stretch() as machine:
        before = await plain.several(PAIRS)

        async with gpu.meanwhile() as during_one:
            await asyncio.to_thread(fault.strike, duo, 0)
            one_down = await plain.several(PAIRS // 2)
            port = duo.replicas[0].port
            await until(lambda: front.state(port) != "ready", "the balancer to leave it out")
        await cleared(api, gpu.namespace)
        # The other replica alone serves: from here on nothing is refused.
        await until(lambda: free(api, gpu.namespace, pool), "the cards to be free")
        assert {what for _, what in await gpu.several(6)} == {"Created"}
        await cleared(api, gpu.namespace)

        async with gpu.meanwhile() as during_both:
            await asyncio.to_thread(fault.strike, duo, 1)
            both_down = await plain.several(PAIRS)
            await until(lambda: during_both and during_both[-1] != "Created", "a refusal")
        await asyncio.gather(*(asyncio.to_thread(fault.heal, duo, number) for number in range(2)))
        for replica in duo.replicas:
            port = replica.port
            await until(lambda port=port: front.state(port) == "ready", "the replica to be back")
        after = await plain.several(PAIRS)

    assert {what for _, what in (*before, *one_down, *both_down, *after)} == {"Created"}
    told = [what for what in (*during_one, *during_both) if what != "Created"]
    assert all(CLEAR.search(what) for what in told), [what for what in told if not CLEAR.search(what)]
    await invariants(api, gpu, pool)
    # The API server asks the webhook about the others only: nothing that happens to it can hold up a plain pod.
    assert await reviews(api) - reviewed <= api.tried - asked - plain.number
    await cleared(api, gpu.namespace)
    await until(lambda: free(api, gpu.namespace, pool), "every reservation to be over")

    calm = median(took for took, _ in (*before, *after))
    faulty = [took for took, _ in (*one_down, *both_down)]
    machine.judge(f"a plain pod (half of them; without the fault {calm:.3g} s)", median(faulty), 1.5 * calm + 0.005)
    machine.judge("the slowest plain pod", max(faulty), calm + HELD_UP)
