"""The components' objects: as reviewed, and restored when somebody edits them."""

from __future__ import annotations

import copy
import os
import subprocess
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers.api import names, resources
from controllers.api.foreign import TOOLKIT_PID
from controllers.api.settings import Settings, parse_settings
from controllers.bootstrap import components
from controllers.bootstrap.preparation.phases import PHASES
from controllers.components import build, images, podspec
from controllers.components.agent import Agent
from controllers.components.builder import Inputs
from controllers.components.cooldown import COOLDOWN
from controllers.components.pods import dcgm_exporter, toolkit
from controllers.domain.agents import api_server
from controllers.runtime.drift import covers
from controllers.runtime.plan import Apply, Delete
from tests.bootstrap.world import Cluster

GOLDEN = Path(__file__).parent / "golden"
ROOT = Path(__file__).parents[2]
UPDATE = bool(os.environ.get("UPDATE_GOLDEN"))
BUILT = build.daemonsets(Settings().bootstrap)
PODS = [(phase.name, BUILT[build.object_name(phase.name)]["spec"]["template"]["spec"]) for phase in PHASES]
VALIDATORS = ("driver-validator", "validator")
PRIVILEGED = ("toolkit",)  # writes the container runtime's configuration and restarts it; looks at the host's cards


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.execute(made.plan_components().actions, names.MANAGER_BOOTSTRAP)
    return made


def daemonset(cluster: Cluster, component: str) -> dict[str, Any]:
    return cluster.objects["DaemonSet", f"{names.NAMESPACE}/gpu-{component}"]


@pytest.mark.parametrize("name", sorted(BUILT))
def test_objects_are_as_reviewed(name: str) -> None:
    """`UPDATE_GOLDEN=1` writes them anew; the difference is then reviewed with the change."""
    text, file = yaml.safe_dump(BUILT[name], sort_keys=True, width=120), GOLDEN / f"{name}.yaml"
    if UPDATE:
        GOLDEN.mkdir(exist_ok=True)
        file.write_text(text)

    assert text == file.read_text()


def test_only_the_modules_own_programs_are_told_where_the_api_server_is() -> None:
    told = build.daemonsets(Settings().bootstrap, agent_env=api_server("192.0.2.1", "6443"))
    expected = [
        {"name": "KUBERNETES_SERVICE_HOST", "value": "192.0.2.1"},
        {"name": "KUBERNETES_SERVICE_PORT", "value": "6443"},
    ]

    # The toolkit's container of ours: test_toolkit_pod.py.
    changed = {name for name in BUILT if told[name] != BUILT[name]}
    assert changed == {f"gpu-{one}" for one in (*VALIDATORS, "toolkit")}
    for component in VALIDATORS:
        before, after = (each[f"gpu-{component}"]["spec"]["template"]["spec"] for each in (BUILT, told))
        assert after["containers"][0]["env"] == before["containers"][0]["env"] + expected
        assert [one | {"env": []} for one in after["containers"]] == [one | {"env": []} for one in before["containers"]]


def test_without_an_address_an_agent_finds_the_api_server_as_every_pod_does() -> None:
    assert (api_server(None, "6443"), api_server("", ""), api_server("api.example.com", "")) == (
        (),
        (),
        (("KUBERNETES_SERVICE_HOST", "api.example.com"), ("KUBERNETES_SERVICE_PORT", "443")),
    )


@pytest.mark.parametrize(("component", "pod"), PODS)
def test_every_component_keeps_the_house_rules(component: str, pod: dict[str, Any]) -> None:
    assert pod["nodeSelector"] == {names.deploy_label(component): "true"}
    assert pod["priorityClassName"] == "system-node-critical"
    assert pod["tolerations"] == [{"operator": "Exists"}]
    assert pod["automountServiceAccountToken"] is (component in VALIDATORS)
    assert "initContainers" not in pod
    assert len(pod["containers"]) == (3 if component == "toolkit" else 1)
    for container in pod["containers"]:
        security = container["securityContext"]
        if component in PRIVILEGED:
            assert security["privileged"] is True
        else:
            assert security["allowPrivilegeEscalation"] is False
            assert security["capabilities"]["drop"] == ["ALL"]
            assert (pod.get("securityContext") or security)["seccompProfile"] == {"type": "RuntimeDefault"}
        assert container["resources"]["requests"]["ephemeral-storage"]
        assert container["resources"]["limits"]["memory"]
        assert ":" in container["image"]
        assert "latest" not in container["image"]
        assert container["readinessProbe"]
        assert container["livenessProbe"]
    mounted = {m["name"] for container in pod["containers"] for m in container.get("volumeMounts", ())}
    assert mounted == {v["name"] for v in pod.get("volumes", ())}


