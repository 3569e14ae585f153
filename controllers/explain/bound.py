"""A pod that is on its node: which cards it has, and what troubles it. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names, reasons
from controllers.api.conditions import DEGRADED_WORKLOADS
from controllers.api.conditions import find as condition
from controllers.domain.named_devices import named_devices
from controllers.domain.wording import listed
from controllers.explain import card
from controllers.explain.explanation import Finding
from controllers.explain.records import Unreadable
from controllers.explain.words import card_name

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controllers.api.gpudevice import GPUDevice
    from controllers.explain.pod import PodSeen

UNTOLD = frozenset({"ContainerCreating", "PodInitializing"})
"""Reasons to wait that are no trouble."""


def explain_bound(seen: PodSeen, what: str) -> tuple[str, tuple[Finding, ...]]:
    """The verdict and the findings. `what`: what the pod asks for, in words."""
    pod = seen.pod
    cards = () if isinstance(seen.cards, Unreadable) else seen.cards
    has = [device for device in cards if any(a.pod_uid == pod.metadata.uid for a in device.status.allocations)]
    findings = (*_given(seen, has), *_node(seen), *_containers(seen))
    if pod.ready:
        verdict = f"Pod {pod.key} runs on {pod.node} with {what}"
    elif has:
        verdict = f"Pod {pod.key} is on {pod.node}, has {what}, and is not ready yet"
    else:
        verdict = f"Pod {pod.key} is bound to {pod.node}, where kubelet gives it {what}"
    return verdict, findings


def _given(seen: PodSeen, has: list[GPUDevice]) -> Iterator[Finding]:
    """Which cards kubelet gave, beside those that the webhook meant."""
    promised = named_devices(seen.pod)
    if not has:
        text = "Kubelet has not reported its cards yet" + (f"; reserved were {listed(promised)}" if promised else "")
        if not isinstance(seen.cards, Unreadable):
            yield Finding("note", text)
        return
    yield Finding("good", f"Its cards, as kubelet reports: {listed(card_name(device) for device in has)}")
    if promised and set(promised) != {device.status.inventory_id for device in has}:
        text = f"The webhook had reserved {listed(promised)}; kubelet chose others, which count"
        yield Finding("note", text)
    if (near := seen.pod.status.near) is not None and near.status == "False":
        row = reasons.find("pod", names.NEAR, "False", near.reason)
        yield Finding("note", near.message, row.spoken() if row is not None else "")
    for device in has:
        yield from card.find_blockers(device)


def _node(seen: PodSeen) -> Iterator[Finding]:
    pod = seen.pod
    if seen.node is None:
        text = f"Node {pod.node} is not there any more"
        yield Finding("bad", text, "Its controller makes another pod once this one is deleted")
    elif not isinstance(seen.node, Unreadable) and not seen.node.ready:
        do = f"kubectl describe node {pod.node}; the pod's containers may still run there"
        yield Finding("bad", f"Node {pod.node} is not Ready", do)
    if seen.inventory is None or isinstance(seen.inventory, Unreadable):
        return
    worse = condition(seen.inventory.status.conditions, DEGRADED_WORKLOADS)
    if worse is not None and worse.status == "True":
        do = f"kubectl gpu explain node {pod.node}; the pod keeps its cards meanwhile"
        yield Finding("warning", f"Condition {DEGRADED_WORKLOADS} of the node ({worse.reason}): {worse.message}", do)


def _containers(seen: PodSeen) -> Iterator[Finding]:
    """Containers that do not come up, which is no matter of cards."""
    pod, status = seen.pod, seen.pod.status
    for each in (*status.init_container_statuses, *status.container_statuses):
        waits = each.state.waiting
        if waits is None or not waits.reason or waits.reason in UNTOLD:
            continue
        why = f": {waits.message}" if waits.message else ""
        do = f"kubectl describe pod {pod.name} -n {pod.metadata.namespace}"
        if waits.reason == "CrashLoopBackOff":
            do = f"kubectl logs {pod.name} -n {pod.metadata.namespace} -c {each.name} --previous"
        yield Finding("bad", f"Container {each.name} does not start ({waits.reason}){why}", do)
