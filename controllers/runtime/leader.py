"""One acting process among replicas, by a Lease (coordination.k8s.io/v1).

The holder renews every `retry_period`. It may write only while its last renewal, measured on
the monotonic clock from before the request was sent, is younger than `renew_deadline`, which
is shorter than `lease_duration`, after which others take over: so two never write at once
unless clocks run at rates that differ by their quotient. A holder that cannot renew in time
raises LostLeadership, and so does every write after that, also in a process that was stopped
and wakes up (`fence`). When the work ends, well or not, the lease is given back.

Others judge the holder by their own clock: the lease is dead when its record has not changed
for `lease_duration` since they first saw it. No two machines' clocks are compared. A lease
that somebody deleted counts as its last record: the holder makes it anew at its next renewal.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn

import orjson
import structlog

from controllers.api.resources import LEASE
from controllers.domain.clock import stamp_exact
from controllers.runtime import metrics
from controllers.runtime.errors import ConfigurationError, Conflict, LostLeadership, NotFound, RuntimeFault

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from controllers.runtime.client import Client

log = structlog.get_logger()


@dataclass(frozen=True, slots=True)
class LeaseSettings:
    """Times in seconds; client-go's defaults."""

    lease_duration: float = 15.0
    renew_deadline: float = 10.0
    retry_period: float = 2.0

    def __post_init__(self) -> None:
        """Refuse times with which two processes could lead at once."""
        if not 0 < self.retry_period < self.renew_deadline < self.lease_duration:
            raise ConfigurationError(
                f"retry period {self.retry_period:g} s, renew deadline {self.renew_deadline:g} s, lease duration"
                f" {self.lease_duration:g} s: each must be shorter than the next, or two processes could lead at once"
            )


class Leader:
    """A candidate for one lease."""

    def __init__(self, client: Client, name: str, namespace: str, identity: str, settings: LeaseSettings) -> None:
        """Prepare. `client` must be one without a fence: renewing is what lifts it."""
        self._client, self._name, self._namespace = client, name, namespace
        self._identity, self._settings = identity, settings
        self._renewed = float("-inf")  # monotonic
        self._seen = b""  # another's record
        self._dead_at = float("-inf")  # monotonic: when that record is dead unless it changes

    def require_leadership(self) -> None:
        """Raise LostLeadership unless this process may write now."""
        if not self.leads:
            msg = f"lease {self._name} was not renewed for {self._settings.renew_deadline} s"
            raise LostLeadership(msg)

    @property
    def leads(self) -> bool:
        """Whether this process may write now."""
        return self._left > 0

    @property
    def _left(self) -> float:
        """Seconds for which it may still write."""
        return self._renewed + self._settings.renew_deadline - time.monotonic()

    async def run(self, work: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, then work; ends when the work ends, raises LostLeadership."""
        while not await self._try():
            pause = self._settings.retry_period * random.uniform(0.8, 1.2)  # noqa: S311
            if (alive := self._dead_at - time.monotonic()) > 0:
                pause = min(pause, alive + 0.01)
            await asyncio.sleep(pause)
        log.info("leading", lease=self._name, identity=self._identity)
        metrics.LEADER.labels(self._name).set(1)
        try:
            async with asyncio.TaskGroup() as group:
                renewing = group.create_task(self._renew(), name="lease")
                await work()
                renewing.cancel()
        except BaseExceptionGroup as group_error:
            _raise_first(group_error)
        finally:
            metrics.LEADER.labels(self._name).set(0)
            await self._release()

    async def _renew(self) -> NoReturn:
        while True:
            await asyncio.sleep(min(self._settings.retry_period, self._left))
            # Before renewing, too: a process that was stopped must not come back as leader. While
            # it slept another may have led, and what this one has cached is from before that.
            self.require_leadership()
            await self._try()
            self.require_leadership()

    async def _try(self) -> bool:
        """Take or renew the lease; False when another has it or the API server does not answer."""
        started, patience = time.monotonic(), self._settings.renew_deadline / 2
        try:
            async with asyncio.timeout(min(patience, self._left) if self.leads else patience):
                taken = await self._take()
        except (RuntimeFault, TimeoutError) as error:
            log.warning("cannot take or renew the lease", lease=self._name, error=str(error) or type(error).__name__)
            return False
        if taken:
            self._renewed = started
        return taken

    async def _take(self) -> bool:
        try:
            body = await self._client.get(LEASE, self._name, self._namespace)
        except NotFound:
            if not self.leads and time.monotonic() < self._dead_at:
                return False
            return await self._create()
        lease = orjson.loads(body)
        spec = lease.get("spec") or {}
        if spec.get("holderIdentity") not in ("", None, self._identity) and not self._is_dead(spec):
            self._renewed = float("-inf")  # somebody else holds it: whatever we had is over
            return False
        self._seen, self._dead_at = b"", float("-inf")
        lease["spec"] = self._record(spec)
        try:
            await self._client.replace(LEASE, self._name, lease, self._namespace, manager=self._name)
        except Conflict:
            return False
        return True

    async def _create(self) -> bool:
        lease = {
            "apiVersion": LEASE.api_version,
            "kind": LEASE.kind,
            "metadata": {"name": self._name, "namespace": self._namespace},
            "spec": self._record({}),
        }
        try:
            await self._client.create(LEASE, lease, self._namespace, manager=self._name)
        except Conflict:
            return False
        return True

    def _is_dead(self, spec: dict[str, Any]) -> bool:
        record, now = orjson.dumps(spec, option=orjson.OPT_SORT_KEYS), time.monotonic()
        if record != self._seen:
            duration = max(float(spec.get("leaseDurationSeconds") or 0), self._settings.lease_duration)
            self._seen, self._dead_at = record, now + duration
        return now > self._dead_at

    def _record(self, old: dict[str, Any]) -> dict[str, Any]:
        now, ours = stamp_exact(time.time()), old.get("holderIdentity") == self._identity
        return {
            "holderIdentity": self._identity,
            "leaseDurationSeconds": max(1, round(self._settings.lease_duration)),
            "acquireTime": old.get("acquireTime") if ours else now,
            "renewTime": now,
            "leaseTransitions": int(old.get("leaseTransitions") or 0) + (not ours),
        }

    async def _release(self) -> None:
        """Give the lease back, so that a successor need not wait; with the patience of a renewal."""
        if not self.leads:
            return
        patience = min(self._settings.renew_deadline / 2, self._left)
        self._renewed = float("-inf")
        try:
            async with asyncio.timeout(patience):
                while not await self._give_back():
                    pass
        except (RuntimeFault, TimeoutError) as error:
            log.info("the lease was not given back; it runs out by itself", lease=self._name, error=str(error))

    async def _give_back(self) -> bool:
        """False where a renewal of ours, cancelled on its way, arrived in between."""
        lease = orjson.loads(await self._client.get(LEASE, self._name, self._namespace))
        if (lease.get("spec") or {}).get("holderIdentity") == self._identity:
            lease["spec"] |= {"holderIdentity": "", "leaseDurationSeconds": 1}
            try:
                await self._client.replace(LEASE, self._name, lease, self._namespace, manager=self._name)
            except Conflict:
                return False
        return True


def _raise_first(group: BaseExceptionGroup[BaseException]) -> NoReturn:
    """One reason is enough for whoever reads why the process ended."""
    for error in group.exceptions:
        if isinstance(error, LostLeadership):
            raise error from None
    raise group.exceptions[0] from group