@pytest.mark.parametrize(("component", "pod"), PODS)
def test_who_opens_a_port_on_the_host_has_it_from_the_modules_range(component: str, pod: dict[str, Any]) -> None:
    ports = [port["containerPort"] for port in pod["containers"][0].get("ports", ())]

    assert not pod.get("hostNetwork") or all(4200 <= port < 4300 for port in ports)
    assert bool(pod.get("hostNetwork")) == (component in {"dcgm", "dcgm-exporter"})


def test_the_host_engine_is_for_its_own_node() -> None:
    (engine,) = dict(PODS)["dcgm"]["containers"]
    (exporter,) = dict(PODS)["dcgm-exporter"]["containers"]
    (port,) = engine["ports"]

    assert engine["args"][engine["args"].index("-b") + 1] == "127.0.0.1"
    assert engine["args"][engine["args"].index("-p") + 1] == str(port["containerPort"])
    for probe in ("readinessProbe", "livenessProbe"):
        assert engine[probe]["tcpSocket"] == {"host": "127.0.0.1", "port": port["containerPort"]}
    assert environment(exporter)["DCGM_REMOTE_HOSTENGINE_INFO"] == f"127.0.0.1:{port['containerPort']}"
    assert environment(exporter)["DCGM_EXPORTER_LISTEN"] == f":{exporter['ports'][0]['containerPort']}"


@pytest.mark.parametrize("component", VALIDATORS)
def test_the_validators_are_the_modules_own_agent_without_privileges(component: str) -> None:
    pod = dict(PODS)[component]
    (container,) = pod["containers"]

    assert pod["serviceAccountName"] == "gpu-nodeagent-validate"
    assert (ROOT / "templates" / pod["serviceAccountName"].replace("-validate", "") / "validate").is_dir()
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert container["securityContext"]["readOnlyRootFilesystem"] is True
    assert container["command"] == ["python3", "-m", "nodeagent.validate"]
    assert container["args"][0] == {"driver-validator": "driver", "validator": "container"}[component]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert f"--health-port={container['ports'][0]['containerPort']}" in container["args"]
    assert all(mount["readOnly"] for mount in container["volumeMounts"])
    mounted = {mount["mountPath"] for mount in container["volumeMounts"]}
    assert environment(container)["HOST_SYS"] in mounted
    assert environment(container)["HOST_ROOT"] + "/etc" in mounted
    assert "/dev" not in {volume["hostPath"]["path"] for volume in pod["volumes"]}
    assert (pod.get("runtimeClassName") == "nvidia") == (component == "validator")


def test_the_validators_see_the_host_as_the_discovery_agent_does() -> None:
    """One image, one user, one place for the host's files; the chart's template is the other spelling."""
    text = (ROOT / "templates/gpu-nodeagent/discover/daemonset.yaml").read_text()
    for pod in (dict(PODS)[component] for component in VALIDATORS):
        (container,) = pod["containers"]
        for name in ("HOST_SYS", "HOST_ROOT"):
            assert f"- name: {name}\n          value: {environment(container)[name]}\n" in text
        assert f"runAsUser: {pod['securityContext']['runAsUser']}\n" in text
        for mount in (mount for mount in container["volumeMounts"] if mount["name"] not in ("cdi", "driver-notes")):
            path = mount["mountPath"].replace(podspec.DRIVER_ROOT, "{{ $driver }}")
            assert f"mountPath: {path}\n" in text
    assert f'$agent.discover.driverRoot | default "{podspec.DRIVER_ROOT}"' in text


