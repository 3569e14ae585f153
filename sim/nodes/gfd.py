"""The labels that GPU feature discovery gives a node, spelled as it spells them. Pure.

Ours writes them into a file of `features.d`, which nfd-worker publishes with its own report:
as attribute feature `local.label` and as labels (NFD's local source). Without a MIG strategy,
as the module runs it, there are no MIG labels beside `mig.capable`. On a node with several
products GFD writes the same labels for each, in no order, and one of them is left; here the
last of the alphabet.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from controllers.api import names as api
from controllers.domain.clock import seconds

if TYPE_CHECKING:
    from sim.hardware import Card, Software
    from sim.nodes.machine import Machine

FEATURE = "local.label"
NVIDIA = "10de"
_MODES = {"0300": "graphics", "0302": "compute"}
_FAMILIES = (
    ((10, 0), "blackwell"),
    ((9, 0), "hopper"),
    ((8, 9), "ada-lovelace"),
    ((8, 0), "ampere"),
    ((7, 5), "turing"),
    ((7, 0), "volta"),
    ((6, 0), "pascal"),
    ((5, 0), "maxwell"),
    ((3, 0), "kepler"),
)


def labels(machine: Machine, started: str) -> dict[str, str]:
    """What GFD writes there; nothing without a driver, or where the driver sees no card of NVIDIA's.

    `started`: when the pod was made, as the API server writes times.
    """
    software = machine.software
    seen = [card for card in machine.cards if card.vendor == NVIDIA and card.product]
    if software is None or not machine.driver or not seen:
        return {}
    product = max(card.product for card in seen)
    made = {
        "gfd.timestamp": str(int(seconds(started))),
        "gpu.machine": _spelled(machine.shape.name),
        "gpu.mode": _MODES.get(seen[0].class_, "unknown"),
        "mig.capable": str(any(card.mig_profiles for card in seen)).lower(),
        "mps.capable": "false",
        **_versions(software),
        **_product([card for card in seen if card.product == product]),
    }
    return {api.GFD_PREFIX + key: value for key, value in sorted(made.items())}


def _product(cards: list[Card]) -> dict[str, str]:
    """What is told of one product; the last card speaks for its equals."""
    card = cards[-1]
    major, _, minor = card.compute_capability.partition(".")
    made = {
        "gpu.product": _spelled(card.product),
        "gpu.count": str(len(cards)),
        "gpu.replicas": "1",
        "gpu.sharing-strategy": "none",
    }
    if card.memory_mib:
        made["gpu.memory"] = str(card.memory_mib)
    if major:
        made |= {"gpu.compute.major": major, "gpu.compute.minor": minor, "gpu.family": family(int(major), int(minor))}
    return made


def family(major: int, minor: int) -> str:
    """The architecture, as GFD calls it, of a compute capability."""
    return next((name for since, name in _FAMILIES if (major, minor) >= since), "undefined")


def _versions(software: Software) -> dict[str, str]:
    """Driver and CUDA, in the old spelling and in the new one."""
    major, minor, revision = (*software.driver.split("."), "", "")[:3]
    cuda_major, _, cuda_minor = software.cuda.partition(".")
    return {
        "cuda.driver.major": major,
        "cuda.driver.minor": minor,
        "cuda.driver.rev": revision,
        "cuda.driver-version.full": software.driver,
        "cuda.driver-version.major": major,
        "cuda.driver-version.minor": minor,
        "cuda.driver-version.revision": revision,
        "cuda.runtime.major": cuda_major,
        "cuda.runtime.minor": cuda_minor,
        "cuda.runtime-version.full": software.cuda,
        "cuda.runtime-version.major": cuda_major,
        "cuda.runtime-version.minor": cuda_minor,
    }


def _spelled(text: str) -> str:
    """As a label's value."""
    return "-".join(re.sub("[^A-Za-z0-9-_. ]", "", text).split())
