"""A real Prometheus that scrapes a cluster of `sim`, as a cluster's own would by the chart's PodMonitors.

Jobs are named as the pods' label `app`; a node's exporter has the node as a label, and kube-state-metrics' own
labels stand. Everything is on loopback, and ends with the `with` block.
"""

from __future__ import annotations

import json
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import yaml

from controllers.api import names
from controllers.components.build import object_name
from sim import controlplane
from sim.controlplane.ports import free_ports
from sim.module.processes import MODULES
from sim.nodes.exporter import STATE_PATH
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from pathlib import Path

    from sim.controlplane import ControlPlane

HOST: Final = "127.0.0.1"
AGENT: Final = "simulated-agent"
DROPPED: Final = "pod|namespace|container"
"""Labels that the exporter's own pod gives to none of its samples; where there are such, they are the workload's."""
START_SECONDS: Final = 120.0
ATTEMPT_SECONDS: Final = 10.0


def config(plane: ControlPlane, nodes: Iterable[str], rules: Path | None, every: float) -> dict[str, Any]:
    """Prometheus' configuration for what runs in the cluster; `every` is in seconds."""
    processes = controlplane.status(plane.dir).processes
    jobs: list[dict[str, Any]] = []
    for name in MODULES:
        replicas = {at: found for at, found in processes.items() if at == name or at.startswith(f"{name}-")}
        targets = [_target(found.ports["health"], pod=at, namespace=names.NAMESPACE) for at, found in replicas.items()]
        jobs.append({"job_name": name, "static_configs": targets})
    port = processes[AGENT].ports["exporters"]
    for node in nodes:
        name = object_name("dcgm-exporter")
        job: dict[str, Any] = {"job_name": f"{name}-{node}", "metrics_path": f"/nodes/{node}/metrics"}
        own = {"pod": f"{name}-{node}", "namespace": names.NAMESPACE, "container": "dcgm-exporter"}
        job |= {"honor_labels": True, "relabel_configs": [{"action": "labeldrop", "regex": DROPPED}]}
        jobs.append(job | {"static_configs": [_target(port, node=node, job=name, **own)]})
    state = {"job_name": "kube-state-metrics", "metrics_path": STATE_PATH, "honor_labels": True}
    jobs.append(state | {"static_configs": [_target(port)]})
    interval = f"{int(every * 1000)}ms"
    return {
        "global": {"scrape_interval": interval, "scrape_timeout": interval, "evaluation_interval": interval},
        "rule_files": [str(rules)] if rules is not None else [],
        "scrape_configs": jobs,
    }


def _target(port: int, **labels: str) -> dict[str, Any]:
    return {"targets": [f"{HOST}:{port}"], "labels": labels}


@dataclass(frozen=True, slots=True)
class Prometheus:
    """One that answers."""

    url: str

    def ask(self, path: str, **query: str) -> Any:
        """The data of an answer; raises UserError with what Prometheus says of the query."""
        url = f"{self.url}/api/v1/{path}?{urllib.parse.urlencode(query)}"
        try:
            with urllib.request.urlopen(url, timeout=ATTEMPT_SECONDS) as answer:  # noqa: S310 - our own address
                return json.load(answer)["data"]
        except urllib.error.HTTPError as error:
            raise UserError(f"{path} {query}: {error.read().decode(errors='replace')}") from error

    def samples(self, expr: str, since: float, step: float = 1.0) -> list[tuple[dict[str, str], list[float]]]:
        """Each series' values from `since` (seconds of Unix time) until now."""
        found = self.ask("query_range", query=expr, start=str(since), end=str(time.time()), step=str(step))["result"]
        return [(series["metric"], [float(value) for _, value in series["values"]]) for series in found]

    @property
    def unreached(self) -> list[str]:
        """Targets that do not answer, with what is wrong; before any is known, that."""
        active = self.ask("targets", state="active")["activeTargets"]
        if not active:
            return ["no target is known yet"]
        return [f"{one['scrapeUrl']}: {one['lastError'] or one['health']}" for one in active if one["health"] != "up"]


@contextmanager
def running(program: Path, folder: Path, settings: dict[str, Any]) -> Iterator[Prometheus]:
    """Run Prometheus with its data in `folder`; raises UserError where it does not begin to serve."""
    (port,) = free_ports(1)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "prometheus.yml").write_text(yaml.safe_dump(settings))
    argv = [str(program), f"--config.file={folder / 'prometheus.yml'}", f"--storage.tsdb.path={folder / 'data'}"]
    argv += [f"--web.listen-address={HOST}:{port}", "--log.level=warn"]
    with (folder / "prometheus.log").open("wb") as log, subprocess.Popen(argv, stdout=log, stderr=log) as process:
        try:
            _wait(process, f"http://{HOST}:{port}", folder / "prometheus.log")
            yield Prometheus(f"http://{HOST}:{port}")
        finally:
            process.terminate()
            process.wait(START_SECONDS)


def _wait(process: subprocess.Popen[bytes], url: str, log: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urllib.request.urlopen(f"{url}/-/ready", timeout=ATTEMPT_SECONDS):  # noqa: S310 - our own address
                return
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise UserError(f"Prometheus does not serve at {url}:\n{log.read_text()[-2000:]}") from None
        time.sleep(0.1)
