"""Who a token names: asked once for many, kept as a hash, and strangers by the thousand stop no viewer."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson
import pytest

from console import viewers
from console.reviews import Reviews
from console.viewers import NotAskedError, Tokens, UnknownViewerError, Viewer
from controllers.api.resources import NODE
from tests.kit.waiting import until


class Asked:
    """An API server that knows tokens that begin with `good`, and answers when it is let."""

    def __init__(self) -> None:
        self.asked: list[Any] = []
        self.open = asyncio.Event()
        self.open.set()

    async def request(self, verb: str, path: str, *, body: Any, **more: Any) -> bytes:
        del verb, path, more
        self.asked.append(body["spec"])
        await self.open.wait()
        token = body["spec"].get("token", "")
        user = {"username": token.removeprefix("good-")}
        return orjson.dumps({"status": {"authenticated": token.startswith("good"), "user": user, "allowed": True}})


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def made(clock: Clock) -> tuple[Asked, Tokens]:
    client = Asked()
    return client, Tokens(client, clock=clock)  # type: ignore[arg-type]


async def test_equal_tokens_are_one_question(clock: Clock) -> None:
    client, tokens = made(clock)
    found = await asyncio.gather(*(tokens.viewer("good-anna") for _ in range(50)))
    assert {one.user for one in found} == {"anna"}
    assert len(client.asked) == 1
    clock.now += viewers.KNOWN + 1
    await tokens.viewer("good-anna")
    assert len(client.asked) == 2


async def test_strangers_wait_in_numbers_and_a_viewer_comes_before_them(clock: Clock) -> None:
    client, tokens = made(clock)
    await tokens.viewer("good-anna")
    clock.now += viewers.KNOWN + 1
    client.open.clear()
    strangers = [asyncio.create_task(tokens.viewer(f"bad-{at}")) for at in range(viewers.ASKING_MAX)]
    await until(lambda: len(client.asked) == 1 + viewers.ASKING_MAX, "their questions")
    with pytest.raises(NotAskedError, match="come again"):
        await tokens.viewer("bad-more")
    anna = asyncio.create_task(tokens.viewer("good-anna"))
    await until(lambda: {"token": "good-anna"} in client.asked[1:], "the viewer's question")
    client.open.set()
    assert (await anna).user == "anna"
    refused = await asyncio.gather(*strangers, return_exceptions=True)
    assert {type(each) for each in refused} == {UnknownViewerError}


async def test_strangers_push_no_viewer_out(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewers, "TOKENS_MAX", 4)
    client, tokens = made(clock)
    await tokens.viewer("good-anna")
    for at in range(9):
        with pytest.raises(UnknownViewerError):
            await tokens.viewer(f"bad-{at}")
    before = len(client.asked)
    await tokens.viewer("good-anna")
    assert len(client.asked) == before
    assert len(tokens._unknown) == 4


async def test_no_token_is_kept_and_what_has_expired_goes(clock: Clock) -> None:
    client, tokens = made(clock)
    viewer = await tokens.viewer("good-secret")
    with pytest.raises(UnknownViewerError):
        await tokens.viewer("bad-secret")
    assert "token" not in Viewer.__slots__
    assert "good-secret" not in repr((tokens._known, tokens._unknown, tokens._asking, viewer))
    clock.now += viewers.KNOWN + viewers.MET + 1
    await tokens.viewer("good-other")
    assert (len(tokens._known), len(tokens._unknown)) == (1, 0)
    reviews = Reviews(client, own=False, clock=clock)  # type: ignore[arg-type]
    await reviews.may(viewer, "list", NODE)
    clock.now += 31
    await reviews.may(viewer, "watch", NODE)
    assert len(reviews._answers) == 1
