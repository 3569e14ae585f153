"""Losses are confirmed by three scans; gaps are bridged for as long."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.api.nodefeature import NodeFeature
from controllers.api.record import adapter
from nodeagent.discover.feature import report
from nodeagent.discover.feature.confirm import SCANS, State, awaited, missed, start, step
from nodeagent.discover.feature.report import NodeScan
from nodeagent.host.facts.bridge import Observation

A, B = "0000:17:00.0", "0000:65:00.0"
BOOT = "11111111-2222"
IDS = {"vendor": "10de", "device": "2330"}
DRIVER = frozenset({"uuid", "memory_mib"})


def card(address: str, **values: str) -> Observation:
    untold = frozenset(key for key, value in values.items() if value == "?")
    return Observation({"address": address, **IDS, **{k: v for k, v in values.items() if v != "?"}}, untold)


def whole(address: str) -> Observation:
    return card(address, uuid=f"GPU-{address}", memory_mib="81559")


def silent(address: str) -> Observation:
    return card(address, uuid="?", memory_mib="?")


def scan(
    *cards: Observation, driver: Observation | None = None, unclear: frozenset[str] = frozenset(), pending: bool = False
) -> NodeScan:
    return NodeScan(
        {told.values["address"]: told for told in cards},
        driver=driver or Observation({"version": "580.1", "cuda_version": "13.0"}),
        toolkit=Observation({"installed": "true", "version": "1.17.8"}),
        unclear=unclear,
        pending=pending,
    )


def run(state: State, *scans: NodeScan) -> State:
    for seen in scans:
        state = step(state, seen)
    return state


def values(state: State) -> dict[str, dict[str, str]]:
    return {address: dict(known.values) for address, known in state.cards.items()}


def published(state: State, boot: str = BOOT) -> State:
    """A restart: what was believed goes through the report and back."""
    made = report.features(
        values(state), state.driver and state.driver.values, state.toolkit and state.toolkit.values, boot
    )
    found = adapter(NodeFeature).validate_python({"spec": {"features": made}})
    return start(found.spec.features, BOOT)


def test_a_card_appears_at_once_and_goes_after_three_scans() -> None:
    state = run(State(), scan(whole(A), whole(B)))
    assert list(state.cards) == [A, B]
    for number in range(1, SCANS):
        state = step(state, scan(whole(A)))
        assert values(state)[B] == whole(B).values
        assert (missed(state), state.cards[B].missed) == ((B,), number)
    assert list(step(state, scan(whole(A))).cards) == [A]


def test_a_card_that_comes_back_in_time_is_counted_anew() -> None:
    state = run(State(), scan(whole(A)), scan(), scan(), scan(whole(A)), scan(), scan())
    assert list(state.cards) == [A]
    assert list(step(state, scan()).cards) == []


def test_a_card_that_could_not_be_read_is_neither_seen_nor_missed() -> None:
    state = run(State(), scan(whole(A)), scan(), scan())
    for _ in range(5):
        state = step(state, scan(unclear=frozenset({A})))
        assert values(state) == {A: whole(A).values}
    assert list(step(state, scan()).cards) == []
    assert list(step(State(), scan(unclear=frozenset({A}))).cards) == []


def test_a_value_that_is_not_told_is_kept_for_two_scans() -> None:
    state = run(State(), scan(whole(A)))
    for _ in range(SCANS - 1):
        state = step(state, scan(silent(A)))
        assert values(state)[A] == whole(A).values
    assert values(step(state, scan(silent(A))))[A] == silent(A).values
    state = run(state, scan(whole(A)), scan(silent(A)), scan(silent(A)))
    assert values(state)[A] == whole(A).values


def test_a_value_that_is_gone_for_sure_goes_at_once() -> None:
    assert values(run(State(), scan(whole(A)), scan(card(A, uuid=f"GPU-{A}"))))[A] == card(A, uuid=f"GPU-{A}").values


def test_a_part_of_a_value_counts_once_the_last_whole_one_is_too_old() -> None:
    part = Observation({"address": A, **IDS, "nvlink_peers": "x"}, frozenset({"nvlink_peers"}))
    assert values(step(State(), scan(part)))[A]["nvlink_peers"] == "x"
    state = run(State(), scan(card(A, nvlink_peers="x,y")), scan(part), scan(part))
    assert values(state)[A]["nvlink_peers"] == "x,y"
    assert values(step(state, scan(part)))[A]["nvlink_peers"] == "x"


def test_while_an_answer_is_awaited_silence_counts_for_nothing() -> None:
    state = run(State(), scan(whole(A)), *[scan(silent(A), pending=True)] * 10)
    assert values(state)[A] == whole(A).values
    assert values(run(state, *[scan(silent(A))] * SCANS))[A] == silent(A).values


@pytest.mark.parametrize(
    "other",
    [
        Observation({"address": A, "vendor": "10de", "device": "20b2"}, DRIVER),
        Observation({"address": A, **IDS, "uuid": "GPU-other"}, frozenset({"memory_mib"})),
        Observation({"address": A, **IDS, "subsystem_device": "1"}, DRIVER),
    ],
)
def test_nothing_of_a_card_is_kept_for_another_in_its_slot(other: Observation) -> None:
    before = card(A, uuid="GPU-1", memory_mib="81559", subsystem_device="2")
    assert values(run(State(), scan(before), scan(other)))[A] == other.values


def test_nothing_is_kept_for_a_card_that_was_away() -> None:
    assert values(run(State(), scan(whole(A)), scan(), scan(silent(A))))[A] == silent(A).values


def test_a_driver_that_is_not_loaded_is_told_at_once_and_takes_its_values_along() -> None:
    bare = NodeScan({A: card(A)}, driver=None, toolkit=Observation({"installed": "true"}))
    state = run(State(), scan(whole(A)), bare)
    assert state.driver is None
    assert values(state)[A] == card(A).values


def test_what_belongs_to_one_version_of_the_driver_is_not_kept_for_another() -> None:
    quiet = Observation({"version": "580.1"}, frozenset({"cuda_version"}))
    state = run(State(), scan(whole(A)), scan(whole(A), driver=quiet))
    assert state.driver is not None
    assert state.driver.values == {"version": "580.1", "cuda_version": "13.0"}
    state = step(state, scan(whole(A), driver=replace(quiet, values={"version": "590.2"})))
    assert state.driver is not None
    assert state.driver.values == {"version": "590.2"}


def test_a_toolkit_that_cannot_be_seen_is_kept_for_two_scans() -> None:
    blind = replace(scan(whole(A)), toolkit=Observation(unknown_fields=report.TOOLKIT_ATTRIBUTES))
    state = run(State(), scan(whole(A)), blind, blind)
    assert state.toolkit is not None
    assert state.toolkit.values == {"installed": "true", "version": "1.17.8"}
    state = step(state, blind)
    assert state.toolkit is not None
    assert state.toolkit.values == {}


def test_a_restart_shortens_no_confirmation_and_drops_no_value() -> None:
    state = published(run(State(), scan(whole(A), whole(B))))
    for _ in range(SCANS - 1):
        state = step(state, scan(silent(A)))
        assert values(state) == {A: whole(A).values, B: whole(B).values}
    assert list(step(state, scan(silent(A))).cards) == [A]


def test_after_a_reboot_losses_are_confirmed_and_nothing_else_is_kept() -> None:
    state = step(published(run(State(), scan(whole(A), whole(B))), boot="earlier"), scan(silent(A)))
    assert values(state) == {A: silent(A).values, B: whole(B).values}


def test_cards_of_an_earlier_boot_are_awaited_for_three_scans() -> None:
    state = published(run(State(), scan(whole(A), whole(B))), boot="earlier")
    assert awaited(state) == (A, B)
    for _ in range(SCANS - 1):
        state = step(state, scan(whole(A)))
        assert awaited(state) == (B,)
    state = step(state, scan(whole(A)))
    assert (awaited(state), list(state.cards)) == ((), [A])


def test_a_card_of_an_earlier_boot_that_comes_late_is_of_this_boot_from_then_on() -> None:
    state = run(published(run(State(), scan(whole(A), whole(B))), boot="earlier"), scan(whole(A)), scan(whole(B)))
    assert awaited(state) == ()
    assert (list(state.cards), missed(state)) == ([B, A], (A,))


def test_what_cannot_be_read_at_its_place_does_not_keep_a_card_of_an_earlier_boot() -> None:
    state = published(run(State(), scan(whole(A), whole(B))), boot="earlier")
    for _ in range(SCANS - 1):
        state = step(state, scan(whole(A), unclear=frozenset({B})))
        assert awaited(state) == (B,)
    assert list(step(state, scan(whole(A), unclear=frozenset({B}))).cards) == [A]


def test_a_toolkit_of_an_earlier_boot_is_not_kept() -> None:
    state = published(run(State(), scan(whole(A))), boot="earlier")
    assert state.toolkit is None


def test_a_first_start_knows_nothing() -> None:
    assert start(None, BOOT) == State()
    empty = adapter(NodeFeature).validate_python({"spec": {"features": {"instances": {}}}})
    assert start(empty.spec.features, BOOT) == State()
    junk = {"instances": {"gpu.device": {"elements": [{"attributes": {"address": "junk"}}, {}]}}}
    found = adapter(NodeFeature).validate_python({"spec": {"features": junk}})
    assert start(found.spec.features, BOOT).cards == {}


ADDRESSES = st.sampled_from([A, B])
SCAN = st.builds(
    lambda present, quiet, unclear: scan(
        *[silent(address) if address in quiet else whole(address) for address in sorted(present)],
        unclear=frozenset(unclear - present),
    ),
    st.sets(ADDRESSES), st.sets(ADDRESSES), st.sets(ADDRESSES),
)  # fmt: skip


@given(st.lists(SCAN, max_size=30))
def test_laws(scans: list[NodeScan]) -> None:
    state = State()
    for number, seen in enumerate(scans):
        before, state = state, step(state, seen)
        assert seen.cards.keys() <= state.cards.keys()
        assert state.cards.keys() <= seen.cards.keys() | before.cards.keys()
        for address in before.cards.keys() - state.cards.keys():
            assert all(address not in past.cards for past in scans[number - SCANS + 1 : number + 1])
        for address, told in seen.cards.items():
            assert told.values.items() <= state.cards[address].values.items()
        # Scans that say the same again settle within three, and then nothing is rewritten.
        calm = run(state, *[seen] * SCANS)
        assert values(calm) == values(step(calm, seen))
