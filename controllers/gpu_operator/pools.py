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
from controllers.api.resources import GPUPOOL
from controllers.domain.mig import read_parted
from controllers.domain.request import suffix_for
from controllers.gpu_operator.mig_parted import allocation, refusal
from controllers.gpu_operator.reasons import CLUSTER_POLICY
from controllers.gpu_operator.sharing import CARD, Sharing, sharing
from controllers.gpu_operator.source import BUILT_IN, Source

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from controllers.domain.mig import PartedConfig, PartedLayout
    from controllers.gpu_operator.remarks import Fields

BASE: Final = "gpu"
"""The pool of the nodes that no label sets apart."""
PLUGIN_LABEL: Final = "nvidia.com/device-plugin.config"
MIG_LABEL: Final = "nvidia.com/mig.config"
DISABLED: Final = "all-disabled"
"""mig-parted's name of the configuration in which no card is divided."""
MIG_FILE: Final = "config.yaml"


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
    divided = _divided(fields, source)
    shared = _shared(fields, source)
    default = fields.text("devicePlugin.config.default")
    base = shared.pop(default, Sharing())
    _add_shared(made, fields, BASE, base, _nodes(_without(PLUGIN_LABEL, shared), _without(MIG_LABEL, divided)))
    for key, found in shared.items():
        _add_shared(made, fields, key, found, _nodes(_with(PLUGIN_LABEL, key), _without(MIG_LABEL, divided)))
    for name, entries in divided.items():
        _add_divided(made, fields, name, entries, strategy)
    return made


def _shared(fields: Fields, source: Source) -> dict[str, Sharing]:
    """Sharing by the keys of the ConfigMap, of those that some node may have."""
    path = "devicePlugin.config.name"
    name, default = fields.text(path), fields.text("devicePlugin.config.default")
    if not name:
        return {}
    if name not in source.config_maps:
        fields.remark("ToDo", path, f"ConfigMap {name} could not be read: give it with -f, or make pools by hand")
        return {}
    used = _labels(source, PLUGIN_LABEL)
    data = source.config_maps[name]
    keys = sorted({*(data if used is None else used), default} - {""})
    return {key: sharing(data[key]) if key in data else _missing(name, key) for key in keys}


def _missing(name: str, key: str) -> Sharing:
    """A configuration that nodes are to have, and that is not there: the plugin offers nothing by it either."""
    return Sharing(refused=f"ConfigMap {name} has no configuration {key}")


def _divided(fields: Fields, source: Source) -> dict[str, list[PartedLayout]]:
    """MIG configurations by name, of those that divide cards and that some node may have."""
    if not fields.flag("migManager.enabled", usual=True):
        for word in ("name", "default"):
            fields.take(f"migManager.config.{word}")
        return {}
    path = "migManager.config.name"
    custom, default = fields.text(path), fields.text("migManager.config.default")
    used = _labels(source, MIG_LABEL)
    names_used = {*(used or ()), default} - {"", DISABLED}
    name = custom or BUILT_IN
    if name not in source.config_maps:
        if custom or names_used:
            which = f" with {', '.join(sorted(names_used))}" if names_used else ""
            fields.remark("ToDo", path, f"ConfigMap {name}{which} could not be read: give it with -f")
        return {}
    found = [read_parted(text) for text in _files(source.config_maps[name])]
    if broken := [str(problem) for one in found if not one.is_readable for problem in one.problems]:
        reason = f"ConfigMap {name}: it is no configuration of mig-parted's: {broken[0]}"
        fields.remark("Refused", path, reason, name)
        return {}
    if default not in ("", DISABLED):
        reason = f"nodes without label {MIG_LABEL} get this one there: set the label on them, which pools go by"
        fields.remark("ToDo", "migManager.config.default", reason, default)
    every, divided = _entries(found)
    # The built-in ConfigMap has a configuration for each model that there is.
    wanted = divided & names_used if used is not None or not custom else divided
    for missing in sorted(names_used - every.keys()):
        fields.remark("Refused", path, f"ConfigMap {name} has no configuration {missing}", missing)
    _remark_problems(fields, path, found, wanted)
    return {each: every[each] for each in sorted(wanted)}


def _remark_problems(fields: Fields, path: str, found: Iterable[PartedConfig], wanted: Collection[str]) -> None:
    """Say what of the configurations is not taken over, and of those that are wanted what is left out."""
    for problem in (problem for one in found for problem in one.problems):
        if problem.left_out in wanted:
            reason = f"{problem}. No pool is made of these cards"
            fields.remark("Refused", f"migManager.config.{problem.left_out}", reason)
        elif not problem.left_out:
            fields.remark("Unknown", path, str(problem))


def _entries(found: Iterable[PartedConfig]) -> tuple[dict[str, list[PartedLayout]], set[str]]:
    """The entries by configuration, and the configurations that divide cards, or would with what cannot be read."""
    every: dict[str, list[PartedLayout]] = {}
    divided: set[str] = set()
    for one in found:
        for entry in one.layouts:
            every.setdefault(entry.name, []).append(entry)
            divided |= {entry.name} if entry.mig_enabled else set()
        for problem in one.problems:
            if problem.left_out:
                every.setdefault(problem.left_out, [])
                divided.add(problem.left_out)
    return every, divided


def _files(data: Mapping[str, str]) -> list[str]:
    return [data[MIG_FILE]] if MIG_FILE in data else [*data.values()]


def _labels(source: Source, key: str) -> set[str] | None:
    """Values of a label of nodes; None where the nodes are not known."""
    if source.nodes is None:
        return None
    found = (((node.get("metadata") or {}).get("labels") or {}).get(key) for node in source.nodes)
    return {value for value in found if value}


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
        (CARD if strategy == "single" else f"nvidia.com/mig-{profile.replace('+', '.')}", profile if is_mixed else None)
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
