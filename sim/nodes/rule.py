"""What nfd-master makes of the features: the node labels that our NodeFeatureRule gives. Pure.

rule                          matches                                  labels under gpu.deckhouse.io/
deckhouse.gpu.nvidia          pci.device vendor 10de, class 0300|0302  present=true, device-count, device.<NN>.*
deckhouse.gpu.nvidia-driver   kernel.loadedmodule nvidia               driver.name, driver.module.<module>
deckhouse.system.kernel-os    kernel.version, system.osrelease         kernel.version.*, os.*
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from controllers.api import names as api
from sim.nodes import names

if TYPE_CHECKING:
    from controllers.api.kube import Node
    from sim.nodes.report import Facts

_VENDORS = {"10de"}
_CLASSES = {"0300", "0302"}
_MODULES = ("nvidia", "nvidia_modeset", "nvidia_uvm", "nvidia_drm")
_VALUE = re.compile(r"([A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?)?")


def labels(reports: Iterable[Facts]) -> dict[str, str]:
    """The labels of one node out of everything that is reported of it."""
    found: dict[str, str] = {}
    cards: list[tuple[str, str, str]] = []
    for report in reports:
        cards += [card for card in report.pci if card[0] in _VENDORS and card[2] in _CLASSES]
        kernel, os = dict(report.kernel), dict(report.os)
        found |= {f"kernel.version.{key}": kernel[key] for key in ("full", "major", "minor") if key in kernel}
        found |= {f"os.{key.lower()}": os[key] for key in ("ID", "VERSION_ID") if key in os}
        if "nvidia" in report.modules:
            found |= {f"driver.module.{name}": "true" for name in _MODULES if name in report.modules}
            found["driver.name"] = "nvidia"
    if cards:
        found |= {"present": "true", "device-count": str(len(cards))}
    for number, (vendor, device, kind) in enumerate(cards):
        seat = f"device.{number:02d}"
        found |= {f"{seat}.vendor": vendor, f"{seat}.device": device, f"{seat}.class": kind}
    return {api.PREFIX + key: value for key, value in sorted(found.items()) if _VALUE.fullmatch(value)}


def owned(node: Node) -> dict[str, str]:
    """The labels that nfd-master gave the node before, with their present values."""
    given = node.metadata.annotations.get(names.NFD_OWNED, "").split(",")
    return {key: node.metadata.labels.get(key, "") for key in given if key}


def patch(wanted: Mapping[str, str]) -> dict[str, object]:
    """The metadata to apply; what it leaves out goes away."""
    return {"labels": dict(wanted), "annotations": {names.NFD_OWNED: ",".join(sorted(wanted))} if wanted else {}}
