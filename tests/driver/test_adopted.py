"""A driver that another program brought: adopted as it is, counted, and replaced by a roll-out alone."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from controllers.api import names, resources
from controllers.domain.driver.variant import ADOPTED, revision_of
from tests.driver.rolling import Rolling
from tests.driver.world import NEXT, VERSION

POD = "gpu-operator/nvidia-driver-daemonset-x1"


class Theirs(Rolling):
    """A node with the driver of another program, whose pod nothing keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.node()
        self.theirs()
        self.report("n1", driver=VERSION)
        self.merge("GPUNodeInventory", "n1", {"status": {"driver": {"version": VERSION}}})

    def theirs(
        self, *, mark: str | None = "true", keeper: str = "", privileged: bool = True, phase: str = "Running"
    ) -> None:
        namespace, _, name = POD.partition("/")
        labels = {"app.kubernetes.io/component": "nvidia-driver"} | ({names.DRIVER_ADOPTED: mark} if mark else {})
        meta = {"name": name, "namespace": namespace, "labels": labels}
        if keeper:
            meta["ownerReferences"] = [{"kind": "DaemonSet", "name": keeper, "uid": "1", "controller": True}]
        status = {"phase": phase, "conditions": [{"type": "Ready", "status": str(phase == "Running")}]}
        container = {"name": "driver", "image": "x", "securityContext": {"privileged": privileged}}
        spec = {"nodeName": "n1", "containers": [container]}
        self.put(resources.POD, {"metadata": meta, "spec": spec, "status": status})

    def outside(self) -> None:
        """Their pod has the driver loaded while it is there, and takes it along as it goes."""
        there = self.objects.get(("Pod", POD), {}).get("status", {}).get("phase") == "Running"
        self.host = there
        if not there and not self.drives():
            self._unloaded("n1")
        super().outside()

    def drives(self) -> bool:
        """Whether a pod of the module's has the node's driver."""
        return any(
            key.startswith(names.NAMESPACE) and "gpu-driver" in key for kind, key in self.objects if kind == "Pod"
        )

    def current(self) -> tuple[int, int]:
        """How many nodes are as asked for, and how many are not."""
        counts = self.objects["GPUDriver", "main"]["status"]["counts"]
        return counts.get("current", 0), counts.get("outdated", 0)


@pytest.fixture
def made() -> Theirs:
    return Theirs()


def test_it_is_adopted_as_it_is_and_counts_as_wanted(made: Theirs) -> None:
    made.driver()
    made.settle()
    made.now += 600
    made.settle()

    assert (made.label(), made.work()) == (ADOPTED, None)
    assert made.current() == (1, 0)
    assert not made.drives(), "nothing is installed beside it"
    assert made.in_service("n1")


@pytest.mark.parametrize(("mark", "keeper"), [(None, ""), ("false", ""), ("true", "nvidia-driver-daemonset")])
def test_one_that_nobody_gave_over_or_that_others_keep_is_left_alone(made: Theirs, mark: str, keeper: str) -> None:
    made.theirs(mark=mark, keeper=keeper)
    made.driver()
    made.settle()

    assert made.label() is None
    assert not made.drives()


def test_a_tenants_pod_with_two_labels_is_no_driver(made: Theirs) -> None:
    made.theirs(privileged=False)
    made.driver()
    made.settle()

    assert made.label() is None


def test_a_node_that_was_blocked_for_it_is_so_no_more(made: Theirs) -> None:
    with made.edit("GPUNodeInventory", "n1") as inventory:
        inventory["status"]["managedElsewhere"] = {"driver": "gpu-operator/nvidia-driver-daemonset"}
    made.driver()
    made.settle()
    assert (made.phase(), made.label()) == ("Blocked", None)

    with made.edit("GPUNodeInventory", "n1") as inventory:
        del inventory["status"]["managedElsewhere"]
    made.settle()
    assert (made.work(), made.label()) == (None, ADOPTED)
    assert not made.drives()


def test_a_reboot_changes_nothing(made: Theirs) -> None:
    made.driver()
    made.settle()
    made.reboot("n1", "another-boot")
    made.settle()
    assert (made.work(), made.label()) == (None, ADOPTED)
    made.report("n1", driver=VERSION, boot="another-boot")
    made.settle()
    assert (made.work(), made.label(), made.in_service("n1")) == (None, ADOPTED, True)


@pytest.mark.parametrize("put_off", [False, True])
def test_one_that_a_shutdown_of_its_node_ended_is_replaced_though_the_roll_out_is_paused(
    made: Theirs, *, put_off: bool
) -> None:
    """Kubelet leaves such a pod Failed, and the node has no driver. A pause of the node itself holds."""
    made.driver(rollout={"paused": True})
    made.settle()
    assert made.label() == ADOPTED
    if put_off:
        until = datetime.fromtimestamp(made.now + 86_400, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        made.merge("Node", "n1", {"metadata": {"annotations": {names.PAUSE: until}}})

    made.theirs(phase="Failed")
    made.reboot("n1", "another-boot")
    made.report("n1", boot="another-boot")
    made._service("n1", False)
    for _ in range(20):  # a node that waits is looked at again and again
        for key in made.all_keys():
            made.reconcile(*key)
        made.outside()
    assert (made.label() is None, made.drives()) == (put_off, not put_off)
    assert made.in_service("n1") is not put_off


def test_others_that_keep_it_again_have_it_back(made: Theirs) -> None:
    made.driver()
    made.settle()
    made.theirs(keeper="nvidia-driver-daemonset")
    made.settle()
    assert made.label() is None
    assert not made.drives()


def test_where_its_pod_is_deleted_the_node_gets_the_modules_driver(made: Theirs) -> None:
    made.driver()
    made.settle()
    made.drop(resources.POD, POD)
    made._service("n1", False)
    made.settle()
    assert revision_of(made.label() or "") == made.objects["GPUDriver", "main"]["status"]["target"]
    assert made.in_service("n1")


def test_a_change_of_the_driver_goes_through_the_roll_out(made: Theirs) -> None:
    made.driver(rollout={"canary": {"soak": "1m", "evidence": "Use"}, "waveSoak": "30s"})
    made.settle()
    made.merge("GPUDriver", "main", {"spec": {"version": NEXT}})
    made.settle()
    assert made.label() == ADOPTED, "it waits for its turn"
    assert made.current() == (0, 1)

    made.begin()
    made.settle()
    assert made.phase() == "Queued"
    assert ("Pod", POD) in made.objects
    made.take()
    made.settle()
    assert ("Pod", POD) not in made.objects, "evicted, once nobody used the driver"
    assert made.in_service("n1")
    assert made.phase() in (None, "Soaking")
    assert made.label() not in (None, ADOPTED)
