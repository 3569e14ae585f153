"""What a stranger on the pod network, or a tenant with `edit` in one namespace, sends to stop the others. Pure.

Each attack is one that worked once, as large as it was then or larger; docs/security.md says what is done about each.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import orjson

from reliability.bench.creators import CARD, PLAIN, pod_of
from reliability.bench.gpu_pool import POOL
from reliability.bench.reviews import review

DIGITS = 60_000
TERMS = 50_000
VALUES = 200_000
RESOURCES = 20_000
DRY_RUN = "?dryRun=All"


@dataclass(frozen=True, slots=True)
class Plan:
    """One attack."""

    name: str
    title: str
    at: Literal["webhook", "pods", "connections"]
    """Whom it is sent to: each replica, or the API server, as pods of the attacker's namespace; or connections that
    are opened to each replica, and no more."""
    body: bytes = b""
    floor: bytes = b""
    """The same that asks for no card, so that what the API server takes for it by itself can be told apart."""
    query: str = ""
    at_once: int = 1
    """To each of them."""
    a_second: float = 0.0
    """All together; 0: back to back."""


def plans(idle: int) -> tuple[Plan, ...]:
    """All of them; `idle`: connections to each replica."""
    return (
        Plan("numbers", "numbers of 60,000 digits to each replica", "webhook", _digits(), at_once=2, a_second=40),
        Plan("connections", f"{idle:,} idle connections to each replica", "connections", at_once=idle, a_second=200),
        Plan("unseen", "4 loops of pods that are refused after their reservation", "pods", _refused(), at_once=4),
        _terms(),
        _values(),
        Plan("resources", "pods that name 20,000 other resources", "pods", _resources(), query=DRY_RUN),
    )


def _digits() -> bytes:
    """A review with a quantity that never ends, and is none."""
    found = orjson.loads(review(0, "anybody", POOL, dry_run=True))
    amounts = {CARD: "1" * DIGITS + "x"}
    found["request"]["object"]["spec"]["containers"][0]["resources"] = {"limits": amounts}
    return orjson.dumps(found)


def _refused() -> bytes:
    """Two containers of one name: the API server refuses it when the webhooks have had their say."""
    pod = pod_of(CARD)
    pod["spec"]["containers"] *= 2
    return orjson.dumps(pod)


def _terms() -> Plan:
    terms = [{"matchExpressions": [{"key": "n", "operator": "Exists"}]}] * TERMS
    title = "2 loops of pods with 50,000 terms of affinity"
    return Plan("terms", title, "pods", _wanting(CARD, terms), _wanting(PLAIN, terms), DRY_RUN, at_once=2)


def _values() -> Plan:
    values = [str(number) for number in range(VALUES)]
    terms = [{"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "NotIn", "values": values}]}]
    title = "pods with 200,000 values of affinity"
    return Plan("values", title, "pods", _wanting(CARD, terms), _wanting(PLAIN, terms), DRY_RUN)


def _wanting(resource: str, terms: list[dict[str, Any]]) -> bytes:
    pod = pod_of(resource)
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    pod["spec"]["affinity"] = {"nodeAffinity": required}
    return orjson.dumps(pod)


def _resources() -> bytes:
    pod = pod_of(PLAIN)
    limits = {f"example.com/k{number}": "1" for number in range(RESOURCES)}
    pod["spec"]["containers"][0]["resources"] = {"limits": limits}
    return orjson.dumps(pod)
