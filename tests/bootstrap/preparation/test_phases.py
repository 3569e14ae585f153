"""The order of the preparation: which gates open, and who is waited for."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.api.component import Component
from controllers.api.names import DISCOVER_DAEMONSET
from controllers.api.settings import Settings, parse_settings
from controllers.bootstrap.preparation.phases import PHASES, Progress, enabled, progress
from controllers.components.build import daemonsets, object_name

ALL = [phase.name for phase in PHASES]
DRIVER, TOOLKIT, GFD, DCGM, EXPORTER, VALIDATOR = ALL


def test_the_order_is_the_designs() -> None:
    assert ALL == ["driver-validator", "toolkit", "gfd", "dcgm", "dcgm-exporter", "validator"]
    assert list(daemonsets(Settings().bootstrap)) == [object_name(component) for component in ALL]
    assert all(Settings().bootstrap.enabled(phase.name) for phase in PHASES)
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
    assert (step.blocking.name if step.blocking else None) == blocking


def test_components_that_are_switched_off_are_skipped() -> None:
    off = {"enabled": False}
    settings = parse_settings({"bootstrap": {"driverValidator": off, "gfd": off, "dcgmExporter": off}})
    phases = enabled(settings.bootstrap)

    assert [phase.name for phase in phases] == [TOOLKIT, DCGM, VALIDATOR]
    assert progress(phases, [TOOLKIT], []).gates == {TOOLKIT, DCGM}
    assert progress([], [], []).blocking is None


# The laws of the table, for any choice of components and whatever is ready or open on a node.
chosen = st.sets(st.sampled_from(ALL)).map(lambda on: [phase for phase in PHASES if phase.name in on])
some = st.frozensets(st.sampled_from([*ALL, "discover", "unknown"]))


def before(phases: list[Component], component: str) -> set[str]:
    """What comes before a component."""
    order = [phase.name for phase in phases]
    return set(order[: order.index(component)])


@given(chosen, some, some)
def test_a_gate_never_opens_before_all_before_it_is_ready(
    phases: list[Component], ready: frozenset[str], opened: frozenset[str]
) -> None:
    for component in progress(phases, ready, opened).gates - opened:
        assert before(phases, component) <= ready


@given(chosen, some, some)
def test_an_open_gate_closes_only_with_the_setting(
    phases: list[Component], ready: frozenset[str], opened: frozenset[str]
) -> None:
    on = {phase.name for phase in phases}
    gates = progress(phases, ready, opened).gates

    assert gates <= on
    assert opened & on <= gates


@given(chosen, some, some, some)
def test_progress_is_monotone(
    phases: list[Component], ready: frozenset[str], more: frozenset[str], opened: frozenset[str]
) -> None:
    """What becomes ready or was open besides closes no gate, and does not move the wait to one before."""
    less, after = progress(phases, ready, opened), progress(phases, ready | more, opened | more)

    assert less.gates <= after.gates
    assert progress(phases, ready, less.gates).gates == less.gates  # looked at again, nothing new
    if less.blocking is None:
        assert progress(phases, ready | more, opened).blocking is None


@given(chosen, some, some)
def test_who_is_waited_for_runs_is_not_ready_and_can_become_so(
    phases: list[Component], ready: frozenset[str], opened: frozenset[str]
) -> None:
    step = progress(phases, ready, opened)
    missing = [phase for phase in phases if phase.name not in ready]
    if step.blocking is None:
        assert not any(phase.essential for phase in missing)
        return
    assert step.blocking in missing
    # Its gate is open: a wait for one that may not run would never end.
    assert step.blocking.name in step.gates
    # One that is not essential is waited for only while what follows it may not run yet.
    running = [phase for phase in missing if phase.name in step.gates]
    assert step.blocking.essential or not any(phase.essential for phase in running)


@given(chosen, some, st.lists(st.integers(0, len(ALL)), min_size=len(ALL) + 1, max_size=len(ALL) + 1))
def test_a_node_whose_components_come_up_is_prepared_in_order(
    phases: list[Component], opened: frozenset[str], delays: list[int]
) -> None:
    """Each component becomes ready some rounds after its gate opens: no order of that ends in a wait."""
    ready: set[str] = set()
    since: dict[str, int] = {}
    step = Progress(opened, None)
    for round_ in range(sum(delays) + len(ALL) + 1):
        step = progress(phases, ready, step.gates)
        for at, phase in enumerate(phases):
            if phase.name in step.gates:
                since.setdefault(phase.name, round_)
                if round_ - since[phase.name] >= delays[at]:
                    ready.add(phase.name)

    assert step.gates == {phase.name for phase in phases}
    assert progress(phases, ready, step.gates).blocking is None
