"""Queries the driver (NVML) in a child process with a deadline, and only when an answer may have changed.

A reading opens the cards, which takes seconds each where nobody else keeps them open. So the
driver is asked when what can be seen without it has changed (its version, the functions on the
bus and their drivers, the MIG instances), when an answer was not whole (three times in a row,
then at leisure), and else once a period.

The child is run by `nodeagent.host.child`, which says what becomes of one that hangs.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any

import structlog

from nodeagent.host import metrics
from nodeagent.host.child import Children, DriverUnavailable, answered
from nodeagent.host.facts.records import Driver, DriverCard, MigDevice

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence
    from pathlib import Path

log = structlog.get_logger()
PATIENCE = 2.0  # seconds that a scan waits for an answer before it goes on with the last one
QUICK_TRIES = 3
_TUPLES = ("compute", "mig_profiles", "nvlink_peers", "nvlink_links", "failed")


@dataclass(frozen=True, slots=True)
class Timing:
    """When to ask, in seconds."""

    period: float = 60.0
    deadline: float = 60.0
    """Eight cards that nobody keeps open take half a minute to begin with."""


@dataclass(frozen=True, slots=True)
class DriverAnswer:
    """What the driver said last."""

    driver: Driver | None = None
    """None where it said nothing."""
    pending: bool = False
    """Whether a newer answer is awaited: then silence about a value says nothing yet."""
    reason: str = ""
    """Why it told less than all; empty where it told all."""


class DriverProbe:
    """One driver; used from the event loop."""

    def __init__(self, roots: Callable[[], Sequence[Path]], timing: Timing) -> None:
        """Prepare; `roots` tells, for each question anew, folders of the host's files where the library may lie."""
        self._roots, self._timing = roots, timing
        self._task: asyncio.Task[None] | None = None
        self._children = Children()
        self._last: Driver | None = None
        self._loading = ""
        """The loading of the driver that was there when it was asked for that."""
        self._asked_about: Hashable = None
        self._asked_at = float("-inf")
        self._poor = 0
        self._why = ""

    async def answer(self, version: str, fingerprint: Hashable, load: str = "") -> DriverAnswer:
        """What the driver of that version says, asked anew where `fingerprint` differs from the last time's.

        `load`: which loading of it is there now; what was said under another one says nothing of this one.
        """
        about = (version, load, fingerprint)
        if self._task is None and self._due(about):
            first = self._asked_about is None
            self._asked_about, self._asked_at = about, time.monotonic()
            self._task = asyncio.create_task(self._ask(version, load), name="driver")
            if first:  # nothing is known yet, and a first report without the driver's part would be rewritten at once
                await self._task
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=PATIENCE)
            if not self._task.done():
                return DriverAnswer(self._last if self._loading == load else None, pending=True, reason=self._why)
            self._task.result()
            self._task = None
        if self._loading != load:  # it was on its way when the driver was loaded anew; the next look asks
            return DriverAnswer(pending=True)
        return DriverAnswer(self._last, reason=self._why)

    def forget(self) -> None:
        """The driver is not loaded: what it said no longer counts."""
        self._last, self._asked_about, self._poor = None, None, 0

    async def close(self) -> None:
        """End a question that is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _due(self, about: Hashable) -> bool:
        age = time.monotonic() - self._asked_at
        return about != self._asked_about or 0 < self._poor < QUICK_TRIES or age >= self._timing.period

    async def _ask(self, version: str, load: str) -> None:
        started = time.monotonic()
        try:
            self._last = await self._reading(version)
            whole = not self._last.failed and not any(card.failed for card in self._last.cards.values())
            result, why = ("whole", "") if whole else ("partial", "some cards or values are not told")
        except DriverUnavailable as silence:
            self._last, result, why = None, "none", str(silence)
        self._loading = load
        self._poor = 0 if result == "whole" else self._poor + 1
        metrics.READINGS.labels(result).inc()
        metrics.READING_SECONDS.set(time.monotonic() - started)
        if why != self._why:
            self._why = why
            log.warning("the driver does not tell all", why=why) if why else log.info("the driver tells all again")

    async def _reading(self, version: str) -> Driver:
        flags = [f"--version={version}", *(f"--root={root}" for root in await asyncio.to_thread(self._roots))]
        return decode(await self._children.run_module("nodeagent.host.nvml", flags, self._timing.deadline))


def decode(output: bytes) -> Driver:
    """The driver from what the child printed, in the last line; raises DriverUnavailable."""
    return answered(output, "driver", _driver)


def _driver(told: dict[str, Any]) -> Driver:
    cards = {address: DriverCard(**_arguments(DriverCard, card)) for address, card in told["cards"].items()}
    return Driver(**{**_arguments(Driver, told), "cards": cards})


def _arguments(cls: type, values: dict[str, Any]) -> dict[str, Any]:
    known = {field.name for field in fields(cls)}
    found = {
        key: tuple(value) if key in _TUPLES and value is not None else value
        for key, value in values.items()
        if key in known
    }
    if "mig_devices" in found:
        found["mig_devices"] = tuple(MigDevice(**_arguments(MigDevice, device)) for device in found["mig_devices"])
    return found
