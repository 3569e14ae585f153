"""Where a node's driver lies: the agents' rule, and the same one in the toolkit's shell, on the same hosts."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import TYPE_CHECKING

import pytest

from controllers.components import podspec
from controllers.components.pods.toolkit import LOCATE
from nodeagent.host import library
from nodeagent.host.paths import HostPaths

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

DRIVER = "/run/nvidia/driver"
FOLDER = "usr/lib/x86_64-linux-gnu"
HOSTS = ("/", "/", f"/{FOLDER}/libnvidia-ml.so.550.1")
NONE = ("/", "/", "")
CONTAINERS = (DRIVER, "/", f"{DRIVER}/{FOLDER}/libnvidia-ml.so.580.2")
Found = tuple[str, str, str]
"""The driver's root, the root of its device nodes, its library."""


def write(path: Path, link: str = "") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if link:
        path.symlink_to(link)
    else:
        path.write_text("")


def install(root: Path, version: str) -> None:
    write(root / FOLDER / f"libnvidia-ml.so.{version}")
    write(root / FOLDER / "libnvidia-ml.so.1", f"libnvidia-ml.so.{version}")


def nothing(host: Path) -> Found:
    (host / "usr").mkdir()
    return NONE


def on_the_host(host: Path) -> Found:
    install(host, "550.1")
    return HOSTS


def in_a_container(host: Path) -> Found:
    install(host / DRIVER[1:], "580.2")
    return CONTAINERS


def both(host: Path) -> Found:
    install(host, "550.1")
    return in_a_container(host)


def with_device_nodes(host: Path) -> Found:
    write(host / DRIVER[1:] / "dev/nvidiactl")
    root, _, found = in_a_container(host)
    return root, DRIVER, found


def with_a_dev_of_other_nodes(host: Path) -> Found:
    write(host / DRIVER[1:] / "dev/null")
    return in_a_container(host)


def ended(host: Path) -> Found:
    """What GPU Operator's leaves behind: the folder, and in it one that kubelet made for the firmware."""
    write(host / DRIVER[1:] / "lib/firmware/nvidia/580.2/gsp_ga10x.bin")
    return on_the_host(host)


def ended_without_one_on_the_host(host: Path) -> Found:
    (host / DRIVER[1:]).mkdir(parents=True)
    return nothing(host)


def dead_link(host: Path) -> Found:
    write(host / DRIVER[1:] / FOLDER / "libnvidia-ml.so.1", "libnvidia-ml.so.580.2")
    return on_the_host(host)


def round_links(host: Path) -> Found:
    write(host / DRIVER[1:] / FOLDER / "libnvidia-ml.so.1", "libnvidia-ml.so.1")
    return on_the_host(host)


def links_inside(host: Path) -> Found:
    """Absolute ones, as Debian's alternatives are, mean the container's own root."""
    root = host / DRIVER[1:]
    write(root / "usr/lib/nvidia/current/libnvidia-ml.so.580.2")
    write(root / "etc/alternatives/ml", "/usr/lib/nvidia/current/libnvidia-ml.so.580.2")
    write(root / FOLDER / "libnvidia-ml.so.1", "/etc/alternatives/ml")
    return DRIVER, "/", f"{DRIVER}/usr/lib/nvidia/current/libnvidia-ml.so.580.2"


def link_to_the_hosts(host: Path) -> Found:
    """What is on the host only is not in the container's root."""
    found = on_the_host(host)
    write(host / DRIVER[1:] / "usr/lib64/libnvidia-ml.so.1", f"/{FOLDER}/libnvidia-ml.so.550.1")
    return found


def link_upwards(host: Path) -> Found:
    """Above a root is the root."""
    root = host / DRIVER[1:]
    write(root / "usr/lib64/libnvidia-ml.so.1", "../../../../../opt/ml.so.580.2")
    write(root / "opt/ml.so.580.2")
    return DRIVER, "/", f"{DRIVER}/opt/ml.so.580.2"


def folder_of_libraries_is_a_link(host: Path) -> Found:
    root = host / DRIVER[1:]
    write(root / "opt/lib/libnvidia-ml.so.1")
    write(root / "usr/lib64", "/opt/lib")
    return DRIVER, "/", f"{DRIVER}/opt/lib/libnvidia-ml.so.1"


