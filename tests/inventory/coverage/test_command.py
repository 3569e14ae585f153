"""The command as a process, against a real API server whose cards gpu-inventory-controller has recorded."""

from __future__ import annotations

import asyncio
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest
import yaml

from controllers.api import names, resources
from controllers.inventory.coverage import read
from controllers.inventory.coverage.read import Progress, Reader
from controllers.inventory.rule import node_feature_rule
from controllers.runtime.client import Client
from controllers.runtime.errors import Gone
from reliability.kit.apiserver import Server
from reliability.kit.fault_proxy import FaultProxy
from sim import controlplane
from tests.inventory.coverage.test_models import NEW
from tests.inventory.coverage.world import H100, HOST_VGA, NFD, labels, labels_of, nfd_object
from tests.inventory.plane import CRD, Plane
from tests.kit.reports import feature, reported
from tests.kit.waiting import PATIENCE
from tests.templates import harness

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from controllers.inventory.coverage.comparison.records import ClusterState

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).resolve().parents[3]
COMMAND = [sys.executable, "-m", "controllers.inventory.coverage"]
STRANGE = {"vendor": "10de", "device": "2fff", "class": "0302"}
NFD_CRDS = ("nodefeatures.nfd.k8s-sigs.io", "nodefeaturerules.nfd.k8s-sigs.io")


async def reports(plane: Plane) -> None:
    """What NFD and the agents say, and our rule."""
    await plane.put(resources.NAMESPACE, {"metadata": {"name": NFD}})
    await plane.put(resources.NODEFEATURERULE, {"metadata": {"name": names.NODE_FEATURE_RULE}} | manifest())
    for name in ("fine", "edited", "silent"):
        await plane.put(resources.NODEFEATURE, nfd_object(name, [HOST_VGA, H100, H100]))
    await plane.put(resources.NODEFEATURE, nfd_object("strange", [STRANGE]))
    await plane.put(resources.NODEFEATURE, nfd_object("cpu", [HOST_VGA], driver=False))
    for name in ("fine", "edited"):
        await plane.report(name, [reported(0), reported(1)])
    await plane.report("strange", [reported(0, **NEW)])


def manifest() -> dict[str, Any]:
    made = node_feature_rule.manifest()
    return {"spec": made["spec"]}


async def nodes(plane: Plane) -> None:
    """The nodes, labelled as nfd-master would, but for one label that somebody changed by hand."""
    await plane.node("fine", **labels())
    await plane.node("edited", **labels() | {names.LABEL_DEVICE_COUNT: "7"})
    await plane.node("silent", **labels())
    await plane.node("strange", **labels(0) | labels_of([STRANGE]))
    bare = {"metadata": {"name": "cpu", "labels": labels(0)}}
    await plane.put(resources.NODE, bare)


async def prepare(plane: Plane, folder: Path) -> None:
    """Five nodes, and their cards recorded by the controller itself."""
    await plane.install()
    await reports(plane)
    await nodes(plane)
    async with plane.run("controllers.inventory", folder):

        async def recorded() -> bool:
            found = [
                await plane.get(resources.GPUNODEINVENTORY, name) for name in ("fine", "edited", "strange", "silent")
            ]
            told = [((one or {}).get("status") or {}).get("hw") for one in found]
            return [len(hw["devices"]) if hw else None for hw in told] == [2, 2, 1, 0]

        await plane.until(recorded, "the cards to be recorded")


def on(kubeconfig: Path, work: Callable[[Plane], Awaitable[Any]]) -> Any:
    """Do something to the cluster, as its administrator."""

    async def connected() -> Any:
        client = await Client.connect(kubeconfig, user_agent="test")
        try:
            return await work(Plane(client, kubeconfig))
        finally:
            await client.close()

    return asyncio.run(connected())


