"""For each setting that the chart alone follows what comes of it: where the objects that Helm renders show it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

Objects = dict[tuple[str, str], dict[str, Any]]
"""By kind and name."""
PROCESSES = ("gpu-admission-webhook", "gpu-bootstrap-controller", "gpu-inventory-controller", "gpupool-controller")
AGENT = "gpu-nodeagent-discover"
HOST, PORT = "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"


@dataclass(frozen=True)
class Shown:
    """A value of a setting, and where it is seen."""

    value: Any
    look: Callable[[Objects], Any]
    found: Any
    """What is seen with the value, and not without it."""
    beside: dict[str, Any] | None = None
    """Other settings that it needs, by their paths."""


def template(objects: Objects, kind: str, name: str) -> dict[str, Any]:
    """The pod of a Deployment or DaemonSet."""
    found: dict[str, Any] = objects[kind, name]["spec"]["template"]["spec"]
    return found


def variables(objects: Objects, *names: str) -> list[str | None]:
    """Values of the discovery agent's variables."""
    env = {one["name"]: one.get("value") for one in template(objects, "DaemonSet", AGENT)["containers"][0]["env"]}
    return [env.get(name) for name in names]


def passed(objects: Objects, flag: str) -> list[list[str]]:
    """What the two processes that make agents' pods are told by a flag."""
    makers = ("gpu-bootstrap-controller", "gpupool-controller")
    args = (template(objects, "Deployment", name)["containers"][0]["args"] for name in makers)
    return [[one.partition("=")[2] for one in each if one.startswith(f"{flag}=")] for each in args]


def replicas(objects: Objects) -> list[int]:
    return [objects["Deployment", name]["spec"]["replicas"] for name in PROCESSES]


def selectors(objects: Objects) -> list[Any]:
    return [template(objects, "Deployment", name).get("nodeSelector") for name in PROCESSES]


def ingress(objects: Objects, name: str, port: str) -> Any:
    """From where a port of a process may be reached."""
    rules = objects["NetworkPolicy", name]["spec"]["ingress"]
    return next(rule.get("from") for rule in rules if rule["ports"][0]["port"] == port)


def scrapers(objects: Objects) -> list[Any]:
    found = [ingress(objects, name, "https-metrics")[0]["namespaceSelector"] for name in PROCESSES]
    return [one.get("matchExpressions", [{}])[0].get("values") for one in found]


def api_server(objects: Objects) -> list[Any]:
    return [variables(objects, HOST, PORT), passed(objects, "--agent-api-server-host")]


def ports(objects: Objects) -> list[Any]:
    return [variables(objects, PORT), passed(objects, "--agent-api-server-port")]


def driver_root(objects: Objects) -> list[Any]:
    """What the agent is told, the folder that it mounts for that, and what the makers of other agents are told."""
    volumes = template(objects, "DaemonSet", AGENT)["volumes"]
    mounted = [volume["hostPath"]["path"] for volume in volumes if volume["name"] == "driver"]
    return [variables(objects, "HOST_DRIVER_ROOT"), mounted, passed(objects, "--agent-driver-root")]


def status_writers(objects: Objects) -> bool:
    return '"jane"' in str(objects["ValidatingAdmissionPolicy", "gpu-control-plane-status-owners"])


def reserved(objects: Objects) -> bool:
    return ("ValidatingAdmissionPolicy", "gpu-control-plane-runtime-classes") in objects


def quotas(objects: Objects) -> list[Any]:
    found = [one for (kind, _), one in objects.items() if kind == "ResourceQuota"]
    return [(one["metadata"]["namespace"], one["spec"]["hard"]) for one in found]


def operation_policy(objects: Objects) -> str | None:
    found = objects.get(("OperationPolicy", "gpu-control-plane"))
    return found["spec"]["enforcementAction"] if found else None


def cron(field: str) -> Callable[[Objects], Any]:
    return lambda objects: objects["CronJob", "gpu-nfd-coverage"]["spec"][field]


def fifth_process(objects: Objects) -> bool:
    return ("Deployment", "gpu-driver-controller") in objects


def console_runs(objects: Objects) -> bool:
    return ("Deployment", "gpu-console") in objects


def console_reach(objects: Objects) -> Any:
    found = ingress(objects, "gpu-console", "pages") if console_runs(objects) else None
    return found[0]["namespaceSelector"].get("matchExpressions", [{}])[0].get("values") if found else None


def console_names(objects: Objects) -> list[str] | None:
    if not console_runs(objects):
        return None
    args = template(objects, "Deployment", "gpu-console")["containers"][0]["args"]
    return [one.partition("=")[2] for one in args if one.startswith("--served-as=")]


CONSOLE = {"console.enabled": True}
ADDRESS = {"nodeAgent.apiServer.host": "192.0.2.1"}
SHOWN: dict[str, Shown] = {
    "highAvailability": Shown(True, replicas, [2, 2, 2, 2]),
    "driver.enabled": Shown(True, fifth_process, True),
    "nodeSelector": Shown({"role": "system"}, selectors, [{"role": "system"}] * 4),
    "webhook.askedFrom": Shown(
        ["192.0.2.1/32"],
        lambda objects: ingress(objects, "gpu-admission-webhook", "https"),
        [{"ipBlock": {"cidr": "192.0.2.1/32"}}],
    ),
    "controllers.scrapedFrom": Shown(["d8-monitoring"], scrapers, [["d8-monitoring"]] * 4),
    "console.enabled": Shown(True, console_runs, True),
    "console.reachedFrom": Shown(["d8-proxy"], console_reach, ["d8-proxy"], CONSOLE),
    "console.servedAs": Shown(["gpu.example.com"], console_names, ["gpu.example.com"], CONSOLE),
    "nfdCoverage.schedule": Shown("0 1 * * *", cron("schedule"), "0 1 * * *"),
    "nfdCoverage.suspend": Shown(False, cron("suspend"), False),
    "nodeAgent.apiServer.host": Shown("192.0.2.1", api_server, [["192.0.2.1", "443"], [["192.0.2.1"]] * 2]),
    "nodeAgent.apiServer.port": Shown("6443", ports, [["6443"], [["6443"]] * 2], ADDRESS),
    "nodeAgent.discover.driverRoot": Shown(
        "/opt/driver", driver_root, [["/opt/driver"], ["/opt/driver"], [["/opt/driver"], []]]
    ),
    "policies.statusWriters": Shown(["jane"], status_writers, True),
    "policies.reserveRuntimeClasses": Shown(True, reserved, True),
    "presets.quotas": Shown(
        [{"namespace": "team-a", "pools": {"training": 4}}],
        quotas,
        [("team-a", {"requests.gpu.deckhouse.io/training": "4"})],
    ),
    "presets.operationPolicy.enabled": Shown(True, operation_policy, "Warn"),
    "presets.operationPolicy.enforcementAction": Shown(
        "Deny", operation_policy, "Deny", {"presets.operationPolicy.enabled": True}
    ),
}


def nested(values: dict[str, Any]) -> dict[str, Any]:
    """Settings by their paths, as a ModuleConfig and the chart's values have them."""
    made: dict[str, Any] = {}
    for path, value in values.items():
        *groups, name = path.split(".")
        here = made
        for group in groups:
            here = here.setdefault(group, {})
        here[name] = value
    return made
