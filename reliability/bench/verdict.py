"""How long it takes to explain one pod against all cards of a large pool, from what was read to the verdicts.

Pure, without a cluster: reading the objects costs the API server what a `kubectl get` of them costs. The pool is at
rest: nearly all cards are in use, some are promised, faulted or not offered, and no pod of the queue fits into what is
left. The last of the queue is explained, which is as much work as any. Each node runs pods without cards, too. What a
waiting pod's condition says is timed apart, since gpupool-controller counts it. Times are of the processor alone.
"""

from __future__ import annotations

import gc
import time
from dataclasses import dataclass
from random import Random
from statistics import median
from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import GPUPool
from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.api.whole_pod import WholePod
from controllers.domain.clock import stamp
from controllers.explain.pod_verdict import node_verdicts, numbers_of, verdict_of
from controllers.explain.queue_order import computed
from controllers.explain.queue_seen import QueueSeen
from controllers.explain.records import SeenPod
from reliability.bench.rows import Result, Row

if TYPE_CHECKING:
    from pathlib import Path

    from reliability.bench.rows import Sizes
    from tools.programs import Progress

POOL: Final = "training"
CARDS: Final = 8
BESIDE: Final = 12
"""Pods of each node that ask for no card."""
WAITING: Final = 500
TIMES: Final = 15
NOW: Final = 1_800_000_000.0
BUDGET: Final = 200.0
"""Milliseconds for 8,000 cards."""


@dataclass(frozen=True, slots=True)
class Large:
    """A pool with all that was read of it."""

    seen: QueueSeen
    pod: SeenPod
    whole: WholePod
    everyone: tuple[WholePod, ...]


def measure(_: Path, sizes: Sizes, progress: Progress) -> Result:
    """Explain the same pod some times."""
    progress.note(f"verdict: {sizes.verdict_nodes} nodes")
    found = large(sizes.verdict_nodes)
    whole, words = [], []
    gc.collect()
    gc.freeze()  # as our processes do with what they have read: a collection over it would show as work on the pod
    for _time in range(TIMES):
        began = time.process_time()
        queue = computed(found.seen)
        nodes = node_verdicts(found.whole, found.seen.nodes, found.everyone, ())
        verdict = verdict_of(found.seen, queue, found.pod, nodes)
        whole.append(time.process_time() - began)
        began = time.process_time()
        numbers_of(found.seen, queue, found.pod)
        words.append(time.process_time() - began)
    gc.unfreeze()
    cards = dict(verdict.summary.cards) if verdict is not None else {}
    raw: dict[str, Any] = {"cards": cards, "whole": whole, "numbers": words}
    note = f"{sum(cards.values())} cards, {len(nodes)} nodes, {WAITING} pods wait; median of {TIMES}"
    return Result(
        (
            Row(
                "one pod of the queue: a verdict for each card and node",
                1000 * median(whole),
                "ms CPU",
                0,
                at_most=BUDGET,
                note=note,
            ),
            Row(
                "  what its condition says: the same in numbers", 1000 * median(words), "ms CPU", 0, at_most=BUDGET / 2
            ),
        ),
        raw,
    )


def large(nodes: int, seed: int = 1) -> Large:
    """The pool; the same each time."""
    chance = Random(seed)  # noqa: S311 - the same figures each time
    cards = [_card(number, at, chance) for number in range(nodes) for at in range(CARDS)]
    there = {f"n{number}": _node(number) for number in range(nodes)}
    running = [_running(card) for card in cards if card.status.allocations]
    waits = [_waiting(number, units) for number in range(WAITING) for units in [chance.choice((4, 8))]]
    bodies = [*running, *waits]
    pods = tuple(adapter(SeenPod).validate_python(body) for body in bodies)
    beside = [_beside(number, at) for number in range(nodes) for at in range(BESIDE)]
    everyone = tuple(adapter(WholePod).validate_python(body) for body in (*running, *beside))
    pool = adapter(GPUPool).validate_python({"metadata": {"name": POOL}})
    seen = QueueSeen(pool, pods, tuple(cards), there, (), NOW)
    return Large(seen, pods[-1], adapter(WholePod).validate_python(waits[-1]), everyone)


