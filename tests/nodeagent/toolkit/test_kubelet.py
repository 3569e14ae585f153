"""On a host with several runtimes the one that makes pods is configured, or none: kubelet's process says which."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from controllers.api.runtime_state import BY_HAND, READY, REFUSED, SETTLED
from nodeagent.toolkit.config.sources import MAIN
from nodeagent.toolkit.host import Host
from nodeagent.toolkit.keeper import Keeper
from nodeagent.toolkit.kinds import choice
from nodeagent.toolkit.kinds.containerd import Containerd
from nodeagent.toolkit.state import State
from tests.nodeagent.toolkit.programs import installed
from tests.nodeagent.toolkit.test_host import served

if TYPE_CHECKING:
    from pathlib import Path

CONTAINERD, CRIO = "/run/containerd/containerd.sock", "/run/crio/crio.sock"
K0S = "/run/k0s/containerd.sock"
K3S = "/run/k3s/containerd/containerd.sock"
DOCKER = "/run/cri-dockerd.sock"
CONFIG = "/var/lib/kubelet/config.yaml"


def host(tmp_path: Path, *words: str, sockets: tuple[str, ...] = (CONTAINERD, CRIO), name: str = "kubelet") -> Host:
    """A host with these sockets, and a process of that name; its root is the host's."""
    made = Host(tmp_path / "root", tmp_path / "proc")
    installed(made.root)
    for path in sockets:
        (made.root / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
        (made.root / path.lstrip("/")).touch()
    process(made, 7, "/usr/bin/kubelet", *words, name=name)
    return made


def process(made: Host, pid: int, *words: str, name: str = "kubelet", root: Path | None = None) -> None:
    (folder := made.proc / str(pid)).mkdir(parents=True)
    (folder / "comm").write_text(f"{name}\n")
    (folder / "cmdline").write_text("\0".join((*words, "")))
    (folder / "root").symlink_to(root or made.root)


def configured(made: Host, text: str, path: str = CONFIG) -> None:
    (made.root / path.lstrip("/")).parent.mkdir(parents=True, exist_ok=True)
    (made.root / path.lstrip("/")).write_text(text)


ELSEWHERE = {
    "flag": ((f"--container-runtime-endpoint=unix://{K0S}",), ""),
    "flag of two words": (("--container-runtime-endpoint", f"unix://{K0S}", "--v=2"), ""),
    "no scheme": ((f"--container-runtime-endpoint={K0S}",), ""),
    "configuration": (
        (f"--config={CONFIG}",),
        f"kind: KubeletConfiguration\ncontainerRuntimeEndpoint: unix://{K0S}\n",
    ),
    "as JSON": ((f"--config={CONFIG}",), f'{{"containerRuntimeEndpoint": "unix://{K0S}", "port": 1}}'),
    "JSON in a line, not first": ((f"--config={CONFIG}",), f'{{"port":1,"containerRuntimeEndpoint":"unix://{K0S}"}}'),
    "a value in the next line": ((f"--config={CONFIG}",), f"containerRuntimeEndpoint:\n  unix://{K0S}\n"),
    "flag wins": (
        (f"--config={CONFIG}", f"--container-runtime-endpoint=unix://{K0S}"),
        f"containerRuntimeEndpoint: unix://{CONTAINERD}\n",
    ),
}


@pytest.mark.parametrize("case", ELSEWHERE)
def test_a_containerd_beside_kubelets_runtime_is_left_alone(tmp_path: Path, case: str) -> None:
    words, text = ELSEWHERE[case]
    made = host(tmp_path, *words)
    configured(made, text)

    state = Keeper(made).reconcile()

    assert state.phase == BY_HAND
    assert state.phase in SETTLED, "whether cards reach containers the validator says"
    assert f"kubelet uses {K0S} (k0s), and not {CONTAINERD}" in state.reason
    assert not (made.root / MAIN.lstrip("/")).exists()


def test_a_containerd_that_answers_is_no_reason_to_take_it_for_kubelets(short_path: Path) -> None:
    with served(short_path / "root", "containerd") as running:
        pid = running.server().pid
        made = host(short_path, f"--container-runtime-endpoint=unix://{K0S}", sockets=(K0S,))
        (made.proc / str(pid)).symlink_to(f"/proc/{pid}")
        assert made.listener(CONTAINERD).pid == pid

        assert Keeper(made).reconcile().phase == BY_HAND


def test_the_last_drop_in_of_kubelets_configuration_counts(tmp_path: Path) -> None:
    made = host(tmp_path, f"--config={CONFIG}", "--config-dir=/etc/kubelet.d")
    configured(made, f"containerRuntimeEndpoint: unix://{CONTAINERD}\n")
    configured(made, f"containerRuntimeEndpoint: unix://{CONTAINERD}\n", "/etc/kubelet.d/10-a.conf")
    configured(made, f"containerRuntimeEndpoint: unix://{K0S}\n", "/etc/kubelet.d/20-b.conf")
    configured(made, f"# containerRuntimeEndpoint: unix://{CONTAINERD}\n", "/etc/kubelet.d/30-c.conf")

    assert Keeper(made).reconcile().phase == BY_HAND


@pytest.mark.parametrize("words", [(), (f"--container-runtime-endpoint=unix://{CONTAINERD}",), (f"--config={CONFIG}",)])
@pytest.mark.parametrize("other", [CRIO, K3S])
def test_kubelets_own_containerd_is_configured_whatever_else_is_there(
    tmp_path: Path, words: tuple[str, ...], other: str
) -> None:
    state = Keeper(host(tmp_path, *words, sockets=(CONTAINERD, other))).reconcile()

    assert (state.phase, "nobody serves" in state.reason) == (REFUSED, True), "it is waited for, since it is kubelet's"


@pytest.mark.parametrize("other", [CRIO, K0S])
def test_where_no_kubelet_says_which_of_two_it_uses_none_is_touched(tmp_path: Path, other: str) -> None:
    """MicroK8s' is a part of its program."""
    state = Keeper(host(tmp_path, name="kubelite", sockets=(CONTAINERD, other))).reconcile()

    assert state.phase == BY_HAND
    assert other in state.reason
    assert "no kubelet says which it uses" in state.reason


@pytest.mark.parametrize(
    ("words", "name", "sockets", "kind"),
    [
        (("--container-runtime-endpoint=unix:///var/run/crio/crio.sock",), "kubelet", (CONTAINERD, CRIO), "CRI-O"),
        ((f"--container-runtime-endpoint={DOCKER}",), "kubelet", (CONTAINERD, DOCKER), "Docker"),
        ((f"--container-runtime-endpoint={K3S}",), "kubelet", (CONTAINERD, K3S), "K3s or RKE2"),
        ((), "k3s-server", (CONTAINERD, K3S), "K3s or RKE2"),
        ((), "k3s-agent", (K3S,), "K3s or RKE2"),
        ((), "kubelet", (CONTAINERD, CRIO, K3S), "containerd"),
        ((), "someone", (CRIO,), "CRI-O"),
        ((), "someone", (), "containerd"),
    ],
)
def test_the_kind_of_a_nodes_runtime_is_that_of_kubelets_socket(
    tmp_path: Path, words: tuple[str, ...], name: str, sockets: tuple[str, ...], kind: str
) -> None:
    made = host(tmp_path, *words, name=name, sockets=sockets)
    (made.root / "var").mkdir(exist_ok=True)
    (made.root / "var/run").symlink_to("/run")

    assert choice.of(made).name == kind


def test_a_container_that_calls_its_program_kubelet_has_no_say(tmp_path: Path) -> None:
    made = host(tmp_path, sockets=(CONTAINERD,))
    (tmp_path / "container").mkdir()
    process(made, 8, "kubelet", f"--container-runtime-endpoint=unix://{K0S}", root=tmp_path / "container")

    assert Keeper(made).reconcile().phase == REFUSED, "nobody serves containerd's socket here; that is all"


def test_a_kubelet_that_is_moved_to_another_runtime_is_noticed(tmp_path: Path) -> None:
    made = host(tmp_path, sockets=(CONTAINERD,))
    keeper = Keeper(made)
    assert keeper.reconcile().phase == REFUSED
    (made.proc / "7" / "cmdline").write_text(f"kubelet\0--container-runtime-endpoint=unix://{K0S}\0")

    assert keeper.reconcile().phase == BY_HAND


@pytest.mark.parametrize(
    "text", ["containerRuntimeEndpoint:\ncgroupDriver: systemd\n", 'containerRuntimeEndpoint: ""\n']
)
def test_a_configuration_that_says_nothing_means_containerd(tmp_path: Path, text: str) -> None:
    made = host(tmp_path, f"--config={CONFIG}", sockets=(CONTAINERD,))
    configured(made, text)

    assert Keeper(made).reconcile().phase == REFUSED, "nobody serves containerd's socket here; that is all"


@pytest.mark.parametrize(
    "text",
    ["containerRuntimeEndpoint: [\n", "since: 2026-13-45\n", "failSwapOn: !!bool perhaps\n"],
    ids=["syntax", "no date", "no bool"],
)
def test_a_configuration_that_cannot_be_read_is_told_and_nothing_is_touched(tmp_path: Path, text: str) -> None:
    made = host(tmp_path, f"--config={CONFIG}", sockets=(CONTAINERD,))
    configured(made, text)

    state = Keeper(made).reconcile()

    assert (state.phase, CONFIG in state.reason) == (BY_HAND, True)


def test_a_kubelet_that_is_moved_once_all_is_ready_is_noticed(short_path: Path) -> None:
    """A look at a node that is ready compares what may have changed, and no more."""
    with served(short_path / "root", "containerd") as running:
        pid = running.server().pid
        made = host(short_path, sockets=())
        (made.proc / str(pid)).symlink_to(f"/proc/{pid}")
        keeper = Keeper(made)
        keeper.state, keeper._known = State(READY), Containerd(made.root, made.proc).fingerprint()
        assert keeper.reconcile().phase == READY

        (made.proc / "7" / "cmdline").write_text(f"kubelet\0--container-runtime-endpoint=unix://{K0S}\0")

        assert keeper.reconcile().phase == BY_HAND
