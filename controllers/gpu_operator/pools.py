"""The GPUPools that stand for how GPU Operator hands cards out. Pure.

There one resource, `nvidia.com/gpu`, is all cards, shared or divided as labels of their nodes say. Here a pool has a
resource of its own. So: a pool for each configuration that a node may have, and one for all other nodes.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from controllers.api import names
from controllers.api.foreign import CARD, MIG
from controllers.api.resources import GPUPOOL
from controllers.domain.request import suffix_for
from controllers.gpu_operator import configurations
from controllers.gpu_operator.configurations import MIG_LABEL, PLUGIN_LABEL
from controllers.gpu_operator.mig_parted import allocation, refusal
from controllers.gpu_operator.reasons import CLUSTER_POLICY
from controllers.gpu_operator.sharing import Sharing

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from controllers.domain.mig import PartedLayout
    from controllers.gpu_operator.remarks import Fields
    from controllers.gpu_operator.source import Source

BASE: Final = "gpu"
"""The pool of the nodes that no label sets apart."""


@dataclass(slots=True)
class Pools:
    """Pools, and what pods ask for in place of what they asked for."""

    objects: list[dict[str, Any]] = field(default_factory=list)
    resources: list[tuple[str, str]] = field(default_factory=list)
    """Resource there, resource here."""

    def add(self, name: str, spec: dict[str, Any], resources: Iterable[tuple[str, str | None]]) -> None:
        """Add a pool. `resources`: names there, each with the MIG profile where the pool has a mixed layout."""
        taken = {made["metadata"]["name"] for made in self.objects}
        name = next(one for one in _spellings(name) if one not in taken)
        # Whoever imports has read nothing yet: no card goes into a pool before somebody says so.
        spec |= {"deviceAssignment": {"requireAnnotation": True}}
        meta = {"name": name}
        self.objects.append({"apiVersion": GPUPOOL.api_version, "kind": GPUPOOL.kind, "metadata": meta, "spec": spec})
        self.resources += [(former, names.resource_name(suffix_for(name, profile))) for former, profile in resources]


def pools(fields: Fields, source: Source) -> Pools:
    """The pools of a ClusterPolicy."""
    made = Pools()
    if not fields.flag("devicePlugin.enabled", usual=True):
        reason = "who offers the cards there is unknown: make pools by hand, after that device plugin is gone"
        fields.remark("ToDo", "devicePlugin.enabled", reason, value=False)
        return made
    if strategy := fields.text("mig.strategy"):
        fields.remark("NoCounterpart", "mig.strategy", CLUSTER_POLICY.reason("mig.strategy", strategy), strategy)
    divided = configurations.divided(fields, source)
    shared = configurations.shared(fields, source)
    default = fields.text("devicePlugin.config.default")
    base = shared.pop(default, Sharing())
    _add_shared(made, fields, BASE, base, _nodes(_without(PLUGIN_LABEL, shared), _without(MIG_LABEL, divided)))
    for key, found in shared.items():
        _add_shared(made, fields, key, found, _nodes(_with(PLUGIN_LABEL, key), _without(MIG_LABEL, divided)))
    for name, entries in divided.items():
        _add_divided(made, fields, name, entries, strategy)
    return made


def _add_shared(made: Pools, fields: Fields, name: str, found: Sharing, selector: dict[str, Any]) -> None:
    path = f"devicePlugin.config.{name}" if name != BASE else "devicePlugin.config.default"
    for key, reason in found.remarks:
        fields.remark("Different", f"{path}.{key}", reason)
    if found.refused:
        fields.remark("Refused", path, f"{found.refused}. No pool is made")
        return
    made.add(name, selector | {"allocation": found.allocation}, [(found.resource, None)])


def _add_divided(made: Pools, fields: Fields, name: str, entries: Sequence[PartedLayout], strategy: str) -> None:
    """Pools for one MIG configuration: one for each way in which it divides cards."""
    for reason in (refusal(one) for one in entries):
        if reason:
            fields.remark("Refused", f"migManager.config.{name}", f"{reason}. No pool is made of these cards")
    ways: list[tuple[dict[str, Any], list[PartedLayout]]] = []
    for one in entries:
        if refusal(one):
            continue
        wanted = allocation(one)
        same = next((group for way, group in ways if way == wanted and group[0].devices == one.devices), None)
        if same is not None:
            same.append(one)
        else:
            ways.append((wanted, [one]))
    for way, group in ways:
        spec = _nodes(_with(MIG_LABEL, name)) | _cards(group)
        suffix = "" if len(ways) == 1 else f"-{_way(group[0])}"
        made.add(f"{name}{suffix}", spec | {"allocation": dict(way)}, _asked(group[0], way, strategy))


def _way(one: PartedLayout) -> str:
    return "-".join(one.profiles) if one.division is not None else "whole"


def _cards(group: Sequence[PartedLayout]) -> dict[str, Any]:
    """The cards of the entries: by model where each names some, by index where they name these."""
    include: dict[str, Any] = {}
    if all(one.device_filter for one in group):
        include["pciIDs"] = sorted({pair for one in group for pair in one.device_filter})
    if (devices := group[0].devices) != "all":
        include["indexes"] = [str(index) for index in devices]
    return {"deviceSelector": {"include": include}} if include else {}


def _asked(one: PartedLayout, way: Mapping[str, Any], strategy: str) -> list[tuple[str, str | None]]:
    """Resources there, each with the profile that a pod asks for here, where it chooses one."""
    if one.division is None:
        return [(CARD, None)]
    is_mixed = "migLayout" in way
    return [
        (CARD if strategy == "single" else f"{MIG}{profile.replace('+', '.')}", profile if is_mixed else None)
        for profile in one.profiles
    ]


def _nodes(*expressions: dict[str, Any] | None) -> dict[str, Any]:
    found = [one for one in expressions if one is not None]
    return {"nodeSelector": {"matchExpressions": found}} if found else {}


def _with(key: str, value: str) -> dict[str, Any]:
    return {"key": key, "operator": "In", "values": [value]}


def _without(key: str, values: Iterable[str]) -> dict[str, Any] | None:
    listed = sorted(values)
    return {"key": key, "operator": "NotIn", "values": listed} if listed else None


def _spellings(name: str) -> Iterable[str]:
    """The name as a pool may have it, then with numbers."""
    legal = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-") or BASE
    legal = legal if legal[0].isalpha() else f"c-{legal}"
    yield legal[: names.POOL_NAME_MAX].rstrip("-")
    for number in range(2, 1000):
        end = f"-{number}"
        yield legal[: names.POOL_NAME_MAX - len(end)].rstrip("-") + end


def repeated(resources: Iterable[tuple[str, str]]) -> list[str]:
    """Resources there that are several here: which of them a pod means, its author knows."""
    return [former for former, count in Counter(former for former, _ in resources).items() if count > 1]
