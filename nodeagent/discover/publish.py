"""Keeps NodeFeature `gpu-<node>` equal to the scans: the loop and its writes.

A scan every few seconds makes the wanted report; the object's own watch tells when somebody
deletes or edits it. Whichever moves, the two are compared, and only a difference is written.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import structlog

from controllers.api import names
from controllers.api.resources import NODEFEATURE
from controllers.runtime.controller import Controller
from controllers.runtime.plan import Apply, Merge, Ref
from nodeagent.discover import metrics
from nodeagent.discover.feature import confirm, difference, report
from nodeagent.host.sysfs import ScanError

if TYPE_CHECKING:
    from controllers.api.nodefeature import NodeFeature
    from controllers.runtime.executor import Executor
    from controllers.runtime.store import Store
    from nodeagent.discover.scan import Facts, NodeScanner

log = structlog.get_logger()
STALE_SCANS = 3


class Publisher:
    """One node's report."""

    def __init__(
        self,
        executor: Executor,
        store: Store[NodeFeature],
        scanner: NodeScanner,
        *,
        node: str,
        period: float,
        slack: float,
    ) -> None:
        """Prepare; `period` and `slack` in seconds: how often to scan, and how long the first scan may take."""
        self._execute, self._store, self._scanner = executor.execute, store, scanner
        self._node, self._period, self._slack = node, period, slack
        self._name = names.agent_feature(node)
        self._ref = Ref(NODEFEATURE, self._name, names.NAMESPACE)
        self._state = confirm.State()
        self._want: dict[str, Any] | None = None
        self._scanned_at = float("-inf")
        self.confirmed = False
        """Whether the API server has had a report of this run."""
        self._writer = Controller("discover", self._write, workers=1)
        store.subscribe(lambda _old, _new: self._writer.add(self._name))

    @property
    def fresh(self) -> bool:
        """Whether the last scan that succeeded is recent."""
        return time.monotonic() - self._scanned_at <= STALE_SCANS * self._period + self._slack

    async def run(self) -> None:
        """Scan and publish until cancelled; the store must be synced."""
        published = self._have
        features = published.spec.features if published is not None else None
        self._state = confirm.start(features, self._scanner.boot_id)
        async with asyncio.TaskGroup() as group:
            group.create_task(self._writer.run(), name="writer")
            group.create_task(self._scan_forever(), name="scanner")

    @property
    def _have(self) -> NodeFeature | None:
        return self._store.get(f"{names.NAMESPACE}/{self._name}")

    async def _scan_forever(self) -> None:
        loop = asyncio.get_running_loop()
        due, failing = loop.time(), ""
        while True:
            try:
                self._take(await self._scanner.scan())
                result, failing = "ok", ""
            except ScanError as error:
                result = "failed"
                if str(error) != failing:
                    failing = str(error)
                    log.error("the node cannot be scanned; the report stays as it is", error=failing)  # noqa: TRY400
            metrics.SCANS.labels(result).inc()
            due = max(due + self._period, loop.time())
            await asyncio.sleep(due - loop.time())

    def _take(self, facts: Facts) -> None:
        """Believe a scan, and have the report written where it says something new."""
        before = self._state.cards
        seen = report.observe(facts.bus, facts.driver, facts.toolkit, facts.system, pending=facts.pending)
        self._state = confirm.step(self._state, seen)
        cards, driver, tools, system = (
            self._state.cards,
            self._state.driver,
            self._state.toolkit,
            self._state.system,
        )
        self._scanned_at = time.monotonic()
        metrics.LAST_SCAN.set_to_current_time()
        metrics.CARDS.set(len(cards))
        metrics.LOST.set(len(confirm.missed(self._state)))
        _tell(before, cards, seen)
        if confirm.awaited(self._state):
            return  # until all are seen or confirmed lost, what an earlier boot reported stays
        self._want = report.features(
            {address: known.values for address, known in cards.items()},
            driver.values if driver is not None else None,
            tools.values if tools is not None else None,
            facts.boot_id,
            system.values if system is not None else None,
        )
        self._writer.add(self._name)

    async def _write(self, _: str) -> None:
        want, have = self._want, self._have
        if want is None:
            return
        if not difference.same(have, self._node, want):
            await self._execute((Apply(self._ref, difference.body(self._node, want)),))
            have = self._have
            if have is not None and (foreign := difference.removal(have, want)):
                log.info("taking out what others wrote into the report", features=sorted(_names(foreign)))
                await self._execute((Merge(self._ref, have.metadata.resource_version, foreign),))
        self.confirmed = True


def _names(patch: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = patch["spec"]["features"]["attributes"]
    return found


def _tell(before: Any, after: Any, seen: report.NodeScan) -> None:
    """Log what came and went, once."""
    for address in sorted(after.keys() - before.keys()):
        card = after[address].values
        log.info("a card", address=address, ids=f"{card.get('vendor')}:{card.get('device')}", driver=card.get("driver"))
    for address in sorted(before.keys() - after.keys()):
        log.warning("a card is gone: three scans have not found it", address=address)
    for address in sorted(address for address in after if after[address].missed == 1):
        log.warning("a card is not found; it stays in the report until two more scans miss it", address=address)
    for address in sorted(seen.unclear & after.keys()):
        log.warning("the ids of a card cannot be read; it stays as it was", address=address)
