"""A control plane with simulated nodes for the tests of the process."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api import names
from controllers.api.resources import Resource
from controllers.bootstrap.operands.validators import SERVICE_ACCOUNT
from controllers.runtime.client import Client
from tests.inventory.plane import Plane

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator
    from pathlib import Path


@pytest.fixture(scope="session")
def bootstrap_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A whole control plane, whose DaemonSets' pods run on KWOK's nodes; the administrator's kubeconfig."""
    from sim import controlplane

    folder = tmp_path_factory.mktemp("bootstrap") / "plane"
    plane = controlplane.up(folder)
    yield plane.kubeconfig
    controlplane.down(folder)


@pytest.fixture
async def plane(bootstrap_plane: Path) -> AsyncIterator[Plane]:
    client = await Client.connect(bootstrap_plane, user_agent="test")
    made = Plane(client, bootstrap_plane)
    await made.install()
    # The chart brings it; without it the pods of the two validators are refused.
    account = {"metadata": {"name": SERVICE_ACCOUNT, "namespace": names.NAMESPACE}}
    await made.put(Resource("", "v1", "serviceaccounts", "ServiceAccount", True), account)
    yield made
    await client.close()
