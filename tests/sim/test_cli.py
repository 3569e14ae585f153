"""The command line behind the Makefile: what a person types, and types wrong."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from controllers.api import names
from controllers.runtime.errors import Unreachable
from sim import cluster as clusters
from sim import controlplane
from sim.__main__ import main
from sim.controlplane import ControlPlane, ProcessSpec, Ready
from sim.controlplane.layout import Layout
from sim.demo import story
from sim.module.install import Tools, render
from sim.nodes.names import KUBELET
from sim.view import View
from tests.kit.waiting import PATIENCE
from tools.errors import UserError
from tools.programs import Silent

ROOT = Path(__file__).resolve().parents[2]


def run(*argv: str, timeout: float = 900) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "sim", *argv]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout, check=False)


@pytest.mark.parametrize(
    ("argv", "status", "words"),
    [
        (["up", "--nodes", "many"], 2, "0 or more, got 'many'"),
        (["up", "--profile", "h200"], 1, "one of a100-sxm-8"),
        (["up", "--profile", "t4-4=two"], 1, "cannot read the profile"),
        (["fly"], 2, "invalid choice"),
        ([], 2, "COMMAND"),
    ],
)
def test_a_mistake_is_answered_in_a_sentence(tmp_path: Path, argv: list[str], status: int, words: str) -> None:
    done = run("--dir", str(tmp_path), *argv)

    assert done.returncode == status
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_down_and_status_of_nothing(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--dir", str(tmp_path), "down"]) == 0
    assert main(["--dir", str(tmp_path), "status"]) == 3
    assert "nothing is up" in capsys.readouterr().out


def fake(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def status(folder: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, Any]]:
    capsys.readouterr()
    code = main(["--dir", str(folder), "status", "-o", "json"])
    return code, json.loads(capsys.readouterr().out)


def left(folder: Path) -> list[int]:
    return [p.pid for p in psutil.process_iter(["cmdline"]) if str(folder) in " ".join(p.info["cmdline"] or [])]


def test_a_warning_is_shown_once_and_kept(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kubectl = fake(tmp_path / "kubectl", "echo made; echo 'Warning: old' >&2; echo 'Warning: odd' >&2; echo other >&2")
    tools = Tools(kubectl, kubectl, tmp_path / "kubeconfig")

    assert [tools.run("apply"), tools.run("apply")] == ["made\n", "made\n"]

    assert tools.warnings == ["Warning: old", "Warning: odd"]
    assert capsys.readouterr().err == "Warning: old\nWarning: odd\n"


def test_helm_is_told_the_version_of_go_mod(tmp_path: Path) -> None:
    helm = fake(tmp_path / "helm", 'echo "$@"')
    required = (clusters.programs.catalog.MODULES / "kubernetes" / "go.mod").read_text()

    version = render(Tools(helm, helm, tmp_path), {}).partition("--kube-version=")[2].split()[0]

    assert f"k8s.io/kubernetes {version}\n" in required


@pytest.mark.cluster
def test_installing_gives_no_warning_and_up_says_that_it_is_up(
    cluster: ControlPlane, capsys: pytest.CaptureFixture[str]
) -> None:
    facts = json.loads(Layout.of(cluster.dir).module.read_text())
    assert facts["warnings"] == []
    # That a warning of this API server would have been seen:
    tools = Tools(cluster.kubectl, cluster.kubectl, cluster.kubeconfig)
    spec = {"nodeSelector": {"beta.kubernetes.io/arch": "amd64"}, "containers": [{"name": "c", "image": "i"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "warned"}, "spec": spec}
    tools.run("create", "--dry-run=server", "--filename=-", stdin=json.dumps(pod))
    assert len(tools.warnings) == 1

    code, found = status(cluster.dir, capsys)
    assert (code, found["up"], found["half_up"]) == (0, True, False)
    assert main(["--dir", str(cluster.dir), "up"]) == 0
    assert "it is up already" in capsys.readouterr().out


@pytest.mark.cluster
def test_what_came_up_in_part_is_not_called_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def broken(_: Tools) -> None:
        raise UserError("the CRDs are broken")

    monkeypatch.setattr(clusters, "install_crds", broken)
    folder, up = tmp_path / "run", ["--dir", str(tmp_path / "run"), "up"]
    try:
        assert main(up) == 1
        err = capsys.readouterr().err
        assert "the CRDs are broken" in err
        assert "`make down` ends the rest" in err

        assert main(up) == 1
        err = capsys.readouterr().err
        assert "half up" in err
        assert "`make down` first" in err

        assert main(["--dir", str(folder), "status"]) == 3
        assert capsys.readouterr().out.startswith("half up")
        code, found = status(folder, capsys)
        assert (code, found["up"], found["half_up"]) == (3, False, True)
    finally:
        assert main(["--dir", str(folder), "down"]) == 0
    assert left(folder) == []
    assert not folder.exists()
    assert status(folder, capsys) == (3, {"up": False, "half_up": False, "server": None, "processes": []})


def test_the_marker_of_a_whole_cluster_goes_with_it(tmp_path: Path) -> None:
    marker = Layout.of(tmp_path / "run").module
    marker.parent.mkdir()
    marker.write_text("{}")
    assert not clusters.is_whole(tmp_path / "run")

    controlplane.down(tmp_path / "run")

    assert not marker.exists()


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (UserError("no etcd [/x]"), 1, "no etcd [/x]"),
        (Unreachable("GET /api: refused"), 1, "GET /api: refused"),
        (story.LateError("not true after 3 s"), 1, "not true after 3 s"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
def test_a_demo_that_fails_says_so_and_takes_the_cluster_down(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    words: str,
) -> None:
    def fails(*_: object) -> None:
        raise error

    downs: list[Path] = []
    monkeypatch.setattr(story, "bring_up", fails)
    monkeypatch.setattr(controlplane, "down", downs.append)

    assert main(["--dir", str(tmp_path), "demo"]) == code

    assert downs == [tmp_path]
    assert words in capsys.readouterr().out
    assert main(["--dir", str(tmp_path), "demo", "--keep"]) == code
    assert downs == [tmp_path]
    assert "`make down` ends it" in capsys.readouterr().out


@pytest.mark.cluster
def test_an_interrupted_demo_leaves_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "sim", "--dir", str(tmp_path / "run"), "demo"]
    # Where the tests run in the background of a shell, children would inherit that Ctrl-C is ignored.
    with subprocess.Popen(
        ["/usr/bin/env", "--default-signal=INT", *command],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as demo:
        assert demo.stdout is not None
        said = ""
        while "the module's processes" not in said:
            line = demo.stdout.readline()
            assert line, said
            said += line
        os.kill(demo.pid, signal.SIGINT)
        said += demo.stdout.read()

    assert demo.returncode == 130, said
    assert "interrupted" in said
    assert "Traceback" not in said
    assert left(tmp_path) == []
    assert not (tmp_path / "run").exists()


async def test_a_kubectl_that_hangs_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "bin").mkdir()
    fake(tmp_path / "bin" / "kubectl", "exec sleep 20")
    monkeypatch.setattr(story, "KUBECTL_SECONDS", 0.1)
    plane = ControlPlane(tmp_path, "https://127.0.0.1:1", tmp_path / "kubeconfig", tmp_path / "ca", {}, ())

    with pytest.raises(story.LateError, match="kubectl get pods did not end"):
        await story.Story(plane, story.Teller())._kubectl("get", "pods")


@pytest.mark.cluster
@pytest.mark.slow("a cluster comes up, the whole story is told, the cluster goes")
def test_the_demo_tells_the_story_and_leaves_nothing(tmp_path: Path) -> None:
    done = run("--dir", str(tmp_path / "run"), "demo")

    assert done.returncode == 0, done.stdout + done.stderr
    for word in (names.CARDS_GATE, names.QUEUED, names.EVENT_QUEUED, "The pod waits for 1 slot of GPUPool training"):
        assert word in done.stdout
    for word in (names.ACCESS_DENIED, f"{names.ASSIGNMENT}=training", "kube-scheduler"):
        assert word in done.stdout
    assert names.INSUFFICIENT_CAPACITY not in done.stdout
    for manager in (names.MANAGER_INVENTORY, names.MANAGER_BOOTSTRAP, names.MANAGER_POOL, names.MANAGER_ADMISSION):
        assert f" {manager} " in done.stdout
    assert f" {names.MANAGER_PLUGIN} (simulated)" in done.stdout
    assert left(tmp_path) == []
    assert not (tmp_path / "run").exists()


@pytest.mark.cluster
@pytest.mark.slow("a cluster comes up, a node's driver is installed, the cluster goes")
def test_the_demo_of_a_bare_node_tells_how_it_gets_its_driver_and_leaves_nothing(tmp_path: Path) -> None:
    done = run("--dir", str(tmp_path / "run"), "demo", "--driver")

    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("no image nvcr.io/nvidia/driver:599.99.99-ubuntu24.04", "580.178.04", "on record as Good"):
        assert word in done.stdout
    for manager in (names.MANAGER_DISCOVER, names.MANAGER_DRIVER, names.MANAGER_BOOTSTRAP, names.MANAGER_POOL):
        assert f" {manager} " in done.stdout
    assert left(tmp_path) == []
    assert not (tmp_path / "run").exists()


@pytest.mark.cluster
async def test_a_step_that_somebody_else_took_ends_the_story(cluster: ControlPlane, view: View) -> None:
    told = story.Story(cluster, story.Teller())
    told._view = view
    await view.until(lambda: view.ready() > 0 and bool([*view.devices]), PATIENCE, view.unready)
    card = next(iter(view.devices)).name

    await told._owners_of_cards(names.MANAGER_INVENTORY, [card], "hardware")
    with pytest.raises(story.LateError, match=f"status.hardware is written by gpu-inventory; expected: {KUBELET}"):
        await told._owners_of_cards(KUBELET, [card], "hardware")


async def test_a_step_that_takes_long_tells_what_it_waits_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(story, "PATIENCE", 0.05)
    plane = ControlPlane(tmp_path, "https://127.0.0.1:1", tmp_path / "kubeconfig", tmp_path / "ca", {}, ())

    with pytest.raises(story.LateError, match=r"cards come: not true after 0 s; found: 1 of 3 \[a\]"):
        await story.Story(plane, story.Teller())._until("cards come", lambda: False, 0.3, lambda: "1 of 3 [a]")

    assert "cards come: 1 of 3 [a]" in capsys.readouterr().out


@pytest.mark.cluster
def test_a_process_that_does_not_start_is_told_at_once_with_its_log(cluster: ControlPlane) -> None:
    broken = ProcessSpec(name="broken", argv=("/bin/sh", "-c", "echo cannot; exit 7"), ready=Ready(files=("/never",)))
    try:
        with pytest.raises(
            UserError, match=r"broken was restarted 4 times, and ended with 7; the end of (.|\n)*cannot"
        ):
            clusters._start(cluster, [broken], Silent())
    finally:
        controlplane.remove_process(cluster.dir, "broken")
