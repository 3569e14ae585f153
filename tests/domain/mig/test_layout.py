"""One layout for a node: what is in it, what never is, and how a card comes and goes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from controllers.api.gpudevice import GPUDevice
from controllers.api.record import adapter
from controllers.domain.mig import (
    DISABLED,
    CardLayout,
    Division,
    MigCard,
    card_of,
    difference,
    document,
    plan,
    text,
    was_ours,
)
from tests.domain.mig.parted import apply

H100, A100, T4 = ("2330", "20b2", "1eb8")


def card(bus: str, device: str = H100, **more) -> MigCard:
    return MigCard(f"0000:{bus}:00.0", "10de", device, uuid=f"GPU-{bus}", **{"actual": DISABLED, **more})


def asked(layout):
    return {c.address: c.layout for c in layout.cards if c.layout is not None}


def changes(layout, cards):
    return difference(layout, {c.address: c.actual for c in cards if c.actual is not None})


def test_two_pools_of_one_node_make_one_document():
    cards = [
        card("3b", division=Division("1g.10gb")),
        card("19"),
        card("4c", division=Division("all-3g.40gb")),
        MigCard("0000:05:00.0", "1002", "74a1"),
        card("5d", division=Division("1g.10gb")),
        card("86", A100, division=Division("1g.10gb")),
        card("9a", T4),
    ]

    assert text(document(plan(cards))) == (
        "version: v1\n"
        "mig-configs:\n"
        "  node:\n"
        "  - device-filter: ['0x233010DE']\n"
        "    devices: [1, 3]\n"
        "    mig-enabled: true\n"
        "    mig-devices: {1g.10gb: 7}\n"
        "  - device-filter: ['0x233010DE']\n"
        "    devices: [2]\n"
        "    mig-enabled: true\n"
        "    mig-devices: {3g.40gb: 2}\n"
        "  - device-filter: ['0x20B210DE']\n"
        "    devices: [4]\n"
        "    mig-enabled: true\n"
        "    mig-devices: {1g.10gb: 7}\n"
    )


def test_a_card_of_no_mig_pool_is_absent_however_it_is_divided():
    cards = [card("19", actual=CardLayout(True, {"1g.10gb": 3})), card("3b")]

    assert plan(cards).cards == ()
    assert document(plan(cards)) is None


def test_a_card_that_left_its_pool_is_rolled_back_only_where_it_was_ours():
    divided = CardLayout(True, {"1g.10gb": 7})
    layout = plan([card("19", actual=divided, ours=True), card("3b", actual=divided, ours=False)])

    assert asked(layout) == {"0000:19:00.0": DISABLED}
    assert document(layout)["mig-configs"]["node"] == [
        {"device-filter": ["0x233010DE"], "devices": [0], "mig-enabled": False}
    ]


def test_a_card_that_the_driver_does_not_serve_counts_for_no_index_and_is_in_no_document():
    cards = [card("19", division=Division("1g.10gb"), served=False), card("3b", division=Division("1g.10gb"))]
    layout = plan(cards)

    assert [c.index for c in layout.cards] == [None, 0]
    assert document(layout)["mig-configs"]["node"][0]["devices"] == [0]
    assert set(asked(layout)) == {"0000:19:00.0", "0000:3b:00.0"}


def test_a_domain_of_five_digits_comes_after_those_of_four():
    far = MigCard("10000:01:00.0", "10de", H100, division=Division("1g.10gb"))
    near = MigCard("ffff:01:00.0", "10de", H100, division=Division("3g.40gb"))

    assert [(c.address, c.index) for c in plan([far, near]).cards] == [(near.address, 0), (far.address, 1)]


def test_a_card_that_cannot_is_left_as_it_is():
    cards = [
        card("19", T4, division=Division("1g.10gb")),
        card("3b", A100, division=Division("1g.5gb"), ours=True, actual=CardLayout(True, {"1g.10gb": 7})),
        card("5d", A100, division=Division("1g.5gb"), ours=True),
        card("4c", division=Division("1g.10gb")),
    ]
    layout = plan(cards)

    assert set(asked(layout)) == {"0000:4c:00.0"}
    # The divided one stays ours for the day when it leaves the pool.
    assert [(c.address, c.layout is None) for c in layout.cards] == [("0000:3b:00.0", True), ("0000:4c:00.0", False)]


def test_one_address_twice_is_refused():
    with pytest.raises(ValueError, match="the same PCI address"):
        plan([card("19"), card("19", T4)])


def test_a_reset_is_needed_where_the_catalogue_says_so_and_the_mode_changes():
    divided = CardLayout(True, {"1g.10gb": 7})
    cards = [
        card("19", division=Division("1g.10gb")),  # Hopper enters without
        card("3b", A100, division=Division("1g.10gb")),  # Ampere does not
        card("4c", A100, division=Division("3g.40gb"), actual=divided),  # in MIG mode already
        card("5d", A100, ours=True, actual=divided),  # Ampere leaves
        card("86", A100, division=Division("1g.10gb"), actual=None),  # nobody has told
        card("9a", A100, division=Division("1g.10gb"), actual=divided),  # nothing changes
        card("af", "26b9", ours=True, actual=divided),  # the catalogue says nothing
    ]

    found = changes(plan(cards), cards)

    assert [(c.address[5:7], c.changes_mode, c.needs_reset) for c in found] == [
        ("19", True, False), ("3b", True, True), ("4c", False, False), ("5d", True, True), ("86", True, True),
        ("af", True, True),
    ]  # fmt: skip


def test_a_document_for_some_cards_takes_the_indexes_of_the_moment():
    layout = plan(
        [
            card("19", division=Division("1g.10gb")),
            card("3b", division=Division("1g.10gb")),
            card("4c", division=Division("3g.40gb")),
        ]
    )
    now = {"0000:3b:00.0": 5, "0000:4c:00.0": 0}
    turned = {"0000:19:00.0": 5, "0000:3b:00.0": 1}

    assert document(layout, only={"0000:3b:00.0"}, indexes=now)["mig-configs"]["node"][0]["devices"] == [5]
    assert [e["devices"] for e in document(layout, indexes=now)["mig-configs"]["node"]] == [[0], [5]]
    assert document(layout, only={"0000:19:00.0"}, indexes=now) is None
    assert [e["devices"] for e in document(layout, indexes=turned)["mig-configs"]["node"]] == [[1, 5]]


def next_layout(previous, cards):
    """One pass of the controller: what is ours comes from the layout before."""
    return plan([replace(c, ours=was_ours(previous, c)) for c in cards])


@pytest.mark.parametrize("before", [DISABLED, CardLayout(True), CardLayout(True, {"2g.20gb": 1})])
def test_a_card_comes_and_goes(before):
    """In, applied, profile changed, one that it cannot hold, and out: off again only where it was off at first."""
    one, layout = card("19", actual=before), None
    for profile in ("1g.10gb", "3g.40gb", "1g.5gb", "3g.40gb", None, None):
        one = replace(one, division=Division(profile) if profile else None)
        layout = next_layout(layout, [one])
        changed = changes(layout, [one])
        if changed:
            (one,) = apply(text(document(layout, only={c.address for c in changed})), [one])
        layout = next_layout(layout, [one])
        assert changes(layout, [one]) == ()
        assert one.actual.enabled == (profile is not None or before.enabled)
    assert layout.cards == ()


def test_another_card_in_the_same_slot_is_not_ours():
    divided = CardLayout(True, {"1g.10gb": 7})
    layout = plan([card("19", division=Division("1g.10gb"), ours=True)])

    assert was_ours(layout, card("19", actual=divided))
    assert was_ours(layout, replace(card("19", actual=divided), uuid=None))
    assert not was_ours(layout, replace(card("19", actual=divided), uuid="GPU-other"))
    assert not was_ours(layout, card("19", A100, actual=divided))


def test_a_card_s_version_is_its_own():
    alone, beside = (
        plan([card("3b", division=Division("1g.10gb"))]),
        plan([card("19", division=Division("3g.40gb")), card("3b", division=Division("1g.10gb"))]),
    )

    assert alone.cards[0].version == beside.cards[1].version != beside.cards[0].version
    assert alone.version != beside.version


def test_a_node_s_version_changes_with_an_index():
    one, other = card("19"), card("3b", division=Division("1g.10gb"))

    layouts = [plan([replace(one, served=served), other]) for served in (True, False)]
    assert layouts[0].version != layouts[1].version
    assert layouts[0].cards[0].version == layouts[1].cards[0].version


def test_a_record_is_made_of_a_gpudevice():
    def gpu(mig):
        hardware = {
            "uuid": "GPU-1",
            "pci": {"vendor": "10de", "device": H100, "class": "0302", "address": "0000:17:00.0"},
        }
        status = {"hardware": hardware | ({"mig": mig} if mig else {})}
        return adapter(GPUDevice).validate_python({"metadata": {"name": "n-0000-17-00-0"}, "status": status})

    whole = {
        "capable": True,
        "enabled": True,
        "profilesSupported": ["1g.10gb"],
        "types": [{"name": "1g.10gb", "count": 2}],
    }

    assert card_of(gpu(None)) == MigCard("0000:17:00.0", "10de", H100, "GPU-1")
    assert card_of(gpu({"capable": True})).actual == DISABLED
    assert card_of(gpu(whole), division=Division("1g.10gb"), ours=True, served=False) == MigCard(
        "0000:17:00.0",
        "10de",
        H100,
        "GPU-1",
        True,
        ("1g.10gb",),
        CardLayout(True, {"1g.10gb": 2}),
        Division("1g.10gb"),
        True,
        False,
    )
    assert card_of(adapter(GPUDevice).validate_python({"metadata": {"name": "x"}})) is None
