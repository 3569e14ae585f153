"""The order of the preparation: which gates open, and who is waited for."""

from __future__ import annotations

import pytest

from controllers.api.names import DISCOVER_DAEMONSET
from controllers.api.settings import Settings, parse_settings
from controllers.bootstrap.operands import IMAGES, object_name
from controllers.bootstrap.phases import PHASES, enabled, progress, setting

ALL = [phase.component for phase in PHASES]
DRIVER, TOOLKIT, GFD, DCGM, EXPORTER, VALIDATOR = ALL


def test_the_order_is_the_designs() -> None:
    assert ALL == ["driver-validator", "toolkit", "gfd", "dcgm", "dcgm-exporter", "validator"]
    assert set(IMAGES) == set(ALL)
    assert all(setting(phase, Settings().bootstrap).enabled for phase in PHASES)
    assert object_name("toolkit") != DISCOVER_DAEMONSET


@pytest.mark.parametrize(
    ("ready", "opened", "gates", "blocking"),
    [
        ([], [], [DRIVER], DRIVER),
        ([], [DRIVER], [DRIVER], DRIVER),
        ([DRIVER], [DRIVER], [DRIVER, TOOLKIT], TOOLKIT),
        ([DRIVER, TOOLKIT], [DRIVER, TOOLKIT], [DRIVER, TOOLKIT, GFD], GFD),
        ([DRIVER, TOOLKIT, GFD], [], [DRIVER, TOOLKIT, GFD, DCGM], DCGM),
        ([TOOLKIT, GFD], [], [DRIVER], DRIVER),  # what ran before us opens nothing out of turn
        (ALL[:-1], ALL[:-1], ALL, VALIDATOR),
        (ALL, ALL, ALL, None),
        ([c for c in ALL if c != TOOLKIT], ALL, ALL, TOOLKIT),  # a later failure closes no gate
        ([c for c in ALL if c != GFD], ALL, ALL, None),  # GFD only writes labels
        ([DRIVER, TOOLKIT, EXPORTER, VALIDATOR], ALL, ALL, DCGM),  # the essential one that fails, not GFD before it
        ([], ALL, ALL, DRIVER),
    ],
)
def test_a_gate_opens_when_all_before_it_is_ready(
    ready: list[str], opened: list[str], gates: list[str], blocking: str | None
) -> None:
    step = progress(PHASES, ready, opened)

    assert step.gates == set(gates)
    assert (step.blocking.component if step.blocking else None) == blocking


def test_components_that_are_switched_off_are_skipped() -> None:
    off = {"enabled": False}
    settings = parse_settings({"bootstrap": {"driverValidator": off, "gfd": off, "dcgmExporter": off}})
    phases = enabled(settings.bootstrap)

    assert [phase.component for phase in phases] == [TOOLKIT, DCGM, VALIDATOR]
    assert progress(phases, [TOOLKIT], []).gates == {TOOLKIT, DCGM}
    assert progress([], [], []).blocking is None
