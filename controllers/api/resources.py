"""The kinds of objects that the module reads or writes, and their API paths."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final
from urllib.parse import quote

from controllers.api import names

_SAFE: Final = ":"
"""Not quoted in a name: that of an RBAC object may have it."""


@dataclass(frozen=True, slots=True)
class Resource:
    """One kind in one API version, as the API server's paths spell it."""

    group: str
    version: str
    plural: str
    kind: str
    namespaced: bool

    @property
    def api_version(self) -> str:
        """`group/version`, or the version alone for the core group."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str | None = None, name: str | None = None, subresource: str | None = None) -> str:
        """The URL path of the collection, of one object, or of its subresource."""
        root = f"/apis/{self.group}/{self.version}" if self.group else f"/api/{self.version}"
        # A name out of a file may hold what ends a path, or begins a query.
        scope = f"/namespaces/{quote(namespace, _SAFE)}" if self.namespaced and namespace else ""
        parts = "".join(f"/{quote(part, _SAFE)}" for part in (name, subresource) if part)
        return f"{root}{scope}/{self.plural}{parts}"


GPUDEVICE: Final = Resource(names.GROUP, names.VERSION, "gpudevices", "GPUDevice", namespaced=False)
GPUNODEINVENTORY: Final = Resource(
    names.GROUP, names.VERSION, "gpunodeinventories", "GPUNodeInventory", namespaced=False
)
GPUPOOL: Final = Resource(names.GROUP, names.VERSION, "gpupools", "GPUPool", namespaced=False)
GPUDRIVER: Final = Resource(names.GROUP, names.VERSION, "gpudrivers", "GPUDriver", namespaced=False)
MODULECONFIG: Final = Resource("deckhouse.io", "v1alpha1", "moduleconfigs", "ModuleConfig", namespaced=False)
NODEFEATURE: Final = Resource("nfd.k8s-sigs.io", "v1alpha1", "nodefeatures", "NodeFeature", namespaced=True)
NODEFEATURERULE: Final = Resource(
    "nfd.k8s-sigs.io", "v1alpha1", "nodefeaturerules", "NodeFeatureRule", namespaced=False
)

NODE: Final = Resource("", "v1", "nodes", "Node", namespaced=False)
POD: Final = Resource("", "v1", "pods", "Pod", namespaced=True)
RESOURCECLAIM: Final = Resource("resource.k8s.io", "v1", "resourceclaims", "ResourceClaim", namespaced=True)
NAMESPACE: Final = Resource("", "v1", "namespaces", "Namespace", namespaced=False)
CONFIGMAP: Final = Resource("", "v1", "configmaps", "ConfigMap", namespaced=True)
SECRET: Final = Resource("", "v1", "secrets", "Secret", namespaced=True)
EVENT: Final = Resource("events.k8s.io", "v1", "events", "Event", namespaced=True)
DEPLOYMENT: Final = Resource("apps", "v1", "deployments", "Deployment", namespaced=True)
DAEMONSET: Final = Resource("apps", "v1", "daemonsets", "DaemonSet", namespaced=True)
RUNTIMECLASS: Final = Resource("node.k8s.io", "v1", "runtimeclasses", "RuntimeClass", namespaced=False)
LEASE: Final = Resource("coordination.k8s.io", "v1", "leases", "Lease", namespaced=True)
CRD: Final = Resource(
    "apiextensions.k8s.io", "v1", "customresourcedefinitions", "CustomResourceDefinition", namespaced=False
)
MUTATING_WEBHOOK: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "mutatingwebhookconfigurations",
    "MutatingWebhookConfiguration",
    namespaced=False,
)
VALIDATING_WEBHOOK: Final = Resource(
    "admissionregistration.k8s.io",
    "v1",
    "validatingwebhookconfigurations",
    "ValidatingWebhookConfiguration",
    namespaced=False,
)
