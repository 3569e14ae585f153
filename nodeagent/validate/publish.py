"""Keeps the role's part of `gpu.validation` in the NodeFeature equal to the scans: the loop.

What is written, and under which field manager, is in `checks.difference`.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import structlog

from controllers.api import names, validation
from controllers.runtime.controller import Controller
from nodeagent.validate import metrics
from nodeagent.validate.checks import cardfacts, difference, renewal, report

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.api.nodefeature import NodeFeature
    from controllers.runtime.executor import Executor
    from controllers.runtime.store import Store
    from nodeagent.validate.checks.check import Verdict
    from nodeagent.validate.checks.facts import Facts
    from nodeagent.validate.scanner import NodeScanner

log = structlog.get_logger()
STALE_LOOKS = 3
SOON = 5.0
"""Seconds between two looks while this container is about to end: instances come one after another."""
_ENDED_FOR = validation.key(validation.CONTAINER, validation.ENDED_FOR)
_VALUES = {validation.OK: 1, validation.FAILED: 0, validation.UNKNOWN: -1}


class Publisher:
    """One role on one node."""

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
        """Prepare; `period` and `slack` in seconds: how often to look, and how long a look may take."""
        self._execute, self._store, self._scanner = executor.execute, store, scanner
        self._role, self._period, self._slack = scanner.role, period, slack
        self._key = f"{names.NAMESPACE}/{names.agent_feature(node)}"
        self._want: dict[str, str] = {}
        self._cards: cardfacts.Cards = {}
        """Of role `driver` it stays empty, and it writes none."""
        self._silent = 0
        self._looked_at = float("-inf")
        self.confirmed = False
        """Whether the API server has had what this run found."""
        self._lacks = ""
        """What the last look found lacking in this container, by its mark (`renewal`)."""
        self._ended_for = ""
        """For what an earlier container of this role ended, as its report says."""
        self._ending = False
        self._ended = asyncio.Event()
        self._writer = Controller("validate", self._write, workers=1)
        store.subscribe(lambda _old, _new: self._writer.add(self._key))

    @property
    def passes(self) -> bool:
        """Whether the last look, a recent one, found all in order."""
        recent = time.monotonic() - self._looked_at <= STALE_LOOKS * self._period + self._slack
        return recent and self._want.get(self._role) == validation.OK

    async def run(self) -> None:
        """Look and publish until cancelled, or until this container is to be made anew; the store must be synced."""
        published = self._store.get(self._key)
        self._want = difference.elements(published, self._role)
        self._scanner.recall(self._want)
        self._ended_for = self._want.get(_ENDED_FOR, "")
        if self._role == validation.CONTAINER and published is not None:
            self._cards = cardfacts.start(published.spec.features.instances.nvml)
        async with asyncio.TaskGroup() as group:
            tasks = (
                group.create_task(self._writer.run(), name="writer"),
                group.create_task(self._look_forever(), name="scanner"),
            )
            await self._ended.wait()
            for task in tasks:
                task.cancel()

    async def _look_forever(self) -> None:
        loop = asyncio.get_running_loop()
        due = loop.time()
        while True:
            try:
                facts = await self._scanner.scan()
            except OSError as error:  # then nothing is said, and what stands grows stale
                log.error("the node cannot be looked at", error=str(error))  # noqa: TRY400
            else:
                facts = self._completed(facts)
                found = report.evaluate(self._role, facts)
                self._take(facts, report.attributes(self._role, facts, found))
                _measure(found)
            period = min(self._period, SOON) if self._lacks not in ("", self._ended_for) else self._period
            due = max(due + period, loop.time())
            await asyncio.sleep(due - loop.time())

    def _completed(self, facts: Facts) -> Facts:
        """With what role `driver` tells, where this container cannot see it."""
        have = self._store.get(self._key)
        feature = have.spec.features.attributes.validation if have is not None else None
        return renewal.with_reported_access(facts, feature.elements if feature is not None else {})

    def _renew(self, facts: Facts) -> None:
        """End this container where it lacks what one that is made now may have: at two looks in a row, and once.

        It is decided at each look anew: until what it ends for stands in the report, every look says so again.
        """
        before, self._lacks = self._lacks, renewal.mark(facts)
        if facts.access is not None and not renewal.lacking(facts):
            self._ended_for = ""
        self._ending = self._lacks == before and self._lacks not in ("", self._ended_for)
        if noted := self._lacks if self._ending else self._ended_for:
            self._want[_ENDED_FOR] = noted
        if self._lacks and self._lacks == self._ended_for and before != self._lacks:
            log.warning(
                "this container was made anew and lacks device nodes of MIG instances all the same",
                **_log_fields(facts),
            )
        elif self._ending:
            log.warning(
                "device nodes of new MIG instances are lacking here; ending, to be made anew", **_log_fields(facts)
            )

    def _take(self, facts: Facts, new: Mapping[str, str]) -> None:
        """Believe a look, and have it written where it says something new."""
        before = self._want
        if self._role == validation.CONTAINER:
            self._cards = cardfacts.step(self._cards, facts)
        self._want, self._silent = report.debounce(self._role, before, new, self._silent)
        self._want.pop(_ENDED_FOR, None)
        if self._role == validation.CONTAINER:
            self._renew(facts)
        self._looked_at = time.monotonic()
        if self._want != before:
            told = {
                name: self._want.get(validation.key(self._role, name))
                for name in (validation.REASON, validation.MESSAGE)
            }
            result = self._want[self._role]
            (log.info if result == validation.OK else log.warning)("validated", result=result, **told)
        self._writer.add(self._key)

    async def _write(self, _: str) -> None:
        want, have = self._want, self._store.get(self._key)
        if not want or self._looked_at == float("-inf"):
            return
        if have is None:
            self.confirmed = False
            return  # discover makes the report, and its coming wakes us
        told = (self._role, want, cardfacts.elements(self._cards))
        if writes := difference.applies(have, *told):
            await self._execute(writes)
            now = self._store.get(self._key)
            if now is not None and (patches := difference.removals(now, *told)):
                found = [patch.body["spec"]["features"] for patch in patches]
                log.info("taking out what others wrote under this role's names", features=found)
                await self._execute(patches)
        self.confirmed = True
        if self._ending and want.get(_ENDED_FOR) == self._lacks:  # noted, so the next one does not end for the same
            self._ended.set()


def _log_fields(facts: Facts) -> dict[str, list[str]]:
    return {"lacking": [f"/dev/nvidia-caps/nvidia-cap{minor}" for minor in sorted(renewal.lacking(facts))]}


def _measure(found: Verdict) -> None:
    metrics.LOOKS.labels(found.result).inc()
    metrics.LAST_LOOK.set_to_current_time()
    metrics.CARDS.set(len(found.passed))
    for check in found.checks:
        metrics.CHECK.labels(check.name).set(_VALUES[check.result])
