"""Who may use a pool: lists, groups of a person, and RBAC's word, remembered for seconds."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from controllers.api import names
from controllers.runtime.errors import Busy, RuntimeFault, Unreachable
from tests.kit.objects import namespace
from tests.webhook import world
from webhook.caches import access_reviews
from webhook.caches.access_reviews import AccessReviewCache
from webhook.decision import access
from webhook.decision.access import NOT_REVIEWED, AccessReview, Requester, Subject
from webhook.decision.records import UserInfo

JANE = UserInfo(username="jane", groups=("ml", "system:authenticated"))
RUNNER = "system:serviceaccount:team:runner"
REPLICA_SET = UserInfo(
    username="system:serviceaccount:kube-system:replicaset-controller", groups=("ml", "system:serviceaccounts")
)


def judged(lists: dict[str, Any], *, user: UserInfo | None = JANE, use: AccessReview = NOT_REVIEWED) -> str:
    """Empty where it is allowed, else what the refused reads."""
    requester = Requester("team", namespace("team"), user=user)
    found = access.resolve(world.pool(access=lists), requester, use).denied
    return found.message if found else ""


GROUPS: dict[str, tuple[UserInfo | None, bool]] = {
    "a person": (JANE, True),
    "a person who is not in it": (UserInfo(username="joe", groups=("web",)), False),
    "a person in no group": (UserInfo(username="joe"), False),
    "a controller": (REPLICA_SET, False),
    "a ServiceAccount of a tenant": (UserInfo(username=RUNNER, groups=("ml",)), False),
    "a node": (UserInfo(username="system:node:n1", groups=("ml", "system:nodes")), False),
    "nobody": (UserInfo(username="system:anonymous", groups=("ml",)), False),
    "no name": (UserInfo(groups=("ml",)), False),
    "a controller that will": (None, False),
}


@pytest.mark.parametrize(("user", "allowed"), GROUPS.values(), ids=GROUPS.keys())
def test_groups_count_for_a_persons_own_creation_only(user: UserInfo | None, allowed: bool) -> None:
    message = judged({"dexGroups": ["hpc", "ml"]}, user=user)
    assert (message == "") == allowed
    if not allowed:
        person = user is not None and user.username == "joe"
        assert ("joe is in none of them" if person else "not a controller") in message


def test_rbac_is_one_more_list() -> None:
    closed = {"namespaces": ["other"]}
    assert judged(closed, use=AccessReview(allowed_user=RUNNER, reviewed=(RUNNER,))) == ""
    refused = judged(closed, use=AccessReview(reviewed=(RUNNER, "jane")))
    assert refused == (
        "AccessDenied: namespace team (ServiceAccount default) may not use GPUPool a; its spec.access allows namespaces"
        f" other. Nor does RBAC grant the verb use on gpupools/a to {RUNNER} or jane."
        " Ask the pool's administrator to add the namespace, or use another pool."
    )
    unknown = judged(closed, use=AccessReview(reviewed=(RUNNER,), failure="503 ServiceUnavailable: later"))
    assert "RBAC could not be asked about the verb use on gpupools/a (503 ServiceUnavailable: later)" in unknown


def test_an_open_pool_is_open_whatever_rbac_says() -> None:
    assert judged({}, use=AccessReview(reviewed=(RUNNER,))) == ""


def test_rbac_is_asked_about_the_pods_account_and_a_person_who_creates_it() -> None:
    groups = ("system:serviceaccounts", "system:serviceaccounts:team", "system:authenticated")
    assert access.subjects(Requester("team", None, "runner", JANE)) == (
        Subject(RUNNER, groups),
        Subject("jane", JANE.groups),
    )
    assert access.subjects(Requester("team", None)) == (Subject("system:serviceaccount:team:default", groups),)
    itself = UserInfo(username=RUNNER, groups=groups)
    assert access.subjects(Requester("team", None, "runner", itself)) == (Subject(RUNNER, groups),)
    # With the rights of an administrator a controller would open every pool to whoever has it make pods.
    for other in (REPLICA_SET, UserInfo(username="system:serviceaccount:argo:argocd", groups=("system:masters",))):
        assert access.subjects(Requester("team", None, "runner", other)) == (Subject(RUNNER, groups),)


VOUCHING: dict[str, tuple[dict[str, Any], UserInfo | None, AccessReview, UserInfo | None]] = {
    "an open pool": ({}, JANE, NOT_REVIEWED, None),
    "the namespace may": ({"namespaces": ["team"], "dexGroups": ["ml"]}, JANE, NOT_REVIEWED, None),
    "the pod's account may": ({"namespaces": ["x"]}, JANE, AccessReview(allowed_user=RUNNER), None),
    "a group": ({"dexGroups": ["ml"]}, JANE, NOT_REVIEWED, UserInfo(username="jane", groups=("ml",))),
    "RBAC": (
        {"namespaces": ["x"]},
        JANE,
        AccessReview(allowed_user="jane"),
        UserInfo(username="jane", groups=("system:authenticated", "ml")),
    ),
    "a controller": ({"dexGroups": ["ml"]}, REPLICA_SET, AccessReview(allowed_user=RUNNER), None),
    "nobody is known": ({"dexGroups": ["ml"]}, None, NOT_REVIEWED, None),
}


@pytest.mark.parametrize(("lists", "user", "use", "expected"), VOUCHING.values(), ids=VOUCHING.keys())
def test_a_pods_access_rests_on_a_person_where_nothing_else_allows_it(
    lists: dict[str, Any], user: UserInfo | None, use: AccessReview, expected: UserInfo | None
) -> None:
    requester = Requester("team", namespace("team"), "runner", user)
    assert access.resolve(world.pool(access=lists), requester, use).person == expected


def test_of_a_person_whom_rbac_allows_some_groups_are_remembered() -> None:
    many = UserInfo(username="jane", groups=(*(f"group-{n}" for n in range(1000)), "system:authenticated"))
    requester = Requester("team", None, user=many)
    found = access.resolve(
        world.pool(access={"namespaces": ["x"]}), requester, AccessReview(allowed_user="jane")
    ).person
    expected = ("system:authenticated", *many.groups[: access.GROUPS_KEPT - 1])
    assert found == UserInfo(username="jane", groups=expected)


class Authorizer:
    """Stands where the API server answers SubjectAccessReviews."""

    def __init__(self, *allowed: str) -> None:
        self.allowed, self.reviewed = set(allowed), list[dict[str, Any]]()
        self.error: RuntimeFault | None = None
        self.answer: bytes | None = None
        self.go = asyncio.Event()
        self.go.set()

    async def request(self, method: str, path: str, *, body: Any, timeout: float) -> bytes:  # noqa: ASYNC109
        assert (method, path) == ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews")
        assert timeout < 2
        self.reviewed.append(body["spec"])
        await self.go.wait()
        if self.error is not None:
            raise self.error
        return self.answer or orjson.dumps({"status": {"allowed": body["spec"]["user"] in self.allowed}})


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def made(*allowed: str) -> tuple[AccessReviewCache, Authorizer, Clock]:
    authorizer, clock = Authorizer(*allowed), Clock()
    client: Any = authorizer
    return AccessReviewCache(client, clock=clock), authorizer, clock


ME = (Subject("me", ("g",)),)


async def test_what_is_asked() -> None:
    asks, authorizer, _ = made("me")
    assert await asks.review("a", ME) == AccessReview("me", ("me",))
    attributes = {
        "group": names.GROUP, "version": "v1alpha1", "resource": "gpupools", "name": "a", "verb": "use",
    }  # fmt: skip
    assert authorizer.reviewed == [{"user": "me", "groups": ["g"], "resourceAttributes": attributes}]


@pytest.mark.parametrize(
    ("allowed", "ttl"), [(True, access_reviews.ALLOWED_TTL), (False, access_reviews.REFUSED_TTL)], ids=["yes", "no"]
)
async def test_an_answer_counts_for_a_while(allowed: bool, ttl: float) -> None:
    asks, authorizer, clock = made(*(["me"] if allowed else []))
    for now, times in ((0.0, 1), (ttl - 0.1, 1), (ttl, 2)):
        clock.now = now
        assert bool((await asks.review("a", ME)).allowed_user) == allowed
        assert len(authorizer.reviewed) == times
    # Another pool, or the same name with other groups, is another question.
    await asks.review("b", ME)
    await asks.review("a", (Subject("me", ("g", "h")),))
    assert len(authorizer.reviewed) == 4


async def test_many_at_once_ask_once() -> None:
    asks, authorizer, _ = made("me")
    authorizer.go.clear()
    waiting = [asyncio.create_task(asks.review("a", ME)) for _ in range(50)]
    await asyncio.sleep(0)
    waiting[0].cancel()  # its review ran out of time; the others still get the answer
    await asyncio.sleep(0)
    authorizer.go.set()
    answers = await asyncio.gather(*waiting[1:])
    assert {answer.allowed_user for answer in answers} == {"me"}
    assert len(authorizer.reviewed) == 1


async def test_one_who_is_known_to_be_allowed_is_enough() -> None:
    asks, authorizer, _ = made("me")
    await asks.review("a", ME)
    assert (await asks.review("a", (Subject("other", ()), *ME))).allowed_user == "me"
    assert len(authorizer.reviewed) == 1
    assert (await asks.review("a", (Subject("other", ()), Subject("third", ())))).allowed_user == ""
    assert len(authorizer.reviewed) == 3


NONSENSE = "an answer that makes no sense"
FAILURES: dict[str, tuple[RuntimeFault | None, bytes | None, str]] = {
    "no answer": (Unreachable("timed out"), None, "no answer"),
    "busy": (Busy(429, "TooManyRequests", "later"), None, "429 TooManyRequests"),
    "no JSON": (None, b"<html>", NONSENSE),
    "a list": (None, b"[]", NONSENSE),
    "no status": (None, b"{}", NONSENSE),
    "status is text": (None, b'{"status": "yes"}', NONSENSE),
}


@pytest.mark.parametrize(("error", "answer", "said"), FAILURES.values(), ids=FAILURES.keys())
async def test_a_failure_allows_nobody_and_is_said(error: RuntimeFault | None, answer: bytes | None, said: str) -> None:
    asks, authorizer, clock = made("me")
    authorizer.error, authorizer.answer = error, answer
    use = await asks.review("a", ME)
    assert use.allowed_user == ""
    assert use.failure == said
    # Not each of the next reviews waits for it, and a moment later it is asked again.
    await asks.review("a", ME)
    assert len(authorizer.reviewed) == 1
    authorizer.error = authorizer.answer = None
    clock.now = access_reviews.FAILED_TTL
    assert (await asks.review("a", ME)).allowed_user == "me"


@pytest.mark.parametrize("word", ["true", 1, None], ids=str)
async def test_only_a_plain_yes_allows(word: Any) -> None:
    asks, authorizer, _ = made()
    authorizer.answer = orjson.dumps({"status": {"allowed": word}})
    assert (await asks.review("a", ME)).allowed_user == ""


async def test_what_is_remembered_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(access_reviews, "ENTRIES_MAX", 10)
    asks, authorizer, _ = made()
    for number in range(50):
        await asks.review("a", (Subject(f"u{number}", ("g",) * 100),))
        assert len(asks) <= 10
    await asks.review("a", (Subject("u49", ("g",) * 100),))
    assert len(authorizer.reviewed) == 50