@pytest.fixture(scope="module")
def cluster(inventory_plane: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("coverage")
    on(inventory_plane, lambda plane: prepare(plane, folder))
    return inventory_plane


def run(*argv: str, kubeconfig: Path | None = None, timeout: float = PATIENCE) -> subprocess.CompletedProcess[str]:
    flags = ["--kubeconfig", str(kubeconfig)] if kubeconfig else []
    env = {**os.environ, "COLUMNS": "80"}
    done = subprocess.run(
        [*COMMAND, *flags, *argv], cwd=ROOT, env=env, capture_output=True, text=True, timeout=timeout, check=False
    )
    assert "Traceback" not in done.stderr, done.stderr
    return done


def test_the_whole_cluster_as_text(cluster: Path) -> None:
    done = run(kubeconfig=cluster)
    lines = done.stdout.splitlines()

    assert done.returncode == 1
    assert done.stderr == ""
    assert lines[:2] == ["ok    cpu      no cards, 5 labels", "FAIL  edited   2 cards, 15 labels; 1 finding"]
    assert "        gpu.deckhouse.io/device-count: 7; expected 2" in lines
    assert "ok    fine     2 cards, 16 labels" in lines
    assert "FAIL  silent   no cards, 16 labels; 1 finding" in lines
    assert any(line.strip().startswith("NodeFeature d8-gpu-operator/gpu-silent: no such object") for line in lines)
    assert "ok    strange  1 card, 13 labels" in lines
    assert 'unknown model: 10de:2fff NVIDIA "X" \\ 900' in lines
    assert '  { id = "2fff", product = "NVIDIA \\"X\\" \\\\ 900", gib = 180 },' in lines
    assert "5 nodes: 3 as expected, 2 not; 5 cards on record as reported; 1 model not as in" in lines
    assert all(len(line) <= 80 for line in lines)


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_the_whole_cluster_for_programs(cluster: Path, output: str) -> None:
    done = run("-o", output, kubeconfig=cluster)
    result = json.loads(done.stdout) if output == "json" else yaml.safe_load(done.stdout)

    assert done.returncode == 1
    assert result["ok"] is False
    assert result["findings"] == []
    found = {node["name"]: [finding["reason"] for finding in node["findings"]] for node in result["nodes"]}
    assert found == {
        "cpu": [], "edited": ["LabelDifferent"], "fine": [], "silent": ["NoAgentReport"], "strange": [],
    }  # fmt: skip
    assert [(model["problem"], model["device"], model["nodes"]) for model in result["models"]] == [
        ("Unknown", "2fff", ["strange"])
    ]


def test_the_exit_status_is_that_of_the_nodes_asked_for(cluster: Path) -> None:
    assert run("--node", "fine", "cpu", kubeconfig=cluster).returncode == 0
    assert run("--node", "fine", "--node", "edited", kubeconfig=cluster).returncode == 1
    assert run("--node", "strange", kubeconfig=cluster).returncode == 0
    assert run("--node", "strange", "--strict", kubeconfig=cluster).returncode == 1
    one = run("--node", "fine", kubeconfig=cluster)
    assert one.stdout.splitlines()[-1] == "All is as expected."


def test_the_rule_changed_by_hand_is_told(cluster: Path) -> None:
    ours = manifest()
    changed = {"spec": {"rules": [{"name": "deckhouse.gpu.cards"}, *ours["spec"]["rules"][1:]]}}
    try:
        body = {"metadata": {"name": names.NODE_FEATURE_RULE}}
        on(cluster, lambda plane: plane.put(resources.NODEFEATURERULE, body | changed))
        done = run("--node", "fine", kubeconfig=cluster)
        assert done.returncode == 1
        assert "changed: deckhouse.gpu.cards" in done.stdout

        on(cluster, lambda plane: plane.delete(resources.NODEFEATURERULE, names.NODE_FEATURE_RULE))
        done = run("--node", "fine", "-o", "json", kubeconfig=cluster)
        assert [finding["reason"] for finding in json.loads(done.stdout)["findings"]] == ["RuleAbsent"]
    finally:
        on(cluster, reports)


def test_it_waits_until_all_is_as_expected_and_says_so_on_a_terminal(cluster: Path) -> None:
    """A label is put right after the first reading was shown to a person to have found it wrong."""
    master, slave = pty.openpty()
    command = [*COMMAND, "--kubeconfig", str(cluster), "--node", "edited", "--wait", "180"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=slave, text=True) as process:
        try:
            os.close(slave)
            assert "not as expected yet" in _until(master, "not as expected yet")
            on(cluster, lambda plane: plane.node("edited", **labels()))
            stdout, _ = process.communicate(timeout=PATIENCE)
            assert process.returncode == 0
            assert stdout.endswith("All is as expected.\n")
        finally:
            process.kill()
            os.close(master)
            on(cluster, nodes)


def _until(terminal: int, words: str) -> str:
    """What a terminal shows until it shows these words."""
    shown, deadline = "", time.monotonic() + PATIENCE
    while words not in shown:
        assert time.monotonic() < deadline, shown
        if select.select([terminal], [], [], 0.5)[0]:
            shown += os.read(terminal, 4096).decode()
    return shown


def test_waiting_ends_with_the_time_and_with_the_last_findings(cluster: Path) -> None:
    began = time.monotonic()
    done = run("--node", "edited", "--wait", "3", kubeconfig=cluster)

    assert done.returncode == 1
    assert "LabelDifferent" in done.stdout
    assert done.stderr == ""
    assert time.monotonic() - began >= 3


def test_ctrl_c_ends_it_without_a_stack_trace(cluster: Path) -> None:
    master, slave = pty.openpty()
    # Where the tests run in the background of a shell, children would inherit that Ctrl-C is ignored.
    command = ["/usr/bin/env", "--default-signal=INT", *COMMAND]
    command += ["--kubeconfig", str(cluster), "--node", "edited", "--wait", "180"]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=slave, text=True) as process:
        try:
            os.close(slave)
            _until(master, "not as expected yet")
            process.send_signal(signal.SIGINT)
            stdout, _ = process.communicate(timeout=PATIENCE)
            assert (process.returncode, stdout) == (130, "")
        finally:
            process.kill()
            os.close(master)


