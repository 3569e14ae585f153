"""Settings that follow their object: a bad value changes nothing, and is said."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import orjson
import pytest
from structlog.testing import capture_logs

from controllers.api.kube import ConfigMap
from controllers.api.resources import CONFIGMAP, EVENT
from controllers.runtime import metrics
from controllers.runtime.errors import ConfigurationError
from controllers.runtime.events import Recorder
from controllers.runtime.leader import LeaseSettings
from controllers.runtime.settings import LiveSettings
from tests.kit.waiting import PATIENCE, until
from tests.runtime.helpers import following

if TYPE_CHECKING:
    from controllers.runtime.client import Client
    from tests.runtime.helpers import Space


def parse(obj: Any) -> int:
    value = obj.data.get("workers", "4")
    if not value.isdigit():
        msg = f"workers: {value!r} is not a number"
        raise ValueError(msg)
    return int(value)


async def test_a_bad_value_keeps_the_last_good_settings(client: Client, admin: Client, space: Space) -> None:
    recorder = Recorder(client, "tested", "test")
    sending = asyncio.create_task(recorder.run())
    live = LiveSettings(CONFIGMAP, 4, parse, recorder)
    told: list[int] = []
    live.subscribe(told.append)
    invalid = metrics.SETTINGS_INVALID
    async with following(client, space, record=ConfigMap) as store:
        store.store.subscribe(live.changed)
        await space.put("settings", workers="8")
        await until(lambda: live.current == 8, "8")
        with capture_logs() as logs:
            await space.put("settings", workers="many")
            await until(lambda: invalid._value.get() == 1, "it to be found invalid")
        assert live.current == 8
        assert [e["error"] for e in logs if e["log_level"] == "error"] == ["workers: 'many' is not a number"]
        await space.put("settings", workers="9")
        await until(lambda: live.current == 9, "9")
        assert invalid._value.get() == 0
        await space.put("settings", workers="9", other="1")
        await space.delete("settings")
        await until(lambda: live.current == 4, "the defaults")
    assert told == [8, 9, 4]
    await recorder.drain(PATIENCE)
    sending.cancel()
    (event,) = orjson.loads(await admin.request("GET", EVENT.path(space.name)))["items"]
    assert event["type"] == "Warning"
    assert event["reason"] == "GPUSettingsInvalid"
    assert event["regarding"]["name"] == "settings"
    assert "'many' is not a number" in event["note"]
    assert "last good settings stay in force" in event["note"]


@pytest.mark.parametrize("times", [(10.0, 10.0, 2.0), (15.0, 10.0, 10.0), (15.0, 10.0, 0.0)])
def test_lease_times_with_which_two_could_lead_are_refused(times: tuple[float, float, float]) -> None:
    with pytest.raises(ConfigurationError, match="shorter than the next"):
        LeaseSettings(*times)
