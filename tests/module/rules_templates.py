"""Rules of dmt's linter `templates`: what goes with what, and what a template may not say."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.module.module import Module

WORKLOADS = ("Deployment", "DaemonSet", "StatefulSet")
WERF = re.compile(r"werf\.io/(weight|deploy-dependency-.+)")
DATASOURCE = ("$ds_prometheus", "${ds_prometheus}")
DASHBOARDS = "monitoring/grafana-dashboards/"


def autoscaled(module: Module) -> Iterator[str]:
    """Each workload has a VPA with bounds for each container."""
    found = {
        (v["spec"]["targetRef"]["kind"], v["spec"]["targetRef"]["name"]): v
        for _, v in module.of("VerticalPodAutoscaler")
    }
    for name, item in module.of(*WORKLOADS):
        vpa = found.get((item["kind"], name))
        if vpa is None:
            yield f"{item['kind']} {name}: no VPA"
            continue
        if vpa["spec"].get("updatePolicy", {}).get("updateMode", "Auto") == "Auto":
            yield f"{item['kind']} {name}: updateMode"
        bounds = {p["containerName"]: p for p in vpa["spec"].get("resourcePolicy", {}).get("containerPolicies", ())}
        for container in item["spec"]["template"]["spec"]["containers"]:
            policy = bounds.get(container["name"], {})
            if not policy.keys() >= {"minAllowed", "maxAllowed"}:
                yield f"{item['kind']} {name}/{container['name']}: no bounds"


def budgeted(module: Module) -> Iterator[str]:
    """Each Deployment has a disruption budget that selects its pods."""
    selectors = [b["spec"]["selector"]["matchLabels"].items() for _, b in module.of("PodDisruptionBudget")]
    for name, item in module.of("Deployment", "StatefulSet"):
        labels = item["spec"]["template"]["metadata"]["labels"].items()
        if not any(selector <= labels for selector in selectors):
            yield f"{item['kind']} {name}: no PodDisruptionBudget"


def proxy_authority(module: Module) -> Iterator[str]:
    """Each namespace has what kube-rbac-proxy trusts."""
    there = {o["metadata"]["namespace"] for name, o in module.of("ConfigMap") if name == "kube-rbac-proxy-ca.crt"}
    yield from (
        f"Namespace {name}: no kube-rbac-proxy-ca.crt" for name, _ in module.of("Namespace") if name not in there
    )


def named_ports(module: Module) -> Iterator[str]:
    """A Service names the container's port."""
    for name, service in module.of("Service"):
        for port in service["spec"]["ports"]:
            if not isinstance(port.get("targetPort"), str):
                yield f"Service {name}: targetPort {port.get('targetPort')}"


def webhooks_in_order(module: Module) -> Iterator[str]:
    """A webhook configuration comes after what answers it."""
    for name, item in module.of("MutatingWebhookConfiguration", "ValidatingWebhookConfiguration"):
        if not any(WERF.fullmatch(key) for key in item["metadata"].get("annotations", {})):
            yield f"{item['kind']} {name}: no werf.io/weight"


def rules_included(module: Module) -> Iterator[str]:
    """What is in monitoring/ is rendered."""
    templates = "".join(text for path, text in module.files.items() if path.startswith("templates/"))
    for folder, helpers in (
        ("monitoring/prometheus-rules/", ('include "helm_lib_prometheus_rules',)),
        (DASHBOARDS, ('include "helm_lib_grafana_dashboard_definitions',)),
    ):
        if any(path.startswith(folder) for path in module.files) and not any(h in templates for h in helpers):
            yield f"{folder} is included by no template"


def no_cluster_domain(module: Module) -> Iterator[str]:
    """The cluster's domain is a setting of the platform."""
    for path, text in module.files.items():
        if path.startswith("templates/") and "cluster.local" in text:
            yield f"{path}: cluster.local"


def registry_secret(module: Module) -> Iterator[str]:
    """The platform's credentials, and those of the module's own source."""
    text = module.files.get("templates/registry-secret.yaml", "")
    for value in (".Values.global.modulesImages.registry.dockercfg", ".Values.gpuControlPlane.registry.dockercfg"):
        if value not in text:
            yield f"templates/registry-secret.yaml: {value}"


def capabilities(module: Module) -> Iterator[str]:
    """What is served is asked of the API server, not of a list of modules; no name says that it is a CRD."""
    for path, text in module.files.items():
        if path.startswith("templates/") and "enabledModules" in text:
            yield f"{path}: enabledModules"
    yield from (
        f"{o['kind']} {o['metadata']['name']}" for _, o in module.objects if o["metadata"]["name"].endswith("-crd")
    )


def _panels(board: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for panel in board.get("panels", ()):
        yield panel
        yield from _panels(panel)


def dashboards(module: Module) -> Iterator[str]:
    """Valid JSON whose panels ask the data source that the viewer chose, and which bring no alerts."""
    for path, text in module.files.items():
        if not (path.startswith(DASHBOARDS) and path.endswith(".json")):
            continue
        try:
            board = json.loads(text)
        except ValueError:
            yield f"{path}: no JSON"
            continue
        variables = {v["name"]: v for v in board.get("templating", {}).get("list", ())}
        source = variables.get("ds_prometheus", {})
        if (source.get("type"), source.get("query")) != ("datasource", "prometheus"):
            yield f"{path}: variable ds_prometheus"
        for panel in _panels(board):
            if "alert" in panel:
                yield f"{path}: {panel.get('title')}: alert"
            chosen = (panel.get("datasource") or {}).get("uid")
            if panel.get("targets") and chosen not in DATASOURCE:
                yield f"{path}: {panel.get('title')}: data source {chosen}"


RULES = (
    *(autoscaled, budgeted, proxy_authority, named_ports, webhooks_in_order, rules_included, no_cluster_domain),
    *(registry_secret, capabilities, dashboards),
)
