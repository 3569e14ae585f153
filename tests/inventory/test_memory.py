"""A Node that is deleted and registered again: what people said of its cards, and for which cards it holds."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.settings import parse_settings
from controllers.domain.clock import stamp
from controllers.runtime.plan import Apply, Delete, EmitEvent, Precondition
from tests.inventory.world import NODE, Cluster
from tests.kit.cluster import ConflictError
from tests.kit.conditions import message, state_of
from tests.kit.manifests import body
from tests.kit.objects import BOOT, allocation, pool_ref
from tests.kit.reports import reported

FIRST, SECOND = f"{NODE}-0000-17-00-0", f"{NODE}-0000-18-00-0"
NEXT_BOOT = "99999999-2222-3333-4444-555555555555"
OTHER = "GPU-77777777-0000-0000-0000-000000000000"
DAY = 86400.0


@pytest.fixture
def cluster() -> Cluster:
    """Two cards, of which a person confirmed the first; it is in its pool, and serves a pod."""
    made = Cluster()
    made.node()
    made.report([reported(0), reported(1)])
    made.settle()
    made.merge("GPUDevice", FIRST, {"metadata": {"annotations": {names.ASSIGNMENT: "a"}}})
    made.merge("GPUDevice", FIRST, {"status": {"poolRef": body(pool_ref("a")), "allocations": [body(allocation())]}})
    return made


@pytest.fixture
def gone(cluster: Cluster) -> Cluster:
    cluster.drop(resources.NODE, NODE)
    cluster.settle()
    return cluster


def back(cluster: Cluster, *cards: dict[str, str], boot: str = NEXT_BOOT) -> None:
    """The Node is registered again, and its agent has looked."""
    cluster.node(boot=boot)
    cluster.report(list(cards or (reported(0), reported(1))), boot=boot)


def card(cluster: Cluster) -> GPUDevice:
    return cluster.view().devices.get(FIRST)  # type: ignore[return-value]


def served(cluster: Cluster) -> tuple[str | None, str | None, int]:
    """What the first card's record says of its assignment, the pool that it serves in, and its pods."""
    device = card(cluster)
    return device.metadata.annotations.get(names.ASSIGNMENT), device.home, len(device.status.allocations)


def test_what_a_person_said_stays_when_the_node_goes_and_the_rest_goes_with_it(gone: Cluster) -> None:
    assert list(gone.devices()) == [FIRST]
    assert ("GPUNodeInventory", NODE) not in gone.objects
    assert state_of(gone.device(), "InventoryIncomplete") == ("True", names.REASON_NODE_GONE)
    assert f"kubectl delete gpudevice {FIRST}" in message(gone.device(), "InventoryIncomplete")
    assert gone.plan().actions == ()


def test_to_pools_a_card_whose_node_is_gone_is_not_there(gone: Cluster) -> None:
    assert (card(gone).is_remembered, card(gone).home) == (True, None)
    assert card(gone).status.pool_ref is not None  # it is kept for the card's return


def test_that_the_node_is_gone_is_asked_of_the_quorum_before_it_is_said(cluster: Cluster) -> None:
    node = cluster.objects["Node", NODE]
    cluster.drop(resources.NODE, NODE)
    made = cluster.plan()
    assert [type(action) for action in made.actions] == [Precondition, Apply, Delete, Delete]

    cluster.objects["Node", NODE] = node  # the cache was behind
    with pytest.raises(ConflictError):
        cluster.execute(made.actions, names.MANAGER_INVENTORY)
    assert served(cluster) == ("a", "a", 1)


@pytest.mark.parametrize("boot", [BOOT, NEXT_BOOT], ids=["while pods run", "after a reboot"])
def test_the_same_card_in_the_same_place_goes_on(gone: Cluster, boot: str) -> None:
    before = gone.device()["metadata"]["uid"]
    back(gone, boot=boot)
    made = gone.step()
    gone.settle()

    assert served(gone) == ("a", "a", 1)
    assert gone.device()["metadata"]["uid"] == before
    assert "nodeGoneSince" not in gone.device()["status"]
    assert state_of(gone.device(), "InventoryIncomplete") == ("False", "Complete")
    assert names.EVENT_DEVICE_RECOGNISED in [action.reason for action in made.actions if isinstance(action, EmitEvent)]


def test_an_ignored_card_stays_ignored(cluster: Cluster) -> None:
    cluster.merge("GPUDevice", SECOND, {"metadata": {"labels": {names.LABEL_IGNORE: "true"}}})
    cluster.drop(resources.NODE, NODE)
    cluster.settle()
    back(cluster)
    cluster.settle()

    assert state_of(cluster.device(SECOND), "Ignored") == ("True", "IgnoreRequested")


@pytest.mark.parametrize("change", [{"uuid": OTHER}, {"device": "20b5"}], ids=["uuid", "model"])
def test_another_card_in_its_place_inherits_nothing(gone: Cluster, change: dict[str, str]) -> None:
    before = gone.device()["metadata"]["uid"]
    back(gone, reported(0, **change), reported(1))
    gone.settle()

    assert served(gone) == (None, None, 0)
    assert gone.device()["metadata"]["uid"] != before


