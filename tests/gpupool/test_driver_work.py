"""Where a node's driver is changed the pools' plugins go, once they have withdrawn their cards, and come back after."""

from __future__ import annotations

import pytest

from controllers.api import names
from controllers.domain.clock import SKEW, stamp
from tests.gpupool.test_maintenance import pooled, published
from tests.gpupool.test_mig import SMALL, divided, layout, lose
from tests.gpupool.test_mig import pooled as pooled_in_mig
from tests.gpupool.world import Cluster

LIMIT = 600.0
LABEL = names.pool_node_label("a")


def work(made: Cluster, phase: str) -> None:
    uid = made.objects["Node", "n1"]["metadata"]["uid"]
    told = {"driver": "d", "phase": phase, "since": stamp(made.now), "deadline": stamp(made.now + LIMIT)}
    with made.edit("GPUNodeInventory", "n1") as inventory:
        inventory["status"]["driverWork"] = told | {"nodeUID": uid}


def labelled(made: Cluster) -> bool:
    return LABEL in made.objects["Node", "n1"]["metadata"]["labels"]


@pytest.mark.parametrize("phase", ["Clearing", "Removing", "Installing"])
def test_plugins_go_when_their_cards_are_withdrawn(phase: str) -> None:
    made = pooled()
    work(made, phase)
    made.settle()
    assert labelled(made)  # its cards are offered still
    made.unready("n1")
    made.settle()
    assert published(made) == [None, None]
    assert not labelled(made)
    made.now += LIMIT + SKEW + 1  # nobody goes on with it
    made.settle()
    assert labelled(made)


@pytest.mark.parametrize("phase", ["Withdrawing", "Draining", "Validating", "Queued"])
def test_they_stay_while_nothing_is_unloaded(phase: str) -> None:
    made = pooled()
    work(made, phase)
    made.unready("n1")
    made.settle()
    assert labelled(made)


def in_work(made: Cluster, phase: str) -> None:
    """The node's driver is changed, and it is not in service with the new one yet."""
    work(made, phase)
    made.unready("n1")
    made.settle()


def reloaded(made: Cluster, variant: str) -> None:
    """Another driver of the module's is loaded in the same boot: instances are gone, and the manager says so."""
    made.merge("Node", "n1", {"metadata": {"labels": {names.DRIVER_VARIANT: variant}}})
    for number in (0, 1):
        lose(made, number)


@pytest.mark.parametrize("phase", ["Validating", "Relayout"])
def test_layouts_are_asked_for_again_while_the_node_is_not_in_service_yet(phase: str) -> None:
    made = pooled_in_mig(**SMALL)
    before = {card.address: card.version for card in layout(made).cards}
    in_work(made, phase)
    reloaded(made, "b-ubuntu24.04-any")

    assert divided(made) == [{"1g.10gb": 7}] * 2
    assert published(made) == [None, None]
    assert all(before[card.address] != card.version for card in layout(made).cards)


def test_each_driver_of_a_roll_out_has_its_tries_in_one_boot() -> None:
    made = pooled_in_mig(**SMALL)
    for variant in ("a", "b", "a", "c", "b"):
        reloaded(made, f"{variant}-ubuntu24.04-any")
        assert (divided(made), published(made)) == ([{"1g.10gb": 7}] * 2, [7, 7])
    for _ in range(2):
        reloaded(made, "b-ubuntu24.04-any")

    assert published(made) == [None, None], "the same driver loses them again and again"
