"""One cluster for the pages, as a reader has it after `make up`: what they show counts every pool and card."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from sim import controlplane
from sim.cluster import Options, bring_up
from sim.controlplane import ControlPlane
from sim.docs.record import ready
from sim.docs.terminal import Terminal
from tests.docs.site import ROOT


@pytest.fixture(scope="package")
def readers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ControlPlane]:
    folder: Path = tmp_path_factory.mktemp("readers")
    plane = bring_up(folder / "cluster", Options())
    try:
        ready(Terminal.of(plane, ROOT, folder / "start", ""))
        yield plane
    finally:
        controlplane.down(folder / "cluster")


@pytest.fixture
def terminal(readers: ControlPlane, tmp_path: Path) -> Terminal:
    """A terminal in an empty folder."""
    return Terminal.of(readers, ROOT, tmp_path, "")
