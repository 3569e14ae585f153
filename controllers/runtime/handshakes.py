"""Rate limit of TLS handshakes on a port: for one client address, and for all together. Pure.

A handshake costs us a millisecond and a stranger a few packets. An address that comes too often is not answered, which
costs a twentieth of that, and takes no handshake from others. It does take time: no more than about a thousand such a
second are turned away (`listener.TURNED_AWAY_REST`), and who connects more often fills the system's queue, in which
others wait or are dropped as well. The bound on all is for who has many addresses. Half of it is for addresses that
have not come lately: who is turned away comes back at once, a reader with its next look, so that strangers who come all
the time take one half alone, however many they are.
"""

from __future__ import annotations

from typing import Final, NamedTuple

_EVERYBODY: Final = ""
_NEWCOMERS: Final = "newcomers"
LATELY: Final = 5.0
"""Seconds after which an address that came, let in or not, is a newcomer again: less than between two scrapes."""
KNOWN_MAX: Final = 1024
"""Addresses of which it is remembered when they came; the oldest go first."""


class Rate(NamedTuple):
    """So many at once, and so many a second in the long run."""

    burst: float
    per_second: float


class Handshakes:
    """Who may shake hands now."""

    def __init__(self, each: Rate, together: Rate) -> None:
        """Prepare; `each`: from one address."""
        self._each, self._half = each, Rate(together.burst / 2, together.per_second / 2)
        self._spent: dict[str, float] = {}
        """When each address has its whole burst again, in the order in which they were last let in."""
        self._came: dict[str, float] = {}
        """When addresses came last, in that order."""

    def __len__(self) -> int:
        """The addresses that are remembered: those that were let in while one's burst takes to come back."""
        return len(self._spent)

    def allows(self, address: str, now: float) -> bool:
        """Whether one more handshake with that address may begin; counts it if so. `now` never goes back."""
        while self._spent and next(iter(self._spent.values())) <= now:
            del self._spent[next(iter(self._spent))]
        shares = (_NEWCOMERS, _EVERYBODY) if self._is_new(address, now) else (_EVERYBODY,)
        if (mine := self._after(self._each, address, now)) is None:
            return False
        for share in shares:
            if (ours := self._after(self._half, share, now)) is not None:
                for key, again in ((address, mine), (share, ours)):
                    self._spent.pop(key, None)
                    self._spent[key] = again
                return True
        return False

    def _is_new(self, address: str, now: float) -> bool:
        """Whether the address has not come lately; notes that it has now."""
        before = self._came.pop(address, None)
        self._came[address] = now
        if len(self._came) > KNOWN_MAX:
            del self._came[next(iter(self._came))]
        return before is None or now - before >= LATELY

    def _after(self, rate: Rate, key: str, now: float) -> float | None:
        """When its burst is whole again after one more; None where there is none left."""
        again = max(self._spent.get(key, now), now) + 1 / rate.per_second
        return again if again - now <= rate.burst / rate.per_second else None
