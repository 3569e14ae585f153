"""Whom a simulated exporter names on a card: told by the module's own DaemonSet, as the real one would be."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names
from controllers.api.kube import Node
from controllers.api.meta import ObjectMeta
from controllers.api.record import adapter
from controllers.api.settings import Settings
from controllers.bootstrap.health.dcgm_parser import parse
from controllers.components import build
from sim.hardware import load
from sim.nodes import dcgm
from sim.nodes.machine import machine
from sim.nodes.podresources import User, mapped, users
from sim.nodes.pods import Pod
from tests.kit import objects

CARD, OTHER = "0000:3b:00.0", "0000:86:00.0"
RESOURCE = names.resource_name("train")


def exporter(*resources: str, **changed: Any) -> Pod:
    """A pod of the exporter's DaemonSet; `changed` replaces parts of its spec."""
    made = build.daemonsets(Settings().bootstrap, resources=resources)["gpu-dcgm-exporter"]["spec"]["template"]
    return adapter(Pod).validate_python({"metadata": {"name": "x"}, "spec": {**made["spec"], **changed}})


def workload(resource: str = RESOURCE, units: int = 1) -> Pod:
    limits = {"limits": {resource: str(units)}}
    spec = {"containers": [{"name": "main", "resources": limits}, {"name": "side"}]}
    return adapter(Pod).validate_python({"metadata": {"name": "job-0", "namespace": "team", "uid": "u"}, "spec": spec})


def card(address: str, *pods: str, **hardware: Any) -> Any:
    taken = tuple(objects.allocation(pod, "u") for pod in pods)
    return objects.card("n", address, pool="train", allocations=taken, hardware=hardware)


def test_the_modules_exporter_names_the_pods_of_the_pools_that_it_is_told() -> None:
    assert mapped(exporter()) == frozenset()
    assert mapped(exporter(RESOURCE, "gpu.deckhouse.io/b")) == {RESOURCE, "gpu.deckhouse.io/b"}


@pytest.mark.parametrize("without", ["env", "volumeMounts"])
def test_an_exporter_that_is_not_told_or_cannot_ask_kubelet_names_nobody(without: str) -> None:
    made = build.daemonsets(Settings().bootstrap, resources=[RESOURCE])["gpu-dcgm-exporter"]["spec"]["template"]
    (container,) = made["spec"]["containers"]
    off = [{**one, "value": "false"} if one["name"] == "DCGM_EXPORTER_KUBERNETES" else one for one in container["env"]]
    changed = {**container, without: off if without == "env" else []}
    assert mapped(exporter(RESOURCE, containers=[changed])) == frozenset()


def test_a_pod_is_named_on_its_cards_where_its_resource_is_told() -> None:
    cards, pods = [card(CARD, "job-0"), card(OTHER)], {"u": workload()}
    assert users(cards, pods, frozenset({RESOURCE})) == {CARD: User("team", "job-0", "main")}
    assert users(cards, pods, frozenset({"gpu.deckhouse.io/other", "gpu.deckhouse.io/tra"})) == {}
    assert users(cards, {}, frozenset({RESOURCE})) == {}


def test_of_pods_that_share_a_card_one_is_named_and_none_on_a_divided_card() -> None:
    pods = {"u": workload()}
    assert users([card(CARD, "a", "b")], pods, frozenset({RESOURCE})) == {CARD: User("team", "b", "main")}
    divided = card(CARD, "a", mig={"capable": True, "enabled": True})
    assert users([divided], pods, frozenset({RESOURCE})) == {}


def test_the_samples_carry_the_pod_and_the_controller_still_knows_the_card() -> None:
    node = Node(metadata=ObjectMeta(name="n", annotations={"sim.gpu.deckhouse.io/shape": "t4-4"}))
    made = machine(node, None, load())
    text = dcgm.text("n", made, {CARD: User("team", "job-0", "main")}).at(1)
    temperature = next(line for line in text.splitlines() if b"3B:00.0" in line and b"DEV_GPU_TEMP{" in line)
    assert b'",container="main",namespace="team",pod="job-0"} ' in temperature
    assert text.count(b'pod="job-0"') == text.count(b"00000000:3B:00.0")
    assert parse(text) == parse(dcgm.text("n", made).at(1))
