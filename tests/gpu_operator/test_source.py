"""What an import reads out of files, and what has to be over before it."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from controllers.api.foreign import UPGRADE_STATE
from controllers.api.foreign import WAITS_TO_LOAD as SAFE_LOAD
from controllers.explain.faults import UsageError
from controllers.gpu_operator.imported import imported
from controllers.gpu_operator.preconditions import WAS_CORDONED, preconditions
from controllers.gpu_operator.source import config_maps_named, namespace_of, read
from tests.gpu_operator.given import config_map, kinds, node, nvidia_driver, of, policy, remarks, usual

PARTED = {
    "version": "v1",
    "mig-configs": {"a": [{"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": 7}}]},
}


def values(**more: Any) -> dict[str, Any]:
    """Values of the chart: what a ClusterPolicy says, with what the chart alone has."""
    made = usual() | {"nfd": {"enabled": True}, "platform": {"openshift": False}, "node-feature-discovery": {"gc": {}}}
    made["operator"] |= {"repository": "nvcr.io/nvidia", "logging": {"level": "info"}, "cleanupCRD": False}
    made["driver"]["upgradePolicy"]["gpuPodDeletion"] = made["driver"]["upgradePolicy"].pop("podDeletion")
    made["driver"].pop("useNvidiaDriverCRD")
    for key, value in more.items():
        made[key] = made.get(key, {}) | value
    return made


def from_text(*documents: Any) -> Any:
    return imported(read([("values.yaml", yaml.safe_dump_all(documents))]))


def test_values_of_the_chart_are_what_the_chart_makes_of_them() -> None:
    made, installed = from_text(values()), of(policy(**usual()))
    assert (made.objects, made.remarks) == (installed.objects, installed.remarks)


@pytest.mark.parametrize("more", [{"draDriver": {"enabled": True}}, {"gpuCluster": {"deployCR": True}}])
def test_values_that_ask_for_resource_claims_have_a_remark(more: dict[str, Any]) -> None:
    assert "GPUCluster draDriver" in remarks(from_text(values(**more)), "NoCounterpart")
    off = {"draDriver": {"image": "x"}, "gpuCluster": {"deployCR": False}}
    assert "GPUCluster draDriver" not in remarks(from_text(values(**off)))


def test_a_key_of_the_operators_values_that_nobody_knows_is_named() -> None:
    assert "operator.sharding" in remarks(from_text(values(operator={"sharding": 3})), "Unknown")
    assert remarks(from_text(values(operator={"metrics": {"serviceMonitor": {"interval": "15s"}}})), "Unknown") == {}


def test_configmaps_that_the_chart_makes_are_read_out_of_its_values() -> None:
    config = {
        "create": True,
        "name": "parted",
        "default": "all-disabled",
        "data": {"config.yaml": yaml.safe_dump(PARTED)},
    }
    made = from_text(values(migManager={"config": config}))
    assert kinds(made, "GPUPool")["a"]["allocation"] == {"mode": "MIG", "migProfile": "1g.10gb"}


def test_values_that_make_drivers_objects_of_their_own_make_the_default_one() -> None:
    crd = {"enabled": True, "deployDefaultCR": True, "driverType": "gpu", "nodeSelector": {}}
    made = from_text(values(driver={"nvidiaDriverCRD": crd, "repoConfig": {"configMapName": "r"}}))
    (name,) = kinds(made, "GPUDriver")
    spec = kinds(made, "GPUDriver")[name]
    assert (name, spec["priority"], spec["version"]) == ("default", -1000, "595.91.07")
    assert spec["build"] == {"repositories": {"configMap": "r"}}
    assert remarks(made, "Unknown") == {}
    narrow = from_text(values(driver={"nvidiaDriverCRD": crd | {"nodeSelector": {"a": "b"}}}))
    assert kinds(narrow, "GPUDriver")["default"]["target"] == {"nodeSelector": {"matchLabels": {"a": "b"}}}


def test_lists_of_kubectl_are_read_and_other_objects_count_for_nothing() -> None:
    other = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}}
    cluster = {"apiVersion": "nvidia.com/v1alpha1", "kind": "GPUCluster", "metadata": {"name": "dra"}}
    listed = {"apiVersion": "v1", "kind": "List", "items": [policy(), nvidia_driver(), other, cluster]}
    source = read([("all.yaml", yaml.safe_dump(listed))])
    assert (len(source.policies), len(source.drivers), source.is_empty) == (1, 1, False)
    assert "GPUCluster dra" in remarks(imported(source), "NoCounterpart")
    assert read([("a", ""), ("b", yaml.safe_dump(other))]).is_empty


GARBAGE = ("x: 2024-13-45", "[" * 3000, "kind: List\nitems: 5", "kind: ConfigMap\nmetadata: x\ndata: x")


@pytest.mark.parametrize(
    "text", ["{", "just words", "- 3", "apiVersion: nvidia.com/v1\nkind: ClusterPolicy\n", *GARBAGE]
)
def test_another_file_is_a_mistake_in_words(text: str) -> None:
    with pytest.raises(UsageError):
        imported(read([("given.yaml", text)]))


def test_the_oldest_clusterpolicy_counts_as_it_does_for_the_operator() -> None:
    first, second = policy(), policy(toolkit={"enabled": False})
    first["metadata"] |= {"name": "b", "creationTimestamp": "2026-01-01T00:00:00Z"}
    second["metadata"] |= {"name": "a", "creationTimestamp": "2026-01-02T00:00:00Z"}
    made = of(second, first)
    assert "toolkit" not in str(kinds(made, "ModuleConfig"))
    assert "ClusterPolicy a" in remarks(made, "Refused")


def test_what_is_read_beside_is_known_by_name() -> None:
    spec = {"devicePlugin": {"config": {"name": "shares"}}, "driver": {"kernelModuleConfig": {"name": "params"}}}
    own = policy(**spec) | {"status": {"namespace": "gpu"}}
    documents = [own, nvidia_driver(kernelModuleConfig={"name": "more"}), config_map("x", a="b")]
    source = read([("a", yaml.safe_dump_all(documents))])
    assert config_maps_named(source) == {"shares", "params", "more", "default-mig-parted-config"}
    assert (namespace_of(source), source.config_maps) == ("gpu", {"x": {"a": "b"}})


def test_an_upgrade_under_way_and_what_it_cordoned_come_first() -> None:
    def at(state: str, **more: Any) -> dict[str, Any]:
        return node(f"n-{state}", {UPGRADE_STATE: state}, **more) | {"spec": {"unschedulable": True}}

    nodes = [
        node("idle", {}), node("done", {UPGRADE_STATE: "upgrade-done"}), at("drain-required"),
        at("upgrade-failed", annotations={WAS_CORDONED: "true"}), node("waits", {}, annotations={SAFE_LOAD: "true"}),
    ]  # fmt: skip
    found = preconditions(nodes)
    assert len(found) == 4
    assert "(drain-required) of n-drain-required" in found[0]
    assert "(upgrade-failed) of n-upgrade-failed" in found[1]
    assert "cordoned n-drain-required," in found[2]
    assert "waits" in found[3]
    assert preconditions(nodes[:2]) == []
