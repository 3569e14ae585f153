"""The laws of MIG: managers that fail or are slow, hands that divide cards, layouts that are deleted, and crashes.

That no card is divided while it is offered or in use is asserted where the played MIG manager divides it. What is
asked here beside the laws of Maintenance: once all that was broken is mended and a person resumes, it comes true.
"""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import initialize, rule

from controllers.api import conditions as kinds
from controllers.api import names, resources
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpupool import GPUPool
from controllers.api.record import adapter
from controllers.domain import mig
from controllers.domain.allocation import applied, slots_under, wanted
from tests.gpupool.test_maintenance_laws import CARDS, NODES, Maintenance
from tests.gpupool.world import Cluster

pytestmark = pytest.mark.slow("a state machine of cards that are divided, which takes many steps to come to anything")
INSTANCES: list[dict[str, int]] = [{"1g.10gb": 5}, {"3g.40gb": 1}, {}]


def resume(cluster: Cluster) -> None:
    cluster.now += 1
    cluster.objects["GPUPool", "a"]["metadata"].setdefault("annotations", {})[names.RESUME] = "true"
    cluster.touch(("GPUPool", "a"))


def mend(cluster: Cluster) -> None:
    """Everybody who was there ends, and everything works."""
    cluster.breaks, cluster.slow = {}, set()
    for kind, key in list(cluster.objects):
        if kind == "Pod":
            cluster.drop(resources.POD, key)
    for card in CARDS:
        status = cluster.objects["GPUDevice", card]["status"]
        status.pop("allocations", None)
        status["reservations"] = []
        cluster.fault(card, faulted=False)
        cluster.annotate(card, "a")
    for node in NODES:
        cluster.objects["Node", node]["status"]["conditions"] = [{"type": "Ready", "status": "True"}]
        cluster.touch(("Node", node))


def turn_off(cluster: Cluster) -> None:
    """Somebody turns MIG mode off where the module would not."""
    found = cluster.objects.values()
    kept = [mig.read(obj["data"]) for obj in found if names.MIG_CARDS in obj.get("data", {})]
    ours = {(card.uuid, card.ours) for layout in kept if layout is not None for card in layout.cards}
    for card in CARDS:
        hardware = cluster.objects["GPUDevice", card]["status"]["hardware"]
        if hardware["mig"]["enabled"] and (hardware["uuid"], True) not in ours:
            hardware["mig"] |= {"enabled": False, "types": []}
            cluster.touch(("GPUDevice", card))


class MigWork(Maintenance):
    """The pool of the laws of Maintenance, with MIG managers that need not succeed."""

    @initialize()
    def start(self) -> None:
        super().start()
        self.change({"mode": "MIG", "migProfile": "3g.40gb"})
        self.cluster.settle()
        self.webhook = self.pool()

    @rule(card=st.sampled_from(CARDS))
    def a_card_leaves(self, card: str) -> None:
        """So that it must be turned back, whoever is on it."""
        self.cluster.annotate(card, None)

    @rule()
    def mig_managers(self) -> None:
        self.cluster.mig_manager()

    @rule(card=st.sampled_from(CARDS), how=st.sampled_from(["fails", "is slow", "works"]))
    def manager(self, card: str, how: str) -> None:
        self.cluster.breaks.pop(card, None)
        self.cluster.slow.discard(card)
        if how == "fails":
            self.cluster.breaks[card] = "played"
        elif how == "is slow":
            self.cluster.slow.add(card)

    @rule(card=st.sampled_from(CARDS), instances=st.sampled_from(INSTANCES))
    def somebody_divides(self, card: str, instances: dict[str, int]) -> None:
        """By hand, what is divided already: MIG mode itself stays on."""
        told: dict[str, Any] = self.cluster.objects["GPUDevice", card]["status"]["hardware"]["mig"]
        if told["enabled"]:
            told["types"] = [{"name": name, "count": count} for name, count in instances.items()]
            self.cluster.touch(("GPUDevice", card))

    @rule(card=st.sampled_from(CARDS))
    def somebody_turns_mig_mode(self, card: str) -> None:
        """On or off, by hand, where no pod is on the card: the driver refuses it otherwise."""
        status = self.cluster.objects["GPUDevice", card]["status"]
        if not status.get("allocations"):
            told: dict[str, Any] = status["hardware"]["mig"]
            told |= {"enabled": not told["enabled"], "types": []}
            self.cluster.touch(("GPUDevice", card))

    @rule(node=st.sampled_from(NODES), keeps_mode=st.booleans())
    def a_node_is_rebooted(self, node: str, keeps_mode: bool) -> None:
        """Instances are gone; nobody is needed for them to come back."""
        self.cluster.reboot(node, keeps_mode=keeps_mode)

    @rule()
    def somebody_resumes(self) -> None:
        resume(self.cluster)

    @rule()
    def settle_and_be_quiet(self) -> None:
        """It comes to rest, a pool that is Misconfigured offers nothing, and no card in MIG mode is offered whole."""
        trial = copy.deepcopy(self.cluster)
        trial.settle()
        assert not any(made.writes for made in trial.plans())
        told = adapter(GPUPool).validate_python(trial.objects["GPUPool", "a"]).status.conditions
        if kinds.is_true(told, kinds.MISCONFIGURED):
            assert kinds.is_true(told, kinds.MAINTENANCE)
        mode = applied(adapter(GPUPool).validate_python(trial.objects["GPUPool", "a"])).mode
        for device in trial.all(resources.GPUDEVICE, GPUDevice):
            card = mig.card_of(device)
            assert mode == "MIG" or device.status.published is None or card is None or card.actual == mig.DISABLED

    @rule()
    def mend_and_be_served(self) -> None:
        """Whatever was, it ends as the spec asks once nothing is in the way."""
        trial = copy.deepcopy(self.cluster)
        mend(trial)
        trial.settle()
        turn_off(trial)
        trial.settle()
        resume(trial)
        trial.settle()
        pool = adapter(GPUPool).validate_python(trial.objects["GPUPool", "a"])
        assert applied(pool) == wanted(pool), kinds.find(pool.status.conditions, kinds.MAINTENANCE)
        goal = wanted(pool)
        for device in trial.all(resources.GPUDEVICE, GPUDevice):
            assert device.status.published is not None, (device.name, device.status.conditions)
            assert device.status.published.slots == slots_under(device, goal)
            card = mig.card_of(device)
            assert card is not None
            assert card.actual is not None
            if goal.mode == "MIG":
                assert dict(card.actual.instances) == {goal.mig_profile: slots_under(device, goal)}
            else:
                assert card.actual == mig.DISABLED


MigWork.TestCase.settings = settings(
    max_examples=40, stateful_step_count=40, deadline=None, suppress_health_check=list(HealthCheck)
)
TestMigWork = MigWork.TestCase
