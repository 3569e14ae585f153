"""What every Kubernetes object carries, as far as the module reads it."""

from __future__ import annotations

from dataclasses import field, replace
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from controllers.api.record import Timestamp, record

ConditionStatus = Literal["True", "False", "Unknown"]


def _without_last_applied(annotations: dict[str, str]) -> dict[str, str]:
    """Drop kubectl's copy of the whole object, which a cache of thousands should not hold."""
    annotations.pop("kubectl.kubernetes.io/last-applied-configuration", None)
    return annotations


@record
class OwnerReference:
    """The object that owns this one."""

    kind: str
    name: str
    uid: str
    controller: bool = False


@record
class ObjectMeta:
    """The part of an object's metadata that the module reads."""

    name: str = ""
    namespace: str | None = None
    generate_name: str | None = None
    uid: str = ""
    # Not compared: two objects are equal when what the module reads of them is equal.
    resource_version: str = field(default="", compare=False)
    generation: int = 0
    # Before Kubernetes 1.34 an object that is being created carries null here.
    creation_timestamp: Annotated[str, BeforeValidator(lambda value: value or "")] = ""
    deletion_timestamp: str | None = None
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: Annotated[dict[str, str], AfterValidator(_without_last_applied)] = Field(default_factory=dict)
    finalizers: tuple[str, ...] = ()
    owner_references: tuple[OwnerReference, ...] = ()

    @property
    def daemonset(self) -> str | None:
        """The DaemonSet that owns the object; None where none does."""
        return next((one.name for one in self.owner_references if one.kind == "DaemonSet"), None)


def keeping(annotations: frozenset[str], labels: frozenset[str] | None = None) -> AfterValidator:
    """Of an object's annotations, and labels where they are given, keep these alone.

    Others may be a quarter of a megabyte for each object, in the words of whoever may write it: no cache holds that.
    """

    def kept(meta: ObjectMeta) -> ObjectMeta:
        if meta.annotations.keys() <= annotations and (labels is None or meta.labels.keys() <= labels):
            return meta
        told = {key: value for key, value in meta.annotations.items() if key in annotations}
        marked = {key: value for key, value in meta.labels.items() if labels is None or key in labels}
        return replace(meta, annotations=told, labels=marked)

    return AfterValidator(kept)


@record
class KubeObject:
    """An object of the API server; `metadata` is all that the runtime needs of it."""

    metadata: ObjectMeta = Field(default_factory=ObjectMeta)

    @property
    def name(self) -> str:
        """`metadata.name`."""
        return self.metadata.name

    @property
    def key(self) -> str:
        """`namespace/name`, or the name of a cluster-scoped object."""
        namespace = self.metadata.namespace
        return f"{namespace}/{self.metadata.name}" if namespace else self.metadata.name


@record
class Condition:
    """One observation about an object, in Kubernetes' common form."""

    type: Annotated[str, Field(max_length=316)]
    """CamelCase name of the condition."""
    status: ConditionStatus
    """True, False or Unknown."""
    reason: Annotated[str, Field(max_length=1024, pattern="^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$")]
    """CamelCase word that programs may compare."""
    message: Annotated[str, Field(max_length=32768)] = ""
    """A sentence for people: what was found, what was expected and what to do."""
    last_transition_time: Timestamp = ""
    """When the status last changed."""
    observed_generation: int | None = None
    """The object's generation that this condition speaks of."""
