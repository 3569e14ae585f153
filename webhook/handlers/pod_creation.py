"""AdmissionReviews of pods that are created: read, decide, reserve, and decide anew on a conflict.

Concurrency: every review is a task of its own. Between looking at the caches and tracking
the chosen slots as in flight nothing is awaited, so reviews in this process never choose the same slot.
Decisions are made by `webhook.decision.decide`; here is only what needs the API server or a clock.
"""

from __future__ import annotations

import asyncio
import secrets
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import orjson
import structlog

from controllers.api import names
from controllers.api.kube import Namespace
from controllers.api.record import adapter
from controllers.api.resources import NAMESPACE
from controllers.domain.request import PoolRequest
from controllers.runtime.errors import Conflict, NotFound, RuntimeFault
from webhook import metrics
from webhook.caches.access_reviews import AccessReviewCache
from webhook.decision import access, pod_patch, pod_request, queueing, review
from webhook.decision.access import Requester
from webhook.decision.context import PodContext, resolve
from webhook.decision.decide import decide
from webhook.decision.verdict import FAULT, NOT_READY, UNWRITTEN, AllowedWithoutCards, Denied, Placed, Queued, Verdict
from webhook.reservations.concurrency import ConcurrencyLimiter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from controllers.api.gpupool import GPUPool
    from controllers.api.settings import Settings
    from controllers.runtime.client import Client
    from webhook.caches.snapshot import Snapshot
    from webhook.caches.stores import Stores
    from webhook.decision.review import Request
    from webhook.reservations.reserve import Reserver

log = structlog.get_logger()
PLACEMENTS_MAX = 12
"""Cards are chosen anew so often when others are faster; each try costs two requests."""
RESERVED_WITHIN = 0.25
"""Seconds for the reservation of a pod that can wait: one whose write takes longer waits in the queue."""
LATE = Denied(
    UNWRITTEN, "the reservation was not written in time; nothing is held. Try again: a controller does so by itself."
)


