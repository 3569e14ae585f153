"""The container runtimes that a real node can have: programs, configuration, and how images come to it."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal, Protocol

from sim.controlplane.ports import free_ports
from sim.realnode import cni, containerd, crio, distribution, needs, pinns, registry, runtime
from sim.realnode.command import output
from sim.realnode.sweep import NAMESPACE, SHIM, note_groups
from tools import programs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from sim.controlplane import ProcessSpec
    from sim.realnode.places import Places
    from tools.programs import Progress

IMPORT_SECONDS: Final = 60.0
_BUILT: Final = {"1.7": ("containerd", SHIM, "ctr"), "2": ("containerd2", "containerd2-shim", "ctr")}
"""The names among our programs of containerd, its shim and `ctr`, by release."""


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
        if self.release == "1.6":
            return {**programs.ensure(("ctr",), progress=progress), **distribution.containerd(progress)}
        built = _BUILT[self.release]
        found = programs.ensure(built, progress=progress)
        return dict(zip((*distribution.PROGRAMS, "ctr"), (found[name] for name in built), strict=True))

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
            what = f"containerd does not take the images of {archive}"
            output([*import_, str(archive)], what, seconds=IMPORT_SECONDS)


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


def _network(places: Places) -> None:
    for folder in (places.cni, places.addresses):
        folder.mkdir()
    (places.cni / cni.FILE).write_text(cni.network(places))
