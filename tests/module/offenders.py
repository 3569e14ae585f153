"""What breaks each rule: a rule, and how the module would have to be for it to say so."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.module import rules_container, rules_files, rules_rbac, rules_templates
from tests.module.module import Module
from tests.templates import harness

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

HOOK, POOLS, DISCOVER = "gpu-admission-webhook", "gpupool-controller", "gpu-nodeagent-discover"
USER = "d8:user-authz:gpu-control-plane:user"
VIEW = "d8:manage:permission:module:gpu-control-plane:view"
BOARD = "monitoring/grafana-dashboards/gpu/counter-example.json"
SECRET = "templates/registry-secret.yaml"
RUSSIAN = "\u043f\u0440\u0438\u0432\u0435\u0442"


def changed(kind: str, name: str, change: Callable[[dict[str, Any]], object]) -> Callable[[Module], Module]:
    """An object is otherwise."""
    return lambda m: m.changed(kind, name, change)


def without(kind: str, name: str) -> Callable[[Module], Module]:
    """An object is not there."""
    return lambda m: m.without(kind, name)


def moved(kind: str, name: str, template: str) -> Callable[[Module], Module]:
    """An object is in another template."""
    return lambda m: m.moved(kind, name, template)


def ingress(module: Module) -> Module:
    """There is an Ingress."""
    return Module(module.files, (*module.objects, ("a", {"kind": "Ingress", "metadata": {"name": "a"}})))


def no_monitoring(module: Module) -> Module:
    """There are rules that no template includes."""
    return Module({"monitoring/prometheus-rules/a.yaml": "", "templates/a.yaml": ""}, module.objects)


def pod(change: Callable[[dict[str, Any]], object]) -> Callable[[Module], Module]:
    """The webhook's pods are otherwise."""
    return changed("Deployment", HOOK, lambda o: change(o["spec"]["template"]["spec"]))


def container(change: Callable[[dict[str, Any]], object]) -> Callable[[Module], Module]:
    """The webhook's container is otherwise."""
    return pod(lambda spec: change(spec["containers"][0]))


def edit(path: str, old: str, new: str) -> Callable[[Module], Module]:
    """A file says something else."""
    return lambda m: m.edited(path, old, new)


def add(path: str, text: str = "") -> Callable[[Module], Module]:
    """There is one file more."""
    return lambda m: m.file(path, text)


def board(panel: str = "{}", query: str = "prometheus") -> Callable[[Module], Module]:
    """There is a dashboard more."""
    variable = f'{{"name": "ds_prometheus", "type": "datasource", "query": "{query}"}}'
    return add(BOARD, f'{{"templating": {{"list": [{variable}]}}, "panels": [{panel}]}}')


