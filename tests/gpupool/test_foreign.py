"""Cards that others' pods have by resources that are not the module's: what pools and nodes make of it."""

from __future__ import annotations

import pytest

from controllers.api import names, resources
from controllers.api.conditions import CONFIGURED, find
from controllers.api.gpudevice import ForeignAllocation, GPUDevice
from controllers.api.gpupool import GPUPool
from controllers.domain.issuing import issuable
from tests.gpupool.world import AUTOMATIC, Cluster
from tests.kit.manifests import body
from tests.kit.objects import card, published

FIRST, SECOND = "n1-0000-00-00-0", "n1-0000-01-00-0"
TAKEN = ForeignAllocation(namespace="secret-team", pod="train-0", container="main", resource="nvidia.com/gpu")


def take(made: Cluster, device: str) -> None:
    """As the plugin writes it: the offer goes by the same write."""
    with made.edit("GPUDevice", device) as found:
        found["status"].pop("published", None)
        found["status"]["foreignAllocations"] = [body(TAKEN)]


def give_back(made: Cluster, device: str) -> None:
    with made.edit("GPUDevice", device) as found:
        found["status"]["foreignAllocations"] = []


def device(made: Cluster, name: str) -> GPUDevice:
    return next(found for found in made.all(resources.GPUDEVICE, GPUDevice) if found.name == name)


def cluster(**pools: dict[str, object]) -> Cluster:
    made = Cluster()
    made.node("n1", 2)
    for name, spec in pools.items():
        made.pool(name, **spec)
    return made


def test_no_slot_of_such_a_card_is_promised() -> None:
    assert issuable(card(pool="a"), "a")
    assert not issuable(card(pool="a", foreign_allocations=(TAKEN,)), "a")


def test_a_member_says_so_without_naming_the_pod_and_comes_back() -> None:
    made = cluster(a={})
    for each in (FIRST, SECOND):
        made.annotate(each, "a")
    made.settle()
    made.elsewhere = {FIRST}
    take(made, FIRST)
    made.settle()
    found = find(device(made, FIRST).status.conditions, CONFIGURED)
    assert found is not None
    assert (found.status, found.reason) == ("False", "HeldElsewhere")
    assert "by nvidia.com/gpu, which is not the module's" in found.message
    pool = made.all(resources.GPUPOOL, GPUPool)[0]
    assert pool.status.capacity is not None
    assert (pool.status.capacity.available, pool.status.capacity.unavailable) == (1, 1)
    assert "by nvidia.com/gpu" in str(pool.status.nodes[0].last_event)
    assert not [key for key, each in made.objects.items() if key[0] != "GPUDevice" and "secret-team" in str(each)]
    assert "secret-team" not in found.message

    give_back(made, FIRST)
    made.elsewhere = set()
    made.settle()
    found = find(device(made, FIRST).status.conditions, CONFIGURED)
    assert found is not None
    assert found.reason == "Published"


def test_its_own_pods_are_told_of_and_keep_it() -> None:
    made = cluster(a={})
    made.annotate(FIRST, "a")
    made.settle()
    made.elsewhere = {FIRST}
    made.pod("p", "a", "r", node="n1", phase="Running")
    made.allocate(FIRST)
    take(made, FIRST)
    made.settle()
    found = find(device(made, FIRST).status.conditions, CONFIGURED)
    assert found is not None
    assert "Pods of this pool have it, too, and keep it" in found.message
    assert device(made, FIRST).status.allocations


@pytest.mark.parametrize("spec", [{}, AUTOMATIC])
def test_it_is_not_taken_in_afresh(spec: dict[str, object]) -> None:
    made = cluster(a=spec)
    made.annotate(SECOND, "a")
    if spec:
        take(made, FIRST)
    else:
        made.settle()
        take(made, FIRST)
        made.annotate(FIRST, "a")
    with made.edit("GPUDevice", SECOND) as found:
        found["status"]["poolRef"] = {"name": "a", "resource": names.resource_name("a")}
        found["status"]["published"] = body(published("a"))
    made.elsewhere = {FIRST}
    made.settle()
    assert device(made, FIRST).status.pool_ref is None
    if not spec:
        said = find(device(made, FIRST).status.conditions, CONFIGURED)
        assert said is not None
        assert (said.reason, "secret-team" in said.message) == ("HeldElsewhere", False)
    give_back(made, FIRST)
    made.elsewhere = set()
    made.settle()
    assert device(made, FIRST).status.pool_ref is not None


def test_what_nobody_watches_any_more_is_taken_back() -> None:
    """With its last card in a pool a node loses its plugins; what they said would keep its cards out for ever."""
    made = cluster(a={})
    take(made, FIRST)
    made.annotate(FIRST, "a")
    made.settle()
    assert device(made, FIRST).status.pool_ref is not None
    assert not device(made, FIRST).status.foreign_allocations


def serve(made: Cluster, **elsewhere: str) -> None:
    """What bootstrap says of programs of others on the node."""
    with made.edit("GPUNodeInventory", "n1") as inventory:
        inventory["status"]["managedElsewhere"] = elsewhere or None


def configured(made: Cluster, name: str) -> tuple[str, str]:
    found = find(device(made, name).status.conditions, CONFIGURED)
    return (found.status, found.reason) if found is not None else ("", "")


def test_while_another_plugin_serves_the_node_its_cards_are_offered_to_nobody_and_counted_once() -> None:
    made = cluster(a={})
    for each in (FIRST, SECOND):
        made.annotate(each, "a")
    serve(made, plugin="gpu-operator/nvidia-device-plugin-daemonset")
    made.settle()
    assert [device(made, each).status.pool_ref is not None for each in (FIRST, SECOND)] == [True, True]
    assert [device(made, each).status.published for each in (FIRST, SECOND)] == [None, None]
    assert configured(made, FIRST) == ("False", "ManagedElsewhere")
    capacity = made.all(resources.GPUPOOL, GPUPool)[0].status.capacity
    assert capacity is not None
    assert (capacity.available, capacity.unavailable) == (0, 2)

    serve(made)
    made.settle()
    assert configured(made, FIRST) == ("True", "Published")

    serve(made, plugin="nvidia.com/gpu")
    made.settle()
    assert [device(made, each).status.published for each in (FIRST, SECOND)] == [None, None], "one that comes later"


def test_programs_of_others_that_give_no_cards_keep_none_from_a_pool() -> None:
    made = cluster(a={})
    made.annotate(FIRST, "a")
    serve(made, driver="gpu-operator/x", toolkit="gpu-operator/y", mig="gpu-operator/z")
    made.settle()
    assert configured(made, FIRST) == ("True", "Published")
