"""Objects of a file or an import onto the cluster: what would change is asked before anything is written."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from controllers.api import resources
from controllers.api.conversions import LATEST, convert
from controllers.api.meta import KubeObject
from controllers.domain.wording import listed
from controllers.explain.backup import resource_of
from controllers.explain.faults import describe_fault
from controllers.explain.writes import Difference, between, extended, replaced
from controllers.runtime.errors import NotFound, RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from controllers.explain.writes import Action
    from kubectl_gpu.cluster import Cluster

EXTENDED: Final = frozenset({resources.MODULECONFIG.kind})
"""Kinds to which an import adds what is not set, beside what people set."""
_DONE: Final[Mapping[str, tuple[str, str]]] = {
    "Create": ("created", "would be created"),
    "Extend": ("extended", "would be extended"),
    "Change": ("replaced", "would be replaced"),
}


@dataclass(slots=True)
class Write:
    """One object, and what is to be done about it."""

    kind: str
    name: str
    body: dict[str, Any]
    """What is written."""
    action: Action = "Same"
    differing: list[Difference] = field(default_factory=list)
    reason: str = ""
    """Why it is not written although it should be; empty where it may be."""

    @property
    def is_one(self) -> bool:
        """Whether something is written."""
        return not self.reason and self.action != "Same"

    def spelled(self, *, written: bool) -> str:
        """The write in one line."""
        which = f"{self.kind} {self.name}"
        where = f" ({listed(one.path for one in self.differing)})" if self.differing else ""
        if self.reason:
            return f"{which}: left{where}: {self.reason}"
        return f"{which}: as it is" if self.action == "Same" else f"{which}: {_DONE[self.action][not written]}{where}"


OVERWRITE: Final = "it is there and differs; --overwrite replaces it"


async def planned(
    cluster: Cluster, objects: Iterable[dict[str, Any]], *, overwrite: bool, extend: bool = False
) -> list[Write]:
    """What each object would change, as the API server says it of a dry run.

    `extend`: settings that nobody made are added to those of people, and only theirs count as overwritten.
    """
    return [await _planned(cluster, wanted, overwrite=overwrite, extend=extend) for wanted in objects]


async def _planned(cluster: Cluster, wanted: dict[str, Any], *, overwrite: bool, extend: bool) -> Write:
    write = Write(wanted["kind"], wanted["metadata"]["name"], wanted)
    resource = resource_of(wanted)
    assert resource is not None  # noqa: S101 - both callers make such objects alone
    adds = extend and write.kind in EXTENDED
    try:
        there = await _there(cluster, resource, write.name)
        if there is not None:
            write.body = replaced(there, _beside(there, wanted) if adds else wanted)
        then = await cluster.write(resource, write.body, is_new=there is None, dry_run=True)
    except RuntimeFault as error:
        write.reason = describe_fault(error)
        return write
    write.action, write.differing = between(there, then)
    if (write.action == "Change" or (write.action == "Extend" and not adds)) and not overwrite:
        write.reason = OVERWRITE
    return write


async def _there(cluster: Cluster, resource: resources.Resource, name: str) -> dict[str, Any] | None:
    try:
        return (await cluster.get(resource, KubeObject, name)).raw
    except NotFound as error:
        if not error.about:
            raise  # the kind itself is not there
        return None


def _beside(there: Mapping[str, Any], wanted: dict[str, Any]) -> dict[str, Any]:
    """A ModuleConfig that asks for what is wanted beside what it asks for already."""
    spec = there.get("spec") or {}
    before = {**spec, "version": LATEST, "settings": convert(spec.get("settings") or {}, spec.get("version", 1))}
    return {**wanted, "spec": extended(before, wanted["spec"])}


async def carry_out(cluster: Cluster, writes: Iterable[Write]) -> None:
    """Write what is to be written; what is refused now gets its reason."""
    for write in writes:
        resource = resource_of(write.body)
        if not write.is_one or resource is None:
            continue
        try:
            await cluster.write(resource, write.body, is_new=write.action == "Create", dry_run=False)
        except RuntimeFault as error:
            write.reason = describe_fault(error)
