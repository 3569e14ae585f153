"""Runs cycles for the time asked for, with readings all the while, and then a minute without a write."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from reliability.kit.progress import show_progress
from reliability.soak import object_counts, workload_plan
from reliability.soak.records import Boundary, Reading, is_ours
from reliability.soak.workload_plan import Pace
from sim.view import LateError

if TYPE_CHECKING:
    from reliability.soak.actors import Actors
    from reliability.soak.environment import Environment
    from reliability.soak.readings import Reader
    from tools.programs import Progress

RETURN_SECONDS = 90.0
"""So long, from the end of a cycle, everything may take to be as before; longer ends the soak."""
REST_SECONDS = 10.0
"""After the churn: so long without a change counts as rest."""
SHARE_OF_WARM_UP = 0.2
TELL = 4
"""Every so many cycles a line stays on the screen."""


@dataclass(frozen=True, slots=True)
class Length:
    """How long each part takes; seconds."""

    churn: float
    pace: Pace = field(default_factory=Pace)
    least_warm_up: float = 60.0
    quiet: float = 60.0
    period: float = 5.0
    """Between two readings."""

    @property
    def warm_up(self) -> float:
        """The begin, which is not judged: caches, pools of connections and the allocator's arenas fill."""
        return max(self.least_warm_up, SHARE_OF_WARM_UP * self.churn)

    @property
    def cycles(self) -> int:
        """Whole cycles of the churn; at least one."""
        return max(1, round(self.churn / self.pace.cycle))


@dataclass
class Course:
    """What was seen on the way."""

    ends: list[Boundary] = field(default_factory=list)
    readings: list[dict[str, Reading]] = field(default_factory=list)
    """In between, in order."""
    late: list[str] = field(default_factory=list)
    """Cycles after which not everything was as before in their time, each with what was not."""
    begun: int = 0
    """Cycles that were begun."""
    broken: str = ""
    """Why the churn ended before its time."""
    quiet_writes: dict[str, float] = field(default_factory=dict)
    """Requests that change something, by process, in the quiet minute."""
    quiet_changes: list[str] = field(default_factory=list)
    """Objects of the module whose version changed in it."""
    left: list[str] = field(default_factory=list)
    """What is not as it was before the churn, at the very end."""
    came: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Of each process of the module since when each series that its metrics have at the end is there, in seconds."""

    def judged(self, warm_up: float) -> list[Boundary]:
        """The ends of cycles after the warm-up."""
        return [end for end in self.ends if end.at - self.ends[0].at >= warm_up - 1.0]

    def new_series(self, warm_up: float) -> dict[str, list[str]]:
        """By process the series of metrics that came after the warm-up and stayed."""
        since = self.ends[0].at + warm_up
        late = {process: sorted(s for s, at in came.items() if at > since) for process, came in self.came.items()}
        return {process: series for process, series in late.items() if series}


@dataclass
class Runner:
    """Goes through a course. What goes wrong in the cluster is in the course, not raised."""

    environment: Environment
    reader: Reader
    actors: Actors
    length: Length
    seed: int
    progress: Progress
    course: Course = field(default_factory=Course)

    async def run(self) -> None:
        """All of it."""
        length, course = self.length, self.course
        course.came = self.reader.came
        course.ends.append(await _end(self.environment, self.reader))
        title = f"churn, {length.cycles} cycles of {length.pace.cycle:.0f} s"
        async with (
            _reading(self.reader, course, length.period),
            show_progress(self.progress, title, self._elapsed, round(length.churn)),
        ):
            for number in range(1, length.cycles + 1):
                if not await self._cycle(number):
                    return
                if number % TELL == 1 or number == length.cycles:
                    self.progress.note(self._told(number))
        async with show_progress(self.progress, f"and then nothing: writes in {length.quiet:.0f} s"):
            await _quiet(self.environment, self.reader, course, length.quiet)

    def _elapsed(self) -> int:
        """Seconds of churn so far."""
        return min(round(time.monotonic() - self.course.ends[0].at), round(self.length.churn))

    async def _cycle(self, number: int) -> bool:
        """One cycle; False where the cluster does not come back."""
        start, pace = time.monotonic(), self.length.pace
        self.course.begun = number
        due = start + pace.cycle
        await self.actors.play(workload_plan.cycle(self.seed, number, pace), start)
        last = time.monotonic()
        try:
            await self.environment.returned(max(0.1, due - last))
        except LateError as late:
            self.course.late.append(f"cycle {number}: {late}")
            try:
                await self.environment.returned(RETURN_SECONDS)
            except LateError as never:
                self.course.broken = f"cycle {number}: {never}"
                return False
        settled = time.monotonic() - last
        await asyncio.sleep(max(0.0, due - time.monotonic()))
        self.course.ends.append(await _end(self.environment, self.reader, settled))
        return True

    def _told(self, number: int) -> str:
        ours = sorted((name, one.rss) for name, one in self.course.ends[-1].readings.items() if is_ours(name))
        memory = ", ".join(f"{name} {rss:.0f}" for name, rss in ours)
        left = (self.length.cycles - number) * self.length.pace.cycle
        return (
            f"cycle {number} of {self.length.cycles}, {self.actors.done['pod']} pods; MB: {memory}; {left:.0f} s to go"
        )


async def _end(environment: Environment, reader: Reader, settled: float = 0.0) -> Boundary:
    kept = await object_counts.counts(environment.client)
    readings = await reader.read()
    return Boundary(time.monotonic(), readings, kept, settled)


@asynccontextmanager
async def _reading(reader: Reader, course: Course, period: float) -> AsyncIterator[None]:
    """Read every few seconds until the end of the block."""

    async def read() -> None:
        while True:
            await asyncio.sleep(period)
            course.readings.append(await reader.read())

    task = asyncio.create_task(read())
    try:
        yield
    finally:
        task.cancel()
        with suppress(asyncio.CancelledError):
            await task


async def _quiet(environment: Environment, reader: Reader, course: Course, seconds: float) -> None:
    """Wait for rest, and count what is written then."""
    await _rested(environment)
    before, versions = await reader.read(), await object_counts.versions(environment.client)
    await asyncio.sleep(seconds)
    after, now = await reader.read(), await object_counts.versions(environment.client)
    for process in filter(is_ours, after):
        old, new = before[process].own if process in before else None, after[process].own
        if new is not None:
            course.quiet_writes[process] = new.changes - (old.changes if old is not None else 0.0)
    course.quiet_changes = sorted(name for name, _ in set(versions.items()) ^ set(now.items()))
    course.left = environment.moved()


async def _rested(environment: Environment) -> None:
    """Wait until no object of the module has changed for a while; what still changes then is counted after."""
    limit, before, since = (
        time.monotonic() + RETURN_SECONDS,
        await object_counts.versions(environment.client),
        time.monotonic(),
    )
    while time.monotonic() - since < REST_SECONDS and time.monotonic() < limit:
        await asyncio.sleep(1.0)
        if (now := await object_counts.versions(environment.client)) != before:
            before, since = now, time.monotonic()
