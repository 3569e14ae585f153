"""What is remembered of who may read metrics, and for how long; the API server's own word is in tests/templates."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from controllers.api import names
from controllers.runtime import readers
from controllers.runtime.errors import Busy, Forbidden, Unreachable
from controllers.runtime.readers import Access, Readers

UNKNOWN = Forbidden(401, "Unauthorized", "Unauthorized")
MAY_NOT_ASK = Forbidden(403, "Forbidden", "may not create selfsubjectaccessreviews")


class Api:
    """Stands for the API server: says of each token what it is told to, and counts."""

    def __init__(self) -> None:
        self.word: dict[str, bool | Exception] = {}
        self.asked: list[str] = []
        self.bodies: list[Any] = []
        self.go = asyncio.Event()
        self.go.set()
        self.now = 1000.0
        client: Any = self
        self.readers = Readers(client, names.POOL_CONTROLLER, clock=lambda: self.now)

    def with_token(self, token: Any) -> Any:
        api = self

        class As:
            async def request(self, method: str, path: str, *, body: Any, timeout: float) -> bytes:  # noqa: ARG002, ASYNC109
                assert (method, path) == ("POST", "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews")
                api.asked.append(shown := await token())
                api.bodies.append(body)
                await api.go.wait()
                word = api.word.get(shown, UNKNOWN)
                if isinstance(word, Exception):
                    raise word
                return b'{"status":{"allowed":%s}}' % str(word).lower().encode()

        return As()


async def test_a_yes_counts_for_minutes_and_a_no_for_seconds() -> None:
    api = Api()
    api.word = {"prometheus": True, "tenant": False}
    for token, word, lasts in (
        ("prometheus", Access.ALLOWED, readers.ALLOWED_FOR),
        ("tenant", Access.FORBIDDEN, readers.REFUSED_FOR),
    ):
        api.asked.clear()
        for _ in range(3):
            assert await api.readers.authorize(token) is word
        assert api.asked == [token]
        api.now += lasts
        assert await api.readers.authorize(token) is word
        assert api.asked == [token, token]


async def test_a_right_that_is_taken_away_or_given_is_seen() -> None:
    api = Api()
    api.word["one"] = True
    assert await api.readers.authorize("one") is Access.ALLOWED
    api.word["one"] = False
    api.now += readers.ALLOWED_FOR
    assert await api.readers.authorize("one") is Access.FORBIDDEN
    api.word["one"] = True
    api.now += readers.REFUSED_FOR
    assert await api.readers.authorize("one") is Access.ALLOWED


@pytest.mark.parametrize("nobody", [Unreachable("refused"), Busy(503, "x", "x")], ids=["away", "busy"])
async def test_who_could_read_goes_on_while_the_api_server_is_away_and_nobody_else(nobody: Exception) -> None:
    api = Api()
    api.word["prometheus"] = True
    assert await api.readers.authorize("prometheus") is Access.ALLOWED
    api.word = {"prometheus": nobody, "new": nobody}
    api.now += readers.ALLOWED_FOR
    assert await api.readers.authorize("prometheus") is Access.ALLOWED
    assert await api.readers.authorize("new") is Access.UNAVAILABLE
    api.now += readers.STALE
    assert await api.readers.authorize("prometheus") is Access.UNAVAILABLE


@pytest.mark.parametrize(("error", "word"), [(UNKNOWN, Access.UNAUTHENTICATED), (MAY_NOT_ASK, Access.FORBIDDEN)])
async def test_who_is_unknown_is_told_so_and_who_may_not_ask_may_not_read(error: Exception, word: Access) -> None:
    api = Api()
    api.word["somebody"] = error
    assert await api.readers.authorize("somebody") is word


async def test_strangers_by_the_thousand_push_nobody_out_who_may_read() -> None:
    api = Api()
    api.word["prometheus"] = True
    assert await api.readers.authorize("prometheus") is Access.ALLOWED
    for number in range(3 * readers.KNOWN_MAX):
        assert await api.readers.authorize(f"forged-{number}") is Access.UNAUTHENTICATED
    api.asked.clear()
    assert await api.readers.authorize("prometheus") is Access.ALLOWED
    assert api.asked == []


async def test_of_many_questions_at_once_few_are_asked_and_the_same_once() -> None:
    api = Api()
    api.word["prometheus"] = True
    api.go.clear()
    waiting = [asyncio.create_task(api.readers.authorize("prometheus")) for _ in range(5)]
    waiting += [asyncio.create_task(api.readers.authorize(f"forged-{n}")) for n in range(readers.ASKING_MAX)]
    done, _ = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
    assert {one.result() for one in done} == {Access.UNAVAILABLE}, "one beyond those that are asked about"
    api.go.set()
    words = await asyncio.gather(*waiting)
    assert words == [Access.ALLOWED] * 5 + [Access.UNAUTHENTICATED] * (readers.ASKING_MAX - 1) + [Access.UNAVAILABLE]
    assert len(api.asked) == readers.ASKING_MAX


async def test_a_crowd_of_strangers_lengthens_no_word_and_keeps_nobody_out_who_may_read() -> None:
    api = Api()
    api.word = {"prometheus": True, "revoked": True}
    assert [await api.readers.authorize(token) for token in api.word] == [Access.ALLOWED, Access.ALLOWED]
    api.word["revoked"] = UNKNOWN
    api.now += readers.ALLOWED_FOR
    api.go.clear()
    strangers = [asyncio.create_task(api.readers.authorize(f"forged-{n}")) for n in range(readers.ASKING_MAX)]
    await asyncio.sleep(0)
    known = [asyncio.create_task(api.readers.authorize(token)) for token in ("prometheus", "revoked")]
    await asyncio.sleep(0)
    api.go.set()
    assert await asyncio.gather(*known) == [Access.ALLOWED, Access.UNAUTHENTICATED]
    assert set(await asyncio.gather(*strangers)) == {Access.UNAUTHENTICATED}


async def test_so_many_strangers_wait_and_no_more() -> None:
    api = Api()
    api.go.clear()
    waiting = [asyncio.create_task(api.readers.authorize("forged")) for _ in range(readers.WAITING_MAX)]
    await asyncio.sleep(0)
    assert await api.readers.authorize("forged") is Access.UNAVAILABLE
    api.go.set()
    assert set(await asyncio.gather(*waiting)) == {Access.UNAUTHENTICATED}
    assert await api.readers.authorize("another") is Access.UNAUTHENTICATED, "room comes back"


async def test_who_goes_away_does_not_take_the_question_with_them() -> None:
    api = Api()
    api.word["prometheus"] = True
    api.go.clear()
    first, second = (asyncio.create_task(api.readers.authorize("prometheus")) for _ in range(2))
    await asyncio.sleep(0)
    first.cancel()
    api.go.set()
    assert await second is Access.ALLOWED
    assert first.cancelled()
    assert api.asked == ["prometheus"]


@pytest.mark.parametrize(
    ("program", "kind"), [(names.POOL_CONTROLLER, "deployments"), (names.MANAGER_DISCOVER, "daemonsets")]
)
async def test_what_is_asked_is_what_roles_name(program: str, kind: str) -> None:
    api = Api()
    client: Any = api
    await Readers(client, program).authorize("x")
    assert api.bodies[0]["spec"]["resourceAttributes"] == {
        "group": "apps", "resource": kind, "subresource": "prometheus-metrics", "verb": "get",
        "namespace": names.NAMESPACE, "name": program,
    }  # fmt: skip


async def test_no_token_is_kept() -> None:
    api = Api()
    api.word["the-secret"] = True
    await api.readers.authorize("the-secret")
    await api.readers.authorize("another-secret")
    assert "secret" not in str(vars(api.readers))