class PodCreationHandler:
    """Answers reviews of pods."""

    def __init__(
        self,
        client: Client,
        stores: Stores,
        snapshot: Snapshot,
        reserver: Reserver,
        settings: Callable[[], Settings],
        *,
        access_reviews: AccessReviewCache | None = None,
    ) -> None:
        """Prepare; reviews that come before the caches are filled are refused for the time being.

        `access_reviews`: what RBAC says, where others ask it too.
        """
        self._client, self._stores, self._snapshot = client, stores, snapshot
        self._reserver, self._settings = reserver, settings
        self._access_reviews = access_reviews or AccessReviewCache(client)
        self._limiter = ConcurrencyLimiter()

    async def handle(self, body: bytes, deadline: float) -> bytes:
        """The answer to a review, within `deadline` seconds; raises NotAReview."""
        began = _Stopwatch()
        parsed = review.parse(body)
        # Not the uid of the review: a name that the pod will carry should not come from outside.
        request_id = secrets.token_hex(8)
        match parsed:
            case review.Unreadable(uid=uid, why=why):
                return _encode(uid, why, request_id)
            case review.OutOfScope(uid=uid, what=what):
                metrics.REVIEWS.labels("untouched", "Foreign").inc()
                log.info("not ours", uid=uid[:64], what=what, request_id=request_id)
                warning = f"gpu-admission-webhook judges the creation of pods, not {what}"
                return review.allow(uid, warnings=(warning,), audit={"reason": "Foreign", "request-id": request_id})
        try:
            async with asyncio.timeout(deadline):
                verdict = await self._admit(parsed, request_id, began)
        except TimeoutError:
            verdict = LATE
        except Exception:
            log.exception("a review failed", uid=parsed.uid, namespace=parsed.namespace, pod=parsed.pod_name)
            verdict = _fault(parsed)
        try:
            return _encode(parsed.uid, verdict, request_id, parsed)
        except orjson.JSONEncodeError as error:
            # What was read may nest too deep to be written. No API server sends that, and no pod waits for its cards.
            log.warning("an answer cannot be written", uid=parsed.uid[:64], request_id=request_id, why=str(error))
            return review.deny(parsed.uid, _fault(parsed))

    async def _admit(self, request: Request, request_id: str, began: _Stopwatch) -> Verdict:
        wanted = pod_request.parse_pool_request(request.pod.spec)
        if wanted is None:
            return AllowedWithoutCards(pod_patch.remove_marks(request.raw))
        if isinstance(wanted, Denied):
            return wanted
        if not self._stores.synced:
            return Denied(NOT_READY, "the webhook has just started and does not know the cards yet. Try again.")
        pod = await self._resolve(request, wanted, began)
        if request.dry_run:
            return await self._place(pod, request_id, began)
        if self._waits_in_shortage(pod):
            return await self._place_at_once(pod, request_id, began)
        arrived = time.perf_counter()
        async with self._limiter.acquire():
            began.skip(time.perf_counter() - arrived)
            return await self._place(pod, request_id, began)

    def _waits_in_shortage(self, pod: PodContext) -> bool:
        """Whether the pod can wait in its pool's queue, rather than here."""
        settings = self._settings().admission
        return pod.pool is not None and queueing.waits_in_shortage(pod, pod.pool, settings)

    async def _place_at_once(self, pod: PodContext, request_id: str, began: _Stopwatch) -> Verdict:
        """Reserve where that is a matter of moments; else the pod waits in its pool's queue."""
        why = "InFlight"
        if self._limiter.in_use < self._settings().admission.reservations_in_flight:
            try:
                with self._limiter.counted():
                    async with asyncio.timeout(RESERVED_WITHIN):
                        verdict = await self._place(pod, request_id, began)
            except TimeoutError:
                why = "Slow"  # what was written, or may have been, is being taken back
            else:
                if not (isinstance(verdict, Denied) and verdict.error_code == UNWRITTEN):
                    return verdict
                why = "Unwritten"
        verdict = await self._queue(pod, began)
        if isinstance(verdict, Queued):
            metrics.LEFT_TO_QUEUE.labels(why).inc()
        return verdict

    async def _queue(self, pod: PodContext, began: _Stopwatch) -> Verdict:
        """Let the pod wait, unless something else is against it by now."""
        pod = await self._up_to_date(pod, began)
        # A name of its own: what is taken back must never be taken for what the queue reserves.
        request_id = secrets.token_hex(8)
        view = self._snapshot.view(pod.wanted.suffix, pod.request.namespace, time.time())
        verdict = decide(pod, view, request_id=request_id, may_reserve=False)
        # Nothing is reserved here: where pods of the pool may not wait any more, this one is to come again.
        return LATE if isinstance(verdict, Placed) else verdict

    async def _place(self, pod: PodContext, request_id: str, began: _Stopwatch) -> Verdict:
        """Decide and reserve, until nobody comes in between."""
        gone = frozenset[str]()
        request, wanted = pod.request, pod.wanted
        for attempt in range(PLACEMENTS_MAX):
            pod = await self._up_to_date(pod, began)
            # Nothing is awaited between the view and what is in flight because of it.
            view = self._snapshot.view(wanted.suffix, request.namespace, time.time())
            verdict = decide(pod, view, request_id=request_id, avoid=gone)
            if attempt == 0:
                metrics.DECISION_SECONDS.observe(began.seconds())
            if not isinstance(verdict, Placed) or request.dry_run:
                return verdict
            try:
                if await self._reserve(request, verdict):
                    return verdict
            except NotFound as error:
                gone |= {error.about}
            except RuntimeFault as error:
                return Denied(UNWRITTEN, f"the reservation could not be written ({error}); nothing is held. Try again.")
        return LATE

    async def _reserve(self, request: Request, placed: Placed) -> bool:
        """Write the reservations; False on a conflict."""
        before = time.perf_counter()
        self._snapshot.track_in_flight(placed.request_id, placed.placement, request.namespace, placed.wanted.suffix)
        try:
            await self._reserver.reserve(request, placed, self._settings().admission.unseen_ttl)
        except Conflict:
            return False  # counted where the write was refused
        finally:
            self._snapshot.untrack_in_flight(placed.request_id, placed.placement, request.namespace)
        metrics.WRITE_SECONDS.observe(time.perf_counter() - before)
        return True

    async def _resolve(self, request: Request, wanted: PoolRequest, began: _Stopwatch) -> PodContext:
        """The pod's pool and access; RBAC is asked where the lists of a pool that is open do not allow the pod."""
        pool, review = self._stores.pools.get(wanted.pool), access.NOT_REVIEWED
        is_open = pool is not None and pod_request.check_pool_is_open(wanted, pool, ()) is None
        if pool is not None and is_open and request.namespace != names.NAMESPACE:
            with began.stopped():
                await self._know_namespace(pool, request.namespace)
                review = await self._access_reviews.review_unlisted(pool, self._requester(request))
        pool = self._stores.pools.get(wanted.pool)  # it may be another one since
        known = () if pool is not None else tuple(item.name for item in self._stores.pools)
        return resolve(request, wanted, pool, self._requester(request), known_pools=known, review=review)

    def _requester(self, request: Request) -> Requester:
        labels, account = self._stores.namespaces.get(request.namespace), request.pod.spec.service_account_name
        return Requester(request.namespace, labels, account, request.user)

    async def _up_to_date(self, pod: PodContext, began: _Stopwatch) -> PodContext:
        """The same, or resolved anew where the pool or the namespace is not that any more which it was resolved by."""
        stores, requester = self._stores, pod.requester
        is_current = (
            stores.pools.get(pod.wanted.pool) is pod.pool
            and stores.namespaces.get(requester.namespace) is requester.labels
        )
        return pod if is_current else await self._resolve(pod.request, pod.wanted, began)

    async def _know_namespace(self, pool: GPUPool, namespace: str) -> None:
        """Read a namespace whose labels decide and which was made a moment ago."""
        if access.depends_on_namespace_labels(pool, namespace) and self._stores.namespaces.get(namespace) is None:
            try:
                body = await self._client.get(NAMESPACE, namespace)
                self._stores.namespaces.on_own_write(adapter(Namespace).validate_json(body))
            except (RuntimeFault, ValueError) as error:
                log.info("cannot read a namespace", namespace=namespace, error=str(error))


