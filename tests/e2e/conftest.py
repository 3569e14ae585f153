"""One real node for the end-to-end tests of a file, started once for them; fixture `setup` says what it is like."""

from __future__ import annotations

import fcntl
import os
import stat
import tempfile
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from sim.realnode.needs import lacking
from sim.realnode.node import Setup
from sim.view import View
from tests.e2e.admin import NAMESPACE, Admin
from tests.e2e.bed import Bed, ended
from tools.programs import for_stream

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


@pytest.fixture(scope="module")
def place(alone: None) -> Path:
    """The folder, of which nothing is left; skipped where the machine cannot run a node."""
    if os.geteuid() == 0:
        Bed.end(FOLDER)  # of a run that was killed
    if reason := lacking():
        pytest.skip(reason)
    return FOLDER


@pytest.fixture(scope="module")
def setup() -> Setup:
    """The usual node; a file that tests another one has this fixture anew."""
    return Setup()


@pytest.fixture(scope="module")
def bed(place: Path, setup: Setup) -> Iterator[Bed]:
    """The cluster."""
    if reason := setup.runtime.lacking():
        pytest.skip(reason)
    with ended(FOLDER):
        yield Bed.with_module(place, for_stream(), setup)


@pytest.fixture
def in_dev(admin: Admin) -> Iterator[None]:
    """The cards' device nodes where every program looks for them; skipped where the machine has such cards."""
    if found := sorted(path.name for path in Path("/dev").glob("nvidia*")):
        pytest.skip(f"this machine has its own {', '.join(found)}")
    made = [Path("/dev") / node.name for node in admin.places.devices.iterdir()]
    try:
        for path in made:
            os.mknod(path, stat.S_IFCHR | 0o666, os.makedev(1, 3))
        yield
    finally:
        for path in made:
            path.unlink(missing_ok=True)


@pytest.fixture
async def admin(bed: Bed) -> AsyncIterator[Admin]:
    """People over that cluster, whose node is ready."""
    async with View(bed.plane.kubeconfig) as view:
        made = Admin(bed, view)
        await made.namespace(NAMESPACE)
        await made.ready_nodes(1)
        yield made