def test_a_reader_who_has_seen_enough_is_no_error(cluster: Path) -> None:
    """As in `… | head -1`."""
    command = [*COMMAND, "--kubeconfig", str(cluster)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        assert process.stderr.read() == ""
        assert process.wait(PATIENCE) == 1


@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (["--node"], "expected at least one argument"),
        (["--wait", "soon"], "a number of seconds, 0 or more, is expected, got 'soon'"),
        (["--timeout", "-1"], "a number of seconds, 0 or more, is expected, got '-1'"),
        (["--wait", "nan"], "got 'nan'"),
        (["--node", "fine", "Not A Name"], "'Not A Name' cannot be the name of a node"),
        (["--node", "a,b)"], "'a,b)' cannot be the name of a node"),
        (["--node", ""], "'' cannot be the name of a node"),
        (["-o", "xml"], "invalid choice: 'xml'"),
        (["fine"], "unrecognized arguments: fine"),
        (["--kubeconfig", "does-not-exist"], "cannot use does-not-exist"),
        (["--kubeconfig", "pyproject.toml"], "cannot use pyproject.toml"),
        ([], "cannot use the pod's own credentials"),
    ],
)
def test_a_mistake_is_answered_in_a_sentence(argv: list[str], words: str) -> None:
    done = run(*argv)

    assert done.returncode == 2
    assert words in done.stderr
    assert done.stdout == ""


@pytest.mark.parametrize("name", ["absent", "absent." * 10 + "x"])
def test_a_node_that_is_not_there(cluster: Path, name: str) -> None:
    done = run("--node", "fine", name, kubeconfig=cluster)

    assert done.returncode == 2
    assert f"no node {name}, and nothing on record of it" in done.stderr
    assert done.stdout == ""


def test_no_answer_from_the_api_server(cluster: Path, tmp_path: Path) -> None:
    nowhere = _as(cluster, tmp_path / "kubeconfig", "x", server="https://127.0.0.1:1")

    for more in ([], ["--wait", "1"]):
        done = run(*more, kubeconfig=nowhere)
        assert done.returncode == 2
        assert done.stderr.startswith("gpu-nfd-coverage: no answer from the API server (")
        assert "the kubeconfig names" in done.stderr


def test_a_reading_that_takes_too_long(cluster: Path) -> None:
    done = run("--timeout", "0", kubeconfig=cluster)

    assert done.returncode == 2
    assert "took more than 0 s; give --timeout more" in done.stderr


def _as(kubeconfig: Path, target: Path, token: str, **cluster: str) -> Path:
    """A kubeconfig for another user, and perhaps for another server."""
    made = yaml.safe_load(kubeconfig.read_text())
    made["clusters"][0]["cluster"] |= cluster
    made["users"][0]["user"] = {"token": token}
    target.write_text(yaml.safe_dump(made))
    return target


def _token(cluster: Path, account: str) -> str:
    """A token of a ServiceAccount of ours."""

    async def ask(plane: Plane) -> str:
        path = f"/api/v1/namespaces/{names.NAMESPACE}/serviceaccounts/{account}/token"
        body = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        return str(orjson.loads(await plane.client.request("POST", path, body=body))["status"]["token"])

    return str(on(cluster, ask))


