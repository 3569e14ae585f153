"""What of a machine belongs to a real node's runtime, as far as paths tell it."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from sim.realnode import sweep
from sim.realnode.places import Places


@pytest.fixture
def places(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Places:
    monkeypatch.setattr(sweep, "CGROUPS", tmp_path / "cgroup")
    made = Places(tmp_path / "node")
    made.root.mkdir()
    return made


def groups(*names: str) -> None:
    for name in names:
        (sweep.CGROUPS / name).mkdir(parents=True)


def test_only_the_monitors_of_the_node_are_its(places: Places) -> None:
    shim, conmon = f"/x/{sweep.SHIM}", f"/usr/bin/{sweep.CONMON}"
    assert sweep._is_monitor([shim, "-address", str(places.socket)], places)
    assert sweep._is_monitor([conmon, "-b", str(places.crio / "run" / "vfs-containers" / "0a30")], places)
    assert not sweep._is_monitor([shim, "-address", "/run/containerd/containerd.sock"], places)
    assert not sweep._is_monitor([conmon, "-b", "/run/containers/storage/overlay-containers/0a30"], places)
    assert not sweep._is_monitor(["/usr/bin/crio", str(places.crio)], places)
    assert not sweep._is_monitor([""], places)


@pytest.mark.parametrize("tree", ["", "pids/"])
def test_control_groups_of_another_cri_o_stay(places: Places, tree: str) -> None:
    groups(f"{tree}crio-theirs", f"{tree}crio/crio-theirs")
    assert sweep._groups(places) == []
    sweep.note_groups(places)
    ours = (f"{tree}crio-0a30", f"{tree}crio-conmon-0a30", f"{tree}crio/crio-0a31")
    groups(*ours)
    assert {str(group.relative_to(sweep.CGROUPS)) for group in sweep._groups(places)} == set(ours)


@pytest.mark.parametrize("tree", ["", "pids/"])
def test_control_groups_of_containerd_are_those_of_its_bundles(places: Places, tree: str) -> None:
    groups(f"{tree}k8s.io/theirs", f"{tree}k8s.io/ours")
    (places.containerd / "state" / "io.containerd.runtime.v2.task" / "k8s.io" / "ours").mkdir(parents=True)
    assert sweep._groups(places) == [sweep.CGROUPS / f"{tree}k8s.io/ours"]


def test_only_what_is_in_the_node_s_own_containers_is_ended(places: Places) -> None:
    sweep.note_groups(places)
    groups("pids/crio/crio-0a30", "pids/crio/crio-theirs")
    for group in sweep._groups(places):
        (group / "cgroup.procs").write_text(f"{os.getpid()}\n")
    assert sweep._inside(places, sweep._groups(places)) == []
    (places.crio / "run" / "vfs-containers" / "0a30").mkdir(parents=True)
    (found,) = sweep._inside(places, sweep._groups(places))
    assert found.pid == os.getpid()


def test_a_shim_s_socket_is_told_by_either_containerd(tmp_path: Path) -> None:
    sockets = [tmp_path / name for name in ("first", "second")]
    for socket in sockets:
        socket.touch()
    bundles = [tmp_path / name for name in ("1.7", "2", "without")]
    for bundle in bundles:
        bundle.mkdir()
    (bundles[0] / "address").write_text(f"unix://{sockets[0]}")
    (bundles[1] / "bootstrap.json").write_text(json.dumps({"address": f"unix://{sockets[1]}", "protocol": "ttrpc"}))
    for bundle in bundles:
        sweep._forget_socket(bundle)
    assert [socket.exists() for socket in sockets] == [False, False]
