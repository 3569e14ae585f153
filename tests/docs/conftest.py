"""One cluster for the pages, as a reader has it after `make up`: what they show counts every pool and card."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from sim.cluster import Options
from sim.controlplane import ControlPlane
from sim.recording.record import ready
from sim.recording.terminal import Terminal
from tests.docs.site import ROOT
from tests.kit import planes
from tests.kit.worker_plane import WorkerPlane


@contextmanager
def _readers(folder: Path) -> Iterator[ControlPlane]:
    with planes.module(folder / "cluster", Options()) as plane:
        ready(Terminal.of(plane, ROOT, folder / "start", ""))
        yield plane


@pytest.fixture(scope="module")
def readers(worker_plane: WorkerPlane) -> ControlPlane:
    return worker_plane.take("readers", _readers)


@pytest.fixture
def terminal(readers: ControlPlane, tmp_path: Path) -> Terminal:
    """A terminal in an empty folder."""
    return Terminal.of(readers, ROOT, tmp_path, "")
