"""The GPUDriver that does what a ClusterPolicy or an NVIDIADriver asked for. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controllers.api.resources import GPUDRIVER
from controllers.gpu_operator import driver_parts as parts
from controllers.gpu_operator.kernel_modules import kernel_modules
from controllers.gpu_operator.rollout import rollout

if TYPE_CHECKING:
    from collections.abc import Mapping

    from controllers.gpu_operator.remarks import Fields

FALLBACK: Final = -1000
"""Priority of the driver for nodes that no other one matches."""
TYPES: Final = {"": "Datacenter", "gpu": "Datacenter", "vgpu": "VGPUGuest"}


@dataclass(frozen=True, slots=True)
class Places:
    """Where an object has the fields that the two kinds spell in other ways."""

    name: str
    """The object's name, which is the GPUDriver's, too."""
    at: str
    """What stands before the driver's fields."""
    repositories: str
    topology: str


def brings_driver(fields: Fields) -> bool:
    """Whether a ClusterPolicy brings a driver by itself, and does not leave that to NVIDIADrivers or to the host."""
    return fields.flag("driver.enabled", usual=True) and not fields.flag("driver.useNvidiaDriverCRD", usual=False)


def of_policy(fields: Fields, name: str, config_maps: Mapping[str, Mapping[str, str]]) -> dict[str, Any] | None:
    """The GPUDriver of a ClusterPolicy; None where it brings no driver, or one that cannot be brought."""
    if not brings_driver(fields):
        return None
    places = Places(name, "driver.", "driver.repoConfig.configMapName", "driver.virtualTopology.config")
    if fields.text("driver.licensingConfig.configMapName"):
        fields.remark("Refused", "driver.licensingConfig.configMapName", _LICENCE)
    kind = "VGPUGuest" if fields.text("driver.licensingConfig.secretName") else "Datacenter"
    spec: dict[str, Any] = {"priority": FALLBACK, "type": kind}
    return _driver(fields, places, spec, config_maps)


def of_driver(fields: Fields, name: str, config_maps: Mapping[str, Mapping[str, str]]) -> dict[str, Any] | None:
    """The GPUDriver of an NVIDIADriver; None where it cannot be brought."""
    found = fields.text("driverType")
    if found not in TYPES:
        fields.remark("Refused", "driverType", "the module brings no driver of a vGPU host", found)
        return None
    if fields.text("licensingConfig.name"):
        fields.remark("Refused", "licensingConfig.name", _LICENCE)
    is_fallback = fields.flag("default", usual=False)
    spec: dict[str, Any] = {"priority": FALLBACK if is_fallback else 0, "type": TYPES[found]}
    if selector := _selector(fields):
        spec["target"] = {"nodeSelector": selector}
    places = Places(name, "", "repoConfig.name", "virtualTopologyConfig.name")
    return _driver(fields, places, spec, config_maps)


_LICENCE: Final = (
    "a ConfigMap with a licence is read by everybody who reads ConfigMaps: put gridd.conf and"
    " client_configuration_token.tok into a Secret, and name it in spec.licensing.secretName"
)
_TOPOLOGY: Final = "a topology of virtual switches is not given to drivers"


def _driver(
    fields: Fields, places: Places, spec: dict[str, Any], config_maps: Mapping[str, Mapping[str, str]]
) -> dict[str, Any] | None:
    at = places.at
    spec |= {"mode": "Precompiled" if fields.flag(f"{at}usePrecompiled", usual=False) else "Compiled"}
    version = parts.version_of(fields, at, spec["mode"])
    image = parts.image_of(fields, at)
    if version is None or image is None:
        return None
    spec |= {"version": version, "image": image, "flavour": parts.flavour_of(fields, at)}
    if fields.text(places.topology):
        fields.remark("Refused", places.topology, _TOPOLOGY, fields.take(places.topology))
    spec |= parts.build_of(fields, at, places.repositories)
    spec |= {"kernelModules": found} if (found := kernel_modules(fields, at, config_maps)) else {}
    spec |= parts.rdma_of(fields, at)
    for side in ("gds", "gdrcopy"):
        spec |= parts.beside_of(fields, side)
    spec |= parts.licence_of(fields, at, spec)
    spec |= {"resources": found} if (found := parts.resources_of(fields, f"{at}resources")) else {}
    spec["rollout"] = rollout(fields, at)
    return {
        "apiVersion": GPUDRIVER.api_version,
        "kind": GPUDRIVER.kind,
        "metadata": {"name": places.name},
        "spec": spec,
    }


def _selector(fields: Fields) -> dict[str, Any]:
    """Nodes by label: the selector, and what an affinity requires where that says the same as one."""
    made: dict[str, Any] = {}
    if labels := fields.group("nodeSelector"):
        made["matchLabels"] = {str(key): str(value) for key, value in labels.items()}
    required = f"nodeAffinity.{REQUIRED}"
    if fields.group(required):
        terms = fields.rows(f"{required}.nodeSelectorTerms")
        expressions = _expressions(terms[0]) if len(terms) == 1 else None
        if expressions is None:
            reason = "its nodes are chosen by labels of which all hold: In, NotIn, Exists, DoesNotExist, in one term"
            fields.remark("Refused", required, f"{reason}. Narrow spec.target of the GPUDriver by hand")
        else:
            made["matchExpressions"] = expressions
    if fields.take(f"nodeAffinity.{PREFERRED}"):
        reason = "nodes get a driver or not; none is preferred"
        fields.remark("NoCounterpart", f"nodeAffinity.{PREFERRED}", reason)
    return made


REQUIRED: Final = "requiredDuringSchedulingIgnoredDuringExecution"
PREFERRED: Final = "preferredDuringSchedulingIgnoredDuringExecution"
OPERATORS: Final = frozenset({"In", "NotIn", "Exists", "DoesNotExist"})


def _expressions(term: Mapping[str, Any]) -> list[dict[str, Any]] | None:
    """The expressions of a term; None where a selector cannot say the same."""
    found = term.get("matchExpressions")
    if not isinstance(found, list) or term.get("matchFields"):
        return None
    if not all(isinstance(one, dict) and one.get("operator") in OPERATORS for one in found):
        return None
    return [dict(one) for one in found] or None
