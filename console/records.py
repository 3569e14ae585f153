"""What a viewer may read, as the console's pages see it. Pure."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from console.pods import ShownPod
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpudriver import GPUDriver
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.api.kube import Node

Row = dict[str, Any]
"""A row as the page gets it: JSON without nulls."""
Rows = Callable[["Seen", Mapping[str, str], float], Mapping[str, Row]]
"""Makes rows of what the viewer may read, the parameters of the URL and now (Unix seconds)."""


@dataclass(frozen=True, slots=True)
class Seen:
    """The cluster, less what the viewer may not read. Mappings are by name; pods by `namespace/name`."""

    cards: Mapping[str, GPUDevice]
    nodes: Mapping[str, Node]
    inventories: Mapping[str, GPUNodeInventory]
    pools: Mapping[str, GPUPool]
    drivers: Mapping[str, GPUDriver]
    pods: Mapping[str, ShownPod]
    """Pods that ask for cards, of namespaces that the viewer may read."""
    may_read: Callable[[str], bool]
    """Whether the viewer may read pods of a namespace. Names of pods in others' objects (a card's allocations) are
    shown only where it is so, and counted elsewhere."""
    hidden: Mapping[str, int] = field(default_factory=dict)
    """By kind (`Pod`, `GPUDevice` …): how many objects there are that the viewer may not read."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """By kind: why nothing of it can be shown, in words."""


@dataclass(frozen=True, slots=True)
class View:
    """A page: what it shows, of which objects."""

    name: str
    rows: Rows
    """From what the viewer may read, the parameters of the URL (`pool`, `namespace`, `pod`, `card`) and now (Unix
    seconds): rows by their key, in the order in which they are shown. A row changes only when what it shows does: an
    age is sent as the time since when, and counted in the page."""
    pods: bool = field(default=True, kw_only=True)
    """Whether anything of pods is shown. Where not, those who may not read all pods get it of objects without any
    pod's name, so that all of them share its rows."""
    params: tuple[str, ...] = ()
    """Parameters of the URL that the page has; it is asked with all of them or with none."""
    following: Callable[[], Rows] | None = None
    """Makes what answers as `rows` does, and keeps rows of one answer for the next; None where each is made anew."""

    def open(self) -> Rows:
        """The maker of rows for one page that stays open."""
        return self.rows if self.following is None else self.following()
