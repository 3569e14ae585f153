"""The custom resources' definitions that a cluster needs, and whether one may be written over what is there. Pure.

They are made from the contract (`controllers.api.crdgen`), as `crds/` is, since an image carries no YAML. The
definition of ModuleConfig is Deckhouse's; a cluster without Deckhouse gets one with the same interface.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from controllers.api import names, resources
from controllers.api.conditions import is_true
from controllers.api.crdgen import crd
from controllers.api.gpudevice import GPUDevice
from controllers.api.gpudriver import GPUDriver
from controllers.api.gpunodeinventory import GPUNodeInventory
from controllers.api.gpupool import GPUPool
from controllers.install.observed import MODULE_CONFIGS, is_ours
from controllers.install.schema import losses

if TYPE_CHECKING:
    from controllers.install.observed import Definition

ESTABLISHED = "Established"


@dataclass(frozen=True, slots=True)
class Verdict:
    """What is to be done about one definition."""

    write: bool
    reason: str = ""
    """Why it is not written; a sentence for people."""
    refused: bool = False
    """Whether that is an error."""
    is_waiting: bool = False
    """Whether it may be written later: `why` says after what."""


def wanted() -> dict[str, dict[str, Any]]:
    """Every definition by its name."""
    made = [
        crd(resources.GPUDEVICE, GPUDevice),
        crd(resources.GPUNODEINVENTORY, GPUNodeInventory),
        crd(resources.GPUPOOL, GPUPool),
        crd(resources.GPUDRIVER, GPUDriver),
        _module_config(),
    ]
    return {one["metadata"]["name"]: one for one in made}


def evaluate_definition(there: Definition | None, want: dict[str, Any], *, allow_downgrade: bool = False) -> Verdict:
    """Whether a definition may be written over the one that is there."""
    if there is None:
        return Verdict(write=True)
    name = want["metadata"]["name"]
    if there.metadata.deletion_timestamp is not None:  # what is written now would go with it
        return Verdict(
            write=False, reason=f"{name}, which is being deleted, to be gone with its objects", is_waiting=True
        )
    if name == MODULE_CONFIGS and not is_ours(there):
        return Verdict(write=False, reason=f"{name} is there and not ours: it is left as it is.")
    if (lost := _lost(there, want)) and not allow_downgrade:
        shown = "; ".join(lost[:5]) + (f"; and {len(lost) - 5} more" if len(lost) > 5 else "")  # noqa: PLR2004
        why = (
            f"{name} would lose what stored objects may have ({shown}). The cluster had a newer version of the module:"
            " install that or a later one; or, where those values may be lost, run this with --allow-downgrade"
            " (by Helm: --set gpuControlPlane.hooks.allowDowngrade=true)."
        )
        return Verdict(write=False, reason=why, refused=True)
    return Verdict(write=True)


def is_established(there: Definition | None) -> bool:
    """Whether the API server serves the kind."""
    return there is not None and is_true(there.status.conditions, ESTABLISHED)


def _lost(there: Definition, want: dict[str, Any]) -> list[str]:
    versions = {version["name"]: version for version in want["spec"]["versions"]}
    found = [f"version {version}, in which objects are stored" for version in there.status.stored_versions]
    found = [text for text, version in zip(found, there.status.stored_versions, strict=True) if version not in versions]
    for version in there.spec.get("versions", ()):
        if (now := versions.get(version["name"])) is not None:
            found += losses(_schema(version), _schema(now))
    return found


def _schema(version: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = version.get("schema", {}).get("openAPIV3Schema", {})
    return found


def _module_config() -> dict[str, Any]:
    """ModuleConfig as far as its interface goes; `settings` are validated by our webhook and processes."""
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    spec = {
        "type": "object",
        "description": "What the administrator sets.",
        "properties": {
            "enabled": {"type": "boolean", "description": "Whether the module runs; it does when left out."},
            "version": {"type": "integer", "description": "Version of the settings' schema."},
            "settings": {"description": "Settings of the module; docs/ and openapi/config-values.yaml.", **free},
        },
    }
    kind = resources.MODULECONFIG
    version = {
        "name": kind.version,
        "served": True,
        "storage": True,
        "additionalPrinterColumns": [
            {"name": "Enabled", "type": "boolean", "jsonPath": ".spec.enabled"},
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
        ],
        "schema": {
            "openAPIV3Schema": {
                "type": "object",
                "description": "Settings of one module; the object is named as the module.",
                "required": ["spec"],
                "properties": {
                    "apiVersion": {"type": "string"},
                    "kind": {"type": "string"},
                    "metadata": {"type": "object"},
                    "spec": spec,
                },
            }
        },
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {
            "name": MODULE_CONFIGS,
            "labels": {names.LABEL_HERITAGE: "deckhouse", names.LABEL_MODULE: names.MODULE},
        },
        "spec": {
            "group": kind.group,
            "scope": "Cluster",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "shortNames": ["mc"],
            },
            "versions": [version],
        },
    }
