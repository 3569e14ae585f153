"""The kernel and the process itself say which runtime a node has; one that is not known is named, not guessed."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import sysconfig
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from controllers.api.foreign import TOOLKIT_PID
from controllers.api.runtime_state import REFUSED
from nodeagent.toolkit.config.sources import Refused
from nodeagent.toolkit.cri import RuntimeUnavailable
from nodeagent.toolkit.host import Host, Server
from nodeagent.toolkit.keeper import Keeper
from nodeagent.toolkit.kinds import base
from nodeagent.toolkit.kinds.containerd import Containerd
from tests.nodeagent.toolkit.programs import installed

if TYPE_CHECKING:
    from collections.abc import Iterator

SERVE = """
import socket, sys, time
with socket.socket(socket.AF_UNIX) as server:
    server.bind({path!r})
    server.listen()
    time.sleep(600)
"""


@contextmanager
def served(root: Path, program: str, *flags: str) -> Iterator[Containerd]:
    """A process of that name that listens where containerd would."""
    place = root / "run/containerd/containerd.sock"
    place.parent.mkdir(parents=True)
    script, copied = root / "serve.py", root / "usr/bin" / program
    script.write_text(SERVE.format(path=str(place)))
    copied.parent.mkdir(parents=True)
    shutil.copy(os.path.realpath(sys.executable), copied)
    env = {"PYTHONHOME": sys.base_prefix, "LD_LIBRARY_PATH": str(sysconfig.get_config_var("LIBDIR"))}
    child = subprocess.Popen([copied, script, *flags], env=env)
    try:
        while not answers(place):
            assert child.poll() is None
            time.sleep(0.02)
        yield Containerd(root)
    finally:
        child.kill()
        child.wait()


def answers(place: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(place)) == 0


def test_the_process_behind_the_socket_says_where_its_configuration_is(short_path: Path) -> None:
    with served(short_path, "containerd", "--config", "/etc/containerd/other.toml") as host:
        server = host.server()

    program = str(short_path / "usr/bin/containerd")
    assert (server.program, server.main, server.unit) == (program, "/etc/containerd/other.toml", "")
    assert server.parent == os.getpid()


@pytest.mark.parametrize(
    ("flags", "main"),
    [
        ((), "/etc/containerd/config.toml"),
        (("-c", "/x.toml"), "/x.toml"),
        (("--config=/y.toml", "--log-level", "info"), "/y.toml"),
    ],
)
def test_its_configuration_is_the_usual_one_unless_it_was_told_another(
    short_path: Path, flags: tuple[str, ...], main: str
) -> None:
    with served(short_path, "containerd", *flags) as host:
        assert host.server().main == main


@pytest.mark.parametrize(
    "main", ["/var/lib/rancher/k3s/agent/etc/containerd/config.toml", "/run/docker/containerd/containerd.toml"]
)
def test_a_configuration_that_is_made_at_each_start_is_left_alone(short_path: Path, main: str) -> None:
    with served(short_path, "containerd", "--config", main) as host, pytest.raises(Refused, match="is made anew by"):
        host.server()


def test_another_program_at_the_socket_is_named(short_path: Path) -> None:
    with served(short_path, "stranger") as host, pytest.raises(Refused, match="/usr/bin/stranger serves"):
        host.server()


def test_a_program_that_does_not_end_has_refused_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a busy node would remember for ever that its configuration cannot be read."""
    slow = tmp_path / "usr/bin/containerd"
    slow.parent.mkdir(parents=True)
    slow.write_text("#!/bin/sh\nexec sleep 600\n")
    slow.chmod(0o755)
    monkeypatch.setattr(base, "PRINT_SECONDS", 0.3)

    with pytest.raises(RuntimeUnavailable, match=r"config default` did not end within 0\.3 s"):
        Containerd(Path("/")).dump(Server(1, str(slow), str(tmp_path / "config.toml"), ""))


def test_nobody_at_the_socket_is_told_and_nothing_is_written(tmp_path: Path) -> None:
    installed(tmp_path)

    state = Keeper(Host(tmp_path)).reconcile()

    assert (state.phase, "nobody serves" in state.reason) == (REFUSED, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["usr"]


def test_the_operators_toolkit_is_seen_by_its_pid_file_while_its_process_lives(tmp_path: Path) -> None:
    host, file = Host(tmp_path, proc=tmp_path / "proc"), tmp_path / TOOLKIT_PID.lstrip("/")
    assert not host.has_others_toolkit()

    file.parent.mkdir(parents=True)
    file.write_text("77\n")
    assert not host.has_others_toolkit(), "it ended and left its file"

    words = tmp_path / "proc/77/cmdline"
    words.parent.mkdir(parents=True)
    words.write_bytes(b"/usr/bin/sleep\0")
    assert not host.has_others_toolkit(), "another process has its number now"
    words.write_bytes(b"/work/nvidia-toolkit\0--flag\0")
    assert host.has_others_toolkit()

    file.write_text("77" + " " * 1000)
    assert not host.has_others_toolkit(), "no pid file is as long as that"
