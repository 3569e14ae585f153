"""Each Deployment's command, flags and environment start its program, and its probe is answered."""

from __future__ import annotations

import ssl
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pytest

from controllers.api import names
from tests.kit import prometheus
from tests.kit.worker_plane import WorkerPlane
from tests.templates import harness
from tests.templates.containers import at_this_server, running, the_container
from tools.programs import prometheus_package

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.cluster
OPTIONAL = (names.DRIVER_CONTROLLER, names.CONSOLE)
PROCESSES = (names.INVENTORY, names.BOOTSTRAP, names.POOL_CONTROLLER, names.WEBHOOK, *OPTIONAL)
BASE = "gpuControlPlane.controllers"
MONITOR = "monitoring.coreos.com/v1/PodMonitor"
PROMETHEUS = prometheus_package.find("prometheus")
READY_SECONDS = 180


@pytest.fixture(scope="module")
def plane(worker_plane: WorkerPlane) -> harness.Kube:
    """An API server of its own with the chart in force: the processes act on what they find."""
    return worker_plane.take("deployments", _installed)


@contextmanager
def _installed(folder: Path) -> Iterator[harness.Kube]:
    with harness.scratch(folder) as kube:
        done = harness.install(kube)
        assert done.returncode == 0, done.stderr
        for plural in ("gpudevices", "gpunodeinventories", "gpupools", "gpudrivers"):
            path = f"{harness.GROUP}/{plural}"
            harness.eventually(lambda path=path: kube.get(path).code == 200, f"{plural} are not served")
        yield kube


def deployments(*sets: str) -> dict[str, dict[str, Any]]:
    """The rendered Deployments by name."""
    rendered = harness.objects(harness.render(harness.programs()["helm"], harness.DRIVERS, harness.CONSOLE, *sets))
    return {o["metadata"]["name"]: o for o in rendered if o["kind"] == "Deployment"}


def answer(port: int, path: str) -> tuple[int, str]:
    """What its health port says; 0 while nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=20) as got:
            return got.status, got.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def scraped(port: int, token: str | None) -> tuple[int, str]:
    """What the metrics' port says to who shows that token; 0 while nobody answers. Its certificate is nobody's."""
    request = urllib.request.Request(f"https://127.0.0.1:{port}/metrics")
    if token is not None:
        request.add_header("Authorization", f"Bearer {token}")
    tls = ssl.create_default_context()
    tls.check_hostname, tls.verify_mode = False, ssl.CERT_NONE
    try:
        with urllib.request.urlopen(request, context=tls, timeout=20) as got:  # noqa: S310 - https
            return got.status, got.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)


def prometheus_token(plane: harness.Kube) -> str:
    """A token of Deckhouse's Prometheus, which the chart lets read."""
    plane.create("/api/v1/namespaces", {"metadata": {"name": "d8-monitoring"}})
    plane.create("/api/v1/namespaces/d8-monitoring/serviceaccounts", {"metadata": {"name": "prometheus"}})
    return plane.token_for("prometheus", namespace="d8-monitoring")


@pytest.mark.parametrize("name", PROCESSES)
def test_a_deployment_starts_its_program_until_it_is_ready(plane: harness.Kube, tmp_path: Path, name: str) -> None:
    sets = (f"{BASE}.hostNetwork=true", f"{BASE}.listen=127.0.0.1", *at_this_server(plane))
    container = the_container(deployments(*sets)[name])
    ports = {item["name"]: item["containerPort"] for item in container["ports"]}
    probes = {kind: container[kind]["httpGet"] for kind in ("readinessProbe", "livenessProbe")}
    with running(plane, tmp_path / "pod", container, name) as (process, log):
        deadline = time.monotonic() + READY_SECONDS
        told = (0, "")
        while told[0] != 200:
            assert process.poll() is None, log.read_text()[-3000:]
            assert time.monotonic() < deadline, f"{told}\n{log.read_text()[-3000:]}"
            time.sleep(0.1)
            told = answer(ports[probes["readinessProbe"]["port"]], probes["readinessProbe"]["path"])
        assert answer(ports[probes["livenessProbe"]["port"]], probes["livenessProbe"]["path"])[0] == 200
        assert answer(ports["health"], "/metrics")[0] == 404
        told = scraped(ports["https-metrics"], None)
        while told[0] == 0:  # its certificate is being made
            assert time.monotonic() < deadline, f"{told}\n{log.read_text()[-3000:]}"
            time.sleep(0.1)
            told = scraped(ports["https-metrics"], None)
        assert told[0] == 401
        assert scraped(ports["https-metrics"], "forged")[0] == 401
        code, text = scraped(ports["https-metrics"], plane.token_for(name))
        assert (code, f"get deployments/prometheus-metrics {name} in namespace d8-gpu-operator" in text) == (403, True)
        code, text = scraped(ports["https-metrics"], prometheus_token(plane))
        assert (code, "process_resident_memory_bytes" in text) == (200, True)


