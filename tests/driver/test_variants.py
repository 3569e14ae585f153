"""DaemonSets of variants: edits by hand, and a new version of the module."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from controllers.api import names, resources
from controllers.components.cooldown import COOLDOWN
from controllers.driver.variants import plan_variant
from controllers.runtime.plan import Plan
from tests.driver.world import NEXT, Cluster

ELSEWHERE: dict[str, Any] = {"template": {"spec": {"nodeSelector": {"x": "y"}}}}
ROLLING: dict[str, Any] = {"updateStrategy": {"type": "RollingUpdate", "rollingUpdate": {"maxUnavailable": 1}}}
NETWORK: dict[str, Any] = {"template": {"spec": {"hostPID": False}}}
IMAGE = "r/agent:v2"


@pytest.fixture
def made() -> Cluster:
    cluster = Cluster()
    cluster.node("n1")
    cluster.driver()
    cluster.settle()
    return cluster


def daemonset(made: Cluster) -> tuple[str, dict[str, Any]]:
    ((name, found),) = ((name, found) for (kind, name), found in made.objects.items() if kind == "DaemonSet")
    return name, found


def reconciled(made: Cluster, agent_image: str = "") -> Any:
    """The DaemonSet after passes of a process whose version has that image."""
    value = daemonset(made)[1]["metadata"]["labels"][names.DRIVER_VARIANT]
    for _ in range(3):
        world = made.view()
        world.agent_image = agent_image or world.agent_image
        made.execute(plan_variant(world.variant(value), made.now).actions, names.MANAGER_DRIVER)
    return copy.deepcopy(daemonset(made)[1]["spec"])


def image(spec: dict[str, Any]) -> str:
    (prepare,) = spec["template"]["spec"]["initContainers"]
    return str(prepare["image"])


@pytest.mark.parametrize("edit", [ELSEWHERE, ROLLING, NETWORK])
def test_edits_are_undone_after_the_module_has_a_new_version(made: Cluster, edit: dict[str, Any]) -> None:
    right = reconciled(made, IMAGE)
    assert image(right) == IMAGE
    made.merge("DaemonSet", daemonset(made)[0], {"spec": edit})

    found = reconciled(made, IMAGE)
    assert found["template"]["spec"] == right["template"]["spec"]
    assert found["updateStrategy"]["type"] == "OnDelete"


@pytest.mark.parametrize("edit", [ELSEWHERE, ROLLING])
def test_where_pods_run_and_what_ends_them_is_kept_of_earlier_revisions_too(
    made: Cluster, edit: dict[str, Any]
) -> None:
    right = reconciled(made)
    made.driver(version=NEXT)
    made.merge("DaemonSet", daemonset(made)[0], {"spec": edit})

    found = reconciled(made, IMAGE)
    assert found["template"]["spec"]["nodeSelector"] == right["template"]["spec"]["nodeSelector"]
    assert found["updateStrategy"] == {"type": "OnDelete"}
    assert image(found) == IMAGE


def test_a_new_version_of_the_module_is_written_once(made: Cluster) -> None:
    reconciled(made, IMAGE)
    before = made.writes
    reconciled(made, IMAGE)

    assert made.writes == before


def with_parameters() -> tuple[Cluster, str]:
    """A node whose driver has parameters for a kernel module, and the key of the variant's ConfigMap."""
    made = Cluster()
    made.node("n1")
    made.driver(kernelModules={"nvidia": {"NVreg_EnableGpuFirmware": "0"}})
    made.settle()
    return made, f"{names.NAMESPACE}/{daemonset(made)[0].rpartition('/')[2]}"


def test_a_configmap_that_is_edited_is_written_as_it_was() -> None:
    made, key = with_parameters()
    right = copy.deepcopy(made.objects["ConfigMap", key])
    with made.edit("ConfigMap", key) as found:
        found["data"] = dict.fromkeys(found["data"], "options nvidia NVreg_EnableGpuFirmware=1")
        del found["metadata"]["labels"][names.DRIVER_VARIANT]
    made.settle()

    found = made.objects["ConfigMap", key]
    assert (found["data"], found["metadata"]["labels"]) == (right["data"], right["metadata"]["labels"])


def test_a_configmap_that_is_replaced_by_one_without_our_note_is_written_as_it_was() -> None:
    made, key = with_parameters()
    right = copy.deepcopy(made.objects["ConfigMap", key]["data"])
    with made.edit("ConfigMap", key) as found:
        found["data"] = {"mine.conf": "x"}
        del found["metadata"]["annotations"]
    made.settle()

    assert right.items() <= made.objects["ConfigMap", key]["data"].items()


def test_a_configmap_that_another_version_of_the_module_made_otherwise_stays() -> None:
    made, key = with_parameters()
    other = {"metadata": {"annotations": {names.SPEC_HASH: "another"}}, "data": {"more.conf": "x"}}
    made.merge("ConfigMap", key, other)
    before = copy.deepcopy(made.objects["ConfigMap", key])
    made.settle()

    assert made.objects["ConfigMap", key] == before


def test_a_configmap_whose_daemonset_is_gone_goes_too() -> None:
    made = Cluster()
    made.node("n1")
    made.driver(kernelModules={"nvidia": {"NVreg_EnableGpuFirmware": "0"}})
    made.settle()
    name, _ = daemonset(made)
    assert ("ConfigMap", f"{names.NAMESPACE}/{name.rpartition('/')[2]}") in made.objects
    made.drop(resources.DAEMONSET, name)
    made.drop(resources.NODE, "n1")
    made.drop(resources.GPUNODEINVENTORY, "n1")
    made.delete_driver()
    made.settle()

    assert [key for key in made.objects if key[0] in ("ConfigMap", "GPUDriver")] == []


@pytest.mark.parametrize(("had", "now"), [("Compiled", "Auto"), ("Compiled", "Precompiled"), ("Auto", "Compiled")])
def test_a_daemonset_that_is_deleted_comes_back_for_nodes_that_would_get_another_today(had: str, now: str) -> None:
    made = Cluster()
    made.node("n1")
    made.driver(mode=had)
    made.settle()
    label = made.label()
    name, found = daemonset(made)
    spec = copy.deepcopy(found["spec"])
    made.merge("GPUDriver", "main", {"spec": {"mode": now}})
    made.settle()
    made.drop(resources.DAEMONSET, name)
    value = found["metadata"]["labels"][names.DRIVER_VARIANT]
    assert made.planned("Variant", value) == Plan((), COOLDOWN), "its name has just come free"
    made.now += COOLDOWN
    made.execute(made.planned("Variant", value).actions, names.MANAGER_DRIVER)

    assert daemonset(made) == (name, made.objects["DaemonSet", name])
    assert daemonset(made)[1]["spec"] == spec
    assert made.label() == label


def test_a_daemonset_of_a_revision_that_nobody_wants_is_not_made_up(made: Cluster) -> None:
    name, found = daemonset(made)
    value = found["metadata"]["labels"][names.DRIVER_VARIANT]
    made.merge("GPUDriver", "main", {"spec": {"version": NEXT}})
    made.drop(resources.DAEMONSET, name)
    made.execute(made.planned("Variant", value).actions, names.MANAGER_DRIVER)

    assert ("DaemonSet", name) not in made.objects
