"""Partitions cards by their jobs, verifies the result, and restores what failed.

One document for all cards that change; where that fails, one for each that is not as wanted, so that one card's
trouble is not its neighbours'. MIG mode comes first, since a card that has to be reset for it takes no instances
before. Every step looks before it acts, so that work which was cut short is simply done again.
"""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import structlog

from controllers.domain.mig import NodeLayout, document, text
from nodeagent.mig.cards import plan
from nodeagent.mig.cards.records import Attempt
from nodeagent.mig.tools import Hung, Outcome

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

    from controllers.domain.mig import CardLayout
    from nodeagent.mig.cards.records import DriverReport, Job
    from nodeagent.mig.scanner import NodeScanner
    from nodeagent.mig.tools import Tools

log = structlog.get_logger()
TRIES: Final = 20
PAUSE: Final = 1.5
"""Seconds: other agents of the node ask the driver now and then, and the validator tries CUDA on a card: it is held
open meanwhile. Then it cannot be reset, no instance with a context can go, and its mode waits. So many tries, all cards
of a pass together."""
REBOOT: Final = "RebootRequired"


class Memory(Protocol):
    """Attempts that have begun, by address."""

    def read(self) -> dict[str, Attempt]:
        """What was written last."""

    def write(self, attempts: Mapping[str, Attempt]) -> None:
        """Put them in place of what was written."""


