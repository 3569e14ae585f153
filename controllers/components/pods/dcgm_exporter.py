"""NVIDIA's DCGM exporter: telemetry of the cards, and which pods use them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.components import DCGM, EXPORTER
from controllers.components import podspec
from controllers.components.builder import Builder
from controllers.components.pods import collectors
from controllers.components.pods.dcgm import DCGM_PORT

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from controllers.components.builder import Inputs
    from controllers.components.podspec import Json

EXPORTER_PORT: Final = 4256
"""On the host's network, so from the range that Deckhouse leaves to modules."""
COLLECTORS: Final = "gpu-dcgm-exporter"
"""The ConfigMap that carries the list of what the exporter asks for."""
RESOURCES: Final = "NVIDIA_RESOURCE_NAMES"
"""Extended resources, parted by commas, whose pods the exporter names beside those of nvidia.com/gpu and
nvidia.com/mig-*. It compares whole names and reads them once, when it starts (dcgm-exporter,
internal/pkg/transformation/kubernetes.go)."""


def pod(given: Inputs) -> Json:
    """Telemetry as text; through the host engine where that runs, else with an engine of its own."""
    runs_engine = given.settings.enabled(DCGM)
    env = {
        "DCGM_EXPORTER_LISTEN": f":{EXPORTER_PORT}",
        "DCGM_EXPORTER_KUBERNETES": "true",
        "DCGM_EXPORTER_COLLECTORS": f"{collectors.FOLDER}/{collectors.FILE}",
        # Milliseconds; 30 s unless told. Half of our period: no two of our readings in a row are one of its, whatever
        # the two clocks do.
        "DCGM_EXPORTER_INTERVAL": str(round(500 * given.settings.monitoring.scrape_period)),
        names.VISIBLE_DEVICES: "all",
        # Root has what it may have without it, and one that asks for more is not started (exporters before 4.5).
        "NO_SETCAP": "true",
    }
    if runs_engine:
        env["DCGM_REMOTE_HOSTENGINE_INFO"] = f"127.0.0.1:{DCGM_PORT}"
    health = {"httpGet": {"path": "/health", "port": "metrics"}}
    container = {
        "name": EXPORTER,
        "image": given.image,
        "env": [*podspec.env(env), podspec.from_field("NODE_NAME", "spec.nodeName")],
        # Its start refreshes the cache of libraries, in the image's own /etc.
        "securityContext": podspec.root(add=[] if runs_engine else ["SYS_ADMIN"], read_only=False),
        "resources": podspec.resources("50m", "128Mi", "512Mi"),
        "ports": [{"name": "metrics", "containerPort": EXPORTER_PORT, "protocol": "TCP"}],
        "readinessProbe": podspec.probe(health, 5),
        "livenessProbe": podspec.probe(health, 30),
        "volumeMounts": [
            podspec.mount("pod-resources", "/var/lib/kubelet/pod-resources", read_only=True),
            podspec.mount("collectors", collectors.FOLDER, read_only=True),
        ],
    }
    made = podspec.on_host_network(container, "pod-resources")
    made["volumes"].append({"name": "collectors", "configMap": {"name": COLLECTORS}})
    return _naming(made, given.resources)


def _naming(pod: Json, resources: Sequence[str]) -> Json:
    """The exporter's pod, which says of a card that it is used through one of these resources by which pod."""
    if not resources:
        return pod
    container, *helpers = pod["containers"]
    made = container | {"env": [*container["env"], *podspec.env({RESOURCES: ",".join(resources)})]}
    return pod | {"containers": [made, *helpers]}


def named(spec: Mapping[str, Json]) -> list[str]:
    """The resources of ours that a DaemonSet of the exporter tells it."""
    containers = spec.get("template", {}).get("spec", {}).get("containers") or [{}]
    values = (one.get("value") or "" for one in containers[0].get("env") or () if one.get("name") == RESOURCES)
    return [name for value in values for name in value.split(",") if name.startswith(names.PREFIX)]


BUILDER: Final = Builder(pod, {names.COLLECTORS_HASH: collectors.HASH}, {collectors.FILE: collectors.TEXT})