def job(ports: dict[str, int], token: Path) -> dict[str, Any]:
    """How Prometheus reads a process on this machine, as the Prometheus operator makes it of the chart's PodMonitor."""
    rendered = harness.objects(harness.render(harness.programs()["helm"], apis=(MONITOR,)))
    monitors = {o["metadata"]["name"]: o["spec"]["podMetricsEndpoints"] for o in rendered if o["kind"] == "PodMonitor"}
    (endpoint,) = monitors["gpu-control-plane"]
    return {
        "job_name": "it", "scheme": endpoint["scheme"], "metrics_path": endpoint["path"],
        "tls_config": {"insecure_skip_verify": endpoint["tlsConfig"]["insecureSkipVerify"]},
        "authorization": {"type": "Bearer", "credentials_file": str(token)},
        "static_configs": [{"targets": [f"127.0.0.1:{ports[endpoint['port']]}"]}],
    }  # fmt: skip


@pytest.mark.more("a real Prometheus")
@pytest.mark.skipif(PROMETHEUS is None, reason=prometheus_package.MISSING)
def test_prometheus_reads_it_as_the_chart_says(plane: harness.Kube, tmp_path: Path) -> None:
    name = names.INVENTORY
    sets = (f"{BASE}.hostNetwork=true", f"{BASE}.listen=127.0.0.1", *at_this_server(plane))
    container = the_container(deployments(*sets)[name])
    ports = {item["name"]: item["containerPort"] for item in container["ports"]}
    (tmp_path / "token").write_text(prometheus_token(plane))
    settings = {"global": {"scrape_interval": "1s"}, "scrape_configs": [job(ports, tmp_path / "token")]}
    assert PROMETHEUS is not None
    with (
        running(plane, tmp_path / "pod", container, name),
        prometheus.running(PROMETHEUS, tmp_path / "prometheus", settings) as made,
    ):
        deadline = time.monotonic() + READY_SECONDS
        while made.unreached:
            assert time.monotonic() < deadline, made.unreached
            time.sleep(0.2)
        assert made.ask("query", query="gpu_metrics_reads_total")["result"]


def test_a_wrong_flag_would_be_found(plane: harness.Kube, tmp_path: Path) -> None:
    container = the_container(deployments(*at_this_server(plane))[names.WEBHOOK])
    container["args"] = [*container["args"], "--no-such-flag"]
    with running(plane, tmp_path / "pod", container, names.WEBHOOK) as (process, log):
        assert process.wait(READY_SECONDS) == 2
        assert "unrecognized arguments: --no-such-flag" in log.read_text()


@pytest.mark.parametrize(
    ("sets", "replicas", "webhooks"),
    [
        ((), 1, 2),
        (("gpuControlPlane.highAvailability=true",), 2, 2),
        (("gpuControlPlane.highAvailability=false", f"{BASE}.hostNetwork=true"), 1, 1),
        (("gpuControlPlane.highAvailability=true", f"{BASE}.hostNetwork=true"), 2, 2),
        (("gpuControlPlane.webhook.replicas=3",), 1, 3),
    ],
)
def test_no_update_takes_the_last_webhook_away(sets: tuple[str, ...], replicas: int, webhooks: int) -> None:
    found = deployments(*sets)
    counts = {name: found[name]["spec"]["replicas"] for name in PROCESSES}
    assert counts == {name: webhooks if name == names.WEBHOOK else replicas for name in PROCESSES}
    for name in PROCESSES:
        spec = found[name]["spec"]
        rolling, on_host = spec["strategy"]["rollingUpdate"], spec["template"]["spec"].get("hostNetwork", False)
        # A single replica on the node's network is the one that cannot overlap with its successor.
        assert counts[name] - rolling["maxUnavailable"] >= (0 if on_host and counts[name] == 1 else 1), name
        # Where every replica must have a node of its own, or a port of its node, none may come beside them.
        required = "requiredDuringSchedulingIgnoredDuringExecution"
        alone = required in spec["template"]["spec"].get("affinity", {}).get("podAntiAffinity", {})
        assert rolling["maxSurge"] == 0 or not (alone or on_host), name


def test_on_the_nodes_network_every_port_is_another() -> None:
    found = deployments(f"{BASE}.hostNetwork=true")
    ports = [port["containerPort"] for name in PROCESSES for port in the_container(found[name])["ports"]]
    # 4255 and 4256 are DCGM's and its exporter's.
    assert sorted(ports) == [4250, 4251, 4252, 4253, 4254, 4257, 4258, 4259, 4260, 4261, 4262, 4263, 4264, 4265]
    assert {found[name]["spec"]["template"]["spec"]["dnsPolicy"] for name in PROCESSES} == {"ClusterFirstWithHostNet"}


def test_whoever_runs_the_programs_in_another_way_gets_no_deployment() -> None:
    assert deployments(f"{BASE}.deploy=false") == {}


@pytest.mark.parametrize("name", OPTIONAL)
def test_who_is_optional_comes_only_where_it_is_asked_for(name: str) -> None:
    rendered = harness.objects(harness.render(harness.programs()["helm"]))

    assert [o["kind"] for o in rendered if o["metadata"]["name"] == name] == []
