"""Who held which Lease when, by the requests: who may write, and when there was no leader. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from reliability.faults.eventual_invariants import Span
    from reliability.faults.process_proxy import Sent

KEPT = ("secrets", "mutatingwebhookconfigurations", "validatingwebhookconfigurations")
"""What of the webhook's writes needs its lease: every replica reserves."""


def who(process: str, replica: int) -> str:
    """A process among those of its name."""
    return process if replica == 1 else f"{process}-{replica}"


@dataclass
class _Lease:
    """What is known of one lease."""

    holder: str = ""
    taken: bool = False
    claims: dict[str, tuple[str, float]] = field(default_factory=dict)
    """By process (`who`), whom it last wrote as holder, and when."""


def one_leader(sent: Iterable[Sent], ended: Mapping[str, Sequence[float]], duration: float) -> list[str]:
    """Who writes holds the lease, by its own last renewal, which is younger than the lease's `duration` in seconds.

    `ended`: by process (`who`), when it was killed, or woke up again, monotonic: what it claimed before counts no more.
    """
    found, leases = [], dict[str, _Lease]()
    every = sorted(sent, key=lambda s: s.at)
    for one in every:
        if one.orphan:  # what a dead process sent while it lived was its right
            continue
        if one.resource == "leases":
            _take(leases.setdefault(one.process, _Lease()), one)
        elif one.process != "webhook" or one.resource in KEPT:
            lease, name = leases.setdefault(one.process, _Lease()), who(one.process, one.replica)
            why = _unfit(lease, one, ended.get(name, ()), duration, every[0].at)
            found += [f"{name}: {one.verb} {one.about} {why}"] if why else []
    return list(dict.fromkeys(found))


def _take(lease: _Lease, one: Sent) -> None:
    if one.landed and one.verb in ("create", "update") and isinstance(one.body, dict):
        lease.holder, lease.taken = str(one.body["spec"].get("holderIdentity") or ""), True
        lease.claims[who(one.process, one.replica)] = lease.holder, one.at


def _unfit(lease: _Lease, one: Sent, ended: Sequence[float], duration: float, began: float) -> str:
    """Why a process may not write; empty where it may. `began`: when the trace did."""
    starts = [at for at in ended if at < one.at]
    own = lease.claims.get(who(one.process, one.replica))
    if starts and (own is None or own[1] < max(starts)):
        return "by a process that does not lead"
    if own is None:  # its first renewal is from before the trace
        if lease.taken:
            return "by a process that never had the lease"
        return f"without a renewal, {one.at - began:.1f} s on" if one.at - began > duration else ""
    if not own[0]:
        return "after it gave the lease back"
    if own[0] != lease.holder:
        return "while another holds the lease"
    late = one.at - own[1] > duration
    return f"{one.at - own[1]:.1f} s after its last renewal, the lease lasts {duration:.0f} s" if late else ""


def away(sent: Iterable[Sent], process: str, span: Span, pause: float) -> list[Span]:
    """When no replica of a process was there: no renewal or write of it landed for longer than `pause`, monotonic.

    `pause`: a few times as long as the holder waits between renewals.
    """
    times = sorted(one.at for one in sent if one.process == process and _alive(one) and _in(one.at, span))
    return [(begin, end) for begin, end in pairwise([span[0], *times, span[1]]) if end - begin > pause]


def _alive(one: Sent) -> bool:
    given_back = one.resource == "leases" and isinstance(one.body, dict) and not one.body["spec"].get("holderIdentity")
    return one.landed and not one.orphan and not given_back


def _in(at: float, span: Span) -> bool:
    return span[0] < at < span[1]
