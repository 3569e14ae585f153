"""Rules of dmt's linter `container`: what objects, pods and containers say."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.module.module import NAME

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.module.module import Module

RBAC = "rbac.authorization.k8s.io/v1"
VERSIONS = dict.fromkeys(("Role", "RoleBinding", "ClusterRole", "ClusterRoleBinding"), RBAC) | {
    "Deployment": "apps/v1",
    "DaemonSet": "apps/v1",
    "Job": "batch/v1",
    "CronJob": "batch/v1",
    "PodDisruptionBudget": "policy/v1",
    "NetworkPolicy": "networking.k8s.io/v1",
    "VerticalPodAutoscaler": "autoscaling.k8s.io/v1",
    "ValidatingAdmissionPolicy": "admissionregistration.k8s.io/v1",
}
PRIORITIES = {
    "system-node-critical", "system-cluster-critical", "production-high", "cluster-medium", "production-medium",
    "deployment-machinery", "production-low", "staging", "cluster-low", "develop", "standby",
}  # fmt: skip
USERS = {(64535, 64535), (65534, 65534), (0, 0)}
HOST_PORTS = range(4200, 4300)
PRIVILEGED_PORTS = 1024


def labels(module: Module) -> Iterator[str]:
    """Every object says whose it is."""
    for _, item in module.objects:
        found = item["metadata"].get("labels", {})
        if (found.get("heritage"), found.get("module")) != ("deckhouse", NAME):
            yield f"{item['kind']} {item['metadata']['name']}: labels module and heritage"


def api_versions(module: Module) -> Iterator[str]:
    """No old versions of APIs."""
    for name, item in module.of(*VERSIONS):
        if item["apiVersion"] != VERSIONS[item["kind"]]:
            yield f"{item['kind']} {name}: {item['apiVersion']}"


def rules_watched(module: Module) -> Iterator[str]:
    """Deckhouse's Prometheus reads rules of namespaces with a label."""
    for name, item in module.of("Namespace"):
        if item["metadata"]["labels"].get("prometheus.deckhouse.io/rules-watcher-enabled") != "true":
            yield f"Namespace {name}: rules-watcher-enabled"


def priority(module: Module) -> Iterator[str]:
    """One of the platform's priority classes."""
    for where, pod in module.pods():
        if "CronJob" not in where and pod.get("priorityClassName") not in PRIORITIES:
            yield f"{where}: priorityClassName {pod.get('priorityClassName')}"


def host_network(module: Module) -> Iterator[str]:
    """On the nodes' network: the platform's ports, and names that still resolve."""
    for where, pod in module.pods():
        if not pod.get("hostNetwork"):
            continue
        if pod.get("dnsPolicy") != "ClusterFirstWithHostNet":
            yield f"{where}: dnsPolicy"
        for port in (p for c in pod["containers"] for p in c.get("ports", ())):
            if port["containerPort"] not in HOST_PORTS:
                yield f"{where}: port {port['containerPort']}"


def pod_user(module: Module) -> Iterator[str]:
    """The platform's users, not root by mistake."""
    for where, pod in module.pods():
        user = pod.get("securityContext", {})
        pair = (user.get("runAsUser"), user.get("runAsGroup"))
        if pair not in USERS or user.get("runAsNonRoot") is not (pair[0] != 0):
            yield f"{where}: securityContext {user}"


def revisions(module: Module) -> Iterator[str]:
    """No heap of old ReplicaSets."""
    for name, item in module.of("Deployment", "DaemonSet", "StatefulSet"):
        if item["spec"].get("revisionHistoryLimit", 10) > 2:
            yield f"{item['kind']} {name}: revisionHistoryLimit"


def unique_names(module: Module) -> Iterator[str]:
    """No container, and no variable, twice."""
    for where, pod in module.pods():
        names = [c["name"] for c in pod["containers"]]
        if len(names) != len(set(names)):
            yield f"{where}: containers {names}"
    for where, container in module.containers():
        names = [e["name"] for e in container.get("env", ())]
        if len(names) != len(set(names)):
            yield f"{where}: env {names}"


def hardened(module: Module) -> Iterator[str]:
    """Nothing is written to the root file system, nobody gains privileges, system calls are filtered."""
    pods = dict(module.pods())
    for where, container in module.containers():
        own, pod = container.get("securityContext", {}), pods[where.rpartition("/")[0]].get("securityContext", {})
        if not own.get("readOnlyRootFilesystem"):
            yield f"{where}: readOnlyRootFilesystem"
        if own.get("allowPrivilegeEscalation") is not False:
            yield f"{where}: allowPrivilegeEscalation"
        if (own.get("seccompProfile") or pod.get("seccompProfile")) != {"type": "RuntimeDefault"}:
            yield f"{where}: seccompProfile"


def images(module: Module) -> Iterator[str]:
    """By digest from the module's own registry, and not pulled at every start."""
    for where, container in module.containers():
        if not container["image"].startswith("registry.example/modules/") or "@sha256:" not in container["image"]:
            yield f"{where}: image {container['image']}"
        if container.get("imagePullPolicy", "IfNotPresent") == "Always":
            yield f"{where}: imagePullPolicy"


def storage(module: Module) -> Iterator[str]:
    """Logs take room on the node's disk."""
    for where, container in module.containers():
        if "ephemeral-storage" not in container.get("resources", {}).get("requests", {}):
            yield f"{where}: ephemeral-storage"


def ports(module: Module) -> Iterator[str]:
    """None that only root may open."""
    for where, container in module.containers():
        for port in container.get("ports", ()):
            if port["containerPort"] <= PRIVILEGED_PORTS:
                yield f"{where}: port {port['containerPort']}"


def probes(module: Module) -> Iterator[str]:
    """Whatever runs for ever says that it does."""
    for where, container in module.containers():
        if not where.startswith(("Job", "CronJob")):
            yield from (f"{where}: {p}" for p in ("livenessProbe", "readinessProbe") if p not in container)


RULES = (
    labels, api_versions, rules_watched, priority, host_network, pod_user, revisions, unique_names, hardened, images,
    storage, ports, probes,
)  # fmt: skip
