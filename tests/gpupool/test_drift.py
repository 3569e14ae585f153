"""What somebody edits or deletes of a pool's operands is put back; what they add beside ours stays."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controllers.api import names, resources
from controllers.api.gpupool import GPUPool
from controllers.api.record import adapter
from controllers.api.settings import parse_settings
from controllers.components.cooldown import COOLDOWN
from controllers.domain.agents import api_server
from controllers.gpupool.operands import device_plugin, mig_manager
from controllers.gpupool.pool.plan import plan_pool
from controllers.runtime.plan import Apply, Delete
from nodeagent.deviceplugin.__main__ import CDI_DIRS
from nodeagent.host.runtimes import CONTAINERD
from tests.gpupool.world import Cluster, whole

NAME = names.plugin_object("a")
DAEMONSET = ("DaemonSet", f"{names.NAMESPACE}/{NAME}")
CONFIGMAP = ("ConfigMap", f"{names.NAMESPACE}/{NAME}")
CARD = "n1-0000-00-00-0"


def served() -> Cluster:
    made = Cluster()
    made.node("n1", 1)
    made.pool("a")
    made.annotate(CARD, "a")
    made.settle()
    return made


def template(obj: Any) -> Any:
    return obj["spec"]["template"]["spec"]


def container(obj: Any) -> Any:
    return template(obj)["containers"][0]


EDITS: dict[str, Callable[[Any], None]] = {
    "another pool's socket": lambda o: container(o)["args"].__setitem__(2, "b"),
    "another flag": lambda o: container(o)["args"].append("--socket=/tmp/x.sock"),
    "another port": lambda o: container(o)["ports"][0].__setitem__("containerPort", 9),
    "another probe": lambda o: container(o)["livenessProbe"]["httpGet"].__setitem__("path", "/x"),
    "another view of the host": lambda o: template(o)["volumes"][3]["hostPath"].__setitem__("path", "/"),
    "another folder of kubelet": lambda o: template(o)["volumes"][0]["hostPath"].__setitem__("path", "/elsewhere"),
    "another place of it": lambda o: container(o)["volumeMounts"][0].__setitem__("mountPath", "/elsewhere"),
    "another node's name": lambda o: container(o)["env"][0].__setitem__("valueFrom", {"fieldRef": {"fieldPath": "x"}}),
    "another image": lambda o: container(o).__setitem__("image", "elsewhere/image"),
    "more rights": lambda o: container(o)["securityContext"].__setitem__("allowPrivilegeEscalation", True),
    "fewer nodes": lambda o: template(o)["nodeSelector"].__setitem__("x", "y"),
    "other nodes": lambda o: template(o).__setitem__("nodeSelector", {"x": "y"}),
    "another account": lambda o: template(o).__setitem__("serviceAccountName", "default"),
    "the checksum": lambda o: o["metadata"]["annotations"].__setitem__(names.SPEC_HASH, "0"),
    "no checksum": lambda o: o["metadata"]["annotations"].pop(names.SPEC_HASH),
    "a label": lambda o: o["metadata"]["labels"].__setitem__(names.LABEL_MODULE, "x"),
    "its owner": lambda o: o["metadata"].__setitem__("ownerReferences", []),
}


@pytest.mark.parametrize("edit", EDITS.values(), ids=EDITS.keys())
def test_what_somebody_edits_in_the_daemonset_is_put_back(edit: Callable[[Any], None]) -> None:
    made = served()
    before = copy.deepcopy(made.objects[DAEMONSET]["spec"])
    edit(made.objects[DAEMONSET])
    made.touch(DAEMONSET)
    made.settle()

    assert made.objects[DAEMONSET]["spec"] == before
    wanted = device_plugin.daemonset(*arguments(made))
    assert made.objects[DAEMONSET]["metadata"]["annotations"] == wanted["metadata"]["annotations"]


def arguments(made: Cluster) -> tuple[GPUPool, str]:
    return next(iter(made.all(resources.GPUPOOL, GPUPool))), ""


@pytest.mark.parametrize("key", [names.ALLOWED_DEVICES, names.PLUGIN_SETTINGS])
@pytest.mark.parametrize("value", ["another", None])
def test_what_somebody_edits_in_the_list_is_put_back(key: str, value: str | None) -> None:
    made = served()
    data = made.objects[CONFIGMAP]["data"]
    before = dict(data)
    if value is None:
        del data[key]
    else:
        data[key] = value
    made.touch(CONFIGMAP)
    made.settle()

    assert made.objects[CONFIGMAP]["data"] == before


@pytest.mark.parametrize("key", [DAEMONSET, CONFIGMAP], ids=["DaemonSet", "ConfigMap"])
def test_what_somebody_deletes_is_made_anew(key: tuple[str, str]) -> None:
    made = served()
    del made.objects[key]
    made.settle()

    assert key in made.objects


def test_what_somebody_adds_beside_ours_stays_and_is_not_written_about_for_ever() -> None:
    made = served()
    container(made.objects[DAEMONSET])["env"].append({"name": "DEBUG", "value": "1"})
    made.objects[DAEMONSET]["metadata"]["annotations"]["example.com/note"] = "x"
    made.objects[CONFIGMAP]["data"]["note"] = "x"
    for key in (DAEMONSET, CONFIGMAP):
        made.touch(key)

    assert not [a for a in made.planned("GPUPool", "a").writes if isinstance(a, (Apply, Delete))]


def test_a_daemonset_that_is_being_deleted_is_waited_for() -> None:
    made = served()
    made.objects[DAEMONSET]["metadata"]["deletionTimestamp"] = "2026-01-01T00:00:00Z"
    container(made.objects[DAEMONSET])["image"] = "elsewhere/image"
    made.touch(DAEMONSET)
    assert not made.planned("GPUPool", "a").writes

    del made.objects[DAEMONSET]
    made.settle()
    assert DAEMONSET in made.objects


def test_a_daemonset_comes_back_after_its_name_has_been_free_for_a_while() -> None:
    made = served()
    del made.objects[DAEMONSET]
    seen = made.view().pool("a")
    assert seen is not None
    just = replace(seen, deleted_at={NAME: made.now - COOLDOWN / 4})

    waits, comes = whole(just, made.now), whole(just, made.now + COOLDOWN)

    assert not waits.writes
    assert waits.requeue_after == pytest.approx(COOLDOWN * 3 / 4)
    assert [a.ref.name for a in comes.writes if isinstance(a, Apply)] == [NAME]


def test_a_daemonset_that_is_there_is_put_right_at_once_whatever_went_before() -> None:
    made = served()
    container(made.objects[DAEMONSET])["image"] = "elsewhere/image"
    made.touch(DAEMONSET)
    seen = made.view().pool("a")
    assert seen is not None

    writes = whole(replace(seen, deleted_at={NAME: made.now}), made.now).writes

    assert [a.ref.name for a in writes if isinstance(a, Apply)] == [NAME]


def everything_set() -> Any:
    parts = {"enabled": True, "args": ["--socket=/tmp/x.sock"], "env": [{"name": "SOCKET", "value": "x"}]}
    component = dict.fromkeys(("toolkit", "gfd", "dcgm", "dcgmExporter"), parts)
    return parse_settings({"bootstrap": component, "admission": {"runtimeClassName": "x"}})


def test_no_setting_reaches_the_socket_nor_kubelets_folders() -> None:
    plain, settings = served(), everything_set()
    other = served()
    other.settings = settings
    other.settle()

    assert other.objects[DAEMONSET]["spec"] == plain.objects[DAEMONSET]["spec"]


@pytest.mark.parametrize("mode", [{}, {"mode": "TimeSlice"}, {"mode": "MIG", "migProfile": "1g.10gb"}])
def test_no_pool_reaches_the_socket_nor_kubelets_folders(mode: dict[str, str]) -> None:
    body = {"metadata": {"name": "a", "uid": "u"}, "spec": {"allocation": mode, "resource": {"name": "x"}}}
    made = device_plugin.daemonset(adapter(GPUPool).validate_python(body), "image")

    assert container(made)["args"][:3] == ["device-plugin", "--pool", "a"]
    folders = {v["name"]: v["hostPath"]["path"] for v in template(made)["volumes"]}
    mounts = {m["name"]: (m["mountPath"], m.get("readOnly", False)) for m in container(made)["volumeMounts"]}
    assert mounts == {
        "plugins": ("/var/lib/kubelet/device-plugins", False),
        "pod-resources": ("/var/lib/kubelet/pod-resources", True),
        "sys": ("/sys", True),
        "dev": ("/host/dev", True),
        "cdi": ("/host/root/etc/cdi", True),
        "cdi-run": ("/host/root/var/run/cdi", True),
        "containerd": ("/host/root/etc/containerd", True),
    }
    assert all(mounts[name][0].endswith(path) for name, path in folders.items())


def test_the_plugin_sees_of_its_host_what_it_looks_for() -> None:
    """Its own defaults below HOST_ROOT are the folders that are mounted there."""
    made = served().objects[DAEMONSET]
    env = {each["name"]: each.get("value") for each in container(made)["env"]}
    mounted = {m["mountPath"] for m in container(made)["volumeMounts"]}
    wanted = {f"{env['HOST_ROOT']}/{folder}" for folder in (*CDI_DIRS, str(Path(CONTAINERD).parent))}
    assert wanted | {env["HOST_DEV"]} <= mounted


def test_a_node_without_a_cdi_folder_gets_an_empty_one_and_one_without_kubelets_starts_nothing() -> None:
    """The runtime makes a missing hostPath that has no type: the plugin would wait in a folder where no kubelet is."""
    kinds = {v["name"]: v["hostPath"]["type"] for v in template(served().objects[DAEMONSET])["volumes"]}
    made = {name for name, kind in kinds.items() if kind == "DirectoryOrCreate"}
    assert made == {"cdi", "cdi-run", "containerd"}
    assert {kinds[name] for name in kinds.keys() - made} == {"Directory"}


def test_the_plugin_is_probed_where_it_answers() -> None:
    made = container(served().objects[DAEMONSET])
    ports = {port["name"]: str(port["containerPort"]) for port in made["ports"]}
    flags = dict(flag.removeprefix("--").partition("=")[::2] for flag in made["args"] if flag.startswith("--"))
    assert flags.pop("pool", None) is not None
    assert flags == {
        "health-host": "0.0.0.0", "health-port": ports["health"], "metrics-port": ports["https-metrics"],  # noqa: S104
    }  # fmt: skip
    paths = {kind: made[f"{kind}Probe"]["httpGet"] for kind in ("startup", "liveness", "readiness")}
    assert paths == {
        "startup": {"path": "/healthz", "port": "health"},
        "liveness": {"path": "/healthz", "port": "health"},
        "readiness": {"path": "/readyz", "port": "health"},
    }
    assert set(ports) == {"health", "https-metrics"}


@pytest.mark.parametrize(("said", "flag"), [("Auto", "auto"), ("CDI", "cdi"), ("DeviceSpecs", "device-specs")])
def test_the_setting_says_how_containers_get_their_cards(said: str, flag: str) -> None:
    made = served()
    made.settings = parse_settings({"deviceStrategy": said})
    made.settle()

    env = {each["name"]: each.get("value") for each in container(made.objects[DAEMONSET])["env"]}
    assert env["DEVICE_STRATEGY"] == flag


def test_only_a_plugin_of_mig_instances_asks_the_driver() -> None:
    """Where the runtime does not know the class, the pod would not start; whole cards need no driver's library."""
    pools = [adapter(GPUPool).validate_python({"metadata": {"name": "a", "uid": "u"}})] * 2
    plain, mig = (device_plugin.daemonset(p, "x", divided=d) for p, d in zip(pools, (False, True), strict=True))

    assert [template(made).get("runtimeClassName") for made in (plain, mig)] == [None, "nvidia"]
    assert "NVIDIA_VISIBLE_DEVICES" in {each["name"] for each in container(mig)["env"]}


def test_the_pools_programs_are_told_where_the_api_server_is() -> None:
    """Where the cluster's Service is not routed; a flag of the controller says it, and a change rolls them out."""
    made = served()
    (pool,) = made.view().pools
    env = api_server("192.0.2.1", None)
    expected = [
        {"name": "KUBERNETES_SERVICE_HOST", "value": "192.0.2.1"},
        {"name": "KUBERNETES_SERVICE_PORT", "value": "443"},
    ]
    for build in (device_plugin.daemonset, mig_manager.daemonset):
        before, after = build(pool, "image"), build(pool, "image", env=env)
        assert container(after)["env"] == container(before)["env"] + expected
        assert before["metadata"]["annotations"] != after["metadata"]["annotations"]

    world = made.view()
    world.agent_env = env
    seen = world.pool("a")
    assert seen is not None
    writes = [action for action in plan_pool(seen, made.now).actions if isinstance(action, Apply)]
    assert [container(action.body)["env"][-2:] for action in writes] == [expected]
