"""The conditions of ours on pods: all are applied with each, since an apply takes back what it leaves out. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api.record import to_json
from controllers.api.resources import POD
from controllers.runtime.plan import Apply, ref

if TYPE_CHECKING:
    from controllers.api.meta import Condition
    from controllers.api.tenant import TenantPod


def apply_condition(pod: TenantPod, made: Condition) -> Apply:
    """The write of a condition of ours; the pod's other ones stay as they are."""
    others = (each for each in (pod.status.queued, pod.status.near) if each is not None and each.type != made.type)
    return Apply(ref(POD, pod), {"status": {"conditions": [to_json(each) for each in (*others, made)]}}, "status")
