"""CRI-O's configuration: one drop-in of ours with NVIDIA's handlers. Pure.

CRI-O merges its files table by table, and a handler is a table of its own: nobody's file is edited, and nothing is read
but what its own program prints of them all.
"""

from __future__ import annotations

from dataclasses import dataclass
from posixpath import dirname, join
from typing import TYPE_CHECKING, Any, Final

from nodeagent.toolkit.config import marks
from nodeagent.toolkit.config.effective import Handler, table
from nodeagent.toolkit.config.plan import FOLDER, HANDLERS, Change, Plan, Refused, somebody_elses

if TYPE_CHECKING:
    from collections.abc import Mapping

MAIN: Final = "/etc/crio/crio.conf"
DROP_INS: Final = "/etc/crio/crio.conf.d"
DROP_IN: Final = "90-gpu-control-plane.conf"
OCI: Final = "oci"
_PLACE: Final = ("crio", "runtime", "runtimes")
# What a handler shares with the node's own: how its containers are watched, and what a pod may ask for.
SHARED: Final = (
    *("monitor_path", "monitor_cgroup", "monitor_env", "monitor_exec_cgroup"),
    *("allowed_annotations", "privileged_without_host_devices", "container_min_memory", "no_sync_log"),
)


@dataclass(frozen=True, slots=True)
class CrioNode:
    """What is known of a node whose runtime is CRI-O."""

    release: tuple[int, int]
    """CRI-O's own version: major, minor."""
    files: Mapping[str, bytes]
    """Our drop-in by its path, where it is there."""
    effective: Mapping[str, Any]
    """What CRI-O makes of its files, parsed."""
    place: str = f"{DROP_INS}/{DROP_IN}"
    """Where our drop-in is to be."""


def runtimes(parsed: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The handlers of a parsed configuration by their names."""
    found: Mapping[str, Any] = parsed
    for key in _PLACE:
        found = table(found, key)
    return {name: table(found, name) for name in found}


def programs(parsed: Mapping[str, Any]) -> dict[str, str]:
    """The program of each handler by its name."""
    return {name: str(told.get("runtime_path", "")) for name, told in runtimes(parsed).items()}


def install(node: CrioNode) -> Plan:
    """Make the handlers known; raises Refused."""
    if foreign := somebody_elses(programs(node.effective), "a program of its name"):
        return Plan(remove(node).changes, foreign=foreign)
    handlers = tuple(_alike(node.effective, name, join(FOLDER, file)) for name, file in HANDLERS.items())
    text = marks.owned([((*_PLACE, one.name), _table(one)) for one in handlers]).encode()
    had = node.files.get(node.place)
    return Plan((Change(node.place, had, text),) if had != text else (), handlers)


def remove(node: CrioNode) -> Plan:
    """Take our drop-in away; raises Refused where the node's default handler is one of ours."""
    default = str(table(table(node.effective, "crio"), "runtime").get("default_runtime", ""))
    had = node.files.get(node.place)
    if had is None:
        return Plan()
    if default in HANDLERS and dirname(programs(node.effective).get(default, "")) == FOLDER:
        raise Refused(f"{default} is CRI-O's default_runtime, and would be gone: name another, such as crun")
    return Plan((Change(node.place, had, None),))


def is_ours(path: tuple[str, ...]) -> bool:
    """Whether a value of a configuration is one that we may change."""
    return path[: len(_PLACE)] == _PLACE and len(path) > len(_PLACE) and path[len(_PLACE)] in HANDLERS


def _table(handler: Handler) -> dict[str, Any]:
    return {"runtime_path": handler.program, "runtime_type": handler.kind, **handler.settings}


def _alike(parsed: Mapping[str, Any], name: str, program: str) -> Handler:
    """A handler that is as the node's default one is, but for its program; as another one, where that is ours."""
    known = runtimes(parsed)
    default = str(table(table(parsed, "crio"), "runtime").get("default_runtime", ""))
    own = next((known[one] for one in (default, "crun", "runc") if one in known and one not in HANDLERS), {})
    if own.get("runtime_type") not in (None, "", OCI):
        own = {}  # of a runtime in a virtual machine nothing is shared
    return Handler(name, program, OCI, {key: own[key] for key in SHARED if own.get(key)})
