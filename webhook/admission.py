"""One review from its bytes to its answer: read, decide, reserve, and decide anew on a conflict.

Concurrency: every review is a task of its own. Between looking at the caches and holding
the chosen slots nothing is awaited, so reviews in this process never choose the same slot.
Decisions are made by `webhook.decide`; here is only what needs the API server or a clock.
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
from controllers.runtime.errors import Conflict, NotFound, RuntimeFault
from webhook import access, metrics, mutate, review, validate
from webhook.decide import decide
from webhook.gate import Gate
from webhook.grants import Grants
from webhook.verdict import FAULT, NOT_READY, UNWRITTEN, Ask, Denied, Granted, Untouched, Verdict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from controllers.api.gpupool import GPUPool
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


class Admission:
    """Answers reviews of pods."""

    def __init__(
        self,
        client: Client,
        stores: Stores,
        snapshot: Snapshot,
        reserver: Reserver,
        settings: Callable[[], Settings],
        *,
        grants: Grants | None = None,
    ) -> None:
        """Prepare; reviews that come before the caches are filled are refused for the time being.

        `grants`: what RBAC says, where others ask it too.
        """
        self._client, self._stores, self._snapshot = client, stores, snapshot
        self._reserver, self._settings = reserver, settings
        self._grants = grants or Grants(client)
        self._gate = Gate()

    async def answer(self, body: bytes, deadline: float) -> bytes:
        """The answer to a review, within `deadline` seconds; raises NotAReview."""
        began = _Stopwatch()
        parsed = review.parse(body)
        # Not the uid of the review: a name that the pod will carry should not come from outside.
        request_id = secrets.token_hex(8)
        match parsed:
            case review.Unreadable(uid=uid, why=why):
                return _told(uid, why, request_id)
            case review.Foreign(uid=uid, what=what):
                metrics.REVIEWS.labels("untouched", "Foreign").inc()
                log.info("not ours", uid=uid[:64], what=what, request_id=request_id)
                warning = f"gpu-admission-webhook judges the creation of pods, not {what}"
                return review.allow(uid, warnings=(warning,), audit={"reason": "Foreign", "request-id": request_id})
        try:
            async with asyncio.timeout(deadline):
                verdict = await self._judge(parsed, request_id, began)
        except TimeoutError:
            verdict = LATE
        except Exception:
            log.exception("a review failed", uid=parsed.uid, namespace=parsed.namespace, pod=parsed.pod_name)
            verdict = _fault(parsed)
        try:
            return _told(parsed.uid, verdict, request_id, parsed)
        except orjson.JSONEncodeError as error:
            # What was read may nest too deep to be written. No API server sends that, and no pod waits for its cards.
            log.warning("an answer cannot be written", uid=parsed.uid[:64], request_id=request_id, why=str(error))
            return review.deny(parsed.uid, _fault(parsed))

    async def _judge(self, request: Request, request_id: str, began: _Stopwatch) -> Verdict:
        ask = validate.asked(request.pod.spec)
        if ask is None:
            return Untouched(mutate.unmarked(request.raw))
        if isinstance(ask, Denied):
            return ask
        if not self._stores.synced:
            return Denied(NOT_READY, "the webhook has just started and does not know the cards yet. Try again.")
        if request.dry_run:
            return await self._place(request, ask, request_id, began)
        await self._use(request, ask, began)  # so that nobody has a turn and waits for RBAC's answer
        arrived = time.perf_counter()
        async with self._gate.turn():
            began.skip(time.perf_counter() - arrived)
            return await self._place(request, ask, request_id, began)

    async def _place(self, request: Request, ask: Ask, request_id: str, began: _Stopwatch) -> Verdict:
        """Decide and reserve, until nobody comes in between."""
        gone = frozenset[str]()
        for attempt in range(TRIES):
            # Each time: the pool may be another one since. Nothing is awaited between the view and what is held.
            use = await self._use(request, ask, began)
            view = self._snapshot.view(ask.pool, request.namespace, time.time())
            verdict = decide(request, ask, view, request_id=request_id, use=use, avoid=gone)
            if attempt == 0:
                metrics.DECISION_SECONDS.observe(began.seconds())
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
        self._snapshot.hold(granted.request_id, granted.placement, request.namespace, granted.ask.pool)
        try:
            await self._reserver.reserve(request, granted, self._settings().admission.unseen_ttl)
        except Conflict:
            return False  # counted where the write was refused
        finally:
            self._snapshot.release(granted.request_id, granted.placement, request.namespace)
        metrics.WRITE_SECONDS.observe(time.perf_counter() - before)
        return True

    async def _use(self, request: Request, ask: Ask, began: _Stopwatch) -> access.Use:
        """What RBAC says, where the pool's lists do not allow the pod; learns of the namespace's labels first."""
        pool, account, user = self._stores.pools.get(ask.pool), request.pod.spec.service_account_name, request.user
        if pool is None or request.namespace == names.NAMESPACE or validate.pool_gives(ask, pool, ()) is not None:
            return access.NOT_ASKED
        with began.stopped():
            await self._know_namespace(pool, request.namespace)
            labels = self._stores.namespaces.get(request.namespace)
            return await self._grants.beyond_lists(
                pool, namespace=request.namespace, labels=labels, account=account, user=user
            )

    async def _know_namespace(self, pool: GPUPool, namespace: str) -> None:
        """Read a namespace whose labels decide and which was made a moment ago."""
        if access.needs_namespace(pool, namespace) and self._stores.namespaces.get(namespace) is None:
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


def _told(uid: str, verdict: Verdict, request_id: str, request: Request | None = None) -> bytes:
    """Count, log and encode; each decision leaves a line in the API server's audit log."""
    about = {"uid": uid[:64], "request_id": request_id} | (
        {"namespace": request.namespace, "pod": request.pod_name, "dry_run": request.dry_run} if request else {}
    )
    audit = {"request-id": request_id}
    match verdict:
        case Denied():
            metrics.REVIEWS.labels("denied", verdict.word).inc()
            log.info("denied", reason=verdict.word, message=verdict.message, **about)
            return review.deny(uid, verdict, audit={"reason": verdict.word, **audit})
        case Untouched(patch=patch):
            metrics.REVIEWS.labels("untouched", "NothingAsked").inc()
            log.info("untouched", unmarked=bool(patch), **about)
            return review.allow(uid, patch, audit={"reason": "NothingAsked", **audit})
        case Granted(placement=placement, patch=patch):
            metrics.REVIEWS.labels("granted", "").inc()
            log.info("granted", node=placement.node, devices=placement.devices, **about)
            found = {"node": placement.node, "devices": placement.devices}
            return review.allow(uid, patch, audit={"reason": "Granted", **audit, **found})
