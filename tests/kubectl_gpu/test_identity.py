"""Under whose name, in which colours: kubeconfigs with a token and with an exec plugin, terminals, NO_COLOR."""

from __future__ import annotations

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tests.kit.waiting import PATIENCE
from tests.kubectl_gpu.conftest import ROOT, Kubectl
from tests.slice.people import People

pytestmark = pytest.mark.cluster
ESCAPE = "\x1b["


def kubeconfig(kubectl: Kubectl, path: Path, user: dict[str, object], namespace: str = "default") -> Path:
    """The administrator's file with other contexts: `nobody`, and the current one for this user."""
    made = yaml.safe_load(kubectl.plane.kubeconfig.read_text())
    cluster = made["clusters"][0]["name"]
    made["users"] = [{"name": "one", "user": user}, {"name": "nobody", "user": {"token": "wrong"}}]
    made["contexts"] = [
        {"name": "one", "context": {"cluster": cluster, "user": "one", "namespace": namespace}},
        {"name": "nobody", "context": {"cluster": cluster, "user": "nobody"}},
    ]
    made["current-context"] = "one"
    path.write_text(yaml.safe_dump(made))
    return path


async def test_a_token_an_exec_plugin_and_a_context(people: People, kubectl: Kubectl, tmp_path: Path) -> None:
    await people.namespace("robots")
    token = kubectl.run("create", "token", "default", "-n", "robots").stdout.strip()
    name = "system:serviceaccount:robots:default"

    with_token = str(kubeconfig(kubectl, tmp_path / "token", {"token": token}, "robots"))
    assert f"error: {name} may not list" in kubectl.fails("cards", "--kubeconfig", with_token)
    assert "in namespace robots" in kubectl.fails("explain", "pod", "x", "--kubeconfig", with_token)

    status = {"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {"token": token}}
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "echo", "args": [json.dumps(status)]}
    with_exec = str(kubeconfig(kubectl, tmp_path / "exec", {"exec": {**plugin, "interactiveMode": "Never"}}))
    assert f"error: {name} may not list" in kubectl.fails("cards", "--kubeconfig", with_exec)

    said = kubectl.fails("cards", "--kubeconfig", with_token, "--context", "nobody")
    assert "The cluster does not accept your credentials (401)." in said
    assert "Did you mean nobody?" in kubectl.fails("cards", "--kubeconfig", with_token, "--context", "nobdy")
    both = Kubectl(
        kubectl.plane, kubectl.programs, {"KUBECONFIG": f"{with_token}{os.pathsep}{kubectl.plane.kubeconfig}"}
    )
    admin = yaml.safe_load(kubectl.plane.kubeconfig.read_text())["current-context"]
    assert "gpu-1" in both.gpu("nodes", "--context", admin)


async def test_act_as_somebody_else(people: People, kubectl: Kubectl) -> None:
    assert "error: joe may not list" in kubectl.fails("pools", "--as", "joe")
    masters = ("--as-group", "system:masters")
    for groups in (masters, (*masters, "--as-group", "guests"), ("--as-group", "guests", *masters)):
        assert "gpu-1" in kubectl.gpu("nodes", "--as", "joe", *groups)


def on_a_terminal(kubectl: Kubectl, **env: str) -> str:
    """The output of `kubectl gpu nodes` with a terminal as standard output."""
    parent, child = pty.openpty()
    environment = {**kubectl.environment, "TERM": "xterm", **env}
    try:
        done = subprocess.Popen(["kubectl-gpu", "nodes"], env=environment, stdout=child, stderr=subprocess.PIPE)
        os.close(child)
        text = b""
        while True:
            try:
                piece = os.read(parent, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            text += piece
        _, errors = done.communicate(timeout=PATIENCE)
    finally:
        os.close(parent)
    assert done.returncode == 0, errors
    return text.decode()


async def test_colours_are_for_terminals_that_want_them(
    people: People, kubectl: Kubectl, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", f"{kubectl.programs}{os.pathsep}{os.environ['PATH']}")
    assert ESCAPE in on_a_terminal(kubectl)
    assert ESCAPE not in on_a_terminal(kubectl, NO_COLOR="1")
    assert ESCAPE not in on_a_terminal(kubectl, TERM="dumb")
    assert ESCAPE not in kubectl.gpu("nodes")


def test_it_is_quick() -> None:
    """Whatever the machine is busy with: nothing is loaded that a help text does not need."""
    script = "import sys; from kubectl_gpu.parser import build; build(); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True, cwd=ROOT)
    assert not {"aiohttp", "kubernetes_asyncio", "argcomplete", "pydantic", "yaml"} & set(done.stdout.split())


async def test_an_ascii_terminal_gets_ascii(people: People, kubectl: Kubectl) -> None:
    plain = Kubectl(kubectl.plane, kubectl.programs, {"LC_ALL": "C", "PYTHONIOENCODING": "ascii"})
    said = plain.gpu("explain", "node", "gpu-1")
    assert said.isascii()
    assert "\n  + Ready: node gpu-1 is prepared" in said.replace("Node gpu-1 is prepared", "node gpu-1 is prepared")
