"""A node whose cards can be divided, and managers for it."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

from controllers.api import names
from controllers.api.resources import MUTATING_WEBHOOK, VALIDATING_WEBHOOK
from controllers.runtime.errors import NotFound
from sim.nodes import names as sim
from tests.nodeagent.deviceplugin.node import World
from tests.nodeagent.mig.drivers import Ground, Real
from tests.tools.lacking import lacking

if TYPE_CHECKING:
    from collections.abc import AsyncIterator
    from pathlib import Path

    from tests.nodeagent.discover.node import Cluster

SHAPE = "a100-sxm-8"


@pytest.fixture
async def ground(cluster: Cluster) -> AsyncIterator[Ground]:
    """A node of its own, whose cards have to be reset for MIG mode."""
    if why := lacking("cc"):
        pytest.skip(f"the fake driver library cannot be built: {why}")
    for resource in (MUTATING_WEBHOOK, VALIDATING_WEBHOOK):  # nobody admits pods
        with suppress(NotFound):
            await cluster.client.request("DELETE", resource.path(None, names.WEBHOOK_CONFIGURATION))
    world = World(cluster, f"n{uuid4().hex[:8]}", SHAPE)
    await world.make({sim.SHAPE: SHAPE})
    made = Ground(world)
    yield made
    await made.close()
    await world.close()


@pytest.fixture
async def real(ground: Ground, tmp_path: Path) -> AsyncIterator[Real]:
    """The machine under it; managers are started by the test."""
    made = Real(ground, tmp_path, SHAPE)
    yield made
    await made.close()
