"""Pods that ask for a profile of a mixed MIG layout: which resource, which card, and what is left of it."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names
from controllers.api.gpudevice import GPUDevice
from controllers.domain.request import pool_of, profile_of, suffix_for
from tests.kit import objects
from tests.kit.manifests import body
from tests.webhook import world
from tests.webhook.world import NOW, POOL, Known, decided
from webhook.decision.verdict import Denied, Placed, Queued
from webhook.validating.pool import SelectorSearch, validate

LAYOUT = [{"profile": "1g.10gb+me", "count": 1}, {"profile": "1g.10gb", "count": 2}, {"profile": "3g.40gb", "count": 1}]
MIXED = {"mode": "MIG", "migLayout": LAYOUT}
COUNTS = {"1g.10gb": 2, "1g.10gb+me": 1, "3g.40gb": 1}


def card(number: int, **status: Any) -> GPUDevice:
    counts = [{"profile": name, "slots": count} for name, count in COUNTS.items()]
    offered = {"pool": POOL, "configVersion": "1", "slots": 4, "profiles": counts}
    capable = {"mig": {"capable": True, "enabled": True}}
    return objects.card("n1", number, pool=POOL, hardware=capable, **{"published": offered, **status})


def known(*cards: GPUDevice, profile: str | None, onshortage: str = "Refuse", **spec: Any) -> Known:
    caches = world.stores()
    made = world.snapshot(caches)
    caches.pools.replace([world.pool(allocation=MIXED, queue={"onShortage": onshortage}, **spec)], 1)
    caches.devices.replace(list(cards), 1)
    caches.nodes.replace([world.node("n1")], 1)
    return Known(caches.pools.get(POOL), made.view(suffix_for(POOL, profile), "team", NOW))


def asking(profile: str, units: int = 1) -> Any:
    return world.pod(units, pool=suffix_for(POOL, profile))


@pytest.mark.parametrize(
    ("suffix", "pool", "profile"),
    [
        ("a", "a", None),
        ("a.1g.10gb", "a", "1g.10gb"),
        ("a-b.1g.10gb.me", "a-b", "1g.10gb+me"),
        ("a.1g.24gb.me.all", "a", "1g.24gb+me.all"),
        ("a.1g.6gb-me", "a", "1g.6gb-me"),
        ("a.nonsense", "a", "nonsense"),
    ],
)
def test_a_resource_names_its_pool_and_profile(suffix, pool, profile):
    assert (pool_of(suffix), profile_of(suffix)) == (pool, profile)
    if profile != "nonsense":
        assert suffix_for(pool, profile) == suffix


@pytest.mark.parametrize("named", ["1G.10GB", "all-1g.10gb", "1g.10gb.ME"])
def test_another_spelling_is_a_resource_that_nobody_offers(named):
    """Kubelet knows one name: slots that are reserved for another one could be had by nobody."""
    assert profile_of(f"mixed.{named}") == named


def test_a_pod_gets_an_instance_of_the_profile_that_it_asks_for():
    found = decided(asking("3g.40gb"), known(card(1), profile="3g.40gb"))
    assert isinstance(found, Placed)
    assert (found.wanted.pool, found.wanted.profile, found.wanted.suffix) == (POOL, "3g.40gb", "a.3g.40gb")
    patched = world.apply_patch(asking("3g.40gb"), found.patch)
    assert patched["metadata"]["labels"][names.LABEL_POOL] == POOL


def test_what_is_promised_of_one_profile_takes_nothing_from_another():
    taken = [body(objects.reservation(slots=2)) | {"profile": "1g.10gb"}]
    full = card(1, reservations=taken)
    assert isinstance(decided(asking("1g.10gb"), known(full, profile="1g.10gb")), Denied)
    assert isinstance(decided(asking("3g.40gb"), known(full, profile="3g.40gb")), Placed)
    assert isinstance(decided(asking("1g.10gb+me"), known(full, profile="1g.10gb+me")), Placed)
    assert isinstance(decided(asking("3g.40gb", 2), known(full, profile="3g.40gb")), Denied), "there is one"


def test_a_pod_that_finds_none_of_its_profile_waits():
    taken = [body(objects.reservation()) | {"profile": "3g.40gb"}]
    found = decided(asking("3g.40gb"), known(card(1, reservations=taken), profile="3g.40gb", onshortage="Queue"))
    assert isinstance(found, Queued)


@pytest.mark.parametrize("profile", [None, "7g.80gb", "nonsense"])
def test_a_resource_that_the_pool_does_not_have_is_refused_with_those_that_it_has(profile):
    found = decided(world.pod(pool=suffix_for(POOL, profile)), known(card(1), profile=profile))
    assert isinstance(found, Denied)
    assert found.error_code == names.POOL_NOT_FOUND
    assert "gpu.deckhouse.io/a.1g.10gb, gpu.deckhouse.io/a.1g.10gb.me, gpu.deckhouse.io/a.3g.40gb" in found.message


def test_a_plain_pool_has_no_resource_of_a_profile():
    caches = world.stores()
    caches.pools.replace([world.pool()], 1)
    found = decided(asking("1g.10gb"), Known.of(caches, world.snapshot(caches), POOL))
    assert isinstance(found, Denied)
    assert found.message.endswith("GPUPool a has no resource gpu.deckhouse.io/a.1g.10gb: its cards are asked for as"
                                  " gpu.deckhouse.io/a.")  # fmt: skip


def test_what_is_in_flight_of_one_profile_takes_nothing_from_another():
    caches = world.stores()
    made = world.snapshot(caches)
    caches.pools.replace([world.pool(allocation=MIXED)], 1)
    caches.devices.replace([card(1)], 1)
    caches.nodes.replace([world.node("n1")], 1)

    def free(profile: str) -> int:
        return sum(each.free for each in made.view(suffix_for(POOL, profile), "team", NOW).capacities)

    placed = decided(asking("1g.10gb", 2), Known(caches.pools.get(POOL), made.view("a.1g.10gb", "team", NOW)))
    assert isinstance(placed, Placed)
    made.track_in_flight("r1", placed.placement, "team", placed.wanted.suffix)
    assert (free("1g.10gb"), free("3g.40gb"), free("1g.10gb+me")) == (0, 1, 1)
    made.untrack_in_flight("r1", placed.placement, "team")
    assert (free("1g.10gb"), free("3g.40gb")) == (2, 1)


@pytest.mark.parametrize(
    ("layout", "said"),
    [
        ([{"profile": "3g.40gb", "count": 3}], "no GPU in the catalogue has places for that"),
        ([{"profile": "1g.5gb", "count": 1}, {"profile": "3g.40gb", "count": 1}], "no GPU in the catalogue"),
        (
            [{"profile": "1g.10gb", "count": 1}, {"profile": "9g.90gb", "count": 1}],
            "spec.allocation.migLayout is '9g.90gb'",
        ),
        (LAYOUT, ""),
    ],
)
def test_a_layout_without_places_is_refused(layout, said):
    pool = world.pool(allocation={"mode": "MIG", "migLayout": layout})
    denied = validate(None, pool, SelectorSearch(pool), ()).denied
    assert (denied is None) == (said == "")
    assert denied is None or said in denied.message
