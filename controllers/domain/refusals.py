"""How each refusal of a pod by gpu-admission-webhook begins: the webhook writes by it, `kubectl gpu` reads by it. Pure.

The API server keeps all of an AdmissionResponse's status, details and causes too, for whoever creates the pod. But most
pods are created by a controller (ReplicaSet, Job, StatefulSet), which puts only the error's text into its event
FailedCreate, so text is all that is left to tell a refusal by.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from string import Formatter
from typing import Final

from controllers.api import names


@dataclass(frozen=True, slots=True)
class Refusal:
    """One way in which a pod is refused."""

    error_codes: tuple[str, ...]
    """The words of the contract with which it may come."""
    head: str
    """How the text goes on behind the error code; its fields are in braces."""
    condition_reason: str = ""
    """The reason of the pool's condition, where the text is about one reason alone."""
    pattern: re.Pattern[str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Make of the head what finds it."""
        object.__setattr__(self, "pattern", re.compile("".join(map(_part, Formatter().parse(self.head)))))

    def begin(self, **fields: object) -> str:
        """The beginning of the text; raises KeyError where a field is missing."""
        return self.head.format(**fields)


@dataclass(frozen=True, slots=True)
class Recognized:
    """Which refusal a text is, and what it is about."""

    error_code: str
    refusal: Refusal
    pool: str = ""
    """The pool's name; empty where the refusal is about none, or about several."""
    reason: str = ""
    """The reason of the pool's condition; empty where no condition closes it, or the text does not have it."""


def _part(part: tuple[str, str | None, str | None, str | None]) -> str:
    """A piece of a head as a regular expression: its text, and a group for the field behind it."""
    text, name, _, conversion = part
    if name is None:
        return re.escape(text)
    quote = "['\"]" if conversion == "r" else ""
    return f"{re.escape(text)}{quote}(?P<{name}>.+?){quote}"


_CLOSED: Final = (names.POOL_IN_MAINTENANCE, names.POOL_MISCONFIGURED)

POOL_ABSENT: Final = Refusal((names.POOL_NOT_FOUND,), "there is no GPUPool {pool!r}, ")
POOL_DELETED: Final = Refusal((names.POOL_NOT_FOUND,), "GPUPool {pool} is being deleted ")
RESOURCE_ABSENT: Final = Refusal((names.POOL_NOT_FOUND,), "GPUPool {pool} has no resource {resource}: ")
SEVERAL_POOLS: Final = Refusal((names.MIXED_POOL_REQUEST,), "the pod asks for cards of {count} pools ")
NOT_ALLOWED: Final = Refusal(
    (names.ACCESS_DENIED,), "namespace {namespace} (ServiceAccount {account}) may not use GPUPool {pool};"
)
MODULE_NAMESPACE: Final = Refusal((names.ACCESS_DENIED,), "namespace {namespace} belongs to the module itself;")
MODULE_DISABLED: Final = Refusal(
    _CLOSED,
    "GPUPool {pool} gives no cards now: the module is disabled by ModuleConfig {module}, ",
    names.REASON_MODULE_DISABLED,
)
NOT_DIVIDED: Final = Refusal(
    _CLOSED, "GPUPool {pool} gives no cards now: its cards could not be divided as its spec asks ({reason})"
)
BEING_DIVIDED: Final = Refusal(
    _CLOSED, "GPUPool {pool} gives no cards now: its cards are being divided anew ({reason})"
)
POOL_CLOSED: Final = Refusal(_CLOSED, "GPUPool {pool} gives no cards now: ")
NO_CAPACITY: Final = Refusal((names.INSUFFICIENT_CAPACITY,), "GPUPool {pool} cannot give {units} now: ")
UNSEEN_LIMIT: Final = Refusal(
    (names.INSUFFICIENT_CAPACITY,), "namespace {namespace} has {unseen} reservations whose pods never appeared, "
)
UNSEEN_SHARE: Final = Refusal(
    (names.INSUFFICIENT_CAPACITY,),
    "namespace {namespace} had a reservation {age} s ago whose pod never appeared, and now has {slots} of GPUPool"
    " {pool} for such pods;",
)
WAITING_LIMIT: Final = Refusal(
    (names.INSUFFICIENT_CAPACITY,), "namespace {namespace} has {waiting} pods that wait for GPUPool {pool}, "
)

REFUSALS: Final = (
    POOL_ABSENT,
    POOL_DELETED,
    RESOURCE_ABSENT,
    SEVERAL_POOLS,
    NOT_ALLOWED,
    MODULE_NAMESPACE,
    MODULE_DISABLED,
    NOT_DIVIDED,
    BEING_DIVIDED,
    POOL_CLOSED,
    NO_CAPACITY,
    UNSEEN_LIMIT,
    UNSEEN_SHARE,
    WAITING_LIMIT,
)
"""In the order in which they are tried: what is more precise first."""


def recognize(message: str) -> Recognized | None:
    """The refusal that a message of the webhook is; None where it is none of those of pods."""
    error_code, _, detail = message.partition(": ")
    for refusal in REFUSALS:
        if error_code in refusal.error_codes and (found := refusal.pattern.match(detail)) is not None:
            fields = {"pool": "", "reason": refusal.condition_reason} | found.groupdict()
            return Recognized(error_code, refusal, fields["pool"], fields["reason"])
    return None
