"""Scenarios of what stands beside drivers: container runtimes that wait, GPU Operator that goes, daemons of MPS."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.api.runtime_state import AWAITING_TURN, READY, REVERTED
from reliability.faults.driver_actors import CARDS
from reliability.faults.scenarios import FIRST, SECOND
from reliability.faults.scenarios_driver import DRIVER, WANTED

if TYPE_CHECKING:
    from reliability.faults.stack_actors import StackActors

IDLE, BUSY = "bare-1", "bare-2"
WAITS, REVERTS, RESTARTED = "runtime-waits", "runtime-reverted", "runtime-restarted"
"""What a node's runtime says, as a fault of the simulation."""
SMALL: Final = "0000:3b:00.0"
"""The card of a node that cannot be divided."""
CLIENTS: Final[dict[str, Any]] = {"mode": "MPS", "mps": {"clients": 2}}


async def toolkit_change(actors: StackActors) -> None:
    """Nodes wait for their turn while the settings change, and one is reverted: each has its turn in the end."""
    await actors.breaks(FIRST, WAITS)
    await actors.turns(FIRST)
    await actors.breaks(SECOND, WAITS)
    await actors.runtime(SECOND, AWAITING_TURN)
    await actors.turns(FIRST)
    await actors.toolkit(runtimeConfig="Never")
    await actors.toolkit_runs("--runtime-config=Never")
    await actors.turns(FIRST)
    await actors.breaks(FIRST, REVERTS)
    await actors.runtime(FIRST, REVERTED)
    await actors.turns(FIRST)
    await actors.breaks(FIRST, RESTARTED)
    await actors.runtime(FIRST, READY)
    await actors.turns(SECOND)
    await actors.breaks(FIRST, WAITS)
    await actors.runtime(FIRST, AWAITING_TURN)
    await actors.toolkit(runtimeRestarts=2)
    await actors.toolkit_runs()
    await actors.turns(FIRST, SECOND)
    for node in (FIRST, SECOND):
        await actors.breaks(node, RESTARTED)
        await actors.runtime(node, READY)
    await actors.turns()
    for node in (FIRST, SECOND):
        await actors.breaks(node, None)
        await actors.runtime(node, None)
    await actors.ready(FIRST, SECOND)


async def takeover(actors: StackActors) -> None:
    """GPU Operator's nodes go over: the idle one at once, the other one when its pod has ended."""
    for node in (IDLE, BUSY):
        await actors.join_bare(node)
        await actors.recorded(node, CARDS)
    await actors.operator()
    for node in (IDLE, BUSY):
        await actors.operator_serves(node, WANTED)
        await actors.theirs(node, CARDS)
    await actors.foreign_pod("train", BUSY)
    await actors.driver(DRIVER, WANTED, rollout={"paused": True})
    for node in (IDLE, BUSY):
        await actors.works(node, "Blocked", "ManagedElsewhere")
        await actors.ready(node)
    cards = {"include": {"products": ["NVIDIA L40S"]}}
    await actors.pool("taken", deviceSelector=cards, deviceAssignment={"requireAnnotation": False})
    for card in (*actors.cards(IDLE), *actors.cards(BUSY)):
        await actors.in_pool(card, "taken")
        await actors.configured(card, "ManagedElsewhere")

    await actors.takes_over("begin", "-f", actors.saved)
    await actors.adopted(IDLE, BUSY)
    await actors.installed(DRIVER, 2)
    await actors.takes_over("nodes")
    await actors.elsewhere(IDLE, "plugin", there=False)
    await actors.publishes(IDLE, CARDS)
    await actors.publishes(BUSY, 0)
    await actors.lives("train")
    await actors.let_go("train")
    await actors.takes_over("nodes")
    await actors.offered("taken", 2 * CARDS)
    await actors.pod("ours", "taken", CARDS, nodeSelector={names.LABEL_HOSTNAME: IDLE})
    await actors.runs("ours")
    await actors.takes_over("finish")
    await actors.unlabelled(IDLE, BUSY)


async def mps(actors: StackActors) -> None:
    """A pool turns to MPS: two pods share its card, whose daemon dies and comes back; and it turns away again."""
    card = actors.cards(FIRST)[0]
    await actors.pool("clients")
    await actors.assign(card, "clients")
    await actors.offered("clients", 1)
    await actors.allocation("clients", **CLIENTS)
    await actors.daemon(card, "Ready")
    await actors.offered("clients", 2)
    await actors.maintenance("clients", "False")
    for pod in ("one", "two"):
        await actors.pod(pod, "clients")
    await actors.runs("one", "two")
    await actors.breaks(FIRST, f"mps-dies:{SMALL}")
    await actors.configured(card, names.MPS_DOWN)
    await actors.daemon(card, "Down")
    await actors.breaks(FIRST, None)
    await actors.daemon(card, "Ready")
    await actors.capacity("clients", 2, 2, 0)
    await actors.allocation("clients", mode="Exclusive")
    await actors.maintenance("clients", "True", "WaitingForPods")
    await actors.daemon(card, "Ready")
    await actors.delete_pods("one", "two")
    await actors.offered("clients", 1)
    await actors.daemon(card, None)
    await actors.maintenance("clients", "False")
