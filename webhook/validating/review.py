"""Reviews of all but the creation of pods: bytes in, a typed review out. Pure.

The same three outcomes as for pods: without a uid it is `NotAReview`, what makes no sense is
`Unreadable`, a kind that nobody here validates is `OutOfScope`. So is what is only warned of and cannot be
read: an object that was stored under another version of the CRD can be mended and deleted.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final

from pydantic import Field, ValidationError

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import GPUPool
from controllers.api.kube import Pod, PodSpec
from controllers.api.meta import KubeObject, ObjectMeta, keeping
from controllers.api.record import adapter, record
from controllers.api.resources import GPUDEVICE, GPUPOOL, MODULECONFIG, POD
from controllers.api.settings import ModuleConfig
from webhook.decision.records import AdmissionPodSpec, ReviewRequest
from webhook.decision.review import OutOfScope, Unreadable, envelope, unreadable
from webhook.decision.verdict import INVALID, Denied

DELETE: Final = "DELETE"


@record
class ObjectRequest(ReviewRequest):
    """The `request` of an AdmissionReview, with the object as it was."""

    old_object: Any = None


@record
class Template:
    """A template of pods."""

    spec: AdmissionPodSpec = Field(default_factory=AdmissionPodSpec)


@record
class WorkloadSpec:
    """The part of a workload's spec that says what its pods are."""

    template: Template = Field(default_factory=Template)


@record
class Workload(KubeObject):
    """A Deployment, StatefulSet, DaemonSet or Job."""

    spec: WorkloadSpec = Field(default_factory=WorkloadSpec)

    @property
    def pods(self) -> AdmissionPodSpec:
        """What its pods ask for."""
        return self.spec.template.spec


@record
class CronJobSpec:
    """The part of a CronJob's spec that says what its pods are."""

    job_template: Workload = Field(default_factory=Workload)


@record
class CronJob(KubeObject):
    """A CronJob."""

    spec: CronJobSpec = Field(default_factory=CronJobSpec)

    @property
    def pods(self) -> AdmissionPodSpec:
        """What its pods ask for."""
        return self.spec.job_template.pods


@record
class AdmittedSpec(PodSpec):
    """What a pod asks for, and under which account."""

    service_account_name: str = ""


@record
class AdmittedPod(Pod):
    """A pod that was admitted behind scheduling gates, of which the last one goes."""

    metadata: Annotated[ObjectMeta, keeping(frozenset({names.REQUESTED_BY}))] = Field(default_factory=ObjectMeta)
    spec: AdmittedSpec = Field(default_factory=AdmittedSpec)


@record
class BindingTarget:
    """The node that a pod is bound to."""

    name: str = ""


@record
class Binding(KubeObject):
    """The node that a scheduler binds a pod to; it has the pod's name."""

    target: BindingTarget = Field(default_factory=BindingTarget)


_KINDS: Final[dict[tuple[str, str], tuple[str, type[KubeObject]]]] = {
    (GPUDEVICE.group, GPUDEVICE.plural): (GPUDEVICE.kind, GPUDevice),
    (GPUPOOL.group, GPUPOOL.plural): (GPUPOOL.kind, GPUPool),
    (MODULECONFIG.group, MODULECONFIG.plural): (MODULECONFIG.kind, ModuleConfig),
    ("apps", "deployments"): ("Deployment", Workload),
    ("apps", "statefulsets"): ("StatefulSet", Workload),
    ("apps", "daemonsets"): ("DaemonSet", Workload),
    ("batch", "jobs"): ("Job", Workload),
    ("batch", "cronjobs"): ("CronJob", CronJob),
    ("", "pods"): (POD.kind, AdmittedPod),
    ("", "pods/binding"): ("Binding", Binding),
    ("", "bindings"): ("Binding", Binding),
}
_ONLY: Final = {POD.kind: {"UPDATE"}, "Binding": {"CREATE"}}
KINDS: Final = tuple(dict.fromkeys(kind for kind, _ in _KINDS.values()))


@dataclass(frozen=True, slots=True)
class ObjectReview:
    """Something that somebody creates, changes or deletes."""

    uid: str
    kind: str
    operation: str
    name: str
    namespace: str
    user: str
    new: KubeObject | None
    """None on a deletion."""
    old: KubeObject | None
    """None on a creation, and where it cannot be read."""
    may_refuse: bool
    """Whether this may end in a refusal; elsewhere there are only warnings."""


def parse(body: bytes) -> ObjectReview | Unreadable | OutOfScope:
    """Read a review; raises NotAReview."""
    uid, content = envelope(body)
    try:
        request: ObjectRequest = adapter(ObjectRequest).validate_python(content)
    except ValidationError as error:
        return unreadable(uid, "the request", error)
    resource = "/".join(filter(None, (request.resource.resource, request.sub_resource)))
    found = _KINDS.get((request.resource.group, resource))
    if found is None or request.operation not in _ONLY.get(found[0], {"CREATE", "UPDATE", DELETE}):
        what = "/".join(filter(None, (request.resource.group, resource)))
        return OutOfScope(uid, f"{request.operation or 'no operation'} of {what or 'nothing'}"[:200])
    kind, record_of = found
    if (request.object is None and request.operation != DELETE) or (
        request.old_object is None and request.operation != "CREATE"
    ):
        return Unreadable(uid, Denied(INVALID, f"{request.operation} of a {kind} without the object; send both states"))
    may_refuse = _may_refuse(kind, request.object, request.old_object)
    try:
        new = _read(record_of, request.object)
    except ValidationError as error:
        return unreadable(uid, f"the {kind}", error) if may_refuse else OutOfScope(uid, f"a {kind} that it cannot read")
    try:
        old = _read(record_of, request.old_object)
    except ValidationError:
        old = None
    name = request.name or (new or old or KubeObject()).metadata.name
    user = request.user_info.username
    return ObjectReview(uid, kind, request.operation, name, request.namespace, user, new, old, may_refuse)


def _may_refuse(kind: str, new: Any, old: Any) -> bool:
    """Whether a change is one of those for which the webhooks with failurePolicy Fail, or settings', are called.

    Judged by the JSON, as the API server does it, so that it is known of what cannot be read, too.
    """
    if kind == GPUDEVICE.kind:
        pool = _at(new, "metadata", "annotations", names.ASSIGNMENT)
        return bool(pool) and old is not None and pool != _at(old, "metadata", "annotations", names.ASSIGNMENT)
    if kind == GPUPOOL.kind:
        allocation = _at(new, "spec", "allocation")
        return bool(_at(allocation, "mode") == "MIG" and allocation != _at(old, "spec", "allocation"))
    if kind == POD.kind:
        return bool(_at(old, "spec", "schedulingGates")) and not _at(new, "spec", "schedulingGates")
    return kind in {MODULECONFIG.kind, "Binding"} and new is not None


def _at(obj: Any, *path: str) -> Any:
    """What stands at a place of a JSON object; None where there is nothing."""
    for key in path:
        obj = obj.get(key) if isinstance(obj, dict) else None
    return obj


def _read(record_of: type[KubeObject], obj: Any) -> KubeObject | None:
    """One state of the object; None where there is none."""
    return None if obj is None else adapter(record_of).validate_python(obj)
