"""The checks of role `driver`: is the driver on this host whole? From the host's files, without privileges. Pure.

A card that vfio-pci or another driver holds was given away on purpose: it is told and is no
failure, as long as NVIDIA's driver has one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import names
from nodeagent.host.driverroot import HOST
from nodeagent.validate.checks import devices
from nodeagent.validate.checks.check import Check, failed, ok, several, unknown
from nodeagent.validate.checks.facts import MODULE, NOUVEAU
from nodeagent.validate.checks.libraries import library
from nodeagent.validate.checks.nvml import answers

if TYPE_CHECKING:
    from nodeagent.validate.checks.facts import Facts


def checks(facts: Facts) -> tuple[Check, ...]:
    """All of them; the causes before their effects."""
    where, missing = _place(facts)
    return (
        cards(facts),
        nouveau(facts),
        module(facts),
        serves(facts),
        library(facts, where, missing),
        firmware(facts),
        bound(facts),
        taken(facts),
        devices.host(facts),
        asked(facts),
    )


def _place(facts: Facts) -> tuple[str, str]:
    """Where the driver's libraries are looked for, and what to do where one of them is not there."""
    if facts.root.name != HOST:
        return f"in {facts.root.name}", "see the log of the driver's container"
    hint = "install the driver's user-space packages of the same version"
    if facts.sought != HOST:
        hint += f" (nor does {facts.sought} have libnvidia-ml.so.1, as it would with a driver in a container)"
    return "on the host", hint


def cards(facts: Facts) -> Check:
    """Whether the bus has cards of NVIDIA."""
    if facts.bus is None:
        return unknown("cards", "BusNotVisible", "the PCI bus cannot be read: mount the host's /sys")
    if not facts.cards:
        return failed("cards", "NoCards", "no NVIDIA card is on the PCI bus; see lspci -d 10de: on the node")
    return ok("cards", f"{len(facts.cards)} NVIDIA cards are on the PCI bus")


def nouveau(facts: Facts) -> Check:
    """Whether the kernel's own driver stands in the way."""
    holds = [card.address for card in facts.cards if card.driver == NOUVEAU]
    if facts.nouveau and (holds or facts.module is None):
        what = f" and holds {several(holds)}" if holds else ""
        message = (
            f"module nouveau is loaded{what}, so NVIDIA's driver cannot take the cards; blacklist nouveau "
            "(modprobe.d: blacklist nouveau, options nouveau modeset=0), rebuild the initramfs and reboot"
        )
        return failed(NOUVEAU, "NouveauLoaded", message)
    return ok(NOUVEAU, "module nouveau does not hold a card")


def module(facts: Facts) -> Check:
    """Whether NVIDIA's kernel module is loaded."""
    if facts.module is None:
        message = (
            "kernel module nvidia is not loaded; install the driver on the host, or see the log of the container that "
            "brings it, or run modprobe nvidia and see dmesg for why it refuses (not built for this kernel, not signed "
            "under Secure Boot, card not supported)"
        )
        return failed("module", "ModuleNotLoaded", message)
    if not facts.version:
        return unknown("module", "ModuleVersionUnknown", "module nvidia is loaded and its version cannot be read")
    return ok("module", f"kernel module nvidia {facts.version} ({facts.form or 'form unknown'}) is loaded")


def serves(facts: Facts) -> Check:
    """Whether the container that brought the driver serves it still; of a driver of the host nothing is asked."""
    if not facts.holds:
        return ok("serves", "no driver's container waits for its cards to be free")
    message = (
        "the driver's container was started anew while its modules were in use, and does nothing: pods go on, and no "
        "new one may begin; when the node's cards are free, annotate its pod gpu-driver-... with "
        f"{names.FORCE}=true and delete it, and the driver comes back (docs/node-agent.md)"
    )
    return failed("serves", "DriverHeld", message)


def firmware(facts: Facts) -> Check:
    """Whether the firmware is there, without which the open module starts no card."""
    if facts.module is None or facts.form != "open":
        return ok("firmware", "no open module that needs firmware is loaded")
    if facts.firmware is None:
        return unknown("firmware", "HostFilesNotVisible", "the host's /usr/lib/firmware cannot be seen", needed=False)
    if not facts.firmware:
        message = (
            f"nvidia/{facts.version}/gsp_*.bin is not in the host's /usr/lib/firmware, and the open module starts no "
            "card without it; install the driver's firmware package of the same version"
        )
        return failed("firmware", "FirmwareMissing", message)
    return ok("firmware", f"firmware of {facts.version} is on the host")


def bound(facts: Facts) -> Check:
    """Whether the cards are bound to the driver."""
    if facts.module is None or not facts.cards:
        return unknown("bound", "ModuleNotLoaded", "no driver, or no card", needed=False)
    free = [card.address for card in facts.cards if not card.driver and "driver" not in card.unreadable]
    others = [
        f"{card.address} ({card.driver})"
        for card in facts.cards
        if card.driver and card.driver not in (MODULE, NOUVEAU)
    ]
    if not facts.held:
        holders = several([f"{card.address} ({card.driver or 'no driver'})" for card in facts.cards])
        message = (
            f"the nvidia module is loaded and holds no card: {holders}; bind a card to it, and see dmesg | grep NVRM"
        )
        return failed("bound", "NoCardBound", message)
    if free:
        message = (
            f"{several(free)} has no driver though module nvidia is loaded; see dmesg | grep NVRM for why it refused"
        )
        return failed("bound", "CardNotBound", message, *free)
    rest = f"; left to other drivers: {several(others)}" if others else ""
    return ok("bound", f"{len(facts.held)} cards are bound to nvidia{rest}")


def taken(facts: Facts) -> Check:
    """Whether the driver lists the cards that are bound to it."""
    if facts.module is None or not facts.held:
        return unknown("taken", "ModuleNotLoaded", "no driver, or no card bound to it", needed=False)
    if facts.taken is None:
        return unknown("taken", devices.STALE_PROC, devices.STALE_PROC_MESSAGE, needed=False)
    missing = [address for address in facts.held if address not in facts.taken]
    if missing:
        message = (
            f"{several(missing)} is bound to nvidia and absent from /proc/driver/nvidia/gpus: the driver could not "
            "start it; see dmesg | grep -e NVRM -e Xid, and reset the card or the node"
        )
        return failed("taken", "CardNotStarted", message, *missing)
    if excluded := [address for address, told in facts.taken.items() if told.excluded]:
        message = f"{several(excluded)} is excluded by the module's parameter NVreg_ExcludedGpus; take it out to use it"
        return failed("taken", "CardExcluded", message, *excluded)
    return ok("taken", f"the driver lists all {len(facts.held)} cards")


def asked(facts: Facts) -> Check:
    """NVML's answer, where there is one: a container without the driver's device nodes cannot ask."""
    if facts.driver is not None:
        return answers(facts)
    why = facts.unavailable_reason.rstrip(".") or "not asked"
    return unknown("nvml", "NVMLNotReached", f"NVML cannot be asked from here: {why}", needed=False)
