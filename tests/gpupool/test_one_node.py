"""What one node says of its cards holds up no other: whoever has its token may write what they like there."""

from __future__ import annotations

import pytest

from controllers.api import conditions as kinds
from controllers.api import resources
from controllers.api.gpudevice import GPUDevice
from tests.gpupool.test_maintenance import (
    CARDS,
    SHARED,
    applied,
    ask,
    end,
    message,
    never_withdrawn,
    pooled,
    published,
    report,
    status,
    told,
)
from tests.gpupool.test_mig import CARDS as MIG_CARDS
from tests.gpupool.test_mig import SMALL, devices, divided, failing
from tests.kit.conditions import put
from tests.kit.objects import condition

GHOST = "made-up"


def test_a_pod_that_does_not_exist_keeps_its_own_card_and_no_pool() -> None:
    """Whoever has one node's token names a pod that is nowhere; or one was deleted by force, and runs on."""
    made = pooled()
    made.node("n2", 1)
    other = "n2-0000-00-00-0"
    made.annotate(other, "a")
    made.settle()
    report(made, CARDS[0], GHOST)
    ask(made, SHARED)
    made.settle()

    assert (applied(made), told(made)) == (("TimeSlice", 4), ("False", "AsExpected"))
    assert published(made) == [None, 4, 4]
    card = made.all(resources.GPUDEVICE, GPUDevice)[0]
    configured = kinds.find(card.status.conditions, kinds.CONFIGURED)
    assert configured is not None
    assert (configured.status, configured.reason) == ("False", "PodsUnknown")
    assert f"default/p-{GHOST}" in configured.message
    assert {node.name: node.health for node in status(made).nodes} == {"n1": "Degraded", "n2": "Healthy"}

    end(made, CARDS[0])
    made.settle()
    assert published(made) == [4, 4, 4]


@pytest.mark.parametrize("what", ["ended", "elsewhere"])
def test_a_node_names_no_pod_of_another_time_or_node(what: str) -> None:
    made = pooled()
    made.node("n2", 1)
    pool, where, phase = ("a", "n1", "Succeeded") if what == "ended" else ("b", "n2", "Running")
    made.pod("p-u", pool, "r", node=where, phase=phase)
    report(made, CARDS[0], made.objects["Pod", "default/p-u"]["metadata"]["uid"])
    ask(made, SHARED)
    made.settle()

    assert (applied(made), published(made)) == (("TimeSlice", 4), [None, 4, None])


def test_what_is_still_offered_as_before_a_change_is_offered_to_nobody_beside_who_runs_there() -> None:
    """Its node was away, or it was faulted, so nobody waited for it; and it comes back with more slots to give."""
    made = pooled()
    made.plugin = lambda: None  # type: ignore[method-assign]
    report(made, CARDS[0], GHOST)
    with made.edit("GPUDevice", CARDS[0]) as card:
        put(card, condition("Faulted"))
    with made.edit("GPUDevice", CARDS[1]) as withdrawn:
        del withdrawn["status"]["published"]
    made.settle()
    ask(made, SHARED)
    made.settle()
    assert applied(made) == ("TimeSlice", 4)

    with made.edit("GPUDevice", CARDS[0]) as card:
        put(card, condition("Faulted", False))
    del made.plugin
    made.settle()
    assert published(made) == [None, 4]

    end(made, CARDS[0])
    made.settle()
    assert published(made) == [4, 4]


def test_a_card_that_is_offered_stays_so_when_its_pod_is_deleted_by_force() -> None:
    made = pooled()
    report(made, CARDS[0], GHOST)
    made.settle()

    assert published(made) == [1, 1]


def test_a_card_that_a_person_leaves_out_is_waited_for_no_longer_than_the_deadline() -> None:
    """Its node says without end that it offers it."""
    made = pooled()
    made.plugin = lambda: None  # type: ignore[method-assign]
    with made.edit("GPUDevice", CARDS[1]) as withdrawn:
        del withdrawn["status"]["published"]
    ask(made, SHARED)
    made.settle()
    with made.edit("GPUDevice", CARDS[0]) as card:
        put(card, condition("Ignored"))
    made.settle()
    assert told(made) == ("True", "AwaitingWithdrawal")

    made.now += 3601
    made.settle()
    assert (applied(made), told(made)) == (("TimeSlice", 4), ("False", "AsExpected"))


def test_how_a_card_is_left_out_is_said() -> None:
    assert "can be left out: kubectl label gpudevice <card> gpu.deckhouse.io/ignore=true." in message(never_withdrawn())


def test_nodes_do_not_divide_what_one_node_holds_back() -> None:
    """The others go on; it is divided when kubelet tells of the pod no more."""
    made = pooled()
    report(made, CARDS[0], GHOST)
    ask(made, SMALL)
    made.settle()
    assert (applied(made)[0], told(made)) == ("MIG", ("False", "AsExpected"))
    assert (divided(made), published(made)) == ([None, {"1g.10gb": 7}], [None, 7])

    end(made, CARDS[0])
    made.settle()
    assert published(made) == [7, 7]


def test_a_pool_does_not_stay_halted_for_a_card_that_a_person_leaves_out() -> None:
    made = failing(*MIG_CARDS)
    assert told(made) == ("True", "LayoutFailed")
    assert "leave a card out: kubectl label gpudevice <card> gpu.deckhouse.io/ignore=true" in message(made)

    for name in MIG_CARDS:
        with made.edit("GPUDevice", name) as card:
            put(card, condition("Ignored"))
    made.settle()
    assert (applied(made)[0], told(made)) == ("MIG", ("False", "AsExpected"))
    assert [device.status.published for device in devices(made)] == [None, None]