def test_the_agents_image_is_told_by_the_process() -> None:
    values = yaml.safe_load((ROOT / "values.yaml").read_text())
    assert values["gpuControlPlane"]["nodeAgent"]["image"] == images.AGENT_IMAGE

    made = build.daemonsets(Settings().bootstrap, "mirror.local:5000/gpu/agent:v3")
    used = {name: one["spec"]["template"]["spec"]["containers"][0]["image"] for name, one in made.items()}
    assert {name for name, image in used.items() if image == "mirror.local:5000/gpu/agent:v3"} == {
        "gpu-driver-validator", "gpu-validator",
    }  # fmt: skip


def test_runtime_classes_name_the_handlers_that_the_toolkit_makes() -> None:
    made = build.runtime_classes()

    assert {name: body["handler"] for name, body in made.items()} == {"nvidia": "nvidia", "nvidia-cdi": "nvidia-cdi"}
    assert {pod["runtimeClassName"] for _, pod in PODS if "runtimeClassName" in pod} <= set(made)


def test_the_installer_locks_a_pid_file_of_its_own_beside_gpu_operators() -> None:
    """Its validateFlags takes no other name than toolkit.pid, and its `initialize` makes the folder."""
    assert toolkit.ENVIRONMENT["TOOLKIT_PID_FILE"] == toolkit.PID_FILE != TOOLKIT_PID
    assert Path(toolkit.PID_FILE).name == Path(TOOLKIT_PID).name
    for probe in ("readinessProbe", "livenessProbe"):
        assert TOOLKIT_PID not in script("toolkit", probe)


PID, RUNTIME = "run/gpu-control-plane/toolkit.pid", "toolkit/nvidia-container-runtime"
CONFIG = "toolkit/.config/nvidia-container-runtime/config.toml"


@pytest.mark.parametrize(
    ("files", "ready"),
    [
        ([], False),
        ([(RUNTIME, 0)], False),  # programs of an earlier run
        ([(RUNTIME, 0), (CONFIG, 10)], False),  # a run that has begun no more
        ([(RUNTIME, 0), (PID, 20)], False),  # its configuration is not written yet
        ([(RUNTIME, 0), (CONFIG, 10), (PID, 20)], False),  # of the run before
        ([(RUNTIME, 0), (PID, 20), (CONFIG, 20)], True),  # within one second
        ([(RUNTIME, 0), (PID, 20), (CONFIG, 25)], True),
        ([(PID, 20), (CONFIG, 25)], False),
    ],
)
def test_the_toolkit_is_ready_when_this_run_has_installed_it(
    files: list[tuple[str, int]], ready: bool, tmp_path: Path
) -> None:
    probe = script("toolkit", "readinessProbe")
    for path, inside in (
        ("/usr/local/nvidia/toolkit", "toolkit"), ("/run/nvidia/toolkit", "run"),
    ):  # fmt: skip
        probe = probe.replace(path, str(tmp_path / inside))
    for name, at in files:
        file(tmp_path / name, 1_700_000_000 + at)

    assert passes(probe) is ready


@pytest.mark.parametrize(
    ("probe", "age", "passes_"),
    [
        ("readinessProbe", None, False), ("readinessProbe", 30, True), ("readinessProbe", 400, False),
        ("livenessProbe", 400, True), ("livenessProbe", 700, False),
    ],
)  # fmt: skip
def test_gfd_is_ready_while_its_file_is_fresh(probe: str, age: float | None, passes_: bool, tmp_path: Path) -> None:
    asked = script("gfd", probe).replace("/etc/kubernetes/node-feature-discovery/features.d", str(tmp_path))
    (tmp_path / "gfd-tmp").mkdir()
    if age is not None:
        file(tmp_path / "gfd", time.time() - age)

    assert passes(asked) is passes_


def script(component: str, probe: str) -> str:
    """The shell script of a component's probe."""
    container, *_ = dict(PODS)[component]["containers"]
    command = container[probe]["exec"]["command"]
    assert command[:2] == ["sh", "-c"]
    return str(command[2])


def passes(text: str) -> bool:
    """Whether a shell says yes."""
    return subprocess.run(["sh", "-c", text], check=False, capture_output=True).returncode == 0


def file(path: Path, at: float) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("x")
    path.chmod(0o755)
    os.utime(path, (at, at))


def environment(container: dict[str, Any]) -> dict[str, str]:
    """Variables with plain values."""
    return {one["name"]: one["value"] for one in container.get("env", ()) if "value" in one}


