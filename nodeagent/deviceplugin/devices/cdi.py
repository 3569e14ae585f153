"""CDI names of the node's specifications, and whether its container runtime applies them. Pure.

Specifications: github.com/cncf-tags/container-device-interface, SPEC.md. Runtimes: containerd applies what
a device plugin gives since 1.7 where `enable_cdi` is on, which is the default since 2.0; CRI-O since 1.23.
A drop-in counts where containerd reads it: where a file that it reads imports it, or by default (`USUAL_IMPORTS`,
since 2.2). One that is taken for read in error would leave containers without their cards.
"""

from __future__ import annotations

import posixpath
import re
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Any

from nodeagent.host.runtimes import CONFIGURATIONS, CONTAINERD
from nodeagent.host.yamltext import NotYAMLError, parse

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

MAINS = tuple(path for path in CONFIGURATIONS if path.endswith("containerd/config.toml"))
USUAL_IMPORTS = ["/etc/containerd/conf.d/*.toml"]
_RUNTIME = re.compile(r"(?P<name>[a-z-]+)://v?(?P<major>[0-9]{1,4})\.(?P<minor>[0-9]{1,4})")
_ALWAYS = {"containerd": (2, 0), "cri-o": (1, 23)}
_CONFIGURED = {"containerd": (1, 7)}
_NEVER = (10000, 0)


def names(text: str) -> frozenset[str]:
    """The qualified names of a specification's devices, as `nvidia.com/gpu=0`; none where it cannot be read."""
    try:
        found = parse(text)
        devices = found["devices"]
        return frozenset(f"{found['kind']}={device['name']}" for device in devices)
    except (NotYAMLError, TypeError, KeyError):
        return frozenset()


def applied(runtime: str, files: Mapping[str, Mapping[str, Any]]) -> bool:
    """Whether the runtime applies CDI names.

    `runtime`: as a Node tells it (`containerd://1.7.35`); `files`: what the host's configurations of runtimes say,
    by path in the order in which they are read.
    """
    told = _RUNTIME.match(runtime)
    if told is None:
        return False
    name, version = told["name"], (int(told["major"]), int(told["minor"]))
    if version >= _ALWAYS.get(name, _NEVER):
        return name != "containerd" or _switches(version, files) != {False}
    return version >= _CONFIGURED.get(name, _NEVER) and True in _switches(version, files)


def _switches(version: tuple[int, int], files: Mapping[str, Mapping[str, Any]]) -> set[bool]:
    """What containerd's files say of `enable_cdi` in the end, wherever their version keeps that.

    What is said last counts. Before 2.0 a file that has a plugin's section puts it in the place of the one before.
    """
    said: dict[str, bool] = {}
    for told in _chain(version, files):
        plugins = told.get("plugins")
        for section, values in plugins.items() if isinstance(plugins, dict) else ():
            place = section if version < (2, 0) else ""
            word = _word(values)
            if version < (2, 0):
                said.pop(place, None)
            if word is not None:
                said[place] = word
    return set(said.values())


def _chain(version: tuple[int, int], files: Mapping[str, Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    """The files that containerd reads, in its order: its own, and what they import."""
    for main in MAINS:
        waiting, done = [main], set[str]()
        while waiting:
            path = waiting.pop(0)
            if path not in done:
                done.add(path)
                told = files.get(path, {})
                yield told
                usual = USUAL_IMPORTS if path == CONTAINERD and version >= (2, 2) else []
                waiting += _imported(path, told.get("imports", usual), files)


def _imported(path: str, imports: Any, files: Iterable[str]) -> list[str]:
    """Which of the files another one imports; a pattern that is no absolute one begins at that file's folder."""
    patterns = [each for each in imports if isinstance(each, str)] if isinstance(imports, list) else []
    whole = [posixpath.normpath(posixpath.join("/", posixpath.dirname(path), each)) for each in patterns]
    return [file for pattern in whole for file in files if fnmatchcase(f"/{file}", pattern)]


def _word(section: Any) -> bool | None:
    """The switch, anywhere in a section."""
    waiting = [section]
    while waiting:  # a file may be deeper than Python calls
        value = waiting.pop(0)
        if not isinstance(value, dict):
            continue
        if isinstance(own := value.get("enable_cdi"), bool):
            return own
        waiting += value.values()
    return None
