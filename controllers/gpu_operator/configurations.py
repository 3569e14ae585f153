"""Configurations that GPU Operator gives nodes by labels: how their cards are shared, and how divided by MIG. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.domain.mig import read_parted
from controllers.gpu_operator.sharing import Sharing, sharing
from controllers.gpu_operator.source import BUILT_IN

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from controllers.domain.mig import PartedConfig, PartedLayout
    from controllers.gpu_operator.remarks import Fields
    from controllers.gpu_operator.source import Source

PLUGIN_LABEL: Final = "nvidia.com/device-plugin.config"
MIG_LABEL: Final = "nvidia.com/mig.config"
DISABLED: Final = "all-disabled"
"""mig-parted's name of the configuration in which no card is divided."""
MIG_FILE: Final = "config.yaml"


def shared(fields: Fields, source: Source) -> dict[str, Sharing]:
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


def divided(fields: Fields, source: Source) -> dict[str, list[PartedLayout]]:
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
    every, dividing = _entries(found)
    # The built-in ConfigMap has a configuration for each model that there is.
    wanted = dividing & names_used if used is not None or not custom else dividing
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
