"""A node that is back waits for the cards that its plugins are about to offer, and for no others."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, get_args

import pytest

from controllers.api import names
from controllers.api.gpudevice import Offer
from controllers.api.record import to_json
from controllers.driver.loops.reconciler import _shown
from controllers.driver.node.offered import is_offered
from tests.driver.rolling import POOL, Rolling
from tests.driver.test_rolling import retarget, until
from tests.driver.world import NEXT
from tests.kit import conditions, objects
from tests.kit.storage import Json

Change = Callable[[Rolling], None]


def rolled() -> Rolling:
    """A node whose driver is being replaced by the next version."""
    made = Rolling()
    made.node()
    made.driver()
    made.settle()
    retarget(made, NEXT)
    made.begin()
    made.settle()
    made.take()
    return made


def back() -> Rolling:
    """A node that is in service again, and whose card no plugin offers yet."""
    made = rolled()
    made.settle()
    assert made.phase() == "Soaking"
    made.card("n1", {"published": None})
    return made


def edited(change: Callable[[Json], object]) -> Change:
    """A change of each card of the node."""

    def apply(made: Rolling) -> None:
        for kind, name in [key for key in made.objects if key[0] == "GPUDevice"]:
            with made.edit(kind, name) as card:
                change(card)

    return apply


def pool(phase: str | None = None, **meta: Any) -> Change:
    """The card's pool, as gpupool says."""
    return lambda made: made.add(objects.pool(POOL, status={"phase": phase} if phase else {}, meta=meta))


def has(kind: str) -> Change:
    """A condition of the card that is true."""
    return edited(lambda card: conditions.put(card, objects.condition(kind, True)))


FOREIGN = {"foreignAllocations": [{"namespace": "team", "pod": "p", "container": "c", "resource": "nvidia.com/gpu"}]}
NEVER: dict[str, Change] = {
    "faulty": has("Faulted"),
    "declined": has("Ignored"),
    "declined a moment ago": edited(lambda card: card["metadata"]["labels"].update({names.LABEL_IGNORE: "true"})),
    "declined by annotation": edited(lambda card: card["metadata"]["annotations"].update({names.LABEL_IGNORE: "true"})),
    "leaving": edited(lambda card: card["metadata"]["annotations"].pop(names.ASSIGNMENT)),
    "leaving for another pool": edited(lambda card: card["metadata"]["annotations"].update({names.ASSIGNMENT: "b"})),
    "others have it": edited(lambda card: card["status"].update(FOREIGN)),
    "its pool drains": pool("Draining"),
    "its pool is divided anew": pool("Rebuilding"),
    "its pool has failed": pool("Halted"),
    "its pool goes": pool("Serving", deletion_timestamp="2026-01-02T00:00:00Z"),
    "in no pool": edited(lambda card: card["status"].pop("poolRef")),
}
"""What keeps a card from being offered, whatever its pool said of it last."""
SAID = (None, *get_args(Offer))
KEPT_OUT = ("KeptOut", "Drifted", "PoolUnknown")


def say(made: Rolling, word: str | None) -> None:
    made.card("n1", {"offer": word})


@pytest.mark.parametrize("word", SAID)
def test_a_card_is_waited_for_unless_its_pool_keeps_it_out(word: str | None) -> None:
    """Also `Withdrawn`, which was said of it while the node was away, and `Offered`, of before that."""
    made = back()
    say(made, word)

    assert is_offered(made.view().node("n1")) == (word in KEPT_OUT)


@pytest.mark.parametrize("phase", [None, "Serving", "NotServed"])
def test_a_card_is_waited_for_whose_pool_offers_its_cards(phase: str | None) -> None:
    made = back()
    pool(phase)(made)
    say(made, "Withdrawn")

    assert not is_offered(made.view().node("n1"))


@pytest.mark.parametrize("why", NEVER)
@pytest.mark.parametrize("word", [None, "Offered", "Withdrawn", "AwaitingWithdrawal"])
def test_a_card_that_is_not_to_be_offered_is_not_waited_for(why: str, word: str | None) -> None:
    made = back()
    NEVER[why](made)
    say(made, word)

    assert is_offered(made.view().node("n1"))


@pytest.mark.parametrize("why", [why for why in NEVER if not why.startswith("its pool")])
def test_what_ends_the_wait_for_a_card_wakes_its_node(why: str) -> None:
    made = back()
    before = [_shown(card) for card in made.view().node("n1").devices]
    NEVER[why](made)

    assert [_shown(card) for card in made.view().node("n1").devices] != before


@pytest.mark.parametrize("word", SAID)
def test_a_card_that_is_offered_is_not_waited_for(word: str | None) -> None:
    made = back()
    say(made, word)
    made.card("n1", {"published": to_json(objects.published(POOL))})

    assert is_offered(made.view().node("n1"))


@pytest.mark.parametrize(
    ("why", "phase"), [(None, "Returning"), ("its pool drains", "Soaking"), ("leaving", "Soaking")]
)
def test_a_node_is_back_as_soon_as_nothing_is_about_to_be_offered(why: str | None, phase: str) -> None:
    made = rolled()
    made.unoffered.add("n1")
    until(made, "Validating")
    say(made, "Withdrawn")
    if why is not None:
        NEVER[why](made)
    made.settle()

    assert made.phase() == phase
