"""What the chart renders of all this: rules, dashboards and PodMonitors, only where their kinds are served."""

from __future__ import annotations

from collections import Counter
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers.api import names
from controllers.api.gpupool import GPUPool
from controllers.api.meta import ObjectMeta
from controllers.api.settings import BootstrapSettings
from controllers.components.build import daemonsets
from controllers.domain.mig.configmap import COMPONENT as MIG_MANAGER
from controllers.gpupool.operands import device_plugin, mig_manager
from controllers.runtime.readers import SUBRESOURCE
from sim.module.processes import MODULES, OPTIONAL
from tests.docs.site import anchors
from tests.kit import prometheus
from tests.monitoring.rules import ROOT, groups
from tests.monitoring.test_dashboards import BOARDS
from tests.templates.harness import objects, programs, render
from tests.templates.test_matrix import DECKHOUSE

APIS = (
    "monitoring.coreos.com/v1/PrometheusRule",
    "monitoring.coreos.com/v1/PodMonitor",
    "deckhouse.io/v1/GrafanaDashboardDefinition",
)
MONITORING = "gpuControlPlane.monitoring"
SITE = "https://deckhouse.io/modules/gpu-control-plane/alerts.html"
READS = "access-to-gpu-control-plane-prometheus-metrics"
KINDS = {api.rpartition("/")[2] for api in APIS}


@cache
def rendered(*apis: str) -> tuple[dict[str, Any], ...]:
    return tuple(one for one in objects(render(programs()["helm"], apis=apis)) if one["kind"] in KINDS)


def of(kind: str) -> list[dict[str, Any]]:
    return [one for one in rendered(*APIS) if one["kind"] == kind]


def test_nothing_is_rendered_where_nobody_serves_it() -> None:
    assert rendered() == ()
    for api in APIS:
        assert {one["kind"] for one in rendered(api)} == {api.rpartition("/")[2]}


def test_every_rule_is_rendered_as_its_file_has_it() -> None:
    found = [group for one in of("PrometheusRule") for group in one["spec"]["groups"]]
    linked = yaml.safe_load(yaml.safe_dump(list(groups())).replace("docs/alerts.md#", f"{SITE}#"))
    assert sorted(found, key=lambda group: group["name"]) == sorted(linked, key=lambda group: group["name"])
    for one in of("PrometheusRule"):
        assert {"prometheus": "main", "component": "rules"}.items() <= one["metadata"]["labels"].items()


def test_every_dashboard_is_rendered() -> None:
    found = Counter(yaml.safe_load(one["spec"]["definition"])["uid"] for one in of("GrafanaDashboardDefinition"))
    assert found == Counter(board["uid"] for board in BOARDS.values())


def test_all_that_has_metrics_is_read() -> None:
    monitors = {one["metadata"]["name"]: one["spec"] for one in of("PodMonitor")}
    (apps,) = monitors["gpu-control-plane"]["selector"]["matchExpressions"]
    assert set(apps["values"]) == {*MODULES, *OPTIONAL, names.CONSOLE}
    (components,) = monitors["gpu-nodeagent"]["selector"]["matchExpressions"]
    made = daemonsets(BootstrapSettings())
    pool = GPUPool(metadata=ObjectMeta(name="a"))
    made |= {"plugin": device_plugin.daemonset(pool, "image"), "mig": mig_manager.daemonset(pool, "image")}
    health = {
        template["metadata"]["labels"][names.LABEL_COMPONENT]: port["name"]
        for one in made.values()
        for template in [one["spec"]["template"]]
        for container in template["spec"]["containers"]
        for port in container.get("ports", ())
        if port["name"] != "health"
    }
    ours = {component for component, port in health.items() if port == "https-metrics"}
    assert set(components["values"]) == ours | {"discover"}  # whose DaemonSet the chart has itself
    assert {device_plugin.PLUGIN, MIG_MANAGER} <= ours
    assert monitors["gpu-dcgm-exporter"]["selector"]["matchLabels"] == {names.LABEL_COMPONENT: "dcgm-exporter"}
    assert health["dcgm-exporter"] == monitors["gpu-dcgm-exporter"]["podMetricsEndpoints"][0]["port"] == "metrics"