def _fault(request: Request) -> Denied:
    return Denied(FAULT, f"the webhook failed on this pod; its log tells why (review {request.uid[:64]})")


class _Stopwatch:
    """How long a decision takes, without what it waits for."""

    def __init__(self) -> None:
        self._since = time.perf_counter()

    def seconds(self) -> float:
        return time.perf_counter() - self._since

    @contextmanager
    def stopped(self) -> Iterator[None]:
        at = time.perf_counter()
        try:
            yield
        finally:
            self.skip(time.perf_counter() - at)

    def skip(self, seconds: float) -> None:
        self._since += seconds


def _encode(uid: str, verdict: Verdict, request_id: str, request: Request | None = None) -> bytes:
    """Count, log and encode; each decision leaves a line in the API server's audit log."""
    about = {"uid": uid[:64], "request_id": request_id} | (
        {"namespace": request.namespace, "pod": request.pod_name, "dry_run": request.dry_run} if request else {}
    )
    audit = {"request-id": request_id}
    match verdict:
        case Denied():
            metrics.REVIEWS.labels("denied", verdict.error_code).inc()
            log.info("denied", reason=verdict.error_code, message=verdict.message, **about)
            return review.deny(uid, verdict, audit={"reason": verdict.error_code, **audit})
        case AllowedWithoutCards(patch=patch):
            metrics.REVIEWS.labels("untouched", "NothingAsked").inc()
            log.info("untouched", unmarked=bool(patch), **about)
            return review.allow(uid, patch, audit={"reason": "NothingAsked", **audit})
        case Queued(patch=patch, request_id=found_id, shortage=shortage):
            metrics.REVIEWS.labels("queued", "Shortage" if shortage else "").inc()
            log.info("queued", shortage=shortage, **about | {"request_id": found_id})
            warnings = verdict.warnings
            return review.allow(uid, patch, warnings=warnings, audit={"reason": "Queued", "request-id": found_id})
        case Placed(placement=placement, patch=patch):
            metrics.REVIEWS.labels("granted", "").inc()
            log.info("granted", node=placement.node, devices=placement.devices, **about)
            found = {"node": placement.node, "devices": placement.devices}
            return review.allow(uid, patch, audit={"reason": "Granted", **audit, **found})