class Work:
    """Work on the cards of a node; whoever calls has the node's lock, and has seen that nobody uses the cards."""

    def __init__(self, tools: Tools, scanner: NodeScanner, memory: Memory, *, pause: float = PAUSE) -> None:
        """Prepare; `pause`: seconds before what was refused, as somebody held the card, is tried again."""
        self._tools, self._scanner, self._memory, self._pause = tools, scanner, memory, pause
        self._tries_left = 0
        self._hurried = False

    def hurry(self) -> None:
        """From now on wait for nobody who holds a card: this process is to end."""
        self._hurried = True

    async def carry_out(self, jobs: Sequence[Job]) -> dict[str, str]:
        """Why each card's work failed, by address; empty where the card is as it is to be."""
        fresh = [job for job in jobs if not job.failed]
        self._note(fresh, lambda job: Attempt(job.part.version, job.before, job.begun + 1))
        errors = {job.address: job.failed for job in jobs if job.failed}
        try:
            errors |= await self._divide({job.address: (job, job.target) for job in fresh})
        except Hung as hung:  # nothing more can be done to these cards, nor put back
            why = f"{REBOOT}: {hung}; what was begun cannot be finished before the node is rebooted"
            return {job.address: job.failed or why for job in jobs}
        failed = [job for job in jobs if job.address in errors]
        self._note(failed, lambda job: Attempt(job.part.version, job.before, job.begun + 1, errors[job.address]))
        try:
            not_back = await self._put_back(failed)
        except Hung as hung:
            not_back = {job.address: f"{REBOOT}: {hung}" for job in failed}
        for address, why in not_back.items():
            errors[address] += f"; what it had before could not be put back: {why}"
        return {job.address: errors.get(job.address, "") for job in jobs}

    def _note(self, jobs: Sequence[Job], attempt: Callable[[Job], Attempt]) -> None:
        if jobs:
            self._memory.write(self._memory.read() | {job.address: attempt(job) for job in jobs})

    async def _put_back(self, jobs: Sequence[Job]) -> dict[str, str]:
        """Divide cards as they were; returns why that failed."""
        if not jobs:
            return {}
        log.warning("putting back what cards had before", cards=[job.address for job in jobs])
        now = await self._scan(jobs)
        errors = {}
        for job in jobs:
            told = now.get(job.address)
            changes = job.target.enabled != job.before.enabled
            if changes and told is not None and told.layout is not None and told.layout.enabled == job.before.enabled:
                outcome = await self._tools.mode(job.address, enabled=job.before.enabled)
                if not outcome.ok:
                    errors[job.address] = f"a MIG mode that waits for a reset stays: {outcome.text}"
        return errors | await self._divide({job.address: (job, job.before) for job in jobs})

    async def _divide(self, goals: Mapping[str, tuple[Job, CardLayout]]) -> dict[str, str]:
        """Make cards as their goals say; returns why it failed, by address."""
        errors: dict[str, str] = {}
        self._tries_left = TRIES - 1
        await self._modes(goals, errors)
        now = await self._scan(job for job, _ in goals.values())
        left = {
            address: goal
            for address, goal in goals.items()
            if address not in errors and goal[1].enabled and _layout(now, address) != goal[1]
        }
        await self._apply(left, errors, now, mode_only=False)
        await self._check(goals, errors)
        return errors

    async def _modes(self, goals: Mapping[str, tuple[Job, CardLayout]], errors: dict[str, str]) -> None:
        """Turn MIG mode on or off where that is to change, with a reset where it takes one."""
        now = await self._scan(job for job, _ in goals.values())
        change = _other_mode(goals, now)
        if not change:
            return
        pending = await self._set_modes(change, errors, now)
        errors |= await self._reset([job for job, _ in pending.values()])
        if pending:
            now = await self._scan(job for job, _ in pending.values())
        for address in _other_mode(pending, now):
            errors.setdefault(address, f"{REBOOT}: MIG mode of card {address} is not in force after a reset of the GPU")

    async def _set_modes(
        self, change: Mapping[str, tuple[Job, CardLayout]], errors: dict[str, str], now: Mapping[str, DriverReport]
    ) -> dict[str, tuple[Job, CardLayout]]:
        """Ask for other modes; returns the cards whose mode waits for a reset.

        A card that needs none and is in use keeps its mode all the same, which is said by nobody: it is asked again.
        """
        await self._apply(change, errors, now, mode_only=True)
        while True:
            now = await self._scan(job for job, _ in change.values())
            pending = {address: goal for address, goal in _other_mode(change, now).items() if address not in errors}
            held = {address: goal for address, goal in pending.items() if not goal[0].needs_reset}
            if not held or not await self._may_try_again():
                return pending
            await self._apply(held, errors, now, mode_only=True)

    async def _may_try_again(self) -> bool:
        """Wait a little for who holds cards; False where that has been long enough for all cards together.

        The cards share the patience: while they are held back, the node's clients of cards are away, and these come
        back after ten minutes whatever is done here.
        """
        if self._hurried or not self._tries_left:
            return False
        self._tries_left -= 1
        await asyncio.sleep(self._pause)
        return not self._hurried

    async def _in_rounds(self, programs: Mapping[str, Callable[[], Awaitable[Outcome]]]) -> dict[str, Outcome]:
        """What comes of a program for each card; those whose card somebody holds are run again for a while."""
        outcomes: dict[str, Outcome] = {}
        left = dict(programs)
        while left:
            for address, run in left.items():
                outcomes[address] = await run()
            left = {address: run for address, run in left.items() if outcomes[address].busy}
            if left and not await self._may_try_again():
                break
        return outcomes

    async def _reset(self, jobs: Sequence[Job]) -> dict[str, str]:
        """Reset cards; returns why some could not be, by address."""
        why = "a reset that its model is not known to need, or a program holds the card"
        errors = {
            job.address: f"ResetRequired: MIG mode of card {job.address} takes {why}"
            for job in jobs
            if not job.needs_reset
        }
        ours = [job.address for job in jobs if job.needs_reset]
        for address, outcome in (await self._in_rounds({a: partial(self._tools.reset, a) for a in ours})).items():
            if outcome.ok:
                log.info("a card was reset", address=address)
            else:
                word = "CardInUse" if outcome.busy else REBOOT
                errors[address] = f"{word}: card {address} cannot be reset: {outcome.text}"
        return errors

    async def _apply(
        self,
        goals: Mapping[str, tuple[Job, CardLayout]],
        errors: dict[str, str],
        now: Mapping[str, DriverReport],
        *,
        mode_only: bool,
    ) -> None:
        """Apply goals at once, and where that fails one by one."""
        if not goals:
            return
        if len(goals) > 1:
            outcome = await self._tools.apply(_document(goals, now), mode_only=mode_only)
            if outcome.ok:
                return
            log.warning("a merged apply failed; each card by itself", cards=sorted(goals), why=outcome.text)
        each = {address: partial(self._apply_one, *goal, mode_only=mode_only) for address, goal in goals.items()}
        for address, outcome in (await self._in_rounds(each)).items():
            if not outcome.ok:
                errors[address] = f"{'CardInUse' if outcome.busy else 'ApplyFailed'}: {outcome.text}"

    async def _apply_one(self, job: Job, goal: CardLayout, *, mode_only: bool) -> Outcome:
        """Apply the goal of one card, where it is not reached yet."""
        now = await self._scan([job])
        told = _layout(now, job.address)
        if told is not None and (told.enabled == goal.enabled if mode_only else told == goal):
            return Outcome(ok=True)
        return await self._tools.apply(_document({job.address: (job, goal)}, now), mode_only=mode_only)

    async def _check(self, goals: Mapping[str, tuple[Job, CardLayout]], errors: dict[str, str]) -> None:
        """Compare what is with what is wanted: by the driver, and by mig-parted, which sees what clients do not."""
        now = await self._scan(job for job, _ in goals.values())
        for address, (_, layout) in goals.items():
            found = _layout(now, address)
            if address not in errors and found != layout:
                is_now, wanted = plan.format_layout(found), plan.format_layout(layout)
                errors[address] = f"NotAsWanted: card {address} is {is_now}, and was to be {wanted}"
        right = {address: goal for address, goal in goals.items() if address not in errors}
        if not right or (await self._tools.check(_document(right, now))).ok:
            return
        for address, goal in right.items():
            outcome = await self._tools.check(_document({address: goal}, now))
            if not outcome.ok:
                errors[address] = f"NotAsWanted: {outcome.text}"

    async def _scan(self, jobs: Iterable[Job]) -> Mapping[str, DriverReport]:
        addresses = [job.address for job in jobs]
        return (await self._scanner.scan(addresses)).cards if addresses else {}


def _document(goals: Mapping[str, tuple[Job, CardLayout]], now: Mapping[str, DriverReport]) -> str:
    """mig-parted's document of just those cards, by the numbers that they have now."""
    numbers = {address: told.index for address, told in now.items() if told.index is not None}
    parts = tuple(replace(job.part, layout=layout) for job, layout in goals.values())
    found = document(NodeLayout(parts), indexes=numbers)
    return text(found) if found is not None else ""


def _other_mode(
    goals: Mapping[str, tuple[Job, CardLayout]], now: Mapping[str, DriverReport]
) -> dict[str, tuple[Job, CardLayout]]:
    found = {}
    for address, goal in goals.items():
        told = _layout(now, address)
        if told is not None and told.enabled != goal[1].enabled:
            found[address] = goal
    return found


def _layout(now: Mapping[str, DriverReport], address: str) -> CardLayout | None:
    told = now.get(address)
    return told.layout if told is not None else None