OFFENDERS: list[tuple[Callable[[Module], Iterator[str]], Callable[[Module], Module]]] = [
    (rules_container.labels, changed("Service", HOOK, lambda o: o["metadata"]["labels"].pop("heritage"))),
    (
        rules_container.api_versions,
        changed("PodDisruptionBudget", HOOK, lambda o: o.update(apiVersion="policy/v1beta1")),
    ),
    (rules_container.rules_watched, changed("Namespace", harness.NAMESPACE, lambda o: o["metadata"]["labels"].clear())),
    (rules_container.priority, pod(lambda s: s.pop("priorityClassName"))),
    (rules_container.host_network, pod(lambda s: s.update(hostNetwork=True))),
    (rules_container.host_network, pod(lambda s: s.update(hostNetwork=True, dnsPolicy="ClusterFirstWithHostNet"))),
    (rules_container.pod_user, pod(lambda s: s["securityContext"].update(runAsUser=1000))),
    (rules_container.revisions, changed("DaemonSet", DISCOVER, lambda o: o["spec"].pop("revisionHistoryLimit"))),
    (rules_container.unique_names, pod(lambda s: s["containers"].append(s["containers"][0]))),
    (rules_container.unique_names, container(lambda c: c.update(env=[{"name": "A"}, {"name": "A"}]))),
    (rules_container.hardened, container(lambda c: c["securityContext"].pop("readOnlyRootFilesystem"))),
    (rules_container.hardened, container(lambda c: c["securityContext"].update(allowPrivilegeEscalation=True))),
    (rules_container.images, container(lambda c: c.update(image="elsewhere/webhook:latest"))),
    (rules_container.images, container(lambda c: c.update(imagePullPolicy="Always"))),
    (rules_container.storage, container(lambda c: c["resources"]["requests"].pop("ephemeral-storage"))),
    (rules_container.ports, container(lambda c: c["ports"].append({"name": "web", "containerPort": 443}))),
    (rules_container.probes, container(lambda c: c.pop("livenessProbe"))),
    (rules_rbac.user_authz, changed("ClusterRole", USER, lambda o: o["metadata"].pop("annotations"))),
    (
        rules_rbac.user_authz,
        changed(
            "ClusterRole", USER, lambda o: o["metadata"]["annotations"].update({rules_rbac.ANNOTATION: "ClusterAdmin"})
        ),
    ),
    (rules_rbac.placement, moved("ServiceAccount", HOOK, f"templates/{HOOK}/rbac.yaml")),
    (rules_rbac.placement, moved("ServiceAccount", HOOK, "templates/webhook/rbac-for-us.yaml")),
    (
        rules_rbac.placement,
        changed("ClusterRole", f"d8:gpu-control-plane:{HOOK}", lambda o: o["metadata"].update(name="webhook")),
    ),
    (rules_rbac.wildcards, changed("Role", HOOK, lambda o: o["rules"].append({"apiGroups": [""], "resources": ["*"]}))),
    (rules_rbac.subjects, without("ServiceAccount", POOLS)),
    (rules_rbac.levels, changed("ClusterRole", VIEW, lambda o: o["metadata"]["labels"].clear())),
    (rules_templates.autoscaled, without("VerticalPodAutoscaler", DISCOVER)),
    (rules_templates.autoscaled, changed("VerticalPodAutoscaler", HOOK, lambda o: o["spec"].pop("resourcePolicy"))),
    (rules_templates.autoscaled, changed("VerticalPodAutoscaler", HOOK, lambda o: o["spec"].pop("updatePolicy"))),
    (rules_templates.budgeted, without("PodDisruptionBudget", POOLS)),
    (rules_templates.proxy_authority, without("ConfigMap", "kube-rbac-proxy-ca.crt")),
    (rules_templates.named_ports, changed("Service", HOOK, lambda o: o["spec"]["ports"][0].update(targetPort=9443))),
    (
        rules_templates.webhooks_in_order,
        changed("MutatingWebhookConfiguration", "gpu-control-plane", lambda o: o["metadata"].pop("annotations")),
    ),
    (rules_templates.rules_included, no_monitoring),
    (rules_templates.no_cluster_domain, add("templates/a.yaml", "name.ns.svc.cluster.local")),
    (rules_templates.registry_secret, edit(SECRET, ".global.modulesImages", ".global.images")),
    (rules_templates.capabilities, add("templates/a.yaml", "{{ if has .Values.global.enabledModules }}")),
    (rules_templates.dashboards, add(BOARD, "{")),
    (rules_templates.dashboards, board(query="loki")),
    (rules_templates.dashboards, board('{"alert": {}}')),
    (rules_templates.dashboards, board('{"targets": [1], "datasource": {"uid": "main"}}')),
    (rules_files.translated, add("docs/ONLY.ru.md")),
    (rules_files.translated, add("docs/README.md", RUSSIAN)),
    (rules_files.translated, add("docs/README.md", "---\ntitle: a\nlang: en\n---\n")),
    (rules_files.certificates_for_ingresses, ingress),
    (rules_files.slim_images, add("images/a/Dockerfile", "FROM ${BASE}\n")),
    (rules_files.slim_images, add("images/a/Dockerfile", "FROM golang:1 AS build\nFROM scratch\n")),
    (rules_files.slim_images, add("images/a/werf.inc.yaml", "artifact: build\n")),
    (rules_files.slim_images, add("images/a/patches/fix.diff")),
    (rules_files.definition, edit("module.yaml", "stage:", "phase:")),
    (rules_files.definition, edit("module.yaml", "critical:", "weight: 900\ncritical:")),
    (rules_files.definition, add("enabled")),
    (rules_files.conversions, edit("openapi/config-values.yaml", "x-config-version: 2", "x-config-version: 3")),
    (rules_files.conversions, edit("openapi/conversions/v2.yaml", "version: 2", "version: 3")),
    (rules_files.conversions, edit("openapi/conversions/v2.yaml", "  en:", "  de:")),
    (rules_files.open_source, edit("oss.yaml", "  license: PSF-2.0\n", "")),
    (rules_files.open_source, edit("oss.yaml", "- id: aiohttp", "- id: python")),
    (rules_files.helm_ignores, edit(".helmignore", "/openapi/\n", "")),
    (rules_files.no_cyrillic, add("openapi/other.yaml", RUSSIAN)),
    (rules_files.openapi, edit("openapi/config-values.yaml", "- Manual", "- manual")),
    (rules_files.openapi, lambda m: m.file("openapi/doc-ru-config-values.yaml", None)),
    (rules_files.definitions, lambda m: m.file("crds/doc-ru-gpupool.yaml", None)),
    (rules_files.definitions, edit("crds/gpupool.yaml", "module: gpu-control-plane", "module: other")),
]
