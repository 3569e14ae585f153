"""One review from its bytes to its answer: read, decide, reserve, and decide anew on a conflict.

Concurrency: every review is a task of its own. Between looking at the caches and holding
the chosen slots nothing is awaited, so reviews in this process never choose the same slot.
Decisions are made by `webhook.decide`; here is only what needs the API server or a clock.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from controllers.api.kube import Namespace
from controllers.api.record import adapter
from controllers.api.resources import NAMESPACE
from controllers.runtime.errors import Conflict, NotFound, RuntimeFault
from webhook import access, metrics, mutate, review, validate
from webhook.decide import decide
from webhook.verdict import FAULT, NOT_READY, UNWRITTEN, Ask, Denied, Granted, Untouched, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.api.settings import Settings
    from controllers.runtime.client import Client
    from webhook.reserve import Reserver
    from webhook.review import Request
    from webhook.snapshot import Snapshot, Stores

log = structlog.get_logger()
TRIES = 12
"""Cards are chosen anew so often when others are faster; each try costs two requests."""
LATE = Denied(
    UNWRITTEN, "the reservation was not written in time; nothing is held. Try again: a controller does so by itself."
)


@dataclass(frozen=True, slots=True)
class Answer:
    """What goes back to the API server."""

    body: bytes
    verdict: Verdict | None


class Admission:
    """Answers reviews of pods."""

    def __init__(
        self, client: Client, stores: Stores, snapshot: Snapshot, reserver: Reserver, settings: Callable[[], Settings]
    ) -> None:
        """Prepare; reviews that come before the caches are filled are refused for the time being."""
        self._client, self._stores, self._snapshot = client, stores, snapshot
        self._reserver, self._settings = reserver, settings

    async def answer(self, body: bytes, deadline: float) -> bytes:
        """The answer to a review, within `deadline` seconds; raises NotAReview."""
        started = time.perf_counter()
        parsed = review.parse(body)
        match parsed:
            case review.Unreadable(uid=uid, why=why):
                return self._told(uid, why)
            case review.Foreign(uid=uid, what=what):
                metrics.REVIEWS.labels("untouched", "foreign").inc()
                return review.allow(uid, warnings=(f"gpu-admission-webhook judges the creation of pods, not {what}",))
        try:
            async with asyncio.timeout(deadline):
                verdict = await self._judge(parsed, started)
        except TimeoutError:
            verdict = LATE
        except Exception:
            log.exception("a review failed", uid=parsed.uid, namespace=parsed.namespace, pod=parsed.pod_name)
            verdict = Denied(FAULT, f"the webhook failed on this pod; its log tells why (review {parsed.uid[:64]})")
        return self._told(parsed.uid, verdict, parsed)

    async def _judge(self, request: Request, started: float) -> Verdict:
        ask = validate.asked(request.pod.spec)
        if ask is None:
            return Untouched(mutate.unmarked(request.raw))
        if isinstance(ask, Denied):
            return ask
        if not self._stores.synced:
            return Denied(NOT_READY, "the webhook has just started and does not know the cards yet. Try again.")
        await self._know_namespace(request, ask)
        return await self._place(request, ask, started)

    async def _place(self, request: Request, ask: Ask, started: float) -> Verdict:
        """Decide and reserve, until nobody comes in between."""
        # Not the uid of the review: a name that the pod will carry should not come from outside.
        request_id, gone = secrets.token_hex(8), frozenset[str]()
        for attempt in range(TRIES):
            view = self._snapshot.view(ask.pool, request.namespace, time.time())
            verdict = decide(request, ask, view, request_id=request_id, avoid=gone)
            if attempt == 0:
                metrics.DECISION_SECONDS.observe(time.perf_counter() - started)
            if not isinstance(verdict, Granted) or request.dry_run:
                return verdict
            try:
                if await self._reserve(request, verdict):
                    return verdict
            except NotFound as error:
                gone |= {error.about}
            except RuntimeFault as error:
                return Denied(UNWRITTEN, f"the reservation could not be written ({error}); nothing is held. Try again.")
        return LATE

    async def _reserve(self, request: Request, granted: Granted) -> bool:
        """Write the reservations; False on a conflict."""
        before = time.perf_counter()
        self._snapshot.hold(granted.request_id, granted.placement)
        try:
            await self._reserver.reserve(request, granted, self._settings().admission.unseen_ttl)
        except Conflict:
            metrics.CONFLICTS.inc()
            return False
        finally:
            self._snapshot.release(granted.request_id, granted.placement)
        metrics.WRITE_SECONDS.observe(time.perf_counter() - before)
        return True

    async def _know_namespace(self, request: Request, ask: Ask) -> None:
        """Read a namespace whose labels decide and which was made a moment ago."""
        pool = self._stores.pools.get(ask.pool)
        if pool is None or not access.needs_namespace(pool, request.namespace):
            return
        if self._stores.namespaces.get(request.namespace) is None:
            try:
                body = await self._client.get(NAMESPACE, request.namespace)
                self._stores.namespaces.offer(adapter(Namespace).validate_json(body))
            except (RuntimeFault, ValueError) as error:
                log.info("cannot read a namespace", namespace=request.namespace, error=str(error))

    def _told(self, uid: str, verdict: Verdict, request: Request | None = None) -> bytes:
        """Count, log and encode."""
        about = {"uid": uid[:64]} | (
            {"namespace": request.namespace, "pod": request.pod_name, "dry_run": request.dry_run} if request else {}
        )
        match verdict:
            case Denied():
                metrics.REVIEWS.labels("denied", verdict.word).inc()
                log.info("denied", reason=verdict.word, message=verdict.message, **about)
                return review.deny(uid, verdict, audit={"reason": verdict.word})
            case Untouched(patch=patch):
                metrics.REVIEWS.labels("untouched", "nothing asked").inc()
                return review.allow(uid, patch)
            case Granted(request_id=request_id, placement=placement, patch=patch):
                metrics.REVIEWS.labels("granted", "").inc()
                found = {"request-id": request_id, "node": placement.node, "devices": placement.devices}
                log.info("granted", request_id=request_id, node=placement.node, devices=placement.devices, **about)
                return review.allow(uid, patch, audit={"reason": "Granted", **found})
