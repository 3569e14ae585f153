"""Both programs on a real control plane, under their own identities with the chart's roles: one story, in order."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import orjson
import pytest

from controllers.api import names, resources
from controllers.install.observed import CONTROLLERS, KINDS, MODULE_CONFIGS, OURS
from controllers.runtime.errors import NotFound
from sim import controlplane
from sim.cluster import Options
from sim.controlplane import ControlPlane
from sim.module.balance import NAME as BALANCER
from sim.module.identities import kubeconfig_for
from sim.module.install import ROOT, Tools
from sim.view import View
from tests.kit import planes
from tests.kit.pods import queued_body
from tests.kit.waiting import PATIENCE
from tests.kit.worker_plane import WorkerPlane
from tests.slice.people import People
from tools.programs import catalog

pytestmark = pytest.mark.cluster
POOL, TEAM = "kept", "kept"
TAINT = {"key": "gpu-only", "value": "yes", "effect": "NoSchedule"}
FOREIGN = {"key": "theirs", "effect": "PreferNoSchedule"}
GPUPOOLS = "gpupools.gpu.deckhouse.io"


@pytest.fixture(scope="module")
def plane(worker_plane: WorkerPlane) -> ControlPlane:
    """A cluster of its own: nothing of the module is left in it at the end."""
    return worker_plane.take("install", lambda folder: planes.module(folder, Options(nodes=2)))


@pytest.fixture
async def people(plane: ControlPlane) -> AsyncIterator[People]:
    async with View(plane.kubeconfig) as view:
        yield People(plane, view)


@pytest.fixture(scope="module")
def tools(plane: ControlPlane) -> Tools:
    """With the hooks' identities and roles in force, as Helm makes them before it runs the hooks."""
    made = planes.tools(plane)
    shown = [f"--show-only=templates/{name}/rbac-for-us.yaml" for name in (names.MANAGER_CRDS, names.MANAGER_CLEANUP)]
    version = catalog.unit_of("kube-apiserver").version
    chart = [str(made.helm), "template", "gpu-control-plane", str(ROOT), f"--kube-version={version}", *shown]
    command = [*chart, f"--namespace={names.NAMESPACE}"]
    made.run("apply", "--filename=-", stdin=subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return made


def run(verb: str, kubeconfig: Path, *flags: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "controllers.install", verb, f"--kubeconfig={kubeconfig}", *flags]
    return subprocess.run(command, capture_output=True, text=True, check=False, cwd=ROOT, timeout=PATIENCE)


@pytest.fixture(scope="module")
def crds(plane: ControlPlane, tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kubeconfig_for(plane, tools, names.MANAGER_CRDS, tmp_path_factory.mktemp("crds"))


@pytest.fixture(scope="module")
def cleanup(plane: ControlPlane, tools: Tools, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return kubeconfig_for(plane, tools, names.MANAGER_CLEANUP, tmp_path_factory.mktemp("cleanup"))


async def definition(people: People, name: str) -> dict[str, Any]:
    found: dict[str, Any] = orjson.loads(await people.client.get(resources.CRD, name))
    return found


@pytest.mark.slow("for all of the file, a control plane comes up with the definitions of others")
async def test_definitions_are_applied_again_and_again_and_deckhouse_s_is_left_alone(
    people: People, crds: Path
) -> None:
    foreign = (await definition(people, MODULE_CONFIGS))["metadata"]
    first = run("crds", crds)
    after = {name: (await definition(people, name))["metadata"]["generation"] for name in OURS}
    second = run("crds", crds)

    assert (first.returncode, second.returncode) == (0, 0), first.stderr + second.stderr
    assert f"{MODULE_CONFIGS}: {MODULE_CONFIGS} is there and not ours" in first.stderr
    assert {name: (await definition(people, name))["metadata"]["generation"] for name in OURS} == after
    now = (await definition(people, MODULE_CONFIGS))["metadata"]
    assert (now["uid"], now["generation"]) == (foreign["uid"], foreign["generation"])
    for name in OURS:
        managers = [one["manager"] for one in (await definition(people, name))["metadata"]["managedFields"]]
        assert names.MANAGER_CRDS in managers


async def test_a_field_that_objects_may_have_is_not_dropped_unless_a_person_says_so(people: People, crds: Path) -> None:
    body = await definition(people, GPUPOOLS)
    spec = body["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]
    spec["properties"]["ofTheFuture"] = {"type": "string"}
    await people.client.replace(resources.CRD, GPUPOOLS, body, manager="test")

    refused = run("crds", crds)
    assert refused.returncode == 1
    assert "field spec.ofTheFuture" in refused.stderr
    assert "--allow-downgrade" in refused.stderr
    assert b"ofTheFuture" in await people.client.get(resources.CRD, GPUPOOLS)

    allowed = run("crds", crds, "--allow-downgrade")
    assert allowed.returncode == 0, allowed.stderr
    assert b"ofTheFuture" not in await people.client.get(resources.CRD, GPUPOOLS)


def test_an_api_server_that_is_not_there_is_asked_again_until_the_time_is_over(tmp_path: Path, crds: Path) -> None:
    config = json.loads(crds.read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    nowhere = tmp_path / "kubeconfig"
    nowhere.write_text(json.dumps(config))
    found = run("crds", nowhere, "--timeout=1.5")

    assert found.returncode == 1
    assert found.stderr.startswith("waiting: the API server: ")
    assert "giving up after 1.5 s" in found.stderr
    assert run("crds", tmp_path / "none").returncode == 2


async def test_a_cluster_without_deckhouse_gets_a_definition_of_moduleconfig(people: People, crds: Path) -> None:
    await people.remove(resources.CRD, MODULE_CONFIGS)

    async def gone() -> bytes:
        try:
            await people.client.get(resources.CRD, MODULE_CONFIGS)
        except NotFound:
            return b""
        raise NotFound(0, "", "not yet")

    await people.eventually(gone)
    made = run("crds", crds)
    assert made.returncode == 0, made.stderr
    await people.settings(logLevel="Info")
    assert (await definition(people, MODULE_CONFIGS))["metadata"]["labels"][names.LABEL_MODULE] == names.MODULE


def deployment(name: str) -> dict[str, Any]:
    """What the chart makes of a process, as far as the clean-up goes; KWOK runs it."""
    labels = {names.LABEL_MODULE: names.MODULE, names.LABEL_APP: name}
    pod = {
        "metadata": {"labels": labels},
        "spec": {
            "containers": [{"name": "c", "image": "i"}],
            "tolerations": [{"operator": "Exists"}],
            "automountServiceAccountToken": False,
        },
    }
    return {
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name, "labels": labels},
        "spec": {"replicas": 1, "selector": {"matchLabels": {names.LABEL_APP: name}}, "template": pod},
    }


async def at_work(people: People) -> None:
    """A pool with a taint on its node and a running pod; the processes have Deployments."""
    await people.ready_nodes(2)
    card = next(device.name for device in people.view.devices if device.status.node_name == "gpu-1")
    await people.pool(POOL, scheduling={"taints": [TAINT], "tolerations": []})
    await people.annotate(card, POOL)
    await people.offered(POOL, 1)
    await people.client.merge(resources.NODE, "gpu-2", {"spec": {"taints": [FOREIGN]}}, manager="test")
    await people.view.until(
        lambda: TAINT["key"] in taints(people, "gpu-1"), PATIENCE, lambda: str(taints(people, "gpu-1"))
    )
    await people.namespace(TEAM)
    await people.pod("runs", TEAM, POOL)
    await people.running(TEAM, 1)
    for name in CONTROLLERS:
        await people.client.create(resources.DEPLOYMENT, deployment(name), names.NAMESPACE, manager="test")
    await people.view.until(
        lambda: len(deployed(people)) == len(CONTROLLERS),
        PATIENCE,
        lambda: f"{deployed(people)} of the Deployments' pods",
    )


def deployed(people: People) -> list[str]:
    """The Deployments' pods."""
    return [pod.name for pod in people.view.pods if pod.metadata.labels.get(names.LABEL_APP) in CONTROLLERS]


async def queued(people: People, name: str, *others: str) -> None:
    """A pod in the pool's queue, once no webhook is configured any more that would be asked about it."""

    async def made() -> bytes:
        return await people.client.create(resources.POD, queued_body(name, POOL, *others), TEAM, manager="test")

    await people.eventually(made)


async def gates(people: People, name: str) -> list[str]:
    found = orjson.loads(await people.client.get(resources.POD, name, TEAM))
    return [gate["name"] for gate in found["spec"].get("schedulingGates", ())]


def taints(people: People, node: str) -> list[str]:
    found = people.view.nodes.get(node)
    return [taint.key for taint in found.spec.taints] if found is not None else []


async def left(people: People) -> list[str]:
    """Everything of the module that is there, by kind and name."""
    found = []
    for kind in KINDS:
        if kind.resource in (resources.NODE, resources.POD):
            continue
        path = kind.resource.path(names.NAMESPACE if kind.resource.namespaced else None)
        try:
            items = orjson.loads(await people.client.request("GET", path))["items"]
        except NotFound:
            continue
        found += [
            f"{kind.resource.kind} {item['metadata']['name']}"
            for item in items
            if item["metadata"]["name"] in kind.named or not kind.named
        ]
    return [one for one in found if "kube-root-ca.crt" not in one]


async def test_the_clean_up_waits_for_whoever_writes_and_then_leaves_nothing(
    plane: ControlPlane, people: People, cleanup: Path
) -> None:
    await at_work(people)
    pod = orjson.loads(await people.client.get(resources.POD, "runs", TEAM))

    running = asyncio.create_task(asyncio.to_thread(run, "cleanup", cleanup, "--timeout=170"))
    await people.view.until(lambda: not deployed(people), PATIENCE, lambda: f"{deployed(people)} are still there")
    # The processes run on outside their Deployments, and hold their leases: nothing that they make goes meanwhile.
    assert not running.done()
    assert people.view.pools.get(POOL) is not None
    await queued(people, "waits")
    await queued(people, "waits-for-two", "example.com/other")
    assert [node.name for node in people.view.nodes if names.pool_node_label(POOL) in node.metadata.labels]
    processes = controlplane.status(plane.dir).processes
    for name in [one for one in processes if one.startswith(CONTROLLERS) and one != BALANCER]:
        await asyncio.to_thread(controlplane.remove_process, plane.dir, name)
    found = await running

    assert found.returncode == 0, found.stderr
    assert "lease: somebody runs it outside its Deployment" in found.stderr
    assert found.stderr.endswith("done\n")
    assert (await gates(people, "waits"), await gates(people, "waits-for-two")) == ([], ["example.com/other"])
    assert f"took our marks off Pod: {TEAM}/waits, {TEAM}/waits-for-two" in found.stderr
    assert f"left: Pods {TEAM}/waits, {TEAM}/waits-for-two wait for cards, and will not get any" in found.stderr
    assert await left(people) == []
    for node in orjson.loads(await people.client.request("GET", resources.NODE.path()))["items"]:
        marks = [
            key
            for key in node["metadata"]["labels"]
            if key.startswith((names.PREFIX + "deploy.", names.PREFIX + "pool."))
        ]
        assert marks == []
        assert names.POOL_TAINTS not in node["metadata"]["annotations"]
        kept = [taint["key"] for taint in node["spec"].get("taints", ())]
        assert kept == ([FOREIGN["key"]] if node["metadata"]["name"] == "gpu-2" else [])
    now = orjson.loads(await people.client.get(resources.POD, "runs", TEAM))
    assert now["metadata"]["uid"] == pod["metadata"]["uid"]
    assert (now["spec"], now["status"]["phase"]) == (pod["spec"], "Running")

    again = run("cleanup", cleanup)
    assert again.returncode == 0, again.stderr
    assert not [line for line in again.stderr.splitlines() if line.startswith("deleted")]
