"""One real node for all end-to-end tests, started once."""

from __future__ import annotations

import fcntl
import os
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from sim.programs import for_stream
from sim.realnode.needs import lacking
from sim.view import View
from tests.e2e.admin import NAMESPACE, Admin
from tests.e2e.bed import Bed

FOLDER = Path(tempfile.gettempdir()) / "gpu-control-plane-e2e"
"""Always the same, so that a run finds what one before it left; and short, since the paths of sockets must be."""


@pytest.fixture(scope="session")
def alone() -> Iterator[None]:
    """A machine has one such node; the lock goes with the process that has it."""
    lock = os.open(FOLDER.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        pytest.skip("another run of these tests is at work on this machine")
    yield
    os.close(lock)


@pytest.fixture(scope="session")
def bed(alone: None) -> Iterator[Bed]:
    """The cluster; skipped where the machine cannot run it."""
    if os.geteuid() == 0:
        Bed.end(FOLDER)  # of a run that was killed
    if reason := lacking():
        pytest.skip(reason)
    try:
        yield Bed(FOLDER, for_stream())
    finally:
        Bed.end(FOLDER)
    assert Bed.left(FOLDER) == []


@pytest.fixture
async def admin(bed: Bed) -> AsyncIterator[Admin]:
    """People over that cluster, whose node is ready."""
    async with View(bed.plane.kubeconfig) as view:
        made = Admin(bed, view)
        await made.namespace(NAMESPACE)
        await made.ready_nodes(1)
        yield made
