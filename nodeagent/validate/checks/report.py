"""NodeFeature attributes of a role's verdict, and when they replace the last ones. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.api import validation as words
from nodeagent.validate.checks import container, driver
from nodeagent.validate.checks.check import verdict

if TYPE_CHECKING:
    from collections.abc import Mapping

    from nodeagent.validate.checks.check import Verdict
    from nodeagent.validate.checks.facts import Facts

MESSAGE_MAX = 512
_LOADING = (words.BOOT_ID, words.VERSION, words.LOAD)
BRIDGED = 3
"""So many looks in a row that cannot tell are needed before `unknown` follows on `ok`."""


def evaluate(role: str, facts: Facts) -> Verdict:
    """The verdict of a role."""
    return verdict((driver if role == words.DRIVER else container).checks(facts), facts.held)


def attributes(role: str, facts: Facts, found: Verdict) -> dict[str, str]:
    """What the role owns of `gpu.validation`."""
    trouble = found.main_failure
    values = {
        words.REASON: trouble.reason if trouble is not None else "",
        words.MESSAGE: trouble.message[:MESSAGE_MAX] if trouble is not None else "",
        words.BOOT_ID: facts.boot_id,
        words.VERSION: facts.version,
        words.LOAD: facts.module.load if facts.module is not None else "",
        words.CARDS: str(len(found.passed)),
        words.CARDS_FAILED: ",".join(found.failed),
        words.CHECKS_FAILED: _names(found, words.FAILED),
        words.CHECKS_UNKNOWN: _names(found, words.UNKNOWN),
        **(_of_driver(facts) if role == words.DRIVER else _of_container(facts, found)),
    }
    return {role: found.result} | {words.key(role, name): value for name, value in values.items() if value}


def debounce(role: str, last: Mapping[str, str], new: Mapping[str, str], silent: int) -> tuple[dict[str, str], int]:
    """What to publish, and how many looks in a row could not tell.

    A look that cannot tell leaves an `ok` of the same boot and loading of the driver standing until the third in a row:
    a file that cannot be read once withdraws no card. What it knows of single cards counts at once: they are out, and
    the others stay.
    """
    if new.get(role) != words.UNKNOWN or last.get(role) != words.OK:
        return dict(new), 0
    if not _same_loading(role, last, new) or silent + 1 >= BRIDGED:
        return dict(new), 0
    bridged = _without(role, last, new)
    return (dict(new), 0) if bridged is None else (bridged, silent + 1)


def _same_loading(role: str, last: Mapping[str, str], new: Mapping[str, str]) -> bool:
    """Whether both are told of one boot and one loading of the driver; of an older agent's loading nothing is known."""
    of_last, of_new = ({name: told.get(words.key(role, name), "") for name in _LOADING} for told in (last, new))
    return of_last == of_new or of_last == of_new | {words.LOAD: ""}


def _without(role: str, last: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str] | None:
    """The last verdict without the cards that fail now; None where none of its cards is left.

    It may be the one that an earlier process left in the report, where others can write.
    """
    before, now = words.read(last, role), words.read(new, role)
    if before is None or now is None:
        return None
    failed = {*before.cards_failed, *now.cards_failed}
    left = before.cards - len(failed - {*before.cards_failed})
    if failed == {*before.cards_failed}:
        return dict(last)
    if left <= 0:
        return None
    told = (words.REASON, words.MESSAGE, words.CHECKS_FAILED)
    said = {name: new[name] for word in told if (name := words.key(role, word)) in new}
    cards = {words.CARDS: str(left), words.CARDS_FAILED: ",".join(sorted(failed))}
    return dict(last) | said | {words.key(role, name): value for name, value in cards.items()}


def _of_driver(facts: Facts) -> dict[str, str]:
    return {words.MODULE: facts.form, words.ACCESS: ",".join(map(str, sorted(facts.access or ())))}


def _of_container(facts: Facts, found: Verdict) -> dict[str, str]:
    cdi = next((check for check in found.checks if check.name == "cdi"), None)
    absent = cdi is not None and cdi.reason == "CDIAbsent"
    state = "" if cdi is None else "absent" if absent else cdi.result if cdi.result != words.UNKNOWN else ""
    return {
        words.INJECTION: container.injection(facts),
        words.CDI: state,
        words.PERSISTENCE: container.persistence(facts),
        words.CUDA_VERSION: facts.driver.cuda_version if facts.driver is not None else "",
        words.CUDA: facts.cuda_marks,
    }


def _names(found: Verdict, result: str) -> str:
    return ",".join(check.name for check in found.checks if check.result == result)
