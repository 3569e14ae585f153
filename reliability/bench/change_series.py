"""Series of changes, of raw writes, and of changes that nobody reads, at one pace. Times in seconds."""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from controllers.api.resources import GPUDEVICE
from reliability.bench import stats
from reliability.bench.change_rows import Floor, Round, Unread
from reliability.bench.load import at_pace
from reliability.bench.quiet import Moment, others
from reliability.bench.track import WRITES
from reliability.kit.process import total
from tools.errors import UserError

if TYPE_CHECKING:
    from reliability.bench.floor import RawClient
    from reliability.bench.reports import Reports
    from reliability.bench.rows import Sizes
    from reliability.bench.subject import Subject
    from reliability.bench.watch import ObjectWatch, Shown

STEP_SECONDS = 30.0
STALL = "gpu_event_loop_stall_seconds"
RECONCILES = "gpu_reconciles_total"


@dataclass(frozen=True, slots=True)
class Change:
    """One change; seconds from its request being sent, and `late` until then."""

    card: float
    answered: float
    summary: float
    late: float


@dataclass
class Series:
    """The inventory at work, and who changes and watches what it works on."""

    subject: Subject
    reports: Reports
    raw: RawClient
    cards: ObjectWatch
    summaries: ObjectWatch
    sizes: Sizes
    turn: int = 0
    """Each series changes another card of each node."""

    @property
    def count(self) -> int:
        """Changes of one series: as many as the time holds, each of another node."""
        return min(self.sizes.nodes, max(1, round(self.sizes.changes_a_second * self.sizes.change_seconds)))

    async def floor(self, count: int) -> Floor:
        """Raw writes of cards' statuses, each of another node."""
        self.turn += 1

        async def one(number: int, _due: float) -> float:
            name = self.reports.card(number, self.turn)
            meta, degrees = self.cards.meta[name], 30 + self.turn
            seen = self.cards.expect(name, lambda card: card.status.get("health", {}).get("temperatureC") == degrees)
            body = {
                "apiVersion": GPUDEVICE.api_version,
                "kind": GPUDEVICE.kind,
                "metadata": {"name": name, "uid": meta.uid, "resourceVersion": meta.resource_version},
                "status": {"health": {"temperatureC": degrees}},
            }
            sent = time.monotonic()
            await self.raw.apply(GPUDEVICE.path(None, name, "status"), body)
            return await _within(seen, name) - sent

        moment = self._now()
        took = await at_pace(min(count, self.sizes.nodes), self.sizes.changes_a_second, one)
        return Floor(stats.summary(took), others(moment, self._now()))

    async def changes(self, count: int) -> Round:
        """Changes of reports, each of another node."""
        self.turn += 1
        loop = asyncio.get_running_loop()

        async def one(number: int, due: float) -> Change:
            late = loop.time() - due
            card, memory, node = self._expected(number)
            sent = time.monotonic()
            await self.reports.change(number, self.turn)
            answered = time.monotonic()
            shown_at = await _within(memory, card)
            summary_at = await _within(node, self.reports.nodes[number])
            return Change(shown_at - sent, shown_at - answered, summary_at - sent, late)

        before, cpu, moment = await self.subject.metrics(), self.subject.cpu_seconds(), self._now()
        self.cards.events.clear()
        self.summaries.events.clear()
        made = await at_pace(min(count, self.sizes.nodes), self.sizes.changes_a_second, one)
        disturbed = others(moment, self._now())
        await asyncio.sleep(self.sizes.settle)  # a write too many would come after the one that was waited for
        cpu, after = self.subject.cpu_seconds() - cpu, await self.subject.metrics()
        events = [*self.cards.events.values(), *self.summaries.events.values()]
        return Round(
            card=stats.summary([one.card for one in made]),
            answered=stats.summary([one.answered for one in made]),
            summary=stats.summary([one.summary for one in made]),
            late=stats.summary([one.late for one in made]),
            writes=total(after, WRITES) - total(before, WRITES),
            changed=len(events),
            events=sum(events),
            cpu_a_change=cpu / len(made),
            stall=after[STALL],
            others=disturbed,
        )

    def _expected(self, number: int) -> tuple[str, asyncio.Future[float], asyncio.Future[float]]:
        """A node's card whose memory is about to change, and when it and the node's summary will show that."""
        card, memory = self.reports.card(number, self.turn), self.reports.memory(number, self.turn) - 1

        def in_summary(inventory: Shown) -> bool:
            devices = inventory.status["hw"]["devices"]
            return any(one["name"] == card and one.get("memoryMiB") == memory for one in devices)

        shows = self.cards.expect(card, lambda card: card.status["hardware"].get("memoryMiB") == memory)
        return card, shows, self.summaries.expect(self.reports.nodes[number], in_summary)

    async def unread(self) -> Unread:
        """Changes of what is not read, and then one of what is, which must be all that is written about."""
        before = await self.subject.metrics()

        async def one(number: int, _due: float) -> None:
            await self.reports.touch(number, number)

        await at_pace(self.count, self.sizes.changes_a_second, one)
        last = await self.changes(1)
        after = await self.subject.metrics()
        written, looked = (total(after, name) - total(before, name) for name in (WRITES, RECONCILES))
        return Unread(self.count, written - last.events, looked)

    def _now(self) -> Moment:
        return Moment.now(self.subject.folder)


async def _within(seen: asyncio.Future[float], name: str) -> float:
    try:
        async with asyncio.timeout(STEP_SECONDS):
            return await seen
    except TimeoutError:
        raise UserError(f"no watch has shown the change of {name} within {STEP_SECONDS:.0f} s") from None
