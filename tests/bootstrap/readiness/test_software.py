"""The versions that a node's status tells: what serves, what is wanted, and how few writes that takes."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names, resources
from controllers.api.settings import parse_settings
from controllers.api.software import ORDER
from controllers.bootstrap.records import Operand
from controllers.components import build
from controllers.components.daemonset import build_daemonset, module_labels
from controllers.runtime.plan import Plan
from tests.bootstrap.world import COMPONENTS, NODE, Cluster

INFO = {
    "kernelVersion": "6.8.0-60-generic",
    "osImage": "Ubuntu 24.04.2 LTS",
    "containerRuntimeVersion": "containerd://2.0.5",
    "kubeletVersion": "v1.34.4",
}
HOST = {
    "kernel": ("6.8.0-60-generic", None),
    "os": ("Ubuntu 24.04.2 LTS", None),
    "runtime": ("containerd://2.0.5", None),
    "kubelet": ("v1.34.4", None),
    "driver": ("580.65.06", None),
    "cuda": ("13.0", None),
}
DIGEST = f"sha256:{'a' * 64}"


class Fleet(Cluster):
    """One node, with the DaemonSets that run there and their pods."""

    def operand(self, component: str, image: str, **selector: str) -> None:
        """A DaemonSet of one component; of a component without a gate, `selector` says where it runs."""
        name = names.DISCOVER_DAEMONSET if component == "discover" else build.object_name(component)
        if "pool" in selector:
            name = f"{name}-{selector['pool']}"
            selector = {names.pool_node_label(selector["pool"]): "true"}
        asked = selector or {names.deploy_label(component): "true"}
        pod = {
            "nodeSelector": asked,
            "containers": [{"name": "own", "image": image}, {"name": "beside", "image": "b:9"}],
        }
        made = build_daemonset(name, module_labels(component), pod)
        made["metadata"] |= {"name": name, "namespace": names.NAMESPACE}
        self.put(resources.DAEMONSET, made)

    def serve(self, name: str, *, ready: bool = True, first: str = "") -> None:
        """A pod as its DaemonSet's template is now; `first`: the image of a container that somebody puts before it."""
        made = self.objects["DaemonSet", f"{names.NAMESPACE}/{name}"]
        template = made["spec"]["template"]
        own = {
            "nodeName": NODE,
            "containers": [*([{"name": "mesh", "image": first}] if first else []), *template["spec"]["containers"]],
        }
        meta = {"name": f"{name}-{NODE}", "namespace": names.NAMESPACE, "labels": template["metadata"]["labels"]}
        status = {"phase": "Running", "conditions": [{"type": "Ready", "status": str(ready)}]}
        self.put(resources.POD, {"metadata": meta, "spec": own, "status": status})

    def end(self, name: str) -> None:
        self.drop(resources.POD, f"{names.NAMESPACE}/{name}-{NODE}")

    def label(self, key: str, value: str | None) -> None:
        labels = self.objects["Node", NODE]["metadata"]["labels"]
        labels.pop(key, None)
        labels.update({key: value} if value is not None else {})

    def told(self) -> dict[str, tuple[str, str | None]]:
        return {one["component"]: (one["running"], one.get("wanted")) for one in self.status()["software"]}

    def quiet(self) -> bool:
        return self.plan().writes == ()


def writes_of_status(made: Plan) -> int:
    return sum(one.ref.resource == resources.GPUNODEINVENTORY for one in made.writes)


@pytest.fixture
def fleet() -> Fleet:
    """A node that is ready, whose pods are as the components' DaemonSets have them."""
    made = Fleet()
    made.execute(made.plan_components().actions, names.MANAGER_BOOTSTRAP)
    made.prepare()
    made.objects["Node", NODE]["status"]["nodeInfo"] |= INFO
    for component in COMPONENTS:
        made.drop(resources.POD, f"{names.NAMESPACE}/{component}-{NODE}")
        made.serve(build.object_name(component))
    made.step()
    return made


def test_the_machine_its_driver_and_every_component_are_told_in_order(fleet: Fleet) -> None:
    fleet.operand("discover", "r/agent:v2", **{names.LABEL_PRESENT: "true"})
    fleet.label(names.LABEL_PRESENT, "true")
    fleet.drop(resources.POD, f"{names.NAMESPACE}/discover-{NODE}")
    fleet.serve(names.DISCOVER_DAEMONSET)
    fleet.operand("mig-manager", "r/agent:v2", pool="a")
    fleet.operand("device-plugin", "r/agent:v2", pool="a")
    fleet.label(names.pool_node_label("a"), "true")
    fleet.serve("gpu-mig-manager-a")
    fleet.serve("gpu-device-plugin-a")
    fleet.step()

    assert fleet.told() == HOST | {
        "toolkit": ("v1.20.0", "v1.20.0"),
        "agent": ("v2", "v2"),
        "device-plugin": ("v2", "v2"),
        "mig-manager": ("v2", "v2"),
        "gfd": ("v0.20.0", "v0.20.0"),
        "dcgm": ("4.6.0-1-ubuntu24.04", "4.6.0-1-ubuntu24.04"),
        "dcgm-exporter": ("4.6.0-4.8.3-distroless", "4.6.0-4.8.3-distroless"),
        "driver-validator": ("dev", "dev"),
        "validator": ("dev", "dev"),
    }
    assert tuple(fleet.told()) == ORDER
    assert fleet.quiet()


