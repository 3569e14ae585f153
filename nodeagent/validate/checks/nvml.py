"""The check of NVML's answer. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from nodeagent.validate.checks.check import Check, failed, ok, several, unknown

if TYPE_CHECKING:
    from controllers.api.reasons.typed import CheckWord
    from nodeagent.validate.checks.facts import Facts

NAME = "nvml"
_ALL_SILENT = frozenset({"uuid", "memory_mib"})
"""A card that tells neither is lost to the driver, though it may still be listed."""
_REASONS: Final[tuple[tuple[str, CheckWord, str], ...]] = (
    # What the reader, or NVML itself, says; the first that fits.
    ("mismatch", "LibraryMismatch", "reboot the node, or unload and load the nvidia modules"),
    ("no library", "LibraryMissing", "see whether the container runtime brings the driver (RuntimeClass, toolkit)"),
    ("no answer in", "DriverHangs", "see dmesg | grep -e NVRM -e Xid; a hanging driver needs a reboot"),
    ("has not returned", "DriverHangs", "see dmesg | grep -e NVRM -e Xid; a hanging driver needs a reboot"),
    ("not loaded", "ModuleNotLoaded", "load the nvidia modules on the host"),
)


def answers(facts: Facts) -> Check:
    """Whether NVML speaks, in the module's version, of every card that the driver holds."""
    driver = facts.driver
    if driver is None:
        return _without_answer(facts)
    if driver.version and facts.version and driver.version != facts.version:
        message = f"NVML is of {driver.version} and the loaded module {facts.version}; reboot the node"
        return failed(NAME, "LibraryMismatch", message)
    missing = tuple(
        address
        for address in facts.held
        if address not in driver.cards or set(driver.cards[address].failed) >= _ALL_SILENT
    )
    if missing:
        message = (
            f"NVML answers for {len(facts.held) - len(missing)} of {len(facts.held)} cards that are bound to nvidia, "
            f"not for {several(missing)}; see dmesg | grep Xid (79: fallen off the bus), and reset the card or the node"
        )
        return failed(NAME, "CardLost", message, *missing)
    return ok(NAME, f"NVML {driver.version} answers for all {len(facts.held)} cards")


def _without_answer(facts: Facts) -> Check:
    if facts.module is None:
        return unknown(NAME, "ModuleNotLoaded", "no driver to ask", needed=False)
    if not facts.unavailable_reason:
        return unknown(NAME, "AwaitingAnswer", "NVML has been asked and has not answered yet")
    text = facts.unavailable_reason.lower()
    other: tuple[CheckWord, str] = ("NVMLFailed", "run nvidia-smi on the node")
    reason, do = next(((reason, do) for word, reason, do in _REASONS if word in text), other)
    return failed(NAME, reason, f"NVML does not answer: {facts.unavailable_reason.rstrip('.')}; {do}")
