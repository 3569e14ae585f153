"""Whether this machine can run a real node, and what it lacks."""

from __future__ import annotations

import os
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Final

from sim.realnode.places import PLUGINS, POD_RESOURCES

CNI: Final = Path("/usr/lib/cni")
CNI_PLUGINS: Final = ("ptp", "host-local", "loopback")
OURS: Final = (PLUGINS.name, POD_RESOURCES.name)
"""What a node of ours leaves in kubelet's usual folder."""
CRIO_HELPERS: Final = ("conmon", "nsenter", "runc")
INSTALL: Final = "apt-get install runc conmon util-linux containernetworking-plugins gcc libc6-dev"


def lacking() -> str:
    """Why no real node can run here, and what to do; empty where one can."""
    return missing() or taken()


def missing() -> str:
    """What the machine would have to have."""
    if sys.platform != "linux":
        return f"a real node needs Linux, not {sys.platform}"
    if os.geteuid() != 0:
        return "a real node needs root (namespaces, mounts, device nodes): run `sudo make e2e`"
    absent = [name for name in ("runc", "umount", "unshare", "cc") if shutil.which(name) is None]
    absent += [str(CNI / name) for name in CNI_PLUGINS if not (CNI / name).exists()]
    if told := _not_found(absent):
        return told
    return "" if _may() else "root may not make namespaces and device nodes here, as in an ordinary container"


def missing_for_crio() -> str:
    """What a machine that can run a node would have to have for CRI-O, too."""
    return _not_found([name for name in CRIO_HELPERS if shutil.which(name) is None])


def _not_found(absent: list[str]) -> str:
    return f"{', '.join(absent)} not found; `make e2e-tools` installs it (sudo {INSTALL})" if absent else ""


def taken() -> str:
    """Who has the place already."""
    if answers(PLUGINS / "kubelet.sock"):
        return (
            f"a kubelet runs on this machine ({PLUGINS / 'kubelet.sock'} answers): its device plugins would meet ours"
        )
    if foreign := sorted({path.name for path in PLUGINS.parent.glob("*")} - set(OURS)):
        return f"this machine is a node of a cluster: {PLUGINS.parent} holds {', '.join(foreign[:3])}"
    return ""


def _may() -> bool:
    """Whether root has the rights that it usually has."""
    made = subprocess.run(["unshare", "--mount", "--net", "--pid", "--fork", "true"], capture_output=True, check=False)
    try:
        with tempfile.TemporaryDirectory() as folder:
            os.mknod(Path(folder) / "null", stat.S_IFCHR | 0o600, os.makedev(1, 3))
    except PermissionError:
        return False
    return made.returncode == 0


def answers(path: Path) -> bool:
    """Whether somebody listens at a socket."""
    with socket.socket(socket.AF_UNIX) as client:
        client.settimeout(1.0)
        try:
            client.connect(str(path))
        except OSError:
            return False
    return True
