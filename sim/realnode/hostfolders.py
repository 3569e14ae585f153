"""The host's folders that pods of the module mount: made for the node, and taken away with it.

A pod names kubelet's folders where they usually are, and this kubelet's root is elsewhere: a link leads there. Others
kubelet itself makes where they are absent (`DirectoryOrCreate`); which those are is written down before it starts, so
that the machine keeps what it had. And a node shares its mounts with its pods, which an ordinary machine need not do.
"""

from __future__ import annotations

import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

from sim.realnode import needs
from sim.realnode.places import PLUGINS, POD_RESOURCES

if TYPE_CHECKING:
    from sim.realnode.places import Places

SHARED: Final = Path("/run/nvidia")
"""Where a driver's container mounts its root, in a folder of it: pods are to see that."""
MADE_BY_KUBELET: Final = (
    Path("/etc/cdi"), Path("/var/run/cdi"), Path("/etc/containerd"), Path("/run/gpu-control-plane"),
    SHARED / "driver", SHARED,
)  # fmt: skip
MADE_BY_CRIO: Final = (Path("/var/lib/containers/cache"), Path("/var/lib/containers"))
"""Left empty. Others keep their images beside it, who may have begun to meanwhile: it is never removed whole."""
KEPT_BY_PROGRAMS: Final = (Path("/var/lib/cni"), Path("/var/log/containers"))
"""What plugins of networks and kubelet keep where no setting leads elsewhere; removed whole if it was absent."""


def prepare(places: Places) -> None:
    """Lead from kubelet's usual folder to its own, and note what the machine lacks; before kubelet starts."""
    made = (*MADE_BY_KUBELET, *MADE_BY_CRIO, *KEPT_BY_PROGRAMS)
    places.absent.write_text("".join(f"{path}\n" for path in made if not path.exists()))
    POD_RESOURCES.parent.mkdir(parents=True, exist_ok=True)
    POD_RESOURCES.symlink_to(places.pod_resources.parent)


def share() -> None:
    """Have pods see what is mounted below `SHARED` after their start: containerd refuses that of a private mount."""
    SHARED.mkdir(exist_ok=True)
    for flags in (("--bind", str(SHARED), str(SHARED)), ("--make-shared", str(SHARED))):
        subprocess.run(["mount", *flags], check=True, capture_output=True)


def forget(places: Places) -> None:
    """Remove what kubelet made for pods, and our mount; needs the node's folder."""
    if places.absent.exists():
        while any(line.split()[4] == str(SHARED) for line in Path("/proc/self/mountinfo").read_text().splitlines()):
            subprocess.run(["umount", "--lazy", "--recursive", str(SHARED)], check=True, capture_output=True)
    for line in places.absent.read_text().splitlines() if places.absent.exists() else ():
        if Path(line) in KEPT_BY_PROGRAMS:
            shutil.rmtree(line, ignore_errors=True)
        with suppress(OSError):
            Path(line).rmdir()  # only where nothing else is in it


def forget_plugins() -> None:
    """Remove what an earlier kubelet remembers of devices: it would hold them for pods that are gone."""
    if POD_RESOURCES.is_symlink():
        POD_RESOURCES.unlink()
    for left in PLUGINS.glob("*") if PLUGINS.is_dir() else ():
        left.unlink(missing_ok=True)
    for folder in (*(PLUGINS.parent / name for name in needs.OURS), PLUGINS.parent):
        with suppress(OSError):
            folder.rmdir()  # only where nothing else is in it
