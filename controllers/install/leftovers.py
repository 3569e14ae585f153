"""What the clean-up leaves where it is, and why, as sentences for people. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names, resources
from controllers.domain.node_marks import is_ours as is_our_taint
from controllers.domain.node_marks import taint_marks
from controllers.domain.wording import listed
from controllers.install.observed import MODULE_CONFIGS, WRITERS, is_ours

if TYPE_CHECKING:
    from collections.abc import Iterator

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.meta import KubeObject
    from controllers.install.observed import Observed, Report

AGENTS = (names.MANAGER_DISCOVER, names.MANAGER_VALIDATE)


def is_report(feature: Report) -> bool:
    """Whether a NodeFeature is one of our agents' reports, not made by hand."""
    node = feature.metadata.labels.get(names.NFD_NODE_NAME)
    written = any(field.manager in AGENTS for field in feature.metadata.managed_fields)
    return node is not None and feature.name == names.agent_feature(node) and written


def keeps_settings(seen: Observed) -> str | None:
    """Why the definition of ModuleConfig stays, and with it the module's own; None where it goes."""
    definition = next((one for one in seen.of(resources.CRD) if one.name == MODULE_CONFIGS), None)
    if definition is None:
        return None
    if not is_ours(definition):
        return f"CustomResourceDefinition {MODULE_CONFIGS} is not ours: it and ModuleConfig {names.MODULE} stay."
    others = [one.name for one in seen.of(resources.MODULECONFIG) if one.name != names.MODULE]
    if others:
        return f"CustomResourceDefinition {MODULE_CONFIGS} stays: others use it ({listed(others)})."
    return None


def left(seen: Observed, *, keep_records: bool) -> Iterator[str]:
    """What stays and why."""
    for kind in names.RUNTIME_CLASSES:
        if any(one.name == kind and not is_ours(one) for one in seen.of(resources.RUNTIMECLASS)):
            yield f"RuntimeClass {kind} stays: it does not carry label {names.LABEL_MODULE}={names.MODULE}."
    hand_made = [one.name for one in seen.of(resources.NODEFEATURE) if not is_report(one) and _looks_ours(one)]
    if hand_made:
        yield f"NodeFeatures {listed(hand_made)} stay: none of our agents wrote them."
    yield from _nodes(seen)
    pods = [pod.name for pod in seen.of(resources.POD) if _is_program(pod)]
    if pods:
        yield f"Pods {listed(pods)} are on nodes that are not Ready: they go when those are back, or with them."
    yield from _drivers(seen)
    yield from _unbound(seen, keep_records=keep_records)
    if keep_records:
        yield "The custom resources, cards' assignments and nodes' MIG layouts stay, as asked."
    elif (why := keeps_settings(seen)) is not None:
        yield why


def _drivers(seen: Observed) -> Iterator[str]:
    """Drivers under pods are not unloaded: their DaemonSets stay, and the nodes' labels that they go by."""
    if made := [one.name for one in seen.of(resources.DAEMONSET) if names.DRIVER_VARIANT in one.metadata.labels]:
        yield (
            f"DaemonSets {listed(made)} in {names.NAMESPACE} stay, with label {names.DRIVER_VARIANT} of nodes: pods may"
            " compute on the drivers that they brought. Delete them once no pod has a card there."
        )


def _unbound(seen: Observed, *, keep_records: bool) -> Iterator[str]:
    """Pods that ask for cards and have no node: nobody gives them any now."""
    waiting = [pod.key for pod in seen.unbound if not pod.finished and pod.metadata.deletion_timestamp is None]
    if not waiting:
        return
    after = "get them when the module is enabled again" if keep_records else "will not get any: delete them"
    yield f"Pods {listed(waiting)} wait for cards, and {after}."


def list_early_leftovers(seen: Observed) -> list[str]:
    """What stays and can be told only before the clean-up: afterwards nobody remembers it."""
    return [*_divided(seen.of(resources.GPUDEVICE)), *_changed_taints(seen)]


def _divided(cards: tuple[GPUDevice, ...]) -> list[str]:
    """Cards that stay divided by MIG, as sentences: nobody turns them back once the MIG managers are gone.

    Running pods use their instances, and dividing a card anew takes all of them away: that is a person's decision.
    """
    made = []
    for card in cards:
        hardware, told = card.status.hardware, card.status.mig_apply
        if told is None or hardware is None or hardware.mig is None or not hardware.mig.enabled:
            continue
        address = hardware.pci.address
        back = f"nvidia-smi mig -i {address} -dci; nvidia-smi mig -i {address} -dgi; nvidia-smi -i {address} -mig 0"
        made.append(
            f"Card {card.status.inventory_id or card.name} stays in MIG mode, divided as it is. To turn it back once no"
            f" pod uses it, on its node: {back}"
        )
    return made


def _nodes(seen: Observed) -> Iterator[str]:
    """Labels and taints of nodes that others put there."""
    labelled = [node.name for node in seen.of(resources.NODE) if names.LABEL_PRESENT in node.metadata.labels]
    if labelled:
        yield (
            f"Labels {names.PREFIX}… that NFD set by our rule are still on {listed(labelled)}: nfd-master takes them"
            " off, now that the rule is gone."
        )
    if people := [node.name for node in seen.of(resources.NODE) if names.LABEL_ENABLED in node.metadata.labels]:
        yield f"Label {names.LABEL_ENABLED} on {listed(people)} stays: people set it."


def _changed_taints(seen: Observed) -> list[str]:
    """Taints that we put there and somebody has changed since, as sentences: they are somebody else's now."""
    made = []
    for node in seen.of(resources.NODE):
        ours = taint_marks(node)
        made += [
            f"Taint {taint.key}={taint.value}:{taint.effect} of node {node.name} stays: somebody changed its value."
            for taint in node.spec.taints
            if (taint.key, taint.effect) in ours and not is_our_taint(taint, ours)
        ]
    return made


def _looks_ours(feature: KubeObject) -> bool:
    return feature.name == names.agent_feature(feature.metadata.labels.get(names.NFD_NODE_NAME, ""))


def _is_program(pod: KubeObject) -> bool:
    labels = pod.metadata.labels
    operand = is_ours(pod) and names.LABEL_COMPONENT in labels and names.DRIVER_VARIANT not in labels
    return labels.get(names.LABEL_APP) in WRITERS or operand
