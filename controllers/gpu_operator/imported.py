"""The import of GPU Operator: all that it was asked for, as objects of this module with remarks. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from controllers.api import names
from controllers.api.conversions import LATEST
from controllers.api.resources import MODULECONFIG
from controllers.gpu_operator import drivers, known, reasons, settings
from controllers.gpu_operator.pools import pools, repeated
from controllers.gpu_operator.remarks import Fields, Remark
from controllers.gpu_operator.source import Source, name_of

if TYPE_CHECKING:
    from collections.abc import Mapping


@dataclass(slots=True)
class Imported:
    """The objects and remarks that an import makes."""

    objects: list[dict[str, Any]] = field(default_factory=list)
    """A ModuleConfig, GPUDrivers and GPUPools, in the order in which they are written."""
    remarks: list[Remark] = field(default_factory=list)
    resources: list[tuple[str, str]] = field(default_factory=list)
    """What pods ask for there, and here."""


def imported(source: Source) -> Imported:
    """The import; raises UsageError where a value is of another type than its field."""
    made = Imported()
    policy = _oldest(source, made)
    made_drivers: list[dict[str, Any]] = []
    chosen: dict[str, Any] = {}
    made_pools: list[dict[str, Any]] = []
    if policy is not None:
        fields = _fields("ClusterPolicy", policy)
        if (driver := drivers.of_policy(fields, name_of(policy), source.config_maps)) is not None:
            made_drivers.append(driver)
        chosen = settings.of_policy(fields)
        found = pools(fields, source)
        made_pools, made.resources = found.objects, found.resources
        rows = reasons.CLUSTER_POLICY if drivers.brings_driver(fields) else reasons.WITHOUT_DRIVER
        made.remarks += fields.rest(known.CLUSTER_POLICY, rows)
    for raw in sorted(source.drivers, key=name_of):
        fields = _fields("NVIDIADriver", raw)
        if (driver := drivers.of_driver(fields, name_of(raw), source.config_maps)) is not None:
            made_drivers.append(driver)
        made.remarks += fields.rest(known.NVIDIA_DRIVER, reasons.NVIDIA_DRIVER)
    for name in source.clusters:
        reason = "cards are given by device plugins of pools, and by no driver of ResourceClaims"
        made.remarks.append(Remark("NoCounterpart", f"GPUCluster {name}", reason))
    if made_drivers:
        chosen["driver"] = {"enabled": True}
    made.objects = [_module_config(chosen), *made_drivers, *made_pools] if chosen else [*made_drivers, *made_pools]
    _add_choices(made)
    return made


def _fields(kind: str, raw: Mapping[str, Any]) -> Fields:
    return Fields(f"{kind} {name_of(raw)}", raw.get("spec") or {})


def _oldest(source: Source, made: Imported) -> Mapping[str, Any] | None:
    """The ClusterPolicy that the operator follows."""
    ordered = sorted(source.policies, key=_age)
    for ignored in ordered[1:]:
        reason = f"the operator follows one ClusterPolicy, the oldest: {name_of(ordered[0])}"
        made.remarks.append(Remark("Refused", f"ClusterPolicy {name_of(ignored)}", reason))
    return ordered[0] if ordered else None


def _age(raw: Mapping[str, Any]) -> tuple[str, str]:
    name = name_of(raw)
    return str(raw["metadata"].get("creationTimestamp")), name


def _module_config(chosen: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "apiVersion": MODULECONFIG.api_version,
        "kind": MODULECONFIG.kind,
        "metadata": {"name": names.MODULE},
        "spec": {"enabled": True, "version": LATEST, "settings": dict(chosen)},
    }


def _add_choices(made: Imported) -> None:
    for former in repeated(made.resources):
        here = sorted({now for there, now in made.resources if there == former})
        reason = f"it is the resource of several pools here: {', '.join(here)}. A pod's author chooses one"
        made.remarks.append(Remark("ToDo", former, reason))
