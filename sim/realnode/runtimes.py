"""The container runtimes that a real node can have: programs, configuration, and how images come to it."""

from __future__ import annotations

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol

from sim.controlplane.ports import free_ports
from sim.realnode import cni, containerd, crio, distribution, needs, pinns, registry, runtime
from sim.realnode.sweep import NAMESPACE, SHIM, note_groups
from tools import programs
from tools.errors import UserError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sim.controlplane import ProcessSpec
    from sim.realnode.places import Places
    from tools.programs import Progress

IMPORT_SECONDS: Final = 60.0
_SECOND: Final = ("containerd2", "containerd2-shim")


class Runtime(Protocol):
    """A container runtime of a node: its methods are called in this order."""

    def lacking(self) -> str:
        """What it needs and the machine has not, and what to do; empty where it can run."""

    def programs(self, progress: Progress) -> Mapping[str, Path]:
        """Its programs by name, made where needed; raises UserError."""

    def processes(self, places: Places, found: Mapping[str, Path], archives: Sequence[Path]) -> Sequence[ProcessSpec]:
        """Write its configuration; returns what is to be started, in order. `archives` of images are there then."""

    def load(self, places: Places, found: Mapping[str, Path], archives: Sequence[Path]) -> None:
        """Give images to the runtime, which serves; raises UserError."""


@dataclass(frozen=True, slots=True)
class Containerd:
    """containerd with its shim; images are imported."""

    release: Literal["1.6", "1.7", "2"] = "1.7"
    """1.6 is Debian's, which knows no CDI; others are built from their modules."""

    def lacking(self) -> str:
        """Nothing beside what each node needs, but for Debian's."""
        return distribution.lacking() if self.release == "1.6" else ""

    def programs(self, progress: Progress) -> Mapping[str, Path]:
        """containerd, its shim, and `ctr`, which is 1.7's for all of them."""
        if self.release == "1.7":
            return programs.ensure(("containerd", SHIM, "ctr"), progress=progress)
        found = programs.ensure(("ctr", *(_SECOND if self.release == "2" else ())), progress=progress)
        own = _named(found) if self.release == "2" else distribution.containerd(progress)
        return {**own, "ctr": found["ctr"]}

    def processes(self, places: Places, found: Mapping[str, Path], _archives: Sequence[Path]) -> Sequence[ProcessSpec]:
        """The program alone; its shim is copied to a folder of PATH, under the name by which it is looked for."""
        _network(places)
        places.containerd_config.write_text(containerd.config(places, needs.CNI, cdi=self.release != "1.6"))
        places.programs.mkdir()
        shutil.copy(found[SHIM], places.programs / SHIM)
        command = (str(found["containerd"]), f"--config={places.containerd_config}")
        return (runtime.process(places, "containerd", command),)

    def load(self, places: Places, found: Mapping[str, Path], archives: Sequence[Path]) -> None:
        """Images are imported by `ctr`, which takes what `docker save` leaves, too."""
        import_ = [str(found["ctr"]), f"--address={places.socket}", f"--namespace={NAMESPACE}", "images", "import"]
        for archive in archives:
            done = subprocess.run(
                [*import_, str(archive)], capture_output=True, text=True, timeout=IMPORT_SECONDS, check=False
            )
            if done.returncode:
                raise UserError(f"containerd does not take the images of {archive}: {done.stderr.strip()}")


@dataclass(frozen=True, slots=True)
class Crio:
    """CRI-O with conmon; it pulls images from a registry on loopback, which has those of archives of `write_images`."""

    def lacking(self) -> str:
        """The helpers that CRI-O starts and the machine has not."""
        return needs.missing_for_crio()

    def programs(self, progress: Progress) -> Mapping[str, Path]:
        """CRI-O, and what it starts."""
        found = {name: Path(shutil.which(name) or "") for name in ("conmon", "runc")}
        return {**programs.ensure(("crio",), progress=progress), **found, "pinns": pinns.build(progress)}

    def processes(self, places: Places, found: Mapping[str, Path], archives: Sequence[Path]) -> Sequence[ProcessSpec]:
        """The registry, then CRI-O."""
        _network(places)
        [port] = free_ports(1)
        places.crio.mkdir()
        note_groups(places)
        for name, text in crio.files(places, needs.CNI, found, f"127.0.0.1:{port}").items():
            (places.crio / name).write_text(text)
            (places.crio / name).chmod(0o755 if name == crio.RUNC else 0o644)
        images = registry.process(port, archives)
        return images, runtime.process(places, "crio", crio.command(places, found["crio"]), crio.environment(places))

    def load(self, places: Places, found: Mapping[str, Path], archives: Sequence[Path]) -> None:
        """No image is loaded: kubelet has CRI-O pull them."""


def _named(found: Mapping[str, Path]) -> Mapping[str, Path]:
    """The programs of containerd 2 by the names that those of every containerd have."""
    return dict(zip(("containerd", SHIM), (found[name] for name in _SECOND), strict=True))


def _network(places: Places) -> None:
    for folder in (places.cni, places.addresses):
        folder.mkdir()
    (places.cni / cni.FILE).write_text(cni.network(places))
