"""Nodes with cards as plain objects, and the writes that record them, by the inventory's own planner. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controllers.api import names as api
from controllers.api.kube import Node
from controllers.api.nodefeature import NodeFeature
from controllers.api.record import adapter
from controllers.api.settings import Settings
from controllers.inventory.record.plan import plan
from controllers.inventory.views import ObservedNode
from controllers.runtime.plan import Apply
from sim.hardware import load
from sim.nodes import discover, nfd, node_manifests
from sim.nodes.machine import machine

if TYPE_CHECKING:
    from controllers.api.resources import Resource

SHAPE = "h100-sxm-8"
CARDS = 8
PREFIX = "bench"


@dataclass(frozen=True, slots=True)
class Member:
    """One node with what is reported of it."""

    name: str
    node: dict[str, Any]
    nfd: dict[str, Any]
    """NFD's own NodeFeature, which the inventory compares with the agent's."""
    report: dict[str, Any]
    """Our agent's."""


@dataclass(frozen=True, slots=True)
class Write:
    """One server-side apply. `status`: of the status, under the uid that the object's own apply returned."""

    resource: Resource
    name: str
    body: dict[str, Any]
    status: bool

    @property
    def path(self) -> str:
        """Its URL path."""
        return self.resource.path(None, self.name, "status" if self.status else None)


def fleet(count: int) -> list[Member]:
    """So many nodes with 8 cards each."""
    catalogue = load()
    members = []
    for made in node_manifests([SHAPE] * count, prefix=PREFIX, catalogue=catalogue):
        name = made["metadata"]["name"]
        under = machine(adapter(Node).validate_python(made), None, catalogue)
        labels = made["metadata"]["labels"] | {api.LABEL_PRESENT: "true"}
        # Without the annotation that gives a node to KWOK: a plain object that nobody touches.
        node = {**made, "metadata": {"name": name, "labels": labels}}
        seen = nfd.features(name, under, catalogue)
        found = discover.features(name, "", under)
        # Discovery's own part is 5 kB. What it does not publish and nobody reads makes the report
        # as large as reports are assumed to be (10 kB), so that the cost of skipping is in the figures.
        found["flags"] = seen["flags"]
        members.append(Member(name, node, nfd.manifest(name, seen), discover.manifest(name, found)))
    return members


def writes(member: Member, now: float) -> list[Write]:
    """What records a node that is new, in the planner's order. `now`: seconds since the epoch."""
    observed = ObservedNode(
        name=member.name,
        node=adapter(Node).validate_python(member.node),
        report=adapter(NodeFeature).validate_python(member.report),
        nfd_reports=(adapter(NodeFeature).validate_python(member.nfd),),
    )
    actions = plan(observed, Settings(), now).writes
    odd = [action for action in actions if not isinstance(action, Apply)]
    if odd:
        raise ValueError(f"the record of a new node is made by applies alone, got {odd[0]}")
    return [_write(action) for action in actions if isinstance(action, Apply)]


def _write(action: Apply) -> Write:
    ref = action.ref
    meta = {**action.body.get("metadata", {}), "name": ref.name}
    kind = {"apiVersion": ref.resource.api_version, "kind": ref.resource.kind}
    return Write(ref.resource, ref.name, {**action.body, **kind, "metadata": meta}, action.subresource == "status")
