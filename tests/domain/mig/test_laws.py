"""The laws of a node's MIG layout, on thousands of nodes."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.domain.catalogue.lookup import GEOMETRIES, MODELS
from controllers.domain.mig import (
    DISABLED,
    CardLayout,
    Division,
    MigCard,
    configmap,
    difference,
    document,
    mixed,
    plan,
    read,
    text,
)
from tests.domain.mig.parted import apply

DIVISIBLE = sorted({(m.device, m.geometry) for m in MODELS.values() if m.geometry})
OTHERS = [("10de", "1eb8"), ("10de", "26b9"), ("10de", "20b3"), ("10de", "7ffe"), ("1002", "74a1")]
MIXED = mixed([("3g.40gb", 1), ("1g.10gb", 3)])
NODE = adapter(Node).validate_python({"metadata": {"name": "n1", "uid": "u"}})


@st.composite
def a_card(draw, bus: int) -> MigCard:
    address = f"{draw(st.sampled_from(['0000', '0001', '10000']))}:{bus:02x}:00.0"
    more = {"ours": draw(st.booleans()), "served": draw(st.sampled_from([True, True, True, False]))}
    if draw(st.integers(0, 4)) == 0:
        vendor, device = draw(st.sampled_from(OTHERS))
        division = draw(st.sampled_from([None, Division("1g.10gb"), MIXED]))
        return MigCard(address, vendor, device, division=division, **more)
    device, name = draw(st.sampled_from(DIVISIBLE))
    profiles = sorted(GEOMETRIES[name].profiles)
    profile = draw(st.sampled_from([None, *profiles, "1g.5gb", "2g.20gb"]))
    if profile and draw(st.booleans()):
        profile = f"all-{profile.replace('+', '.')}"
    held = draw(st.sampled_from([None, DISABLED, CardLayout(True), CardLayout(True, {profiles[0]: 1})]))
    division = Division(profile) if profile else draw(st.sampled_from([None, MIXED]))
    return MigCard(address, "10de", device, actual=held, division=division, **more)


@st.composite
def nodes(draw) -> list[MigCard]:
    buses = draw(st.lists(st.integers(1, 255), max_size=8, unique=True))
    return [draw(a_card(bus)) for bus in buses]


def actual(cards):
    return {card.address: card.actual for card in cards if card.actual is not None}


def changed(cards):
    return {change.address for change in difference(plan(cards), actual(cards))}


@given(nodes(), st.randoms(use_true_random=False))
def test_the_order_of_the_cards_makes_no_difference(cards, random):
    shuffled = random.sample(cards, len(cards))
    one, other = plan(cards), plan(shuffled)

    assert one == other
    assert configmap(NODE, one) == configmap(NODE, other)


@given(nodes())
def test_applying_what_changes_leaves_no_difference(cards):
    layout = plan(cards)
    found = document(layout, only=changed(cards))
    after = apply(text(found), cards) if found else cards

    served = {card.address for card in cards if card.served and card.nvidia}
    assert changed(after) & served == set()
    # And what was not to change is as it was: other pools' instances above all.
    same = {card.address: card for card in cards if card.address not in changed(cards)}
    assert {card.address: card for card in after if card.address in same} == same


@given(nodes())
def test_applying_the_whole_layout_leads_to_the_same_end(cards):
    found = document(plan(cards))
    after = apply(text(found), cards) if found else cards

    assert changed(after) & {card.address for card in cards if card.served and card.nvidia} == set()


@given(nodes())
def test_a_card_of_no_pool_that_is_not_ours_is_never_touched(cards):
    foreign = {card.address for card in cards if card.division is None and not card.ours}
    layout = plan(cards)

    assert foreign & {card.address for card in layout.cards} == set()
    assert {card.vendor for card in layout.cards} <= {"10de"}
    found = document(layout)
    after = apply(text(found), cards) if found else cards
    assert [c for c in after if c.address in foreign] == [c for c in cards if c.address in foreign]


@given(nodes(), st.data())
def test_what_one_pool_asks_is_nothing_to_the_cards_of_another(cards, data):
    """Cards of one profile are one pool here: whatever it asks next, the others' layout, version and change stay."""
    pools = sorted({card.division for card in cards if card.division}, key=str)
    if not pools:
        return
    pool = data.draw(st.sampled_from(pools))
    asked = st.sampled_from(["1g.10gb", "3g.40gb", "7g.80gb", "nonsense"]).map(Division)
    asks = data.draw(st.none() | st.just(MIXED) | asked)
    mine = {card.address for card in cards if card.division == pool}
    later = [replace(card, division=asks) if card.address in mine else card for card in cards]

    def others(found):
        return [(c, c.version) for c in plan(found).cards if c.address not in mine]

    assert others(cards) == others(later)
    assert changed(cards) - mine == changed(later) - mine


@given(nodes())
def test_a_layout_is_read_back_as_it_was_written(cards):
    layout = plan(cards)
    made = configmap(NODE, layout)

    assert (made is None) == (layout.cards == ())
    assert made is None or (read(made["data"]).cards, read(made["data"]).version) == (
        layout.cards,
        made["data"]["version"],
    )


@given(nodes(), nodes())
def test_two_layouts_have_one_version_only_when_they_are_the_same(one, other):
    first, second = plan(one), plan(other)
    assert (first.version == second.version) == (first.cards == second.cards)
