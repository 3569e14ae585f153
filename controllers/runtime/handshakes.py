"""Rate limit of TLS handshakes on a port: for one client address, and for all together. Pure.

A handshake costs us a millisecond and a stranger a few packets. An address that comes too often is not answered, which
costs a twentieth of that, and takes nothing from others; the bound on all is for who has many addresses.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_EVERYBODY: Final = ""


class Rate(NamedTuple):
    """So many at once, and so many a second in the long run."""

    burst: int
    per_second: float


class Handshakes:
    """Who may shake hands now."""

    def __init__(self, each: Rate, together: Rate) -> None:
        """Prepare; `each`: from one address."""
        self._each, self._together = each, together
        self._spent: dict[str, float] = {}
        """When each address has its whole burst again, in the order in which they were last let in."""

    def __len__(self) -> int:
        """The addresses that are remembered: those that were let in while one's burst takes to come back."""
        return len(self._spent)

    def allows(self, address: str, now: float) -> bool:
        """Whether one more handshake with that address may begin; counts it if so. `now` never goes back."""
        while self._spent and next(iter(self._spent.values())) <= now:
            del self._spent[next(iter(self._spent))]
        mine = self._after(self._each, address, now)
        ours = self._after(self._together, _EVERYBODY, now)
        if mine is None or ours is None:
            return False
        for key, again in ((address, mine), (_EVERYBODY, ours)):
            self._spent.pop(key, None)
            self._spent[key] = again
        return True

    def _after(self, rate: Rate, key: str, now: float) -> float | None:
        """When its burst is whole again after one more; None where there is none left."""
        again = max(self._spent.get(key, now), now) + 1 / rate.per_second
        return again if again - now <= rate.burst / rate.per_second else None
