"""NodeFeatures as they are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import yaml

from tests.golden.dumps.told import Told

if TYPE_CHECKING:
    from pathlib import Path

NAME = "nfd.node.kubernetes.io/node-name"


def read(path: Path, name: str) -> list[Told]:
    """NFD's own report; a dump without the node's label gets it, as nfd-worker would set it."""
    found = yaml.safe_load(path.read_text())
    told = Told(name, lacks=("PCI addresses", "the Node and its labels"))
    found["metadata"].setdefault("labels", {})[NAME] = told.node_name
    found["metadata"].setdefault("namespace", "default")
    return [Told(name, reports=(found,), lacks=told.lacks)]
