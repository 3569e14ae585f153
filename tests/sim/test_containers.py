"""The control plane's second backend: its programs in containers, behind the same functions."""

import os
import signal
from pathlib import Path

import docker
import pytest

from sim.controlplane import containers, down, status, up
from sim.controlplane.layout import Layout
from sim.controlplane.spec import ProcessSpec
from sim.controlplane.state import read_state
from sim.module.install import Tools, install_crds
from tests.tools.lacking import in_one_line
from tools.errors import UserError
from tools.images.daemon import connected

POOL = """\
apiVersion: gpu.deckhouse.io/v1alpha1
kind: GPUPool
metadata:
  name: contained
spec:
  allocation:
    mode: Exclusive
"""


def test_processes_are_the_rule_and_an_unknown_word_is_told(monkeypatch):
    monkeypatch.delenv(containers.VARIABLE, raising=False)
    assert not containers.chosen()
    monkeypatch.setenv(containers.VARIABLE, "testcontainers")
    assert containers.chosen()
    monkeypatch.setenv(containers.VARIABLE, "docker")
    with pytest.raises(UserError, match="processes or testcontainers"):
        containers.chosen()


def test_without_a_daemon_a_person_is_told_what_to_do(monkeypatch, tmp_path):
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    with pytest.raises(UserError, match=f"unset {containers.VARIABLE}"):
        containers.connect()


def test_a_daemon_that_ended_does_not_keep_a_directory(monkeypatch, tmp_path):
    (tmp_path / "plane").mkdir()
    layout = Layout.of(tmp_path / "plane")
    layout.containers.write_text("image:1\n")
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/nobody.sock")
    down(layout.root)
    assert not layout.root.exists()


def test_a_container_is_the_same_process_to_everybody_else(tmp_path):
    layout = Layout.of(tmp_path)
    plain = ProcessSpec("etcd", ("/programs/etcd", "--flag=1"), stage=0, grace=0.2, ports={"client": 1})
    inside = containers.wrapped(plain, layout, "image:1")
    assert (inside.name, inside.stage, inside.ports, inside.ready) == ("etcd", 0, {"client": 1}, plain.ready)
    assert inside.argv[-2:] == ("/bin/etcd", "--flag=1")
    assert inside.grace > plain.grace
    assert containers.name_of(layout.root, "etcd") != containers.name_of(layout.root / "other", "etcd")


@pytest.fixture(scope="module")
def client(tmp_path_factory):
    folder: Path = tmp_path_factory.mktemp("docker")
    try:
        with connected(folder) as found, pytest.MonkeyPatch.context() as patch:
            if (own := folder / "docker.sock").exists():
                patch.setenv("DOCKER_HOST", f"unix://{own}")
            patch.setenv(containers.VARIABLE, containers.CONTAINERS)
            yield found
    except UserError as error:
        pytest.skip(in_one_line(error))


def ours(client: docker.DockerClient, folder: Path):
    return client.containers.list(all=True, filters={"label": f"{containers.LABEL}={folder.resolve()}"})


@pytest.mark.more("runs the control plane in Docker")
@pytest.mark.cluster
def test_a_control_plane_in_containers_takes_the_crds_and_a_pool_and_leaves_nothing(client, tmp_path):
    plane = up(tmp_path / "plane")
    try:
        running = {
            container.name.removeprefix(containers.name_of(plane.dir, "")) for container in ours(client, plane.dir)
        }
        assert running == set(plane.processes)
        tools = Tools(plane.kubectl, Path(os.devnull), plane.kubeconfig)
        install_crds(tools)
        tools.run("create", "--filename=-", stdin=POOL)
        assert tools.run("get", "gpupool", "contained", "-o=jsonpath={.spec.allocation.mode}") == "Exclusive"
        assert status(plane.dir).processes["kube-scheduler"].phase == "ready"
    finally:
        down(plane.dir)
    assert ours(client, plane.dir) == []
    assert not plane.dir.exists()


@pytest.mark.more("runs the control plane in Docker")
@pytest.mark.cluster
def test_down_finds_containers_whose_runner_was_killed(client, tmp_path):
    plane = up(tmp_path / "plane", with_controller_manager=False, with_scheduler=False, with_kwok=False)
    state = read_state(Layout.of(plane.dir).state)
    for process in (state.supervisor, *(process.identity for process in state.processes.values())):
        process.signal(signal.SIGKILL)
    assert ours(client, plane.dir)
    down(plane.dir)
    assert ours(client, plane.dir) == []