@pytest.mark.parametrize(("period", "interval"), [("15s", "7500"), ("1m", "30000"), ("500ms", "250")])
def test_the_exporter_measures_anew_between_two_readings(period: str, interval: str) -> None:
    settings = parse_settings({"bootstrap": {"monitoring": {"scrapePeriod": period}}}).bootstrap
    (container,) = dcgm_exporter.pod(Inputs("image", settings, Agent()))["containers"]
    assert environment(container)["DCGM_EXPORTER_INTERVAL"] == interval


@pytest.mark.parametrize("phase", PHASES, ids=lambda phase: phase.name)
def test_labels_and_selectors_meet(phase: Any) -> None:
    made = BUILT[build.object_name(phase.name)]
    labels = made["spec"]["template"]["metadata"]["labels"]

    assert labels[names.LABEL_COMPONENT] == phase.name
    assert labels[names.LABEL_MODULE] == names.MODULE
    assert made["spec"]["selector"]["matchLabels"].items() <= labels.items()


def test_a_component_that_is_switched_off_is_not_built() -> None:
    made = build.daemonsets(parse_settings({"bootstrap": {"dcgm": {"enabled": False}}}).bootstrap)

    assert "gpu-dcgm" not in made
    (exporter,) = made["gpu-dcgm-exporter"]["spec"]["template"]["spec"]["containers"]
    assert "DCGM_REMOTE_HOSTENGINE_INFO" not in environment(exporter)
    assert exporter["securityContext"]["capabilities"]["add"] == ["SYS_ADMIN"]  # its own engine reads the counters


def test_nothing_is_written_twice(cluster: Cluster) -> None:
    assert cluster.plan_components().actions == ()


@pytest.mark.parametrize(
    "path",
    [
        ("spec", "template", "spec", "nodeSelector", names.deploy_label("dcgm-exporter")),
        ("spec", "template", "spec", "hostNetwork"),
        ("spec", "template", "spec", "tolerations"),
        ("spec", "template", "spec", "containers", 0, "image"),
        ("spec", "template", "spec", "containers", 0, "env", 1, "value"),
        ("spec", "updateStrategy", "rollingUpdate", "maxUnavailable"),
        ("metadata", "labels", names.LABEL_COMPONENT),
        ("metadata", "annotations", names.SPEC_HASH),
    ],
)
@pytest.mark.parametrize("how", ["changed", "removed"])
def test_what_somebody_edits_is_restored(cluster: Cluster, path: tuple[Any, ...], how: str) -> None:
    target: Any = daemonset(cluster, "dcgm-exporter")
    wanted = copy.deepcopy(target)
    for key in path[:-1]:
        target = target[key]
    if how == "changed":
        target[path[-1]] = "edited"
    else:
        del target[path[-1]]
    made = cluster.plan_components()
    assert [action.ref.name for action in made.actions if isinstance(action, Apply)] == ["gpu-dcgm-exporter"]
    cluster.execute(made.actions, names.MANAGER_BOOTSTRAP)

    assert daemonset(cluster, "dcgm-exporter")["spec"] == wanted["spec"]
    assert cluster.plan_components().actions == ()


def test_defaults_and_others_additions_are_left(cluster: Cluster) -> None:
    spec = daemonset(cluster, "gfd")["spec"]
    spec["template"]["spec"]["dnsPolicy"] = "ClusterFirst"
    spec["template"]["spec"]["containers"][0]["env"].insert(0, {"name": "THEIRS", "value": "1"})

    assert cluster.plan_components().actions == ()


def test_what_was_deleted_comes_back(cluster: Cluster) -> None:
    cluster.drop(resources.DAEMONSET, f"{names.NAMESPACE}/gpu-toolkit")
    cluster.drop(resources.RUNTIMECLASS, "nvidia")

    assert {action.ref.name for action in cluster.plan_components().actions if isinstance(action, Apply)} == {
        "gpu-toolkit", "nvidia",
    }  # fmt: skip


def test_the_administrators_runtime_class_is_not_touched() -> None:
    cluster = Cluster()
    cluster.put(resources.RUNTIMECLASS, {"metadata": {"name": "nvidia"}, "handler": "their-own"})

    assert "nvidia" not in [action.ref.name for action in cluster.plan_components().writes if isinstance(action, Apply)]


