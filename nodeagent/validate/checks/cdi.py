"""CDI specifications: which cards their devices bring. Pure.

The form: github.com/cncf-tags/container-device-interface, SPEC.md. A device's `containerEdits`, and those
of the whole file, have `deviceNodes` (`path`, `hostPath`) and `mounts` (`hostPath`).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from nodeagent.host.yamltext import NotYAMLError, parse
from nodeagent.validate.checks.facts import Specification

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

KIND = "nvidia.com/gpu"
EVERYTHING = "management.nvidia.com/gpu"
"""For containers that get all that there is, as the validator's."""
_NODE = re.compile(r"(?:/.*)?/dev/nvidia([0-9]{1,4})")  # also below the root of a driver in a container
_ACCESS = re.compile(r"(?:/.*)?/dev/nvidia-caps/nvidia-cap([0-9]{1,7})")
_LIBRARY = re.compile(r".*/lib(?:cuda|nvidia-ml)\.so\.([0-9]+\.[0-9.]*[0-9])")


def read(files: Mapping[str, str | None]) -> Specification:
    """The specifications of our kind in files by name; None stands for one that cannot be read."""
    ours: list[str] = []
    broken: list[str] = []
    minors: set[int] = set()
    versions: set[str] = set()
    access: set[int] | None = None
    for name in sorted(files):
        whole = _parsed(files[name])
        if whole is None:
            broken.append(name)
            continue
        devices = whole.get("devices")
        if whole.get("kind") == EVERYTHING:
            paths = _paths([whole, *(devices if isinstance(devices, list) else ())], "deviceNodes")
            access = (access or set()) | {int(found[1]) for path in paths if (found := _ACCESS.fullmatch(path))}
        if whole.get("kind") != KIND:
            continue
        if not isinstance(devices, list) or not devices:
            broken.append(name)
            continue
        ours.append(name)
        edits = [whole, *devices]
        minors.update(int(found[1]) for path in _paths(devices, "deviceNodes") if (found := _NODE.fullmatch(path)))
        versions.update(found[1] for path in _paths(edits, "mounts") if (found := _LIBRARY.fullmatch(path)))
    return Specification(
        tuple(ours),
        tuple(broken),
        frozenset(minors),
        frozenset(versions),
        None if access is None else frozenset(access),
    )


def _parsed(text: str | None) -> dict[str, Any] | None:
    if text is None:
        return None
    try:
        found = parse(text)
    except NotYAMLError:
        return None
    return found if isinstance(found, dict) else None


def _paths(holders: list[Any], of: str) -> Iterator[str]:
    """Paths on the host, or in the container where only those are named."""
    for holder in holders:
        edits = holder.get("containerEdits") if isinstance(holder, dict) else None
        entries = edits.get(of) if isinstance(edits, dict) else None
        for entry in entries if isinstance(entries, list) else ():
            path = (entry.get("hostPath") or entry.get("path")) if isinstance(entry, dict) else None
            if isinstance(path, str):
                yield path
