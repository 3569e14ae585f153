"""Tests CUDA on the node's cards, each in a child process (`nodeagent.host.cuda`), no oftener than needed.

A card that passed is not tried again in the same boot, under the same driver and in the same state: the marks of those
that passed stand in the report, and a validator that starts anew begins with them. What failed, and a card that was in
use, is tried again after pauses that grow, and at once when something has changed that can be seen without trying.
"""

from __future__ import annotations

import asyncio
import time
from collections import defaultdict
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import structlog

from nodeagent.host.child import Children, DeadlineExceeded, DriverUnavailable, answered
from nodeagent.host.driver_probe import PATIENCE, Timing
from nodeagent.host.facts.records import CudaAnswer
from nodeagent.validate import metrics

if TYPE_CHECKING:
    from collections.abc import Hashable, Mapping, Sequence
    from pathlib import Path

    from nodeagent.validate.checks.marks import Wanted

log = structlog.get_logger()
GROWTH, LONGEST = 2, 8
"""A pause is twice the one before it, up to eight times the first."""
PASSED = CudaAnswer()


@dataclass(slots=True)
class Try:
    """The last try of a card under one mark, when it ended, and how long to wait for the next."""

    answer: CudaAnswer
    at: float
    pause: float


class Trials:
    """The cards of one node; used from the event loop."""

    def __init__(self, roots: Sequence[Path], timing: Timing, patience: float | None = PATIENCE) -> None:
        """Prepare. `timing`: the first pause, and each card's deadline; `patience`: how long an answer is waited for.

        Patience is in seconds; None waits until every card has been tried.
        """
        self._roots, self._timing, self._patience = roots, timing, patience
        # Of each card: one whose program cannot be ended keeps nobody from trying the others.
        self._children: defaultdict[str, Children] = defaultdict(Children)
        self._passed: dict[str, str] = {}
        self._recalled: frozenset[str] = frozenset()
        self._tries: dict[str, Try] = {}
        self._task: asyncio.Task[None] | None = None
        self._about: Hashable = None

    def recall(self, marks: str) -> None:
        """Believe what an earlier process noted: marks, comma-separated."""
        self._recalled = frozenset(filter(None, marks.split(",")))

    async def answers(self, cards: Mapping[str, Wanted], version: str, about: Hashable) -> dict[str, CudaAnswer]:
        """What is known of these cards; one that is awaited is not named. `about`: what may change an answer."""
        if about != self._about:
            self._about = about
            for known in self._tries.values():
                known.at = float("-inf")
        self._tries = {one.mark: self._tries[one.mark] for one in cards.values() if one.mark in self._tries}
        if self._task is None and (due := {address: one for address, one in cards.items() if self._due(address, one)}):
            self._task = asyncio.create_task(self._try(due, version), name="cuda")
        if self._task is not None:
            await asyncio.wait({self._task}, timeout=self._patience)
            if self._task.done():
                self._task.result()
                self._task = None
        return {address: answer for address, one in cards.items() if (answer := self._known(address, one)) is not None}

    def marks(self, cards: Mapping[str, Wanted]) -> str:
        """What to note of the cards that passed, for `recall`."""
        return ",".join(sorted(one.mark for address, one in cards.items() if self._has_passed(address, one)))

    async def close(self) -> None:
        """End a try that is under way."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    def _has_passed(self, address: str, one: Wanted) -> bool:
        return self._passed.get(address) == one.mark or one.mark in self._recalled

    def _known(self, address: str, one: Wanted) -> CudaAnswer | None:
        if self._has_passed(address, one):
            return PASSED
        known = self._tries.get(one.mark)
        return known.answer if known is not None else None

    def _due(self, address: str, one: Wanted) -> bool:
        known = self._tries.get(one.mark)
        return not self._has_passed(address, one) and (known is None or time.monotonic() >= known.at + known.pause)

    async def _try(self, cards: Mapping[str, Wanted], version: str) -> None:
        for address, one in cards.items():
            answer = await self._answer(address, one, version)
            metrics.CUDA_TRIES.labels(_result(answer)).inc()
            before = self._tries.pop(one.mark, None)
            if answer.works:
                self._passed[address] = one.mark
                continue
            first = self._timing.period
            pause = first if before is None else min(before.pause * GROWTH, first * LONGEST)
            self._tries[one.mark] = Try(answer, time.monotonic(), pause)
            if before is None or _result(before.answer) != _result(answer):
                _tell(address, answer)

    async def _answer(self, address: str, one: Wanted, version: str) -> CudaAnswer:
        flags = [one.target, f"--version={version}", *(f"--root={root}" for root in self._roots)]
        try:
            return decode(await self._children[address].run_module("nodeagent.host.cuda", flags, self._timing.deadline))
        except DriverUnavailable as silence:
            return CudaAnswer(unavailable_reason=str(silence), late=isinstance(silence, DeadlineExceeded))


def _tell(address: str, answer: CudaAnswer) -> None:
    if answer.in_use:
        log.info("somebody uses the card, so CUDA is tried later", card=address, why=answer.in_use)
    else:
        log.warning("CUDA was tried and does not work", card=address, answer=answer)


def _result(answer: CudaAnswer) -> str:
    if answer.works:
        return "ok"
    return "in_use" if answer.in_use else "silent" if answer.unavailable_reason else "failed"


def decode(output: bytes) -> CudaAnswer:
    """The answer from what the child printed, in the last line; raises DriverUnavailable."""
    known = {field.name for field in fields(CudaAnswer)}
    return answered(output, "cuda", lambda told: CudaAnswer(**{k: v for k, v in told.items() if k in known}))