def runtime_classes(cluster: Cluster) -> list[str]:
    """Those of which the next plan is rid."""
    writes = cluster.plan_components().writes
    assert all(isinstance(action, Delete) for action in writes)
    return [action.ref.name for action in writes if action.ref.resource is resources.RUNTIMECLASS]


def test_a_module_that_is_disabled_removes_its_own_runtime_classes_once_nothing_runs_under_them(
    cluster: Cluster,
) -> None:
    plugin = {"metadata": {"name": "gpu-device-plugin-a", "namespace": names.NAMESPACE}}
    cluster.put(resources.DAEMONSET, {**plugin, "spec": {"template": {"spec": {"runtimeClassName": "nvidia"}}}})
    cluster.put(resources.POD, {**plugin, "spec": {"runtimeClassName": "nvidia"}, "status": {"phase": "Running"}})
    cluster.enabled = False
    assert runtime_classes(cluster) == ["nvidia-cdi"], "under which nothing runs"
    cluster.execute(cluster.plan_components().actions, names.MANAGER_BOOTSTRAP)
    assert runtime_classes(cluster) == [], "the pools' plugins have yet to withdraw their cards"
    cluster.drop(resources.DAEMONSET, f"{names.NAMESPACE}/gpu-device-plugin-a")
    assert runtime_classes(cluster) == [], "a pod of the plugin is still there"
    cluster.objects["Pod", f"{names.NAMESPACE}/gpu-device-plugin-a"]["status"]["phase"] = "Failed"
    assert runtime_classes(cluster) == ["nvidia"]


def test_a_module_that_is_disabled_leaves_the_administrators_runtime_class(cluster: Cluster) -> None:
    cluster.put(resources.RUNTIMECLASS, {"metadata": {"name": "nvidia"}, "handler": "their-own"})
    cluster.enabled = False
    removed = []
    for _ in range(2):
        removed += runtime_classes(cluster)
        cluster.execute(cluster.plan_components().actions, names.MANAGER_BOOTSTRAP)
    assert removed == ["nvidia-cdi"]
    assert not cluster.plan_components().writes


def test_a_component_that_is_switched_off_goes_and_nothing_else(cluster: Cluster) -> None:
    other = {"metadata": {"name": "gpu-nodeagent-discover", "namespace": names.NAMESPACE}, "spec": {}}
    cluster.put(resources.DAEMONSET, other)
    cluster.settings = parse_settings({"bootstrap": {"gfd": {"enabled": False}}})
    (delete,) = cluster.plan_components().actions

    assert isinstance(delete, Delete)
    assert delete.ref.name == "gpu-gfd"
    assert delete.ref.uid
    assert delete.resource_version


@pytest.mark.parametrize(
    ("found", "wanted", "answer"),
    [
        ({"a": 1, "b": 2}, {"a": 1}, True),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ([{"name": "x", "v": 1}, {"name": "y"}], [{"name": "y"}], True),
        ([{"name": "x"}], [{"name": "y"}], False),
        ([{"operator": "Exists"}, {"key": "k"}], [{"operator": "Exists"}], False),
        (["a", "b"], ["a"], False),
        (None, [], False),
        ("1", 1, False),
        ([{"name": "same", "mountPath": "/a"}], [{"name": "same", "mountPath": "/b"}], False),
    ],
)
def test_comparison_follows_the_api_servers_merge_keys(found: Any, wanted: Any, answer: bool) -> None:
    assert covers(found, wanted) is answer


def test_a_daemonset_comes_back_after_its_name_has_been_free_for_a_while(cluster: Cluster) -> None:
    key = next(key for key in cluster.objects if key[0] == "DaemonSet")
    name = key[1].split("/")[-1]
    del cluster.objects[key]
    seen = replace(cluster.view().operands(), deleted_at={name: cluster.now - COOLDOWN / 4})

    waits, comes = (components.plan(seen, cluster.settings.bootstrap, now=cluster.now + after) for after in (0, 2))

    assert not waits.writes
    assert waits.requeue_after == pytest.approx(COOLDOWN * 3 / 4)
    assert [action.ref.name for action in comes.writes] == [name]
