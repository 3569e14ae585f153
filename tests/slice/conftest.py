"""People over the shared cluster."""

from __future__ import annotations

import pytest

from sim.controlplane import ControlPlane
from sim.view import View
from tests.slice.people import People


@pytest.fixture
async def people(cluster: ControlPlane, view: View) -> People:
    """Verbs over the shared cluster, whose nodes are ready."""
    made = People(cluster, view)
    await made.ready_nodes()
    return made
