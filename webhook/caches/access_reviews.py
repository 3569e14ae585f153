"""SubjectAccessReviews of the verb `use` on gpupools/<pool>, with a cache.

Lives as long as the process, in its event loop. A yes is kept for `ALLOWED`, a no for `REFUSED`, so that a role that
is granted works soon; of many reviews that want to know the same one asks. A failure is an answer too, that nobody is
allowed, and is kept for a moment, or each pod would wait for an API server that does not answer.

Asked with user and groups, and without `extra`, where the API server names the single token: RBAC does not look at it.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import orjson
import structlog

from controllers.api import names
from controllers.api.resources import GPUPOOL, Resource
from controllers.runtime.errors import ApiError, RuntimeFault
from webhook import metrics
from webhook.decision.access import NOT_REVIEWED, VERB, AccessReview, Subject, allowed_by_lists, subjects

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from controllers.api.gpupool import GPUPool
    from controllers.runtime.client import Client
    from webhook.decision.access import Requester

log = structlog.get_logger()
REVIEW: Final = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
ALLOWED_TTL, REFUSED_TTL, FAILED_TTL = 30.0, 5.0, 1.0
"""Seconds for which an answer counts."""
TIMEOUT = 1.0
"""Seconds for one question; the review that waits for it has `server.DEADLINE`."""
ENTRIES_MAX = 4096
"""Answers that are kept; beyond that the oldest go."""


@dataclass(frozen=True, slots=True)
class _CachedReview:
    allowed: bool
    until: float
    failure: str = ""


class AccessReviewCache:
    """Answers of RBAC, kept for seconds."""

    def __init__(self, client: Client, *, clock: Callable[[], float] = time.monotonic) -> None:
        """Prepare; nothing is asked yet."""
        self._client, self._clock = client, clock
        self._answers: dict[bytes, _CachedReview] = {}
        self._in_flight: dict[bytes, asyncio.Task[_CachedReview]] = {}

    def __len__(self) -> int:
        """Answers that are kept."""
        return len(self._answers)

    async def review(self, pool: str, subjects: Sequence[Subject]) -> AccessReview:
        """Whether one of them may use a pool; raises nothing but a cancellation."""
        known = {subject: self._cached(_key(pool, subject)) for subject in subjects}
        if (by := next((s.user for s, answer in known.items() if answer is not None and answer.allowed), "")) == "":
            unknown = [subject for subject, answer in known.items() if answer is None]
            answers = await asyncio.gather(*(self._review_once(pool, subject) for subject in unknown))
            known |= dict(zip(unknown, answers, strict=True))
            by = next((s.user for s, answer in known.items() if answer is not None and answer.allowed), "")
        failure = next((answer.failure for answer in known.values() if answer is not None and answer.failure), "")
        return AccessReview(by, tuple(subject.user for subject in subjects), failure)

    async def review_unlisted(self, pool: GPUPool, requester: Requester) -> AccessReview:
        """What RBAC says of a pod's use of a pool whose lists do not allow it; not asked where they do."""
        if allowed_by_lists(pool, requester):
            return NOT_REVIEWED
        return await self.review(pool.name, subjects(requester))

    def _cached(self, key: bytes) -> _CachedReview | None:
        answer = self._answers.get(key)
        if answer is None or answer.until <= self._clock():
            return None
        metrics.ACCESS_REVIEWS.labels("hit").inc()
        return answer

    async def _review_once(self, pool: str, subject: Subject) -> _CachedReview:
        """Ask, or wait for somebody who asks the same."""
        key = _key(pool, subject)
        if (task := self._in_flight.get(key)) is None:
            # A task of its own: a review that runs out of time must not take others' answer with it.
            task = self._in_flight[key] = asyncio.create_task(self._review(key, pool, subject))
            task.add_done_callback(lambda _: self._in_flight.pop(key, None))
        else:
            metrics.ACCESS_REVIEWS.labels("joined").inc()
        return await asyncio.shield(task)

    async def _review(self, key: bytes, pool: str, subject: Subject) -> _CachedReview:
        began = self._clock()
        try:
            body = await self._client.request("POST", REVIEW.path(), body=_review(pool, subject), timeout=TIMEOUT)
            allowed = orjson.loads(body)["status"].get("allowed") is True
        except (RuntimeFault, ValueError, LookupError, AttributeError, TypeError) as error:
            metrics.ACCESS_REVIEWS.labels("failure").inc()
            log.warning("cannot ask who may use a pool", pool=pool, user=subject.user, error=str(error))
            answer = _CachedReview(allowed=False, until=self._clock() + FAILED_TTL, failure=_failure_message(error))
        else:
            metrics.ACCESS_REVIEWS.labels("miss").inc()
            answer = _CachedReview(allowed, self._clock() + (ALLOWED_TTL if allowed else REFUSED_TTL))
        metrics.ACCESS_REVIEW_SECONDS.observe(self._clock() - began)
        self._answers.pop(key, None)  # it goes to the end
        self._answers[key] = answer
        while len(self._answers) > ENTRIES_MAX:
            del self._answers[next(iter(self._answers))]
        return answer


def _failure_message(error: Exception) -> str:
    """A failure in few words, for whoever creates the pod."""
    if isinstance(error, ApiError):
        return f"{error.status} {error.reason}"
    return "no answer" if isinstance(error, RuntimeFault) else "an answer that makes no sense"


def _review(pool: str, subject: Subject) -> dict[str, object]:
    asked = {"group": names.GROUP, "version": names.VERSION, "resource": GPUPOOL.plural, "name": pool, "verb": VERB}
    spec = {"user": subject.user, "groups": list(subject.groups), "resourceAttributes": asked}
    return {"apiVersion": REVIEW.api_version, "kind": REVIEW.kind, "spec": spec}


def _key(pool: str, subject: Subject) -> bytes:
    """What an answer depends on, in few bytes: somebody may be in thousands of groups."""
    return hashlib.sha256(orjson.dumps([pool, subject.user, sorted(subject.groups)])).digest()
