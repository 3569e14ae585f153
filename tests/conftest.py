"""Clusters for the tests: real ones, each started once for a session and shared."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import hypothesis  # noqa: F401 - imported late, by its plugin, it trips over a bug of CPython 3.11's ast
import pytest
import structlog

from sim import controlplane
from sim.cluster import Options, bring_up
from sim.controlplane import ControlPlane
from sim.module.processes import Timers
from sim.view import View

TIMERS = Timers(lease_duration=3.0, renew_deadline=2.0, retry_period=0.4, watch_idle=20.0)


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """A process's `main` that a test calls sets logging up for good, on an output that ends with that test."""
    handlers = logging.getLogger().handlers[:]
    yield
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = handlers


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    """A cluster with the module's four processes, the simulated agent and four GPU nodes."""
    folder: Path = tmp_path_factory.mktemp("cluster")
    plane = bring_up(folder, Options(timers=TIMERS))
    try:
        yield plane
    finally:
        controlplane.down(folder)


@pytest.fixture
async def view(cluster: ControlPlane) -> AsyncIterator[View]:
    """Live caches of that cluster."""
    async with View(cluster.kubeconfig) as caches:
        yield caches