@pytest.fixture
def token(cluster: Path, installed: dict[str, dict[str, Any]]) -> str:
    """The command's own."""
    return _token(cluster, names.COVERAGE)


@pytest.fixture(scope="module")
def installed(cluster: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[str, Any]]:
    """The chart's objects of this command, applied; by kind."""
    rendered = harness.objects(harness.render(harness.programs()["helm"]))
    ours = [one for one in rendered if one["metadata"]["name"].split(":")[-1] == names.COVERAGE]
    manifests = tmp_path_factory.mktemp("chart") / "ours.yaml"
    manifests.write_text(yaml.safe_dump_all(ours))
    done = _kubectl(cluster, "apply", "-f", str(manifests))
    assert done.returncode == 0, done.stderr
    return {one["kind"]: one for one in ours}


def _kubectl(kubeconfig: Path, *argv: str) -> subprocess.CompletedProcess[str]:
    command = [str(harness.programs()["kubectl"]), "--kubeconfig", str(kubeconfig), "-n", names.NAMESPACE, *argv]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_its_own_identity_may_read_all_that_it_needs(cluster: Path, token: str, tmp_path: Path) -> None:
    own = _as(cluster, tmp_path / "own", token)

    for argv, status in (([], 1), (["--node", "fine"], 0)):
        done = run(*argv, kubeconfig=own)
        assert (done.returncode, done.stderr) == (status, "")
        assert done.stdout == run(*argv, kubeconfig=cluster).stdout


def test_without_a_permission_it_says_which_are_needed(cluster: Path, tmp_path: Path) -> None:
    account = {"metadata": {"name": "nobody"}}
    path = f"/api/v1/namespaces/{names.NAMESPACE}/serviceaccounts"
    on(cluster, lambda plane: plane.client.request("POST", path, body=account))

    done = run(kubeconfig=_as(cluster, tmp_path / "nobody", _token(cluster, "nobody")))

    assert done.returncode == 2
    assert 'cannot list resource "nodes"' in done.stderr
    assert "ClusterRole d8:gpu-control-plane:gpu-nfd-coverage" in done.stderr


def test_a_job_is_made_of_the_cronjob_at_any_time(cluster: Path, installed: dict[str, dict[str, Any]]) -> None:
    assert installed["CronJob"]["spec"]["suspend"] is True

    done = _kubectl(cluster, "create", "job", "--from=cronjob/gpu-nfd-coverage", "check-1")

    assert done.returncode == 0, done.stderr
    job = json.loads(_kubectl(cluster, "get", "job", "check-1", "-o", "json").stdout)
    (container,) = job["spec"]["template"]["spec"]["containers"]
    assert container["command"] == ["python3", *COMMAND[1:]]
    assert job["spec"]["backoffLimit"] == 0
    assert job["spec"].get("suspend", False) is False
    assert run(*container["args"], "--help").returncode == 0


def test_an_administrator_schedules_it() -> None:
    sets = ["gpuControlPlane.nfdCoverage.suspend=false", "gpuControlPlane.nfdCoverage.schedule=0 * * * *",
            "gpuControlPlane.controllers.apiServer.host=192.0.2.7"]  # fmt: skip
    rendered = harness.objects(harness.render(harness.programs()["helm"], *sets))
    (made,) = [one for one in rendered if one["kind"] == "CronJob"]
    (container,) = made["spec"]["jobTemplate"]["spec"]["template"]["spec"]["containers"]

    assert (made["spec"]["suspend"], made["spec"]["schedule"]) == (False, "0 * * * *")
    assert {one["name"]: one["value"] for one in container["env"]} == {
        "KUBERNETES_SERVICE_HOST": "192.0.2.7", "KUBERNETES_SERVICE_PORT": "443",
    }  # fmt: skip


def _read(cluster: Path) -> ClusterState:
    async def work(plane: Plane) -> ClusterState:
        return await Reader(plane.client, Progress()).read()

    return on(cluster, work)