def root_is_a_link(host: Path) -> Found:
    install(host / "opt/driver", "580.2")
    write(host / DRIVER[1:], "/opt/driver")
    return "/opt/driver", "/", f"/opt/driver/{FOLDER}/libnvidia-ml.so.580.2"


def root_is_the_hosts(host: Path) -> Found:
    write(host / DRIVER[1:], "/")
    return on_the_host(host)


def root_is_no_folder(host: Path) -> Found:
    write(host / DRIVER[1:])
    return on_the_host(host)


CASES = (
    nothing, on_the_host, in_a_container, both, with_device_nodes, with_a_dev_of_other_nodes, ended,
    ended_without_one_on_the_host, dead_link, round_links, links_inside, link_to_the_hosts, link_upwards,
    folder_of_libraries_is_a_link, root_is_a_link, root_is_the_hosts, root_is_no_folder,
)  # fmt: skip
SHELLS = [["sh"], *([["busybox", "sh"]] if shutil.which("busybox") else [])]


def told(host: Path, driver: str = DRIVER) -> Found:
    """By the agents; paths are told as the host has them."""
    found = HostPaths(root=host, driver_root=host.__class__(driver)).driver()
    assert found.path == host / found.name[1:]
    assert (found.reported_name or "/") == found.name
    return found.name, f"/{found.devices.relative_to(host)}".replace("/.", "/"), found.library


def by_shell(shell: list[str], host: Path, driver: str = DRIVER) -> Found:
    script = f'{LOCATE}\nlocate; printf "%s|" "$root" "$nodes" "$library"'
    done = subprocess.run(
        [*shell, "-euc", script], env={"PATH": os.environ["PATH"], "HOST": str(host), "DRIVER": driver},
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    root, nodes, found, _ = done.stdout.split("|")
    return root, nodes, found


@pytest.mark.parametrize("make", CASES, ids=lambda make: make.__name__)
def test_the_drivers_root_is_where_its_library_is(tmp_path: Path, make: Callable[[Path], Found]) -> None:
    expected = make(tmp_path)

    assert told(tmp_path) == expected
    for shell in SHELLS:
        assert by_shell(shell, tmp_path) == expected, shell


def test_another_folder_may_be_named_and_none(tmp_path: Path) -> None:
    both(tmp_path)
    install(tmp_path / "opt/nvidia", "590.3")

    for find in (told, lambda *args: by_shell(SHELLS[0], *args)):
        assert find(tmp_path, "/opt/nvidia")[0] == "/opt/nvidia"
        assert find(tmp_path, "/") == HOSTS


def test_it_is_found_anew_each_time(tmp_path: Path) -> None:
    on_the_host(tmp_path)
    places = HostPaths(root=tmp_path)
    seen = [places.driver().name]
    in_a_container(tmp_path)
    seen.append(places.driver().name)
    assert places.library_roots() == (tmp_path / DRIVER[1:],), "the host's library is another driver's"
    shutil.rmtree(tmp_path / DRIVER[1:])
    (tmp_path / DRIVER[1:]).mkdir()
    seen.append(places.driver().name)

    assert seen == ["/", DRIVER, "/"]


def test_a_folder_that_leads_nowhere_is_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A mount whose file system is gone answers every question with an error."""
    both(tmp_path)
    real = type(tmp_path).exists

    def exists(path: Path) -> bool:
        if path.is_relative_to(tmp_path / DRIVER[1:]):
            raise OSError(116, "Stale file handle", str(path))
        return real(path)

    monkeypatch.setattr(type(tmp_path), "exists", exists)
    assert told(tmp_path) == HOSTS


def test_the_shell_looks_in_the_same_folders() -> None:
    line = LOCATE.partition("for folder in ")[2].partition("; do")[0]

    assert tuple(line.replace("\\\n", " ").replace('""', "-").split()) == (*library.FOLDERS[:-1], "-")


def test_bootstrap_and_the_agents_mean_the_same_folder() -> None:
    assert str(HostPaths().driver_root) == podspec.DRIVER_ROOT