def _card(node: int, at: int, chance: Random) -> GPUDevice:
    name, lot = f"n{node}-0000-{0x10 + at:02x}-00-0", chance.random()
    status: dict[str, Any] = {
        "node_name": f"n{node}",
        "inventory_id": f"n{node}-0000:{0x10 + at:02x}:00.0",
        "pool_ref": {"name": POOL, "resource": names.resource_name(POOL)},
        "offer": "Offered",
        "published": {"pool": POOL, "config_version": "1", "slots": 1},
    }
    taken = {"namespace": f"team-{node % 20}", "pod": f"runs-{node}-{at}"}
    if lot < 0.92:
        status["allocations"] = [{**taken, "pod_uid": _uid(**taken), "container": "main", "slots": 1}]
    elif lot < 0.95:
        ends = {"since": stamp(NOW - 5), "expires_at": stamp(NOW + 100)}
        status["reservations"] = [{**taken, "request_id": f"r-{node}-{at}", "slots": 1, **ends}]
    elif lot < 0.97:
        fault = {"type": "Faulted", "status": "True", "reason": "CriticalXid", "message": ""}
        status["conditions"] = [{**fault, "last_transition_time": stamp(NOW - 60)}]
    elif lot < 0.98:
        status |= {"published": None, "offer": "AwaitingPlugin"}
    metadata = {"name": name, "annotations": {names.ASSIGNMENT: POOL}}
    return adapter(GPUDevice).validate_python({"metadata": metadata, "status": status})


def _node(number: int) -> Node:
    shows = {names.resource_name(POOL): str(CARDS), "cpu": "128", "memory": "1Ti", "pods": "110"}
    metadata = {"name": f"n{number}", "labels": {names.pool_node_label(POOL): "true", "zone": f"z{number % 3}"}}
    status = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": shows}
    return adapter(Node).validate_python({"metadata": metadata, "status": status})


def _asking(units: int) -> dict[str, Any]:
    limits = {names.resource_name(POOL): str(units)}
    return {"name": "main", "resources": {"requests": {"cpu": "4", "memory": "32Gi"} | limits, "limits": limits}}


def _body(name: str, team: str, spec: dict[str, Any], phase: str, **meta: Any) -> dict[str, Any]:
    labels = {names.LABEL_POOL: POOL}
    metadata = {"name": name, "namespace": team, "uid": _uid(team, name), "labels": labels, **meta}
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase, "startTime": stamp(NOW - 3600)}}


def _running(card: GPUDevice) -> dict[str, Any]:
    taken = card.status.allocations[0]
    marks = {names.DEVICES: card.status.inventory_id or "", names.REQUEST_ID: f"r-{taken.pod}"}
    spec = {"nodeName": card.status.node_name, "containers": [_asking(1)]}
    return _body(taken.pod, taken.namespace, spec, "Running", annotations=marks)


def _uid(namespace: str, pod: str) -> str:
    return f"u-{namespace}-{pod}"


def _waiting(number: int, units: int) -> dict[str, Any]:
    spec = {
        "containers": [_asking(units)],
        "schedulingGates": [{"name": names.CARDS_GATE}],
        "nodeSelector": {"zone": f"z{number % 3}"},
    }
    marks = {names.REQUEST_ID: f"r-waits-{number}"}
    created = stamp(NOW - 1000 + number)
    return _body(
        f"waits-{number}", f"team-{number % 20}", spec, "Pending", annotations=marks, creationTimestamp=created
    )


def _beside(node: int, at: int) -> dict[str, Any]:
    container = {"name": "main", "resources": {"requests": {"cpu": "500m", "memory": "512Mi"}}}
    metadata = {"name": f"beside-{node}-{at}", "namespace": "system", "uid": f"b-{node}-{at}"}
    return {
        "metadata": metadata,
        "spec": {"nodeName": f"n{node}", "containers": [container]},
        "status": {"phase": "Running"},
    }
