"""Each invariant of mode MPS can fail: a bad trace is told of, a good one is not."""

from __future__ import annotations

from typing import Any

from controllers.api import names
from controllers.api.gpupool import AllocationSpec
from controllers.api.record import to_json
from controllers.domain import plugin_settings
from tests.faults.test_invariants import device, told

CARD, POOL = "n-1", "a"
SHARED = plugin_settings.offer_of(POOL, AllocationSpec(mode="MPS"), {CARD: 8})
WHOLE = plugin_settings.offer_of(POOL, AllocationSpec(), {CARD: 1})
IN_POOL = {"poolRef": {"name": POOL}}


def asked(offer: plugin_settings.PluginSettings) -> tuple[str, dict[str, Any], float]:
    meta = {"name": names.plugin_object(POOL), "namespace": names.NAMESPACE, "uid": "u-list"}
    labels = {"labels": {names.LABEL_POOL: POOL}}
    data = {names.ALLOWED_DEVICES: CARD, names.PLUGIN_SETTINGS: offer.text()}
    return "ConfigMap", {"metadata": meta | labels, "data": data}, 0


def card(
    offer: plugin_settings.PluginSettings | None, phase: str = "", **more: Any
) -> tuple[str, dict[str, Any], float]:
    status: dict[str, Any] = dict(IN_POOL)
    if offer is not None:
        status["published"] = to_json(offer.of(CARD))
    if phase:
        status["mps"] = {"pool": POOL, "phase": phase}
    return "GPUDevice", device(CARD, **(status | more)), 0


def test_a_daemon_that_comes_before_the_offer_and_goes_after_it_is_well() -> None:
    assert not told(
        *(asked(WHOLE), card(WHOLE), card(None), asked(SHARED), card(None, "Down"), card(SHARED, "Ready")),
        *(card(None, "Down"), card(SHARED, "Ready"), asked(WHOLE), card(SHARED, "Ready"), card(None, "Ready")),
        *(card(None, "Stopping"), card(None), card(WHOLE)),
    )


def test_a_card_that_is_offered_while_its_daemon_is_down_is_told() -> None:
    for phase in ("Down", "Stopping"):
        (said,) = told(asked(SHARED), card(SHARED, phase))
        assert f"it is offered while its control daemon is {phase}" in said


def test_a_card_that_is_offered_by_mps_without_a_daemon_is_told() -> None:
    (said,) = told(asked(SHARED), card(SHARED))
    assert "it is offered by MPS without a control daemon" in said
    assert not told(asked(WHOLE), card(SHARED)), (
        "the list asks for another offer by now: what mode this is nobody knows"
    )


def test_a_card_that_another_mode_offers_while_a_daemon_has_it_is_told() -> None:
    (said,) = told(asked(WHOLE), card(WHOLE, "Ready"))
    assert "it is offered by mode Exclusive while a control daemon has it" in said


def test_a_card_that_goes_from_its_pool_with_a_daemon_is_told() -> None:
    (said,) = told(card(None, "Stopping", poolRef={"name": "b"}))
    assert "it is in pool b with the control daemon of a" in said
    (said,) = told(card(None, "Stopping"), card(None, "Stopping", poolRef=None))
    assert "it is in pool None with the control daemon of a" in said
