"""The check of CUDA: a context and a copy on each card. Pure.

What it says of every card that was tried is the node's; of some of them, theirs. A card that is in use, or is divided
by MIG and has no instance, cannot be tried and fails nothing. One of which a try tells nothing hides no failure of
another: that is a check beside.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from nodeagent.validate.checks.check import failed, ok, several, unknown
from nodeagent.validate.checks.fabric import MANAGER

if TYPE_CHECKING:
    from collections.abc import Sequence

    from nodeagent.host.facts.records import CudaAnswer
    from nodeagent.validate.checks.check import Check
    from nodeagent.validate.checks.facts import Facts

NAME = "cuda"
NO_DEVICE, NOT_READY, DRIVER_MISMATCH = 100, 802, 803
KILLED: Final = ("by signal 9", "cannot be started")
"""Silence that is ours: no memory for the try."""
KERNEL_LOG: Final = "see dmesg | grep -e NVRM -e Xid"


def works(facts: Facts) -> Check:
    """Whether CUDA works on every card that it can be tried on."""
    driver = facts.driver
    if driver is None:
        return unknown(NAME, "AwaitingAnswer", "CUDA is tried on the cards for which NVML answers", needed=False)
    if facts.cuda is None:
        return unknown(NAME, "CudaNotTried", "CUDA is not tried: the validator runs with --no-cuda", needed=False)
    failing, silent = _bad(facts)
    if failing:
        return _failed(facts, failing, whole=len(failing) == len(facts.tried))
    if silent:
        return _nothing_known(facts, silent)
    if _awaited(facts):
        return _awaiting(facts)
    return ok(NAME, _passed(facts, [address for address in facts.held if address in driver.cards]))


def unsure(facts: Facts) -> tuple[Check, ...]:
    """The cards of which nothing is known, or not yet, where others fail; the failing ones are named before them."""
    failing, silent = _bad(facts)
    if not failing or not (silent or _awaited(facts)):
        return ()
    check = _nothing_known(facts, silent) if silent else _awaiting(facts)
    return (replace(check, message=f"{works(facts).message}. Beside that {check.message}"),)


def _awaited(facts: Facts) -> bool:
    """Whether a try has not come to its end on some card that can be tried."""
    return facts.driver is not None and any(address not in (facts.cuda or {}) for address in facts.tried)


def _awaiting(facts: Facts) -> Check:
    # The sentence stays the same until all have answered: each other one would be a write.
    return unknown(NAME, "AwaitingCuda", f"CUDA is being tried on {len(facts.tried)} cards, one after the other")


def _bad(facts: Facts) -> tuple[dict[str, CudaAnswer], dict[str, CudaAnswer]]:
    """The answers of the cards that fail, and of those of which nothing is known, by address."""
    told, there = facts.cuda or {}, facts.driver.cards if facts.driver is not None else {}
    bad = {address: told[address] for address in facts.held if address in there and address in told}
    bad = {address: answer for address, answer in bad.items() if not (answer.works or answer.in_use)}
    silent = {address: answer for address, answer in bad.items() if _tells_nothing(facts, answer)}
    return {address: answer for address, answer in bad.items() if address not in silent}, silent


def _tells_nothing(facts: Facts, answer: CudaAnswer) -> bool:
    """Whether the try could not be made, or was made while the fabric may still be coming up."""
    return any(word in answer.unavailable_reason for word in KILLED) or (
        answer.code == NOT_READY and not facts.fabric_due
    )


def _passed(facts: Facts, held: list[str]) -> str:
    told = facts.cuda or {}
    good = [address for address in held if address in told and told[address].works]
    used = [address for address in held if address in told and told[address].in_use]
    left = [address for address in held if address not in told]
    said = f"CUDA works on {len(good)} of {len(held)} cards"
    if used:
        said += f"; in use, so not tried: {several(used)} ({told[used[0]].in_use})"
    return said + (f"; nothing to be tried on {several(left)} (MIG without an instance)" if left else "")


def _failed(facts: Facts, bad: dict[str, CudaAnswer], *, whole: bool) -> Check:
    """The first trouble by weight, with the cards of all; `whole`: whether it is on every card that was tried."""
    answer = min(bad.values(), key=_weight)
    said = _failure_message(bad, answer, whole=whole)
    cards = () if whole else tuple(bad)
    if answer.unavailable_reason:
        return _without_answer(answer, said, cards)
    if answer.code == NOT_READY:
        return failed(NAME, "CudaError802", f"{said}{_no_fabric(facts)}", *cards)
    if answer.code == DRIVER_MISMATCH:
        do = "restart this pod where the driver was changed under it, else reboot the node"
        said += f": libcuda.so.1 is not of the loaded module's version {facts.version}; {do}"
        return failed(NAME, "CudaError803", said, *cards)
    missing = [address for address, one in bad.items() if one.code == NO_DEVICE]
    return _refused(answer, said, cards, () if whole else missing, len(facts.tried))


def _nothing_known(facts: Facts, silent: dict[str, CudaAnswer]) -> Check:
    """The tries that tell nothing, by the first of the weightiest."""
    answer = min(silent.values(), key=_weight)
    said = _failure_message(silent, answer, whole=len(silent) == len(facts.tried))
    if answer.code == NOT_READY:
        return unknown(NAME, "AwaitingFabric", f"{said}{_no_fabric(facts)}. It may still be starting")
    do = "see the memory limit of the validator's container (bootstrap.validator.resources: 1Gi is enough)"
    return unknown(NAME, "CudaNotTried", f"{said}; {do}")


def _failure_message(bad: dict[str, CudaAnswer], answer: CudaAnswer, *, whole: bool) -> str:
    cards = "any card" if whole and len(bad) > 1 else several(list(bad))
    return f"CUDA does not work on {cards}: {_describe_answer(answer)}"


def _no_fabric(facts: Facts) -> str:
    return f": the fabric of the NVSwitches is not ready for driver {facts.version}; {MANAGER}"


def _refused(answer: CudaAnswer, said: str, cards: Sequence[str], missing: Sequence[str], tried: int) -> Check:
    """What a card answers: that it is not among CUDA's devices, that its memory fails, or another error."""
    if answer.code == NO_DEVICE and missing:
        said = f"CUDA shows {tried - len(missing)} of {tried} cards for which NVML answers, not {several(missing)}"
        return failed(NAME, "CardNotInCuda", f"{said}; {KERNEL_LOG}, and reset the card", *cards)
    if answer.differs:
        do = "see nvidia-smi -q -d ECC, take the card out of use and have it replaced"
        return failed(NAME, "CudaCopyDiffers", f"{said}; {do}", *cards)
    return failed(NAME, "CudaFailed", f"{said}; {KERNEL_LOG}, and reset the card or the node", *cards)


def _without_answer(answer: CudaAnswer, said: str, cards: Sequence[str]) -> Check:
    if answer.late:
        return failed(NAME, "CudaHangs", f"{said}; {KERNEL_LOG}; it needs a reset or a reboot", *cards)
    if answer.unavailable_reason.startswith("no library"):
        do = "NVIDIA_DRIVER_CAPABILITIES of the container must have compute, and the toolkit bring libcuda.so.1"
        return failed(NAME, "LibraryMissing", f"{said}; {do}", *cards)
    return failed(NAME, "CudaFailed", f"{said}; {KERNEL_LOG}", *cards)


def _weight(answer: CudaAnswer) -> int:
    """The causes before their effects."""
    order = (
        answer.code == DRIVER_MISMATCH,
        answer.code == NOT_READY,
        answer.late,
        bool(answer.unavailable_reason),
        True,
    )
    return order.index(True)


def _describe_answer(answer: CudaAnswer) -> str:
    if answer.unavailable_reason:
        return answer.unavailable_reason.rstrip(".")
    if answer.differs:
        return "what was copied to its memory came back changed"
    return f"{answer.call} answers {answer.code} ({answer.name or 'an error that its library does not name'})"
