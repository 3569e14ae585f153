"""Pods that use cards of a node: who must leave before its driver is replaced, and who protects itself. Pure.

A pod counts from its binding to its end, also while it uses nothing: whoever has the driver open keeps it loaded. Pods
that no API server can end are left out; the look at who holds the driver open finds them. So are the module's own.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final

from controllers.api import gangs, names
from controllers.api.user_pod import JOBS, MIRROR, NVIDIA, PROTECTIONS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from controllers.api.driver_rollout import Drain
    from controllers.api.gpudevice import GPUDevice
    from controllers.api.user_pod import ResourceClaim, UserPod

FOREIGN: Final = (f"{NVIDIA}gpu", f"{NVIDIA}mig-")
"""How the resources begin under which NVIDIA's device plugin gives cards."""
DRA_DRIVERS: Final = ".nvidia.com"
"""How the names of DRA drivers end that give NVIDIA's cards, or what needs their driver: gpu, compute-domain."""


@dataclass(frozen=True, slots=True)
class User:
    """A pod that uses cards of a node."""

    node: str
    namespace: str
    name: str
    uid: str
    priority: int = 0
    job: str = ""
    """What the pod's mates have in common, in its namespace or by their controller; empty for a pod that has none."""
    owner_kind: str = ""
    """The kind of its controller, such as Job; empty for a bare pod."""
    protected_by: str | None = None
    """The annotation or label by which it says that it is not to be evicted."""
    has_local_data: bool = False
    """Whether it has an emptyDir on disk."""
    is_leaving: bool = False
    """Whether it is being deleted already."""
    is_foreign: bool = False
    """Whether it has its cards by a resource or a claim that is not the module's, which nobody can withdraw."""

    @property
    def key(self) -> str:
        """`namespace/name`."""
        return f"{self.namespace}/{self.name}"


def users_of(
    devices: Iterable[GPUDevice], pods: Iterable[UserPod], claims: Mapping[str, ResourceClaim]
) -> tuple[User, ...]:
    """The pods that use cards of one node, lowest priority first.

    `devices` are the node's cards, `pods` those that are bound to it; `claims` by `namespace/name` are at least theirs.
    """
    cards = tuple(devices)
    ours = {taken.pod_uid for card in cards for taken in card.status.allocations}
    theirs = {f"{taken.namespace}/{taken.pod}" for card in cards for taken in card.status.foreign_allocations}
    found = []
    for pod in pods:
        if pod.finished or pod.node is None or _is_static(pod) or pod.metadata.namespace == names.NAMESPACE:
            continue
        is_foreign = pod.key in theirs or _asks(pod, FOREIGN) or _is_claimed(pod, claims)
        if is_foreign or pod.metadata.uid in ours or _asks(pod, (names.PREFIX,)):
            found.append(_user(pod, pod.node, is_foreign=is_foreign))
    return tuple(sorted(found, key=lambda user: (user.priority, user.key)))


def protection(user: User, drain: Drain) -> str | None:
    """Why a pod is not evicted but waited for, in words; None where it may be."""
    if user.protected_by is not None:
        return user.protected_by
    if user.has_local_data and drain.local_data == "Wait":
        return "data in an emptyDir"
    if not user.owner_kind and drain.bare == "Wait":
        return "nothing makes it anew"
    if user.owner_kind == "DaemonSet":
        return "its DaemonSet would bring it back"
    return None


def _is_static(pod: UserPod) -> bool:
    owners = pod.metadata.owner_references
    return MIRROR in pod.metadata.annotations or any(one.kind == "Node" for one in owners)


def _asks(pod: UserPod, prefixes: tuple[str, ...]) -> bool:
    """Whether a container of the pod asks for a resource that begins so, as long as it runs or before it does."""
    containers = chain(pod.spec.containers, pod.spec.init_containers)
    asked = chain.from_iterable((*one.resources.limits, *one.resources.requests) for one in containers)
    return any(resource.startswith(prefixes) for resource in asked)


def _is_claimed(pod: UserPod, claims: Mapping[str, ResourceClaim]) -> bool:
    """Whether a claim of the pod has a device of NVIDIA's driver, and not to look after it alone."""
    found = (claims.get(key) for key in pod.claims)
    return any(claim is not None and _has_card(claim) for claim in found)


def _has_card(claim: ResourceClaim) -> bool:
    got = claim.status.allocation
    results = got.devices.results if got is not None else ()
    return any(one.driver.endswith(DRA_DRIVERS) and not one.admin_access for one in results)


def _user(pod: UserPod, node: str, *, is_foreign: bool) -> User:
    meta = pod.metadata
    owner = next((one for one in meta.owner_references if one.controller), None)
    marks = meta.labels | meta.annotations
    return User(
        node=node,
        namespace=meta.namespace or "",
        name=meta.name,
        uid=meta.uid,
        priority=pod.spec.priority or 0,
        job=job_of(meta.namespace or "", marks, owner.uid if owner is not None else ""),
        owner_kind=owner.kind if owner is not None else "",
        protected_by=_protected_by((meta.labels, meta.annotations)),
        has_local_data=pod.spec.has_local_data,
        is_leaving=meta.deletion_timestamp is not None,
        is_foreign=is_foreign,
    )


def _protected_by(told: Collection[Mapping[str, str]]) -> str | None:
    return next((key for key, value in PROTECTIONS.items() if any(one.get(key) == value for one in told)), None)


def job_of(namespace: str, marks: Mapping[str, str], owner: str) -> str:
    """What pods of one job have in common: the death of one ends the work of all.

    `marks`: the pod's labels and annotations; `owner`: the uid of its controller. A gang or a job that it names counts
    before its controller, of which a job may have several.
    """
    for keys in gangs.KNOWN:
        values = [marks.get(key, "") for key in keys.name]
        if all(values):
            return f"{namespace}/{keys.name[0]}={'/'.join(values)}"
    named = next((key for key in JOBS if marks.get(key)), None)
    return f"{namespace}/{named}={marks[named]}" if named is not None else owner
