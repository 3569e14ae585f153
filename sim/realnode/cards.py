"""Four cards made of files: sysfs and procfs, a driver library that tells of them, device nodes, a CDI specification.

The device nodes are copies of `/dev/null`: a container may open them, and nothing is behind them.
"""

from __future__ import annotations

import json
import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sim import nvml
from sim.controlplane.procfs import boot_id
from sim.hardware import load, sysfs
from sim.hardware.shape import card_uuid

if TYPE_CHECKING:
    from sim.hardware.sysfs import Tree
    from sim.realnode.places import Places

SHAPE: Final = "l40s-4"
KIND: Final = "nvidia.com/gpu"
CDI_VERSION: Final = "0.5.0"
LIBRARIES: Final = "usr/lib/x86_64-linux-gnu"
MARK: Final = "E2E_CARD_"
"""How the variable begins that a container has of each of its cards."""
_NULL: Final = os.makedev(1, 3)


def write(places: Places, node: str, library: Path) -> Tree:
    """Make the machine; `places.cards` must not be there. `library`: the driver's (see `sim.nvml`)."""
    shape = load().shape(SHAPE)
    tree = sysfs.write(places.cards, shape, node=node, boot_id=boot_id())
    libraries = tree.root / LIBRARIES
    libraries.mkdir(parents=True)
    shutil.copy(library, libraries / library.name)
    nvml.Config.of(shape, node).write(places.nvml)
    places.devices.mkdir(parents=True)
    cards = {minor: card_uuid(node, card.address) for minor, card in enumerate(shape.cards)}
    for minor in cards:
        os.mknod(_path(places, minor), stat.S_IFCHR | 0o666, _NULL)
    places.cdi.mkdir()
    (places.cdi / "nvidia.json").write_text(json.dumps(_specification(places, cards), indent=1) + "\n")
    return tree


def variable(minor: int) -> str:
    """The environment variable that a container has of a card."""
    return f"{MARK}{minor}"


def _path(places: Places, minor: int) -> Path:
    return places.devices / f"nvidia{minor}"


def _specification(places: Places, cards: dict[int, str]) -> dict[str, object]:
    devices = [
        {
            "name": uuid,
            "containerEdits": {
                "deviceNodes": [{"path": f"/dev/nvidia{minor}", "hostPath": str(_path(places, minor)), "type": "c"}],
                "env": [f"{variable(minor)}={uuid}"],
            },
        }
        for minor, uuid in cards.items()
    ]
    return {"cdiVersion": CDI_VERSION, "kind": KIND, "devices": devices}
