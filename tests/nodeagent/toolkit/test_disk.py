"""Files of the host are written whole, as they were but for their content; and the way back leads back."""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

from nodeagent.toolkit import disk
from nodeagent.toolkit.config.plan import Change, Plan
from nodeagent.toolkit.config.sources import FORMER, MAIN
from nodeagent.toolkit.host import Host
from nodeagent.toolkit.way_back import STATE, Overtaken, WayBack, digest

if TYPE_CHECKING:
    from pathlib import Path


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_mode_and_attributes_stay(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"a")
    path.chmod(0o640)
    marked = False
    with suppress(OSError):  # a file system without them
        os.setxattr(path, "user.test", b"x")
        marked = True

    disk.write(path, b"b")

    assert (path.read_bytes(), mode(path)) == (b"b", 0o640)
    assert not marked or os.getxattr(path, "user.test") == b"x"
    assert [each.name for each in tmp_path.iterdir()] == ["config.toml"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files away")
def test_the_owner_stays(tmp_path: Path) -> None:
    path = tmp_path / "config.toml"
    path.write_bytes(b"a")
    os.chown(path, 1234, 4321)

    disk.write(path, b"b")

    assert (path.stat().st_uid, path.stat().st_gid) == (1234, 4321)


def test_a_file_that_a_killed_process_left_unfinished_is_no_hindrance(tmp_path: Path) -> None:
    (tmp_path / ".config.toml.gpu-control-plane").write_bytes(b"half")

    disk.write(tmp_path / "config.toml", b"b")

    assert [each.name for each in tmp_path.iterdir()] == ["config.toml"]
    assert mode(tmp_path / "config.toml") == 0o644


def test_the_way_back_leads_back_and_is_roots_alone_while_it_is_there(tmp_path: Path) -> None:
    host, main, former = Host(tmp_path), tmp_path / MAIN.lstrip("/"), tmp_path / FORMER.lstrip("/")
    former.parent.mkdir(parents=True)
    main.write_bytes(b"a")
    main.chmod(0o640)
    former.write_bytes(b"password")
    new = "/etc/containerd/conf.d/new.toml"
    back = WayBack(host)

    back.carry_out([Change(MAIN, b"a", b"b"), Change(FORMER, b"password", None), Change(new, None, b"n")])

    assert (main.read_bytes(), former.exists(), host.read(new)) == (b"b", False, b"n")
    folder = tmp_path / STATE.lstrip("/")
    assert (mode(folder), mode(folder / "way-back.json")) == (0o700, 0o600)
    assert WayBack(host).go(), "another process goes back"
    assert (main.read_bytes(), mode(main), host.read(new)) == (b"a", 0o640, None)
    assert (former.read_bytes(), mode(former)) == (b"password", 0o600), "closed, since it holds passwords"
    assert not back.go()
    assert list(folder.iterdir()) == []


def test_another_release_of_containerd_is_asked_again_what_a_former_one_refused() -> None:
    done = Plan((Change(MAIN, b"", b"1"),))

    assert digest(done, (1, 6)) == digest(done, (1, 6))
    assert digest(done, (1, 6)) != digest(done, (1, 7))


def test_what_somebody_wrote_since_is_not_undone(tmp_path: Path) -> None:
    host = Host(tmp_path)
    main = tmp_path / MAIN.lstrip("/")
    main.parent.mkdir(parents=True)
    main.write_bytes(b"a")
    back = WayBack(host)
    back.carry_out([Change(MAIN, b"a", b"b")])
    main.write_bytes(b"the administrator's")

    assert back.go()
    assert main.read_bytes() == b"the administrator's"


def test_what_somebody_wrote_after_the_look_is_not_overwritten(tmp_path: Path) -> None:
    host = Host(tmp_path)
    main = tmp_path / MAIN.lstrip("/")
    main.parent.mkdir(parents=True)
    main.write_bytes(b"the administrator's")

    with pytest.raises(Overtaken, match=r"somebody has just written /etc/containerd/config\.toml"):
        WayBack(host).carry_out([Change(MAIN, b"a", b"b")])
    assert main.read_bytes() == b"the administrator's"
    assert not WayBack(host).open
