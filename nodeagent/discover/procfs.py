"""What NVIDIA's kernel module tells in /proc and /sys, without a device node and without its library.

`/proc/driver/nvidia` is in the driver's documentation (chapter "Using the /proc File System
Interface"). It is not namespaced: a container reads the host's. Here is the only sure sign
that the driver is loaded, or not; version, product and uuid come along.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from nodeagent.discover.address import canonical
from nodeagent.discover.facts import Driver, DriverCard

if TYPE_CHECKING:
    from pathlib import Path

FILE_MAX = 65536
# `NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 …`, and of the open module:
# `NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build  (dvs-builder@…)`
_VERSION = re.compile(r"NVRM version:.*?Kernel Module\b.*?\s([0-9]+\.[0-9]+(?:\.[0-9]+)?)(?:\s|$)")
_PLAIN_VERSION = re.compile(r"[0-9]+\.[0-9]+(?:\.[0-9]+)?")
_NO_MODEL = {"", "unknown"}


def read(proc: Path, sys: Path) -> Driver | None:
    """The loaded driver and its cards; None where it is not loaded."""
    folder, module = proc / "driver" / "nvidia", sys / "module" / "nvidia"
    if not (folder / "version").exists() and not module.exists():
        return None
    told = _VERSION.search(_text(folder / "version"))
    plain = _PLAIN_VERSION.fullmatch(_text(module / "version").strip())
    version = told[1] if told else plain[0] if plain else ""
    return Driver(
        version=version,
        cards={card.address: card for card in _cards(folder / "gpus")},
        source="procfs",
        failed=() if version else ("version",),
    )


def layout(proc: Path) -> tuple[str, ...]:
    """What changes when cards are split: the MIG instances that have a file of their own."""
    folder = proc / "driver" / "nvidia" / "capabilities"
    try:
        return tuple(sorted(str(path.relative_to(folder)) for path in folder.glob("gpu*/mig/gi*")))
    except OSError:
        return ()


def boot_id(proc: Path) -> str:
    """The id of this boot of the machine, as kubelet reports it; empty where it cannot be read."""
    text = _text(proc / "sys" / "kernel" / "random" / "boot_id").strip()
    return text if re.fullmatch("[0-9a-f-]{8,64}", text) else ""


def _cards(folder: Path) -> list[DriverCard]:
    try:
        paths = sorted(folder.iterdir())
    except OSError:
        return []
    found = []
    for path in paths:
        lines = (line.partition(":") for line in _text(path / "information").splitlines())
        told = {key.strip(): value.strip() for key, _, value in lines}
        address = canonical(path.name) or canonical(told.get("Bus Location", ""))
        if address is None:
            continue
        product, uuid = told.get("Model", ""), told.get("GPU UUID", "")
        found.append(
            DriverCard(
                address,
                # Question marks: nobody has used the card yet, so that its uuid has not been read.
                uuid=uuid if re.fullmatch("GPU-[0-9a-f-]{36}", uuid) else "",
                product="" if product.lower() in _NO_MODEL else product,
            )
        )
    return found


def _text(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return file.read(FILE_MAX).decode("utf-8", "replace")
    except OSError:
        return ""
