"""A node that leaves service so that its driver can be replaced: withdrawn, drained, cleared; or given back. Pure.

Nothing of its driver is touched here. Whatever comes between, or lasts too long, the node is given back as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.components import HOLDING_GPU_OPEN
from controllers.api.resources import CONFIGMAP, DAEMONSET, POD
from controllers.domain.clock import begun, stamp
from controllers.domain.usage import holds_driver, is_promised
from controllers.driver.node.draft import event, in_service, make_objects, take_label
from controllers.driver.node.draining import begin_draining, drain, is_drained
from controllers.driver.node.health import baseline
from controllers.driver.node.late import until_late
from controllers.driver.node.look import released
from controllers.driver.node.moves import charged, move
from controllers.driver.node.verdict import PENDING, Verdict
from controllers.runtime.plan import Apply, Delete, Precondition, Ref, ref

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.api.driver_rollout import Drain
    from controllers.api.driver_work import DriverWork
    from controllers.api.kube import Node
    from controllers.driver.node.draft import Draft
    from controllers.driver.records import Pod
    from controllers.driver.views import Named, ObservedNode

CLIENT_GATES: Final = frozenset(names.deploy_label(name) for name in HOLDING_GPU_OPEN)
POOL_LABEL: Final = names.pool_node_label("")
LOOKING: Final = Verdict(reason="DevicesHeld", message="the pod that looks who holds the driver open has not ended")
LOOK_FIRST: Final = 2.0
LOOK_MAX: Final = 15.0
"""Seconds between two looks at who holds the driver open: as many as the node has been cleared for, within these. Pods
of the module that are told to go take a few seconds, and a node should not be out of service for longer than they do.
"""


def leave(draft: Draft, work: DriverWork) -> None:
    """The next step of a node in one of the phases `LEAVING`."""
    if (why := draft.observed.recalled) is not None:
        back = charged(work, draft.now, len(draft.observed.devices))
        # On its way back from a revision that failed it goes on once it may.
        draft.write(move(back, "Queued", draft.now, baseline=None) if work.undoes is not None else None)
        event(draft, names.EVENT_DRIVER_GIVEN_BACK, f"the node keeps its driver for now: {why}", "Normal")
        return
    STEPS[work.phase](draft, work)


def _withdraw(draft: Draft, work: DriverWork) -> None:
    """The module's own plugin gives the cards to nobody any more."""
    seen = draft.observed
    offered = [one for one in seen.devices if one.status.published is not None or is_promised(one, draft.now)]
    if in_service(seen) or offered:
        message = f"{len(offered)} cards are still offered or reserved"
        until_late(draft, work, Verdict(reason="CardsNotWithdrawn", message=message))
    elif is_drained(seen):
        draft.write(move(work, "Clearing", draft.now))
    else:
        begin_draining(draft, work, seen.driver)


def _drain_of(seen: ObservedNode) -> Drain | None:
    return seen.driver.spec.rollout.drain if seen.driver is not None else None


def _drain(draft: Draft, work: DriverWork) -> None:
    """Pods end."""
    drain(draft, work, draft.observed.driver)


def _clear(draft: Draft, work: DriverWork) -> None:
    """The module's own pods let go of the driver; then a pod looks whether anybody else holds it open."""
    seen, wanted = draft.observed, draft.observed.wanted_clearing_check
    if not is_drained(seen):
        _drain_again(draft, work)
        return
    if wanted is None or clients_stay(draft.node):
        message = "the module's own pods have not left the driver"
        if with_daemons := sum(map(holds_driver, seen.devices)):
            message += f"; MPS control daemons run on {with_daemons} of its cards"
        until_late(draft, work, Verdict(reason="ClientsRemain", message=message))
        return
    found = _looked(draft, work, wanted)
    if found.good and work.hand_over is not None:
        _give(draft, work)
    elif found.good:
        _remove(draft, work)
    else:
        until_late(draft, work, found)


def _drain_again(draft: Draft, work: DriverWork) -> None:
    """Somebody came by a way that is not ours: waited for until the limit that there was, and no longer."""
    drain = _drain_of(draft.observed)
    limit = begun(work.out_since or work.since, draft.now) + (drain.wait_for + drain.timeout if drain else 0.0)
    draft.write(move(work, "Draining", draft.now, deadline=stamp(limit)))


def _give(draft: Draft, work: DriverWork) -> None:
    """Nobody of the cluster's, and nothing of the module's, uses the node's driver: it is theirs who want it."""
    draft.write(move(work, "HandedOver", draft.now, reason=None, message=None))
    event(draft, names.EVENT_NODE_HANDED_OVER, f"the node is handed over to {work.hand_over}", "Normal")


def _looked(draft: Draft, work: DriverWork, wanted: Named) -> Verdict:
    """What the pod that looks has found; it is made where it is not there.

    Whoever has the node handed over looks after the processes of its host.
    """
    seen, is_handed_over = draft.observed, work.hand_over is not None
    check = next((pod for pod in seen.checks if pod.name == wanted.name), None)
    if check is not None and (check.metadata.deletion_timestamp or check.metadata.creation_timestamp < work.since):
        if check.metadata.deletion_timestamp is None:
            draft.plan.add(Delete(ref(POD, check)))  # it has looked before the pods left that have come since
        return LOOKING
    if check is None:
        if not is_handed_over:
            make_objects(draft, (CONFIGMAP, seen.objects.configmap))  # which it mounts
        draft.plan.add(Apply(Ref(POD, wanted.name, names.NAMESPACE), wanted.body))
        return LOOKING
    found = released(check, {pod.metadata.uid for pod in seen.driver_pods}, draft.node.name, by_pods=is_handed_over)
    if found == PENDING:
        return LOOKING
    if not found.good:
        _look_again(draft, work, check)
    return found


def clients_stay(node: Node) -> bool:
    """Whether pods of ours that hold the driver open are still let onto the node."""
    there = {key for key, value in node.metadata.labels.items() if value == "true"}
    return bool(there & CLIENT_GATES) or any(key.startswith(POOL_LABEL) for key in there)


def _look_again(draft: Draft, work: DriverWork, check: Pod) -> None:
    """Another pod looks, after a while."""
    made = begun(check.metadata.creation_timestamp, draft.now)
    pause = min(LOOK_MAX, max(LOOK_FIRST, made - begun(work.since, draft.now)))
    left = made + pause - draft.now
    if left > 0:
        draft.plan.requeue_within(left)
    elif check.metadata.deletion_timestamp is None:
        draft.plan.add(Delete(ref(POD, check)))


def _remove(draft: Draft, work: DriverWork) -> None:
    """The point of no return: what comes next is there before the driver goes."""
    objects = draft.observed.objects
    make_objects(draft, (CONFIGMAP, objects.configmap), (DAEMONSET, objects.daemonset))
    known = frozenset(user.key for user in draft.observed.users)
    fields = f"spec.nodeName={draft.node.name},{names.TENANT_PODS},{names.PODS_NOT_ENDED}"
    draft.plan.add(Precondition(POD, known, labels=names.LABEL_POOL, fields=fields))  # a cache of pods may lag
    # What befell a card before this moment is not the next driver's doing.
    draft.write(move(work, "Removing", draft.now, baseline=baseline(draft.observed.devices)))
    take_label(draft)


STEPS: Final[dict[str, Callable[[Draft, DriverWork], None]]] = {
    "Withdrawing": _withdraw,
    "Draining": _drain,
    "Clearing": _clear,
}
