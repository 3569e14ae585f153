"""What somebody may list, asked of the API server: SubjectAccessReviews, or of our own rights SelfSubjectAccessReviews.

Lives as long as its program, in its event loop. A yes counts for `ALLOWED` seconds, a no for `REFUSED`, so that a role
that is granted works soon; of many who want to know the same one asks. What cannot be asked is no answer: whoever waits
for it gets NotAskedError, and nothing is shown on a guess.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import orjson

from console.kinds import PODS, WHOLE
from console.rights import Rights
from console.viewers import NotAskedError
from controllers.api.resources import GPUDEVICE, Resource
from controllers.runtime.errors import ApiError, RuntimeFault
from controllers.runtime.readers import REVIEW as SELF_REVIEW

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from console.viewers import Viewer
    from controllers.runtime.client import Client

REVIEW: Final = Resource("authorization.k8s.io", "v1", "subjectaccessreviews", "SubjectAccessReview", namespaced=False)
ALLOWED, REFUSED = 30.0, 5.0
TIMEOUT: Final = 5.0
"""Seconds for one question."""
ANSWERS_MAX: Final = 16384
"""Answers that are kept; beyond that the oldest go."""
ASKING_MAX: Final = 16
"""Questions at once."""


@dataclass(frozen=True, slots=True)
class _Question:
    viewer: Viewer
    verb: str
    resource: Resource
    namespace: str


class Reviews:
    """Rights of viewers, remembered for seconds."""

    def __init__(self, client: Client, *, own: bool, clock: Callable[[], float] = time.monotonic) -> None:
        """`own`: viewers are the client itself, which then needs no right to ask about others."""
        self._client, self._own, self._clock = client, own, clock
        self._answers: dict[_Question, tuple[float, bool]] = {}
        self._asking: dict[_Question, asyncio.Task[bool]] = {}
        self._turn = asyncio.Semaphore(ASKING_MAX)
        self._swept = clock()

    async def rights(self, viewer: Viewer, namespaces: Iterable[str]) -> Rights:
        """What they may list; `namespaces`: those that have pods. Raises NotAskedError."""
        kinds = [read.resource for read in WHOLE]
        asked = [self.may(viewer, "list", kind) for kind in kinds]
        confirms, everywhere, *whole = await asyncio.gather(
            self.may(viewer, "patch", GPUDEVICE), self.may(viewer, "list", PODS[0]), *asked
        )
        return Rights(
            frozenset(kind.kind for kind, allowed in zip(kinds, whole, strict=True) if allowed),
            None if everywhere else await self._readable(viewer, namespaces),
            confirms,
        )

    async def _readable(self, viewer: Viewer, namespaces: Iterable[str]) -> frozenset[str]:
        names = sorted(namespaces)
        answers = await asyncio.gather(*(self.may(viewer, "list", PODS[0], name) for name in names))
        return frozenset(name for name, allowed in zip(names, answers, strict=True) if allowed)

    async def may(self, viewer: Viewer, verb: str, resource: Resource, namespace: str = "") -> bool:
        """Whether they have a right; of a kind with namespaces, in that one or in all. Raises NotAskedError."""
        question = _Question(viewer, verb, resource, namespace)
        until, allowed = self._answers.get(question, (0.0, False))
        if until > self._clock():
            return allowed
        if (task := self._asking.get(question)) is None:
            # A task of its own: others may wait for it when the first has gone.
            task = self._asking[question] = asyncio.create_task(self._ask(question))
            task.add_done_callback(lambda _: self._asking.pop(question, None))
        return await asyncio.shield(task)

    async def _ask(self, question: _Question) -> bool:
        review = SELF_REVIEW if self._own else REVIEW
        spec: dict[str, Any] = {"resourceAttributes": _attributes(question)} | ({} if self._own else _who(question))
        body = {"apiVersion": review.api_version, "kind": review.kind, "spec": spec}
        try:
            async with self._turn:
                answer = await self._client.request("POST", review.path(), body=body, timeout=TIMEOUT)
            allowed = orjson.loads(answer)["status"].get("allowed") is True
        except (RuntimeFault, ValueError, LookupError, TypeError, AttributeError) as error:
            why = f"{error.status} {error.reason}" if isinstance(error, ApiError) else "no answer"
            raise NotAskedError(f"The API server could not be asked what you may read ({why}).") from error
        self._answers.pop(question, None)  # it goes to the end
        self._answers[question] = (self._clock() + (ALLOWED if allowed else REFUSED), allowed)
        self._bound()
        return allowed

    def _bound(self) -> None:
        """Forget what does not count any more, now and then, and the oldest of what is too much."""
        now = self._clock()
        if now - self._swept > ALLOWED:
            self._swept = now
            self._answers = {question: found for question, found in self._answers.items() if found[0] > now}
        while len(self._answers) > ANSWERS_MAX:
            del self._answers[next(iter(self._answers))]


def _attributes(question: _Question) -> dict[str, str]:
    resource = question.resource
    asked = {"group": resource.group, "version": resource.version, "resource": resource.plural, "verb": question.verb}
    return asked | ({"namespace": question.namespace} if question.namespace else {})


def _who(question: _Question) -> dict[str, Any]:
    viewer = question.viewer
    extra = {key: list(values) for key, values in viewer.extra}
    return {"user": viewer.user, "groups": list(viewer.groups), "uid": viewer.uid, "extra": extra}
