"""Cards into the pool, and out of it through the fence (design §6). Pure.

In: the annotation names the pool, the selectors mean the card, the card is fit and its node
ready. `poolRef` is written on the version that was read, so two pools never both take it.

Out, when the annotation is gone or names another pool, or the pool is being deleted: first
the card is off the allowed list (pods on it keep it); then the node's plugin acknowledges by
withdrawing `published`; then, with no allocation, no live reservation and no bound pod that
kubelet has yet to report, `poolRef` is cleared. So nobody who was admitted is overtaken, and
two plugins never offer one card.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from controllers.api import names
from controllers.api.resources import GPUDEVICE, POD
from controllers.domain.lifecycle import facts_of, live, project
from controllers.gpupool.select import SERVED_MODES, claim, is_automatic, selected, unfit
from controllers.runtime.plan import Action, Expect, Merge, Note, ref

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.gpupool.observe import ObservedPool


def assign(seen: ObservedPool, now: float) -> list[Action]:
    """Take the confirmed cards in, and confirm those that the pool takes by itself."""
    pool = seen.pool
    if pool.metadata.deletion_timestamp or pool.spec.allocation.mode not in SERVED_MODES:
        return []
    limit = pool.spec.allocation.max_devices_per_node
    taken = Counter(device.status.node_name for device in seen.members)
    checked: set[str | None] = set()
    actions: list[Action] = []
    for device in seen.free:
        node = device.status.node_name
        if limit is not None and taken[node] >= limit:
            continue
        if not _takes(seen, device):
            continue
        if claim(device) == pool.name:
            if node not in checked:
                actions.append(_nobody_else(seen, node or ""))
                checked.add(node)
            actions += _take(device, pool.name, now)
            taken[node] += 1
        elif claim(device) is None and _is_first_automatic(seen, device):
            actions.append(_confirm(device, pool.name))
            taken[node] += 1
    return actions


def release(seen: ObservedPool, now: float) -> list[Action]:
    """Let go of the cards that nobody wants in the pool any more and nobody uses."""
    actions: list[Action] = []
    for device in seen.members:
        if not is_wanted(seen, device) and is_fenced(seen, device, now):
            status = {
                "poolRef": None,
                "state": project(replace(facts_of(device, now), pooled=False)),
            }
            message = f"The card left pool {seen.pool.name}."
            actions += [
                _still_bound(seen, device),
                _status(device, status),
                Note(ref(GPUDEVICE, device), "Normal", names.EVENT_RELEASED, message),
            ]
    return actions


def is_wanted(seen: ObservedPool, device: GPUDevice) -> bool:
    """Whether a member is to stay: a changed selector never evicts it, only its annotation does."""
    return claim(device) == seen.pool.name and seen.pool.metadata.deletion_timestamp is None


def is_offered(seen: ObservedPool, device: GPUDevice) -> bool:
    """Whether the node's plugin is to offer a member."""
    return is_wanted(seen, device) and unfit(device, seen.facts(device.status.node_name)) is None


def is_fenced(seen: ObservedPool, device: GPUDevice, now: float) -> bool:
    """Whether nobody can be using, or be about to use, a card that is off the allowed list."""
    status = device.status
    if status.published is not None or status.allocations:
        return False
    if any(live(reservation, now) for reservation in status.reservations):
        return False
    return not _unreported(seen, device)


def _takes(seen: ObservedPool, device: GPUDevice) -> bool:
    facts = seen.facts(device.status.node_name)
    return (
        unfit(device, facts) is None
        and device.metadata.deletion_timestamp is None
        # A plugin that has not withdrawn the card yet still offers it for another pool.
        and device.status.published is None
        and not device.status.allocations
        # An object that was deleted by hand comes back empty while its card still serves a pod.
        and device.status.inventory_id not in seen.held
        and selected(seen.pool, device, facts, seen.positions.get(device.name, 0))
    )


def _is_first_automatic(seen: ObservedPool, device: GPUDevice) -> bool:
    """Whether the pool takes the card by itself, and is the oldest that does."""
    if not is_automatic(seen.pool, device, seen.settings):
        return False
    age = (seen.pool.metadata.creation_timestamp, seen.pool.name)
    facts, position = seen.facts(device.status.node_name), seen.positions.get(device.name, 0)
    return not any(
        is_automatic(rival, device, seen.settings) and selected(rival, device, facts, position)
        for rival in seen.rivals
        if (rival.metadata.creation_timestamp, rival.name) < age
        and rival.metadata.deletion_timestamp is None
        and rival.spec.allocation.mode in SERVED_MODES
    )


def _take(device: GPUDevice, pool: str, now: float) -> list[Action]:
    status = {
        "poolRef": {"name": pool, "resource": names.resource_name(pool)},
        "state": project(replace(facts_of(device, now), pooled=True)),
    }
    message = f"The card is in pool {pool}; its node's plugin will offer it as {names.resource_name(pool)}."
    return [_status(device, status), Note(ref(GPUDEVICE, device), "Normal", names.EVENT_ASSIGNED, message)]


def _confirm(device: GPUDevice, pool: str) -> Merge:
    body = {"metadata": {"annotations": {names.ASSIGNMENT: pool}}}
    return Merge(ref(GPUDEVICE, device), device.metadata.resource_version, body)


def _status(device: GPUDevice, status: Mapping[str, object]) -> Merge:
    return Merge(ref(GPUDEVICE, device), device.metadata.resource_version, {"status": status}, "status")


def _unreported(seen: ObservedPool, device: GPUDevice) -> bool:
    """Whether a pod is bound to the card's node whose cards kubelet has not told yet."""
    reported = {a.pod_uid for d in seen.members for a in d.status.allocations}
    return any(
        pod.node == device.status.node_name and not pod.finished and pod.metadata.uid not in reported
        for pod in seen.pods
    )


def _still_bound(seen: ObservedPool, device: GPUDevice) -> Expect:
    """The quorum must know of no other bound pod of the pool than the cache does."""
    node = device.status.node_name or ""
    known = frozenset(pod.key for pod in seen.pods if pod.node == node)
    return _bound(node, known, f"{names.LABEL_POOL}={seen.pool.name}")


def _nobody_else(seen: ObservedPool, node: str) -> Expect:
    """The quorum must know of no other bound pod of any pool than the cache does."""
    return _bound(node, seen.bound.get(node, frozenset()), names.LABEL_POOL)


def _bound(node: str, known: frozenset[str], labels: str) -> Expect:
    return Expect(POD, known, labels=labels, fields=f"spec.nodeName={node},{names.TENANT_PODS}")