def test_only_a_workload_is_named_on_an_exporters_samples() -> None:
    (endpoint,) = next(one for one in of("PodMonitor") if one["metadata"]["name"] == "gpu-dcgm-exporter")["spec"][
        "podMetricsEndpoints"
    ]
    assert endpoint["honorLabels"] is True
    assert endpoint["relabelings"][-1] == {"action": "labeldrop", "regex": prometheus.DROPPED}


def test_a_job_is_named_as_the_alerts_know_it() -> None:
    assert {one["spec"]["jobLabel"] for one in of("PodMonitor")} == {"app"}
    assert {one["metadata"]["namespace"] for one in of("PodMonitor")} == {names.NAMESPACE}


def test_our_programs_are_read_over_tls_with_a_token() -> None:
    for name in ("gpu-control-plane", "gpu-nodeagent"):
        (endpoint,) = next(one for one in of("PodMonitor") if one["metadata"]["name"] == name)["spec"][
            "podMetricsEndpoints"
        ]
        assert (endpoint["port"], endpoint["scheme"], endpoint["path"]) == ("https-metrics", "https", "/metrics")
        assert endpoint["authorization"] == {"credentials": {"name": "prometheus-token", "key": "token"}}
        assert endpoint["tlsConfig"] == {"insecureSkipVerify": True}


@pytest.mark.parametrize(
    ("values", "sets", "namespace"),
    [((), (), names.NAMESPACE), ((DECKHOUSE,), (), "d8-monitoring"), ((), (f"{MONITORING}.namespace=ops",), "ops")],
)
def test_the_token_is_beside_the_monitors(values: tuple[Path, ...], sets: tuple[str, ...], namespace: str) -> None:
    text = render(programs()["helm"], *sets, apis=APIS[1:2], values=values)
    monitors = [one for one in objects(text) if one["kind"] == "PodMonitor"]
    assert {one["metadata"]["namespace"] for one in monitors} == {namespace}
    assert {str(one["spec"]["namespaceSelector"]) for one in monitors} == {str({"matchNames": [names.NAMESPACE]})}


def test_who_may_read_comes_from_values() -> None:
    sets = (f"{MONITORING}.scrapers[0].kind=Group", f"{MONITORING}.scrapers[0].name=sre")
    (made,) = [
        one for one in objects(render(programs()["helm"], *sets)) if one["kind"] == "RoleBinding" and READS in str(one)
    ]
    assert made["subjects"] == [{"kind": "Group", "name": "sre", "apiGroup": "rbac.authorization.k8s.io"}]
    (role,) = [
        one for one in objects(render(programs()["helm"])) if one["kind"] == "Role" and READS in str(one["metadata"])
    ]
    assert role["rules"] == [
        {
            "apiGroups": ["apps"],
            "resources": [f"{kind}/{SUBRESOURCE}" for kind in ("deployments", "daemonsets")],
            "verbs": ["get"],
        }
    ]


@pytest.mark.parametrize(
    ("sets", "page"),
    [
        ((), SITE),
        ((f"{MONITORING}.runbook=https://git.example/docs/alerts.md",), "https://git.example/docs/alerts.md"),
        (
            ("global.modules.publicDomainTemplate=%s.k8s.example",),
            "https://documentation.k8s.example/modules/gpu-control-plane/alerts.html",
        ),
        (
            ("global.modules.publicDomainTemplate=%s.k8s.example", "global.modules.https.mode=Disabled"),
            "http://documentation.k8s.example/modules/gpu-control-plane/alerts.html",
        ),
    ],
)
def test_every_alert_links_to_a_heading_of_a_page_that_people_can_open(sets: tuple[str, ...], page: str) -> None:
    made = objects(render(programs()["helm"], *sets, apis=APIS[:1]))
    rules = [r for one in made if one["kind"] == "PrometheusRule" for g in one["spec"]["groups"] for r in g["rules"]]
    links = {rule["alert"]: rule["annotations"]["runbook_url"].partition("#") for rule in rules}
    assert len(links) > 10
    assert {base for base, _, _ in links.values()} == {page}
    assert {fragment for _, _, fragment in links.values()} <= anchors(ROOT / "docs" / "alerts.md")
    assert all(fragment == alert.lower() for alert, (_, _, fragment) in links.items())
