"""Faults before one of people's steps, by name. An onset returns when the fault is there; what follows it spawns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from reliability.faults.injections import leases, process, servers, webhook

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from reliability.faults.injections.injection import Injection

    Act = Callable[[Any, str, Injection], Awaitable[None]]

PREPARED: Final[dict[str, Act]] = {
    "stale": servers.second,
    "stale-start": servers.second,
    "takeover": leases.standby,
    "overtaken": leases.standby,
    "twin": webhook.second,
}
"""What is brought up before people's first step: while it is, nobody waits for it."""
ONSETS: Final[dict[str, Act]] = {
    "rbac": process.rbac,
    "clock-forth": process.clock(process.JUMP),
    "clock-back": process.clock(-process.JUMP),
    "stopped": process.stopped,
    "half-open": process.half_open,
    "stale": servers.stale,
    "stale-start": servers.stale_start,
    "takeover": leases.takeover,
    "overtaken": leases.overtaken,
    "lease-deleted": leases.deleted,
    "lease-500": leases.refused,
    "lease-lost": leases.lost,
    "webhook-down": webhook.down,
    "webhook-slow": webhook.slow,
    "webhook-expired": webhook.expired,
    "webhook-secret": webhook.secret,
    "webhook-ca": webhook.authority,
    "twin": webhook.twin,
    "apiserver-killed": servers.killed,
    "compacted": servers.compacted,
}
