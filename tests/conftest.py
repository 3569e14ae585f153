"""What every room of tests has: its worker's control plane, and the usual cluster."""

from __future__ import annotations

import logging
import signal
from collections.abc import AsyncIterator, Iterator

import hypothesis  # imported late, by its plugin, it trips over a bug of CPython 3.11's ast
import pytest
import structlog

from sim.cluster import Options
from sim.controlplane import ControlPlane
from sim.view import View
from tests.kit import planes
from tests.kit.worker_plane import WorkerPlane

# An example may take as long as the machine makes it take.
hypothesis.settings.register_profile(
    "whatever the machine", deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("whatever the machine")

pytest_plugins = ("tests.kit.rooms", "tests.kit.sockets", "tests.kit.record", "tests.kit.side_by_side")


@pytest.fixture(autouse=True)
def logs_as_they_were() -> Iterator[None]:
    """A process's `main` that a test calls sets logging up for good, on an output that ends with that test."""
    handlers = logging.getLogger().handlers[:]
    yield
    structlog.reset_defaults()
    logging.getLogger().handlers[:] = handlers


@pytest.fixture(autouse=True)
def no_alarm_is_left() -> Iterator[None]:
    """A `main` that sets an alarm ends the process in which a test called it, long after that test."""
    yield
    assert signal.alarm(0) == 0, "an alarm(2) of this test would have ended its worker"


@pytest.fixture(scope="session")
def worker_plane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WorkerPlane]:
    """The control plane that this worker has; fixtures of a module's scope ask it."""
    made = WorkerPlane(lambda: tmp_path_factory.mktemp("plane"))
    yield made
    made.clear()


@pytest.fixture(scope="module")
def cluster(worker_plane: WorkerPlane) -> ControlPlane:
    """A cluster with the module's four processes, the simulated agent and four GPU nodes; files share it."""
    return worker_plane.take("usual", lambda folder: planes.module(folder, Options(timers=planes.TIMERS)))


@pytest.fixture
async def view(cluster: ControlPlane) -> AsyncIterator[View]:
    """Live caches of that cluster."""
    async with View(cluster.kubeconfig) as caches:
        yield caches
