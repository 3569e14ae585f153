"""Values of GPU Operator's chart as the objects that the chart makes of them. Pure."""

from __future__ import annotations

from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

POLICY: Final = "cluster-policy"
"""The ClusterPolicy that the chart makes."""
DRIVER: Final = "default"
"""The NVIDIADriver that it makes where drivers are objects of their own."""
CLUSTER: Final = "draDriver"
"""What an import calls the GPUCluster that the chart makes, by the values that it is made of."""
_NO_OBJECTS: Final = frozenset(
    ("platform", "nfd", "node-feature-discovery", "clusterPolicy", "gpuCluster", "draDriver", "extraObjects", "global")
)
"""Keys that are no part of a ClusterPolicy."""
_OF_OPERATOR: Final = frozenset(
    (
        *("repository", "image", "version", "imagePullPolicy", "imagePullSecrets", "env", "resources", "logging"),
        *("priorityClassName", "nodeSelector", "tolerations", "affinity", "cleanupCRD", "upgradeCRD"),
    )
)
"""Keys of `operator` that are of its own Deployment, and no part of a ClusterPolicy; any other is named."""
_RENAMED: Final = {"repoConfig": ("configMapName", "name"), "virtualTopology": ("config", "name")}


def is_values(document: Mapping[str, Any]) -> bool:
    """Whether a document is the chart's values: no object has these keys beside no kind."""
    return "kind" not in document and bool({"driver", "toolkit", "devicePlugin", "operator"} & {*document})


def of_values(values: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """The ConfigMaps, the ClusterPolicy, the GPUCluster and the NVIDIADriver."""
    spec = {key: deepcopy(value) for key, value in values.items() if key not in _NO_OBJECTS}
    if isinstance(operator := spec.get("operator"), dict):
        spec["operator"] = {key: value for key, value in operator.items() if key not in _OF_OPERATOR}
    for part in ("devicePlugin", "migManager"):
        yield from _config_map(spec.get(part))
    driver = spec.get("driver")
    separate = _renamed_policy(driver) if isinstance(driver, dict) else {}
    yield {
        "apiVersion": "nvidia.com/v1",
        "kind": "ClusterPolicy",
        "metadata": {"name": POLICY},
        "spec": spec,
    }
    if _is_on(values.get("gpuCluster"), "deployCR") or _is_on(values.get("draDriver"), "enabled"):
        yield {"apiVersion": "nvidia.com/v1alpha1", "kind": "GPUCluster", "metadata": {"name": CLUSTER}}
    if isinstance(driver, dict) and separate.get("enabled") and separate.get("deployDefaultCR", True):
        yield _driver(driver, separate, spec)


def _is_on(part: Any, key: str) -> bool:
    return isinstance(part, dict) and part.get(key) is True


def _config_map(part: Any) -> Iterator[dict[str, Any]]:
    """The ConfigMap that the chart makes of a part's values, which are no fields of a ClusterPolicy."""
    config = part.get("config") if isinstance(part, dict) else None
    if not isinstance(config, dict):
        return
    made, data = config.pop("create", False), config.pop("data", None)
    if made and data:
        yield {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": config.get("name")}, "data": data}


def _renamed_policy(driver: dict[str, Any]) -> dict[str, Any]:
    """Give values of the driver the names that a ClusterPolicy has; returns what is said of NVIDIADrivers."""
    said = driver.pop("nvidiaDriverCRD", None)
    separate = said if isinstance(said, dict) else {}
    if separate.get("enabled"):
        driver["useNvidiaDriverCRD"] = True
    policy = driver.get("upgradePolicy")
    if isinstance(policy, dict) and "gpuPodDeletion" in policy:
        policy["podDeletion"] = policy.pop("gpuPodDeletion")
    return separate


def _driver(driver: Mapping[str, Any], separate: Mapping[str, Any], spec: Mapping[str, Any]) -> dict[str, Any]:
    """The NVIDIADriver: what the ClusterPolicy says of the driver, under the names of its kind."""
    made = {key: deepcopy(value) for key, value in driver.items() if key not in ("enabled", "useNvidiaDriverCRD")}
    for key, (former, name) in _RENAMED.items():
        if isinstance(group := made.pop(key, None), dict):
            made["virtualTopologyConfig" if key == "virtualTopology" else key] = {name: group.get(former)}
    selector = separate.get("nodeSelector") or {}
    made |= {key: spec[key] for key in ("gds", "gdrcopy") if key in spec}
    made |= {"driverType": separate.get("driverType", "gpu"), "default": not selector, "nodeSelector": selector}
    return {
        "apiVersion": "nvidia.com/v1alpha1",
        "kind": "NVIDIADriver",
        "metadata": {"name": DRIVER},
        "spec": made,
    }