def test_a_roll_out_takes_one_write_for_what_is_wanted_and_none_beside_those_of_readiness(fleet: Fleet) -> None:
    fleet.settings = parse_settings({"bootstrap": {"toolkit": {"version": "v1.21.0"}}})
    fleet.execute(fleet.plan_components().actions, names.MANAGER_BOOTSTRAP)
    assert writes_of_status(fleet.step()) == 1
    assert fleet.told()["toolkit"] == ("v1.20.0", "v1.21.0")

    # The old pod ends; the new one's image cannot be pulled. What served last stays, with what is wanted.
    fleet.end("gpu-toolkit")
    assert writes_of_status(fleet.step()) == 1  # toolkitReady
    fleet.serve("gpu-toolkit", ready=False)
    assert fleet.quiet()
    assert fleet.told()["toolkit"] == ("v1.20.0", "v1.21.0")

    fleet.serve("gpu-toolkit")
    assert writes_of_status(fleet.step()) == 1  # toolkitReady, and the version in the same write
    assert fleet.told()["toolkit"] == ("v1.21.0", "v1.21.0")
    assert fleet.quiet()


@pytest.mark.parametrize("change", [{"managed": False}, {"cards": 0}])
def test_what_no_longer_runs_on_the_node_goes_with_the_write_that_says_so(fleet: Fleet, change: dict[str, Any]) -> None:
    fleet.inventory(**change)
    assert writes_of_status(fleet.step()) == 1
    agent = {"agent": ("v1", None)}
    assert fleet.told() == HOST | agent

    for component in COMPONENTS:
        fleet.end(build.object_name(component))
        assert writes_of_status(fleet.step()) == (component in {"gfd", "toolkit", "validator"}), "their flags alone"
    assert fleet.told() == HOST | agent


def test_a_pools_program_goes_with_the_pool_and_not_before(fleet: Fleet) -> None:
    fleet.operand("device-plugin", "r/agent:v1", pool="a")
    fleet.label(names.pool_node_label("a"), "true")
    assert fleet.quiet(), "nothing has served yet"
    fleet.serve("gpu-device-plugin-a")
    fleet.step()
    assert fleet.told()["device-plugin"] == ("v1", "v1")

    fleet.end("gpu-device-plugin-a")
    assert fleet.quiet(), "its DaemonSet starts another"
    fleet.label(names.pool_node_label("a"), None)
    fleet.step()
    assert "device-plugin" not in fleet.told()


def test_plugins_of_pools_that_differ_are_told_as_one_in_whatever_order_they_come(fleet: Fleet) -> None:
    for pool, version in (("b", "v2"), ("a", "v3"), ("c", "v2")):
        fleet.operand("device-plugin", f"r/agent:{version}", pool=pool)
        fleet.label(names.pool_node_label(pool), "true")
        fleet.serve(f"gpu-device-plugin-{pool}")
    fleet.step()
    assert fleet.told()["device-plugin"] == ("v2, v3", "v2, v3")

    for pool in ("b", "c"):
        fleet.operand("device-plugin", "r/agent:v3", pool=pool)
    fleet.step()
    assert fleet.told()["device-plugin"] == ("v2, v3", "v3")


@pytest.mark.parametrize(
    ("image", "version"),
    [
        (f"registry.local:5000/a@{DIGEST}", DIGEST),
        (f"registry.local:5000/a:v1@{DIGEST}", f"v1@{DIGEST}"),
        ("registry.local:5000/a", "latest"),
    ],
)
def test_an_image_is_told_by_what_its_reference_says(fleet: Fleet, image: str, version: str) -> None:
    fleet.operand("gfd", image)
    fleet.serve("gpu-gfd", first="mesh:1")
    fleet.step()

    assert fleet.told()["gfd"] == (version, version)


def test_the_version_of_a_component_whose_daemonset_is_gone_is_that_of_its_pod(fleet: Fleet) -> None:
    fleet.drop(resources.DAEMONSET, f"{names.NAMESPACE}/gpu-gfd")
    fleet.step()
    assert fleet.told()["gfd"] == ("v0.20.0", None)

    fleet.end("gpu-gfd")
    fleet.step()
    assert fleet.told()["gfd"] == ("v0.20.0", None), "the DaemonSet comes back, and its pod with it"


def test_a_toolkit_that_the_module_does_not_run_is_told_as_the_agent_finds_it(fleet: Fleet) -> None:
    fleet.settings = parse_settings({"bootstrap": {"toolkit": {"enabled": False}}})
    key = ("NodeFeature", f"{names.NAMESPACE}/{names.agent_feature(NODE)}")
    fleet.objects[key]["spec"]["features"]["attributes"]["gpu.toolkit"]["elements"]["version"] = "1.19.1"
    fleet.step()
    assert fleet.told()["toolkit"] == ("1.19.1", None)


def test_what_makes_room_for_mig_work_keeps_its_version_without_a_write_more(fleet: Fleet) -> None:
    before = fleet.told()
    fleet.mig("Waiting")
    assert writes_of_status(fleet.step()) == 1  # the operation's name
    assert fleet.gates() != COMPONENTS
    for component in COMPONENTS:
        if component not in fleet.gates():
            fleet.end(build.object_name(component))
    fleet.step()
    assert fleet.told() == before


def test_a_template_of_another_version_is_one(fleet: Fleet) -> None:
    world = fleet.view()
    made = next(one for one in world.daemonsets if one.name == "gpu-gfd")
    assert world.nodes_of(made) == {NODE}
    assert world.nodes_of(Operand()) == set()
