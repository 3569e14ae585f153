"""`kubectl gpu driver pause|resume|hand-over`: which annotation is written, and what is said."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.resources import GPUNODEINVENTORY, Resource
from controllers.domain.clock import seconds, stamp
from controllers.domain.driver.pause import PAUSE_MAX, paused_until
from controllers.explain.faults import UsageError
from controllers.explain.until import pause_end
from kubectl_gpu import driver_marks, driver_waiting, drivers
from kubectl_gpu.cluster import Found
from kubectl_gpu.parser import build
from tests.kubectl_gpu.drivers import Api, condition, driver, node

NOW = seconds("2026-01-01T00:00:00Z")
KNOWN = [{"name": "n1", "phase": "Host"}]


async def run(api: Any, capsys: pytest.CaptureFixture[str], words: str, status: int = 0) -> tuple[str, str]:
    assert await drivers.driver(api, build().parse_args(["driver", *words.split()])) == status
    told = capsys.readouterr()
    return told.out, told.err


@pytest.mark.parametrize(
    ("until", "length", "end"),
    [
        (None, "8h", NOW + 8 * 3600),
        (None, "3d", NOW + 3 * 86400),
        (None, "30d", NOW + PAUSE_MAX),
        ("2026-01-01T06:00:00Z", None, NOW + 6 * 3600),
        ("2026-01-01T06:00:00+03:00", None, NOW + 3 * 3600),
    ],
)
def test_people_say_how_long_or_until_when(until: str | None, length: str | None, end: float) -> None:
    assert pause_end(NOW, until=until, length=length) == end
    assert paused_until({names.PAUSE: stamp(end)}, NOW) == end


@pytest.mark.parametrize(
    ("until", "length", "sentence"),
    [
        (None, None, "Until when"),
        ("2026-01-01T06:00:00Z", "8h", "Until when"),
        (None, "31d", "longer than a pause may last"),
        (None, "soon", "is not a duration"),
        ("tomorrow", None, "is no time"),
        ("2026-01-01T06:00:00", None, "names no time zone"),
        ("2025-12-31T06:00:00Z", None, "is over already"),
    ],
)
def test_a_pause_that_would_not_hold_is_not_written(until: str | None, length: str | None, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence):
        pause_end(NOW, until=until, length=length)


async def test_a_driver_and_a_node_are_paused(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(driver_marks.time, "time", lambda: NOW)
    api = Api((driver("main"),), (node("n1"),))
    out, _ = await run(api, capsys, "pause main --node n1 --for 8h")

    end = "2026-01-01T08:00:00Z"
    assert api.marked == [("main", names.PAUSE, end, False), ("n1", names.PAUSE, end, False)]
    assert [line.split(":")[0] for line in out.splitlines()] == [
        "GPUDriver main is paused until 2026-01-01T08",
        "Node n1 is paused until 2026-01-01T08",
    ]
    await run(api, capsys, "pause main --for 8h --dry-run")
    assert len(api.marked) == 2
    with pytest.raises(UsageError, match="kubectl gpu driver pause <driver>"):
        await run(api, capsys, "pause --for 8h")


async def test_a_pause_ends_and_what_is_halted_is_tried_again(capsys: pytest.CaptureFixture[str]) -> None:
    paused = driver("main", annotations={names.PAUSE: "2026-01-01T08:00:00Z"}, conditions=[condition("Halted", "Xid")])
    api = Api((paused, driver("other")), (node("n1"),))
    out, _ = await run(api, capsys, "resume main other")

    assert api.marked == [("main", names.PAUSE, None, False), ("main", names.RESUME, "true", False)]
    assert out.splitlines()[0].startswith("GPUDriver main goes on: what failed before does not count")
    assert out.splitlines()[1] == "GPUDriver other was not paused."


async def test_what_the_spec_pauses_the_spec_resumes(capsys: pytest.CaptureFixture[str]) -> None:
    api = Api((driver("main", rollout={"paused": True}),))
    _, err = await run(api, capsys, "resume main", status=1)

    assert "spec.rollout.paused: true" in err
    assert api.marked == []


class HandingOver(Api):
    """A cluster whose node is further with each look."""

    def __init__(self, *works: dict[str, Any]) -> None:
        super().__init__((driver("main", nodes=KNOWN),), (node("n1"),))
        self._works = list(works)

    async def get(self, resource: Resource, cls: type[Any], name: str, namespace: str | None = None) -> Found[Any]:
        if resource == GPUNODEINVENTORY:
            work = self._works.pop(0) if len(self._works) > 1 else self._works[0]
            found: GPUNodeInventory = node(name, **work)
            return Found({}, found)
        return await super().get(resource, cls, name, namespace)


DRAINING = {"phase": "Draining", "hand_over": "ansible", "message": "2 pods use cards"}
HANDED = {"phase": "HandedOver", "hand_over": "ansible"}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(driver_waiting, "LOOK_AGAIN", 0.01)


async def test_a_node_is_asked_for_and_had(capsys: pytest.CaptureFixture[str]) -> None:
    api = HandingOver({}, DRAINING, HANDED)
    out, err = await run(api, capsys, "hand-over n1 --by ansible --wait")

    assert api.marked == [("n1", names.HAND_OVER, "ansible", False)]
    assert out == "Node n1 is asked for by ansible.\n"
    assert err == "1 node handed over.\n"


async def test_who_waits_in_vain_hears_for_what(capsys: pytest.CaptureFixture[str]) -> None:
    _, err = await run(HandingOver(DRAINING), capsys, "hand-over n1 --wait --timeout 0.1", status=1)

    assert err == "error: after 0.1 s node n1 is not handed over: Draining: 2 pods use cards\n"


async def test_a_node_is_given_back(capsys: pytest.CaptureFixture[str]) -> None:
    api = HandingOver(HANDED, {"phase": "Validating", "hand_over": "ansible"}, {})
    api.said["n1"] = {names.HAND_OVER: "ansible"}
    out, err = await run(api, capsys, "hand-over n1 --back --wait")

    assert api.marked == [("n1", names.HAND_OVER, None, False)]
    assert out == "Node n1 is given back.\n"
    assert err == "1 node given back.\n"


async def test_a_node_that_somebody_else_has_stays_theirs(capsys: pytest.CaptureFixture[str]) -> None:
    api = HandingOver(HANDED)
    api.said["n1"] = {names.HAND_OVER: "kured"}
    with pytest.raises(UsageError, match="was asked for by kured"):
        await run(api, capsys, "hand-over n1")
    assert api.marked == []


async def test_a_node_that_no_driver_has_would_wait_for_ever(capsys: pytest.CaptureFixture[str]) -> None:
    api = Api((driver("main"),), (node("n1"),))
    _, err = await run(api, capsys, "hand-over n1")

    assert err == "No GPUDriver has node n1, so nobody hands it over: one with mode Host would do.\n"
    with pytest.raises(UsageError, match="Which node"):
        await run(api, capsys, "hand-over")
