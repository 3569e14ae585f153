"""The record of a run, of its reference runs, and of what its fault may cost: the oracles' input. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reliability.faults.machine import Given

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from reliability.faults.eventual_invariants import Span
    from reliability.faults.process_proxy import Sent
    from reliability.faults.snapshot import Picture
    from reliability.faults.trace import Objects, Revision


@dataclass(frozen=True)
class Budget:
    """What a fault may cost; times in seconds."""

    more: int = 0
    """Writes of one object beside those of the reference."""
    releases: int = 0
    """Releases of one pod from its queue beside that."""
    not_found: int = 0
    """Attempts at one object that is gone beside the reference's; as many as writes at the least."""
    events: int = 4
    """Events of one process beside those of the reference."""
    slack: float = 2.0
    """For which something may stand that a sweep is to end, while somebody is there to sweep."""
    blind: float = 0.0
    """For which the fault itself keeps a process that is there from seeing or doing."""
    behind: float = 0.0
    """By which the clock may be behind of who reserves cards for the queue: its reservations end as much too early."""
    recovery: float = 5.0
    """By which the story and its rest may take longer than the reference's."""
    ends: bool = False
    """Whether a process may end by itself: one that loses its lease does."""
    plain: bool = True
    """Whether other pods are created as ever meanwhile: not while the API server itself is away."""
    plain_seconds: float = 3.0
    """Within which a pod that asks for no card is created, on a machine that is busy with other control planes."""


@dataclass
class Run:
    """What was seen of one run."""

    end: Picture = field(default_factory=dict)
    objects: Objects = field(default_factory=dict)
    """What there is in the end."""
    initial: Objects = field(default_factory=dict)
    history: Sequence[Revision] = ()
    sent: Sequence[Sent] = ()
    ended: Mapping[str, Sequence[float]] = field(default_factory=dict)
    """By process, when it was killed, monotonic."""
    away: Sequence[Span] = ()
    """When nobody was there to sweep, epoch."""
    lease: float = 15.0
    """Seconds that a lease lasts."""
    restarts: Mapping[str, int] = field(default_factory=dict)
    """By process, how often it was started again without having been killed."""
    logs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Lines, by process."""
    plain: Sequence[tuple[float, str]] = ()
    """Of bystanders: seconds until it was created, and its refusal or nothing."""
    until: float = 0.0
    """When it ended, epoch."""
    story: float = 0.0
    """Seconds until people were done, less those for which the fault itself held them up."""
    after: float = 0.0
    """Seconds from then, or from when the fault was taken back, to rest."""
    rested: bool = True
    """Whether nothing was written any more in the end."""
    trouble: Sequence[str] = ()
    """What people's own steps ended in."""
    given: Given = field(default_factory=Given)
    """What the machine gave it."""


@dataclass
class Reference:
    """What runs without a fault looked like."""

    end: Picture
    masked: set[str]
    made: list[Counter[str]]
    """Of each: how often an object of ours was made or deleted."""
    writes: Counter[str]
    """The most of all, by process, verb and object."""
    spread: Counter[str] = field(default_factory=Counter)
    """The most less the least."""
    story: float = 0.0
    """The longest of all, in seconds, as is `after`."""
    after: float = 0.0
    hasty: bool = False
    """Whether it is luck what is made and deleted on the way."""
    waits: Sequence[float] = ()
    """Of each: seconds for which it waited for each second of CPU that it had."""

    @property
    def wait(self) -> float:
        """Up to which a run had the time that these had: the most of them, and what they differed by, as of writes."""
        return 2 * max(self.waits, default=0.0) - min(self.waits, default=0.0)


@dataclass(frozen=True)
class Verdict:
    """What is wrong, in sentences: what cannot be chance, what must come twice, and what a slow machine does, too."""

    certain: Sequence[str] = ()
    doubtful: Sequence[str] = ()
    paced: Sequence[str] = ()
    """How often something was written, and what took too long."""
    busy: str = ""
    """Why what is `paced` is not judged; empty where it is."""

    @property
    def failures(self) -> list[str]:
        """All that is judged."""
        return [*self.certain, *self.doubtful, *(() if self.busy else self.paced)]
