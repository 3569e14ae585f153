"""containerd's parsed configuration: its version's CRI table, and the runtime handlers in it. Pure.

The names of the tables are those of containerd's configuration versions: version 1 calls the plugin `cri`, version 2
`io.containerd.grpc.v1.cri`, and from version 3 on its settings of runtimes are `io.containerd.cri.v1.runtime`
(docs/cri/config.md of containerd 2). `containerd config dump` prints the newest version that the program knows.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    Scalar = str | int | bool | list[str]

Table = dict[str, Any]
OLDEST, NEWEST = 1, 4
_PLUGINS: Final = {1: "cri", 2: "io.containerd.grpc.v1.cri"}
_LATER: Final = "io.containerd.cri.v1.runtime"
BINARY: Final = "BinaryName"
RUNC: Final = "runc"
RUNC_TYPE: Final = "io.containerd.runc.v2"
# What a handler shares with the node's own: how it is isolated, and where its network is. Nothing else is copied, so no
# setting that containerd may learn, or that somebody put beside these, comes with it.
SHARED: Final = (
    *("base_runtime_spec", "cni_conf_dir", "cni_max_conf_num", "container_annotations", "io_type", "pod_annotations"),
    *("privileged_without_host_devices", "privileged_without_host_devices_all_devices_allowed", "sandbox_mode"),
    *("sandboxer", "snapshotter"),
)
SHARED_OPTIONS: Final = (
    *("CriuImagePath", "CriuPath", "CriuWorkPath", "IoGid", "IoUid", "NoNewKeyring", "NoPivotRoot", "Root"),
    *("ShimCgroup", "SystemdCgroup"),
)


@dataclass(frozen=True, slots=True)
class Handler:
    """A handler as a configuration has it: the tables `runtimes.<name>` and its `options`."""

    name: str
    program: str
    """The program that makes containers; an absolute path on the host."""
    kind: str = RUNC_TYPE
    settings: Mapping[str, Scalar] = field(default_factory=dict)
    options: Mapping[str, Scalar] = field(default_factory=dict)

    def table(self) -> Table:
        """The handler as a parsed table."""
        program = {BINARY: self.program} if self.program else {}
        return {"runtime_type": self.kind, **self.settings, "options": {**program, **self.options}}


def version(parsed: Mapping[str, Any]) -> int:
    """The version that a file says, or does not: then it is the first."""
    told = parsed.get("version", OLDEST)
    return told if isinstance(told, int) and told else OLDEST


def plugin(number: int) -> str:
    """The plugin whose settings hold the runtimes, in a file of a version."""
    return _PLUGINS.get(number, _LATER)


def cri(parsed: Mapping[str, Any]) -> Table:
    """The settings of the CRI plugin; empty where there are none."""
    return table(table(parsed, "plugins"), plugin(version(parsed)))


def handlers(parsed: Mapping[str, Any]) -> dict[str, str]:
    """The program of each handler by its name; empty where it names none, as runc's usually does."""
    runtimes = table(table(cri(parsed), "containerd"), "runtimes")
    return {name: str(table(table(runtimes, name), "options").get(BINARY, "")) for name in runtimes}


def cdi(parsed: Mapping[str, Any]) -> bool | None:
    """Whether CDI names are resolved; None where the configuration does not tell, as of a containerd without CDI."""
    told = cri(parsed).get("enable_cdi")
    return told if isinstance(told, bool) else None


def disabled(parsed: Mapping[str, Any]) -> bool:
    """Whether the CRI plugin is switched off, as packages of Docker ship it."""
    told = parsed.get("disabled_plugins")
    off = {name for name in told if isinstance(name, str)} if isinstance(told, list) else set()
    return bool(off & {*_PLUGINS.values(), _LATER})


def alike(parsed: Mapping[str, Any], name: str, program: str) -> Handler:
    """A handler that is as the node's own is, but for its program; raises KeyError where the node has none of runc's.

    `runc` where there is one, for the default may be NVIDIA's already.
    """
    containerd = table(cri(parsed), "containerd")
    runtimes = table(containerd, "runtimes")
    own = table(runtimes, RUNC) or table(runtimes, str(containerd.get("default_runtime_name", "")))
    if own.get("runtime_type") != RUNC_TYPE:
        raise KeyError(RUNC)
    return Handler(
        name=name,
        program=program,
        settings={key: own[key] for key in SHARED if _says(own, key)},
        options={key: own["options"][key] for key in SHARED_OPTIONS if _says(table(own, "options"), key)},
    )


def as_is(parsed: Mapping[str, Any], name: str) -> Handler:
    """A handler as the configuration has it, with all that it says."""
    told = table(table(table(cri(parsed), "containerd"), "runtimes"), name)
    options = table(told, "options")
    return Handler(
        name=name,
        program=str(options.get(BINARY, "")),
        kind=str(told.get("runtime_type", "")),
        settings={
            key: told[key] for key in sorted(told) if key not in {"options", "runtime_type"} and _says(told, key)
        },
        options={key: options[key] for key in sorted(options) if key != BINARY and _says(options, key)},
    )


def _says(told: Mapping[str, Any], key: str) -> bool:
    value = told.get(key)
    if isinstance(value, list) and not all(isinstance(one, str) for one in value):
        return False
    return isinstance(value, str | int | bool | list) and bool(value)


def differences(before: Mapping[str, Any], after: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    """Paths of the values that differ; one that is not told is the same as an empty one, zero and false."""
    for key in sorted({*before, *after}):
        one, other = before.get(key), after.get(key)
        if isinstance(one or {}, dict) and isinstance(other or {}, dict):
            yield from ((key, *rest) for rest in differences(one or {}, other or {}))
        elif (one or other) and one != other:
            yield (key,)


def table(parsed: Mapping[str, Any], key: str) -> Table:
    """A table within another; empty where there is none."""
    found = parsed.get(key)
    return found if isinstance(found, dict) else {}
