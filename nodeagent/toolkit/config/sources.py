"""Which files containerd reads on a node, in which order, and which of them decides. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from fnmatch import fnmatch
from posixpath import basename, dirname, join, normpath
from typing import TYPE_CHECKING, Any, Final

from nodeagent.toolkit.config import effective, marks
from nodeagent.toolkit.config.marks import Unforeseen
from nodeagent.toolkit.config.plan import Refused

if TYPE_CHECKING:
    from collections.abc import Mapping

MAIN: Final = "/etc/containerd/config.toml"
CONF_D: Final = "/etc/containerd/conf.d"
CONF2_D: Final = "/etc/containerd/conf2.d"
DROP_IN: Final = "90-gpu-control-plane.toml"
FORMER: Final = f"{CONF_D}/99-nvidia.toml"
"""Where NVIDIA's installer wrote the whole CRI section, passwords included, while it configured the runtime for us,
and where GPU Operator's does so still: the file alone does not say whose it is."""
DECKHOUSE: Final = "/etc/containerd/deckhouse.toml"
"""What bashible makes the main file of, with the drop-ins."""

MERGING: Final = 2
"""The first containerd that merges drop-ins deeply (its `mergeConfig` in cmd/containerd/server/config/config.go)."""
SPLIT: Final = 3
"""The first version of its configuration in which the CRI plugin is several."""


@dataclass(frozen=True, slots=True)
class Node:
    """What is known of a node whose runtime is containerd."""

    release: tuple[int, int]
    """containerd's own version: major, minor."""
    files: Mapping[str, bytes]
    """The files that make its configuration, and those of ours that may be there, by path; absent ones are left out."""
    effective: Mapping[str, Any]
    """What containerd makes of its files, parsed, with all that it has by itself."""
    main: str = MAIN
    deckhouse: bool = False
    """Whether bashible makes the main file."""
    elsewhere: bool = False
    """Whether somebody else's toolkit serves the node: a drop-in of NVIDIA's installer is then theirs."""


def in_force(node: Node, kept: Mapping[str, bytes]) -> str:
    """The file whose CRI settings containerd uses: the last that has any, where imports replace them as a whole."""
    found = node.main
    if node.release[0] < MERGING:
        for path in read_in_order(node.main, kept):
            if effective.cri(parsed(kept[path], path)):
                found = path
    return found


def handlers_of_others(node: Node, kept: Mapping[str, bytes], target: str) -> set[str]:
    """Names of the handlers that files of others tell of, where containerd reads them."""
    files = read_in_order(node.main, kept) if node.release[0] >= MERGING else [target] if target in kept else []
    return {name for path in files for name in effective.handlers(parsed(kept[path], path))}


def read_in_order(main: str, files: Mapping[str, bytes]) -> list[str]:
    """The files that containerd reads, in its order: the main one, what it imports, what these import.

    Its dump is no help: 2.4 prints an import of conf.d that it does not follow where a file says nothing of it.
    """
    read: list[str] = []
    pending = [main]
    while pending:
        path = pending.pop(0)
        if path in read or path not in files:
            continue
        read.append(path)
        for pattern in patterns(path, parsed(files[path], path)):
            pending += [name for name in sorted(files) if name == pattern or _matches(name, pattern)]
    return read


def patterns(path: str, content: Mapping[str, Any]) -> list[str]:
    """What a file imports: absolute paths and patterns of such."""
    imports = content.get("imports")
    told = [one for one in imports if isinstance(one, str)] if isinstance(imports, list) else []
    return [normpath(join(dirname(path), one)) for one in told]


def takes_drop_in(node: Node, kept: Mapping[str, bytes]) -> bool:
    """Whether containerd reads a drop-in of ours in conf.d, and merges it into the rest."""
    if node.main != MAIN or MAIN not in kept or node.release[0] < MERGING:
        return False
    return any(_matches(f"{CONF_D}/{DROP_IN}", pattern) for pattern in patterns(MAIN, parsed(kept[MAIN], MAIN)))


def _matches(path: str, pattern: str) -> bool:
    return dirname(path) == dirname(pattern) and "*" in pattern and fnmatch(basename(path), basename(pattern))


def parsed(content: bytes, path: str) -> dict[str, Any]:
    """A file's tables; raises Refused."""
    try:
        return marks.parse(text(content, path))
    except Unforeseen as error:
        raise Refused(f"{path} is left as it is: {error}") from None


def text(content: bytes, path: str) -> str:
    """A file's text; raises Refused."""
    try:
        return content.decode()
    except UnicodeDecodeError:
        raise Refused(f"{path} is left as it is: it is not UTF-8") from None
