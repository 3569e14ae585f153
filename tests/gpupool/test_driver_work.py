"""Where a node's driver is changed the pools' plugins go, once they have withdrawn their cards, and come back after."""

from __future__ import annotations

import pytest

from controllers.api import names
from controllers.domain.clock import SKEW, stamp
from tests.gpupool.test_maintenance import pooled, published
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