def test_the_card_in_another_slot_or_node_inherits_nothing(gone: Cluster) -> None:
    back(gone, reported(0, address="0000:2a:00.0"), reported(1))
    gone.settle()

    assert FIRST not in gone.devices()
    assert names.ASSIGNMENT not in gone.device(f"{NODE}-0000-2a-00-0")["metadata"].get("annotations", {})


def test_what_the_agent_said_before_the_node_went_vouches_for_nobody(gone: Cluster) -> None:
    """The report outlives the Node: another machine of that name has not spoken yet."""
    gone.node(boot=NEXT_BOOT)
    gone.settle()

    assert served(gone) == ("a", None, 1)
    assert state_of(gone.device(), "InventoryIncomplete") == ("True", names.REASON_NOT_RECOGNISED)
    gone.report([reported(0, uuid=OTHER)], boot=NEXT_BOOT)
    gone.settle()
    assert served(gone) == (None, None, 0)


@pytest.mark.parametrize("says", ["no uuid", "no start", "node not ready"])
def test_who_does_not_say_enough_is_not_recognised(gone: Cluster, says: str) -> None:
    back(gone, reported(0, uuid="") if says == "no uuid" else reported(0), boot="" if says == "no start" else NEXT_BOOT)
    if says == "node not ready":
        gone.node(boot=NEXT_BOOT, ready=False)
    gone.settle()
    assert served(gone) == ("a", None, 1)

    back(gone)  # a driver was loaded
    gone.settle()
    assert served(gone) == ("a", "a", 1)


def test_a_card_that_a_fresh_report_does_not_name_is_forgotten(gone: Cluster) -> None:
    back(gone, reported(1))
    gone.settle()

    assert list(gone.devices()) == [SECOND]


@pytest.mark.parametrize("node", ["away", "back and silent"])
def test_it_is_remembered_for_so_long_and_no_longer(gone: Cluster, node: str) -> None:
    if node == "away":
        assert gone.plan().requeue_after == 3 * DAY
    else:
        gone.node(boot=NEXT_BOOT)
        gone.settle()
    gone.now += 3 * DAY - 1
    gone.settle()
    assert served(gone) == ("a", None, 1)

    gone.now += 1
    gone.step()
    assert FIRST not in gone.devices()
    back(gone)
    gone.settle()
    assert served(gone) == (None, None, 0)


def test_the_time_is_over_also_where_nobody_looked_meanwhile(gone: Cluster) -> None:
    gone.now += 3 * DAY
    back(gone)
    gone.settle()

    assert served(gone) == (None, None, 0)


def test_a_clock_that_was_ahead_makes_the_time_no_longer(gone: Cluster) -> None:
    gone.merge("GPUDevice", FIRST, {"status": {"nodeGoneSince": stamp(gone.now + 30 * DAY)}})
    gone.settle()
    assert gone.plan().actions == ()
    gone.now += 3 * DAY + 1
    gone.settle()

    assert gone.devices() == {}


def test_the_shortest_time_forgets_all_with_the_node(cluster: Cluster) -> None:
    cluster.settings = parse_settings({"inventory": {"rememberFor": "50ms"}})
    cluster.drop(resources.NODE, NODE)
    cluster.settle()

    assert cluster.devices() == {}


def test_a_person_who_takes_the_word_back_has_the_card_forgotten(gone: Cluster) -> None:
    gone.merge("GPUDevice", FIRST, {"metadata": {"annotations": {names.ASSIGNMENT: None}}})
    gone.settle()

    assert gone.devices() == {}


UNTOLD: list[dict[str, Any]] = [
    {"metadata": {"annotations": {names.ASSIGNMENT: None}}},
    {"status": {"hardware": None}},
    {"status": {"autoAttach": True, "allocations": None}},
]


@pytest.mark.parametrize("without", UNTOLD, ids=["no word", "no uuid", "what its pool takes by itself"])
def test_a_card_of_which_nothing_would_be_lost_goes_with_its_node(cluster: Cluster, without: dict[str, Any]) -> None:
    cluster.merge("GPUDevice", FIRST, without)
    cluster.drop(resources.NODE, NODE)
    cluster.settle()

    assert cluster.devices() == {}


def test_what_a_pool_takes_by_itself_stays_while_pods_may_have_it(cluster: Cluster) -> None:
    """Nodes of an autoscaler come and go by the hundred, and Kubernetes deletes the pods of one that is gone."""
    cluster.merge("GPUDevice", FIRST, {"status": {"autoAttach": True}})
    cluster.drop(resources.NODE, NODE)
    cluster.settle()
    other = copy.deepcopy(cluster)
    back(cluster)
    cluster.settle()
    assert served(cluster) == ("a", "a", 1)

    assert other.plan().requeue_after == 120
    other.now += 120
    other.settle()
    assert other.devices() == {}
