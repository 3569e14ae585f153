"""The clean-up before the module goes: what to write next, whom to wait for, what stays and why. Pure.

Any prefix of it is safe, and each step shows in what is there, so that whoever begins again goes on. First the webhook
configurations, so that nothing is refused by a webhook that is gone; then the programs that would make everything anew:
they are deleted, not fenced off by a mark, since only their absence lasts until Helm has removed the rest. Where it
fails, `helm uninstall` runs it again (`helm upgrade` refuses a release that is being uninstalled). Only when their pods
are gone and nobody holds a lease does anything else go: the operands, our marks on nodes, what they read, finalizers,
and then the records. Pods with cards are neither read nor written. Those in a queue lose our scheduling gate, which
nobody would take off any more. Where the records stay, so do the queues, until the module is back.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api import names, resources
from controllers.components.reconcile import deletions, is_leaving
from controllers.domain.mig.configmap import COMPONENT as MIG
from controllers.install import leftovers
from controllers.install.dismantle import forget_conditions, release, release_driver, ungate, unmark
from controllers.install.observed import MODULE_CONFIGS, OURS, WRITERS, is_ours
from controllers.runtime.plan import Action, Delete, ref

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.kube import Pod
    from controllers.api.meta import KubeObject
    from controllers.api.resources import Resource
    from controllers.install.observed import Observed


@dataclass(frozen=True, slots=True)
class Cleanup:
    """What is to be done now."""

    actions: tuple[Action, ...] = ()
    waiting_for: tuple[str, ...] = ()
    """For whom, before it can go on; sentences for people."""
    left: tuple[str, ...] = ()
    """What stays and why, once it is through; sentences for people."""

    @property
    def done(self) -> bool:
        """Whether nothing is left to do."""
        return not self.actions and not self.waiting_for


def plan(seen: Observed, *, keep_records: bool) -> Cleanup:
    """The next step. `keep_records`: the custom resources stay, with what only they remember."""
    for actions, waits in (_stop(seen), _withdraw(seen), _sweep(seen, keep_records=keep_records)):
        if actions or waits:
            return Cleanup(tuple(actions), tuple(waits))
    if not keep_records:
        actions, waits = _forget(seen)
        if actions or waits:
            return Cleanup(tuple(actions), tuple(waits))
    return Cleanup(left=tuple(leftovers.left(seen, keep_records=keep_records)))


def _stop(seen: Observed) -> tuple[list[Action], list[str]]:
    """Whatever refuses pods, and whatever would make anew what is cleaned up."""
    actions: list[Action] = []
    for kind in (resources.MUTATING_WEBHOOK, resources.VALIDATING_WEBHOOK, resources.DEPLOYMENT):
        actions += _deletions(kind, seen.of(kind))
    discover = [one for one in seen.of(resources.DAEMONSET) if one.name == names.DISCOVER_DAEMONSET]
    actions += _deletions(resources.DAEMONSET, discover)
    waits = [f"{name} still holds its lease: somebody runs it outside its Deployment" for name in sorted(seen.leading)]
    programs = [pod for pod in seen.of(resources.POD) if pod.metadata.labels.get(names.LABEL_APP) in WRITERS]
    return actions, waits + _running(seen, programs)


def _withdraw(seen: Observed) -> tuple[list[Action], list[str]]:
    """Programs of ours on the nodes."""
    ours = [one for one in seen.of(resources.DAEMONSET) if _is_operand(one)]
    return deletions((), ours), _running(seen, [pod for pod in seen.of(resources.POD) if _is_operand(pod)])


def _sweep(seen: Observed, *, keep_records: bool) -> tuple[list[Action], list[str]]:
    """Our marks on nodes and on pods that wait, what our programs read, and the finalizers.

    Of one node one write at a time: the next is on the version that the first one made.
    """
    actions: list[Action] = [
        action for node in seen.of(resources.NODE) for action in (unmark(node) or forget_conditions(node))
    ]
    if not keep_records:
        actions += [action for pod in seen.unbound if not is_leaving(pod) for action in ungate(pod)]
    configs = [one for one in seen.of(resources.CONFIGMAP) if _is_operand(one)]
    if keep_records:  # a node's layout is our only memory of the cards that we turned MIG on for
        configs = [one for one in configs if one.metadata.labels[names.LABEL_COMPONENT] != MIG]
    actions += deletions(configs, ())
    actions += _deletions(resources.RUNTIMECLASS, filter(is_ours, seen.of(resources.RUNTIMECLASS)))
    actions += _deletions(resources.NODEFEATURERULE, seen.of(resources.NODEFEATURERULE))
    actions += _deletions(
        resources.NODEFEATURE, [one for one in seen.of(resources.NODEFEATURE) if leftovers.is_report(one)]
    )
    actions += _deletions(resources.SECRET, seen.of(resources.SECRET))
    actions += _deletions(resources.LEASE, seen.of(resources.LEASE))
    actions += [action for pool in seen.of(resources.GPUPOOL) for action in release(pool)]
    actions += [action for driver in seen.of(resources.GPUDRIVER) for action in release_driver(driver)]
    return actions, []


def _forget(seen: Observed) -> tuple[list[Action], list[str]]:
    """The custom resources, and then their definitions."""
    actions: list[Action] = []
    waits = []
    for kind in (resources.GPUPOOL, resources.GPUDRIVER, resources.GPUDEVICE, resources.GPUNODEINVENTORY):
        actions += _deletions(kind, seen.of(kind))
        waits += [
            f"{kind.kind} {one.name} is held by finalizers of others: {', '.join(one.metadata.finalizers)}"
            for one in seen.of(kind)
            if is_leaving(one) and one.metadata.finalizers
        ]
    definitions = {one.name: one for one in seen.of(resources.CRD)}
    ours = [definitions[name] for name in OURS if name in definitions]
    if leftovers.keeps_settings(seen) is None:
        actions += _deletions(resources.MODULECONFIG, seen.of(resources.MODULECONFIG))
        ours += [definitions[name] for name in (MODULE_CONFIGS,) if name in definitions]
    actions += _deletions(resources.CRD, ours)
    waits += [f"{one.name} to be gone" for one in ours if is_leaving(one)]
    return actions, waits


def _deletions(kind: Resource, objects: Iterable[KubeObject]) -> list[Action]:
    return [Delete(ref(kind, one), one.metadata.resource_version) for one in objects if not is_leaving(one)]


def _is_operand(obj: KubeObject) -> bool:
    """Whether a controller of ours made it, not the chart, and it goes: a driver stays, since pods compute on it."""
    labels = obj.metadata.labels
    return is_ours(obj) and names.LABEL_COMPONENT in labels and names.DRIVER_VARIANT not in labels


def _running(seen: Observed, pods: list[Pod]) -> list[str]:
    """Pods that have yet to end. Nobody answers for those of a node that is away: they go when it is back."""
    there = {node.name for node in seen.of(resources.NODE) if node.ready}
    return [f"pod {pod.name} to end" for pod in pods if (pod.node is None or pod.node in there) and not pod.finished]
