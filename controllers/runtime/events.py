"""Kubernetes Events, sent in the background; failures do not stop reconciliation.

One task per process sends; the queue is bounded and drops, counted, when the API server
cannot keep up. The same sentence about the same object within ten minutes is sent once, and
an Event that is there already has its count raised, so that a flapping object does not fill etcd.
Each is a sentence, with a capital and a full stop. What is sent is logged, too:
an event's reason is the line's `event`.
A process with a lease sends only while it leads: until then its events wait in the queue.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from typing import TYPE_CHECKING, Any

import orjson
import structlog

from controllers.api.resources import EVENT
from controllers.domain.clock import stamp_exact
from controllers.domain.wording import format_message
from controllers.runtime import expiring, metrics
from controllers.runtime.errors import AlreadyExists, LostLeadership, RuntimeFault

if TYPE_CHECKING:
    from controllers.runtime.client import Client
    from controllers.runtime.plan import EmitEvent

QUEUE_MAX = 1000
REPEAT_AFTER = 600.0  # seconds
NOTE_MAX = 1024  # bytes
log = structlog.get_logger()


class Recorder:
    """Sends Events about objects in the name of one process."""

    def __init__(self, client: Client, reporter: str, instance: str) -> None:
        """Prepare; nothing is sent before `run`."""
        self._client, self._reporter, self._instance = client, reporter, instance
        self._queue: asyncio.Queue[EmitEvent] = asyncio.Queue(QUEUE_MAX)
        self._sent: dict[str, float] = {}  # in the order of the times
        self.may_send = asyncio.Event()
        self.may_send.set()

    def enqueue(self, note: EmitEvent) -> None:
        """Queue an Event; never waits."""
        try:
            self._queue.put_nowait(note)
        except asyncio.QueueFull:
            metrics.EVENTS_DROPPED.labels("queue full").inc()

    async def run(self) -> None:
        """Send what is queued, for ever."""
        while True:
            await self.may_send.wait()
            note = await self._queue.get()
            try:
                await self._send(note, time.time())
            except RuntimeFault as error:
                metrics.EVENTS_DROPPED.labels(type(error).__name__).inc()
                if not isinstance(error, LostLeadership):
                    log.warning("an event was not sent", reason=note.reason, about=note.about.name, error=str(error))
            finally:
                self._queue.task_done()

    async def drain(self, seconds: float) -> None:
        """Wait until everything queued is sent, but no longer than that."""
        try:
            await asyncio.wait_for(self._queue.join(), seconds)
        except TimeoutError:
            metrics.EVENTS_DROPPED.labels("stop").inc(self._queue.qsize())

    async def _send(self, note: EmitEvent, now: float) -> None:
        name = _name(note)
        expiring.prune(self._sent, REPEAT_AFTER, now)
        if name in self._sent:
            return
        body = self._body(note, name, now)
        namespace = body["metadata"]["namespace"]
        try:
            await self._client.create(EVENT, body, namespace, manager=self._reporter)
        except AlreadyExists:
            await self._count(name, namespace, now)
        self._sent[name] = now
        # The same in the log, by the same name: whoever reads only logs must not miss what an alert is about.
        tell = log.warning if note.type == "Warning" else log.info
        tell(note.reason, kind=note.about.resource.kind, name=note.about.name, message=note.message)

    async def _count(self, name: str, namespace: str, now: float) -> None:
        """Say that an Event has come once more."""
        series = orjson.loads(await self._client.get(EVENT, name, namespace)).get("series") or {}
        again = {"series": {"count": int(series.get("count") or 1) + 1, "lastObservedTime": stamp_exact(now)}}
        await self._client.merge(EVENT, name, again, manager=self._reporter, namespace=namespace)

    def _body(self, note: EmitEvent, name: str, now: float) -> dict[str, Any]:
        about = note.about
        # Events about cluster-scoped objects live in `default`, where kubectl looks for them.
        namespace = about.namespace or "default"
        regarding = {"apiVersion": about.resource.api_version, "kind": about.resource.kind, "name": about.name}
        if about.namespace:
            regarding["namespace"] = about.namespace
        if about.uid:
            regarding["uid"] = about.uid
        return {
            "apiVersion": EVENT.api_version,
            "kind": EVENT.kind,
            "metadata": {"name": name, "namespace": namespace},
            "eventTime": stamp_exact(now),
            "reportingController": self._reporter,
            "reportingInstance": self._instance[:128],
            "action": note.reason,
            "reason": note.reason,
            "type": note.type,
            "note": format_message(note.message).encode()[:NOTE_MAX].decode(errors="ignore"),
            "regarding": regarding,
        }


def _name(note: EmitEvent) -> str:
    """The same for the same sentence about the same object."""
    about = note.about
    text = "\0".join((about.resource.kind, about.name, about.uid or "", note.reason, note.message))
    return f"{about.name[:200].rstrip('.-')}.{hashlib.sha256(text.encode()).hexdigest()[:16]}"