def test_lists_are_read_in_pages(cluster: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = _read(cluster)
    monkeypatch.setattr(read, "PAGE", 2)
    monkeypatch.setattr(read, "PAGE_OF_REPORTS", 2)

    assert len(whole.reports) == 8
    assert _read(cluster) == whole


def test_a_list_whose_version_is_forgotten_between_pages_is_begun_anew(
    cluster: Path, token: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = _read(cluster)
    monkeypatch.setattr(read, "PAGE_OF_REPORTS", 3)
    server = Server(controlplane.load(cluster.parent), token)

    async def through_faults(times: int | None) -> ClusterState:
        proxy = await FaultProxy(server).start()
        fault = proxy.fail(lambda exchange: "continue" in exchange.query, 410, times=times)
        client = await Client.connect(server.kubeconfig(tmp_path / "proxy", url=proxy.url), user_agent="tested")
        try:
            return await Reader(client, Progress()).read()
        finally:
            assert fault.hits == (times or read.LISTS)
            await client.close()
            await proxy.close()

    assert asyncio.run(through_faults(1)) == whole
    with pytest.raises(Gone):
        asyncio.run(through_faults(None))


async def test_an_api_server_that_comes_back_while_it_waits(cluster: Path, token: str, tmp_path: Path) -> None:
    server = Server(controlplane.load(cluster.parent), token)
    proxy = await FaultProxy(server).start()
    kubeconfig = server.kubeconfig(tmp_path / "proxy", url=proxy.url)
    await proxy.down()
    master, slave = pty.openpty()
    flags = ["--kubeconfig", str(kubeconfig), "--node", "fine", "--wait", "180"]
    process = await asyncio.create_subprocess_exec(
        *COMMAND, *flags, cwd=ROOT, stdout=asyncio.subprocess.PIPE, stderr=slave
    )
    try:
        os.close(slave)
        await asyncio.to_thread(_until, master, "no answer yet")
        await proxy.up()
        stdout, _ = await asyncio.wait_for(process.communicate(), PATIENCE)
        assert process.returncode == 0
        assert stdout.endswith(b"All is as expected.\n")
    finally:
        os.close(master)
        if process.returncode is None:
            process.kill()
        await proxy.close()


def test_without_nfd_and_with_reports_of_another_form(cluster: Path, tmp_path: Path) -> None:
    """NFD's CRDs go; then somebody installs one that lets anything through."""
    loose = harness.node_feature_crd()

    async def remove(plane: Plane) -> None:
        for name in NFD_CRDS:
            await plane.delete(CRD, name)
        for resource in (resources.NODEFEATURE, resources.NODEFEATURERULE):
            await plane.until(lambda resource=resource: _absent(plane, resource), f"{resource.kind} to go")

    async def odd(plane: Plane) -> None:
        await plane.client.create(CRD, loose, manager="test")
        await plane.until(lambda: plane._served(resources.NODEFEATURE.path()), "the kind")
        bad = feature("fine", "fine", 7, namespace=NFD)
        await plane.put(resources.NODEFEATURE, bad)
        await plane.report("fine", [reported(0), reported(1)])

    async def restore(plane: Plane) -> None:
        for name in NFD_CRDS:
            if await plane.get(CRD, name):
                await plane.delete(CRD, name)
        for resource in (resources.NODEFEATURE, resources.NODEFEATURERULE):
            await plane.until(lambda resource=resource: _absent(plane, resource), f"{resource.kind} to go")
        await plane.install()
        await reports(plane)

    try:
        on(cluster, remove)
        done = run(kubeconfig=cluster)
        assert done.returncode == 1
        assert "the API server does not serve NodeFeature" in done.stdout
        assert "5 nodes: 5 as expected, 0 not" in done.stdout
        assert done.stdout.startswith("FAIL  the whole cluster\n      NFDNotServed\n")

        on(cluster, odd)
        result = json.loads(run("-o", "json", kubeconfig=cluster).stdout)
        assert [one["reason"] for one in result["findings"]] == ["NFDNotServed", "Unreadable"]
        assert result["findings"][1]["about"] == f"NodeFeature {NFD}/fine"
        assert result["findings"][1]["found"].startswith("spec.features: ")
        # The others are compared: what the node's own agent says can still be read.
        assert {one["name"]: one["cards"] for one in result["nodes"]}["fine"] == 2
    finally:
        on(cluster, restore)
    assert run("--node", "fine", kubeconfig=cluster).returncode == 0


async def _absent(plane: Plane, resource: resources.Resource) -> bool:
    return not await plane._served(resource.path())


def test_help_names_every_exit_status() -> None:
    done = run("--help")

    assert done.returncode == 0
    assert all(f"\n  {status}  " in done.stdout for status in (0, 1, 2))
    assert all(len(line) <= 80 for line in done.stdout.splitlines())
