"""What a MIG manager does on a real API server; where that touches the cards, also as the simulation plays it.

The manager is the same program in both. `nodeagent mig-manager` has programs and a driver library that play the
machine, `sim.nodes.agent` has annotations of the node: they may not drift apart. Tests look only at what the cluster
and the machine see.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import names
from controllers.api.resources import NODE
from controllers.domain.mig import DISABLED, CardLayout
from sim.nodes import names as sim
from tests.kit.manifests import body
from tests.kit.objects import allocation, published
from tests.nodeagent.mig.drivers import Real, Simulated

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.nodeagent.mig.drivers import Driver, Ground

pytestmark = pytest.mark.cluster
SEVEN, THREE = CardLayout(True, {"1g.5gb": 7}), CardLayout(True, {"2g.10gb": 3})
OFFER, HELD = body(published("p")), [body(allocation())]
ELSEWHERE = [{"namespace": "d", "pod": "p", "container": "c", "resource": "nvidia.com/gpu"}]


REAL = pytest.mark.parametrize("driver", ["real"], indirect=True)
"""For what is the manager's decision, whoever plays the machine."""


@pytest.fixture(params=["simulated", "real"])
async def driver(request: pytest.FixtureRequest, ground: Ground, tmp_path: Path) -> AsyncIterator[Driver]:
    """One of the two."""
    made: Driver
    if request.param == "real":
        made = Real(ground, tmp_path, ground.world.shape.name)
    else:
        marks = {"metadata": {"annotations": {sim.FAKE: "fake"}}}
        await ground.world.cluster.client.merge(NODE, ground.world.name, marks, manager="test")
        made = Simulated(ground, tmp_path)
    yield made
    await made.close()


async def ends(driver: Driver, version: str, phase: str, number: int = 0) -> None:
    try:
        await driver.ground.world.until(lambda: driver.ground.phase(number), (version, phase))
    except AssertionError as error:
        raise AssertionError(f"{error}: {await driver.ground.said(number)}\n{getattr(driver, 'log', '')}") from None


async def test_done_when_the_card_is_as_wanted(driver: Driver) -> None:
    await driver.start("alpha")
    version = await driver.ground.want(SEVEN)
    await ends(driver, version, "Done")
    assert await driver.divided() == SEVEN
    assert await driver.divided(1) == DISABLED
    assert await driver.ground.said(1) is None
    version = await driver.ground.want(THREE)
    await ends(driver, version, "Done")
    assert await driver.divided() == THREE
    version = await driver.ground.want(DISABLED)
    await ends(driver, version, "Done")
    assert await driver.divided() == DISABLED


@REAL
async def test_every_version_is_acknowledged_where_nothing_is_to_be_done(driver: Driver) -> None:
    await driver.start("alpha")
    await driver.ground.world.status(names.MANAGER_PLUGIN, 0, {"published": OFFER})
    for asked in ("", "2026-01-01T00:00:00Z", "2026-01-02T00:00:00Z"):
        await ends(driver, await driver.ground.want(DISABLED, asked=asked), "Done")


@REAL
@pytest.mark.parametrize(
    ("used", "free"),
    [
        ({"published": OFFER}, {"published": None}),
        ({"allocations": HELD}, {"allocations": None}),
        ({"foreignAllocations": ELSEWHERE}, {"foreignAllocations": None}),
    ],
    ids=["published", "allocated", "elsewhere"],
)
async def test_a_card_in_use_waits(driver: Driver, used: dict[str, object], free: dict[str, object]) -> None:
    await driver.start("alpha")
    await driver.ground.world.status(names.MANAGER_PLUGIN, 0, used)
    waiting = await driver.ground.want(SEVEN, 0)
    await ends(driver, waiting, "Waiting")
    other = await driver.ground.want(SEVEN, 1)
    await ends(driver, other, "Done", 1)
    assert await driver.ground.phase(0) == (waiting, "Waiting")
    assert await driver.divided(0) == DISABLED
    await driver.ground.world.status(names.MANAGER_PLUGIN, 0, free)
    await ends(driver, waiting, "Done")
    assert await driver.divided(0) == SEVEN


async def test_programs_that_hold_the_card_go_first(driver: Driver) -> None:
    pod = await driver.ground.client()
    await driver.start("alpha")
    waiting = await driver.ground.want(SEVEN)
    await ends(driver, waiting, "Waiting")
    as_it_is = await driver.ground.want(DISABLED, 1)
    await ends(driver, as_it_is, "Done", 1)
    assert await driver.ground.phase(0) == (waiting, "Waiting")
    await driver.ground.gone(pod)
    await ends(driver, waiting, "Done")


async def test_failed_tells_why_and_is_tried_again_when_asked(driver: Driver) -> None:
    await driver.fail(0)
    await driver.start("alpha")
    await ends(driver, await driver.ground.want(SEVEN), "Failed")
    said = await driver.ground.said()
    assert said is not None
    assert said.reason
    assert await driver.divided() == DISABLED
    await driver.fail(None)
    version = await driver.ground.want(SEVEN, asked="2026-01-01T00:00:00Z")
    await ends(driver, version, "Done")
    said = await driver.ground.said()
    assert said is not None
    assert said.reason is None


async def test_after_a_crash_the_work_goes_on_and_what_is_over_stays(driver: Driver) -> None:
    await driver.start("alpha")
    done = await driver.ground.want(SEVEN, 1)
    await ends(driver, done, "Done", 1)
    before = (await driver.ground.world.get(1)).metadata.resource_version
    version = await driver.ground.want(THREE, 0)
    await driver.crash()
    await ends(driver, version, "Done", 0)
    assert await driver.divided(0) == THREE
    assert (await driver.ground.world.get(1)).metadata.resource_version == before


@REAL
async def test_a_part_that_goes_takes_back_that_it_waits(driver: Driver) -> None:
    await driver.start("alpha")
    await driver.ground.world.status(names.MANAGER_PLUGIN, 0, {"published": OFFER})
    await ends(driver, await driver.ground.want(SEVEN), "Waiting")
    await driver.ground.want(None)
    await ends(driver, "", "")


async def test_what_a_reboot_takes_is_told_and_divided_again_when_asked(driver: Driver) -> None:
    await driver.start("alpha")
    version, turned = await driver.ground.want(SEVEN), await driver.ground.want(DISABLED, 1)
    await ends(driver, version, "Done")
    await ends(driver, turned, "Done", 1)
    boot = await driver.reboot()
    await ends(driver, version, "Lost")
    said = await driver.ground.said()
    assert said is not None
    assert (said.boot_id, (said.reason or "").partition(":")[0]) == (boot, "DriverReloaded")

    async def acknowledged() -> tuple[str, str] | None:
        now = await driver.ground.said(1)
        return (now.phase, now.boot_id or "") if now is not None else None

    await driver.ground.world.until(acknowledged, ("Done", boot))
    again = await driver.ground.want(SEVEN, asked="2026-01-01T00:00:00Z")
    await ends(driver, again, "Done")
    assert await driver.divided() == SEVEN
