"""What the control plane is made of, as data: program, source module, flags, release.

Nothing here does I/O apart from reading the ``go.mod`` files, which are the single place
where versions are written, and the sources of what is our own. Environment variable
``GPU_CONTROL_PLANE_KUBERNETES`` (such as ``1.31.14``) chooses another version of Kubernetes.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Final

from tools.errors import UserError

MODULES: Final = Path(__file__).parent
KUBERNETES: Final = "k8s.io/kubernetes"
CHOICE: Final = "GPU_CONTROL_PLANE_KUBERNETES"
"""The environment variable that chooses a version of Kubernetes."""


@dataclass(frozen=True, slots=True)
class Release:
    """Where a program is published, as templates over version, os, arch and base.

    ``checksums`` is a file with lines ``<sha256> [<file name>]``; a program whose project
    publishes none is never downloaded, because nothing could vouch for it.
    """

    base_env: str
    base: str
    file: str
    checksums: str
    member: str = ""


@dataclass(frozen=True, slots=True)
class Unit:
    """One ``go build``: a package of a module under this folder and the names it serves.

    ``versioned_by`` is the module whose version the programs have; empty for a program of our
    own, which has no releases and is told from others by its sources alone.
    """

    name: str
    module: str
    package: str
    versioned_by: str
    programs: tuple[str, ...]
    stamp: str = ""
    tags: str = ""
    """Go's build tags, separated by commas."""

    @property
    def folder(self) -> Path:
        """The folder of the Go module."""
        return MODULES / self.module

    @property
    def chosen(self) -> str:
        """The version that a person chose over the one of ``go.mod``; empty where nobody did."""
        other = chosen_kubernetes() if self.versioned_by == KUBERNETES else ""
        return other if other and other != self._written else ""

    @property
    def version(self) -> str:
        """The version that is chosen, else the one that the module's ``go.mod`` requires."""
        return self.chosen or self._written

    @property
    def _written(self) -> str:
        return required_version((self.folder / "go.mod").read_text(), self.versioned_by)

    @property
    def sources(self) -> dict[str, bytes]:
        """The files of the module that decide what is built, by name.

        Of a chosen version the indirect requirements and the sums are not known before: Go finds them,
        and checks them by its checksum database.
        """
        # A module that requires nothing has no go.sum.
        files = [self.folder / "go.mod", *self.folder.glob("go.sum"), *self.folder.glob("*.go")]
        found = {path.name: path.read_bytes() for path in sorted(files)}
        if self.chosen:
            found.pop("go.sum", None)
            found["go.mod"] = of_version(found["go.mod"].decode(), self._written, self.chosen).encode()
        return found

    @property
    def ldflags(self) -> str:
        """Linker flags: no debug data, and the version that clients read.

        Without the stamp kube-apiserver calls itself v0.0.0 and clients switch features off.
        """
        flags = ["-s", "-w"]
        if self.stamp:
            major, minor, *_ = self.version.removeprefix("v").split(".")
            values = {"gitVersion": self.version, "gitMajor": major, "gitMinor": minor}
            flags += [f"-X {self.stamp}.{key}={value}" for key, value in values.items()]
        return " ".join(flags)


_STAMP: Final = "k8s.io/component-base/version"

CLUSTER_UNITS: Final = (
    Unit(
        "etcd",
        "tools",
        "go.etcd.io/etcd/server/v3",
        "go.etcd.io/etcd/server/v3",
        ("etcd",),
    ),
    Unit(
        "kubernetes",
        "kubernetes",
        ".",
        KUBERNETES,
        ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl"),
        stamp=_STAMP,
    ),
    Unit("kwok", "tools", "sigs.k8s.io/kwok/cmd/kwok", "sigs.k8s.io/kwok", ("kwok",)),
    Unit("helm", "helm", "helm.sh/helm/v3/cmd/helm", "helm.sh/helm/v3", ("helm",)),
    Unit("nfd-rule", "nfd", ".", "", ("nfd-rule",)),
)

_CONTAINERD: Final = "github.com/containerd/containerd"


def _containerd(program: str) -> Unit:
    # What stores layers on other file systems needs C, or a device mapper.
    tags = "no_btrfs,no_devmapper,no_zfs,no_aufs"
    return Unit(program, "containerd", f"{_CONTAINERD}/cmd/{program}", _CONTAINERD, (program,), tags=tags)


# What a real node runs, which only the end-to-end tests start.
NODE_UNITS: Final = (
    Unit("kubelet", "kubernetes", "k8s.io/kubernetes/cmd/kubelet", KUBERNETES, ("kubelet",), stamp=_STAMP),
    _containerd("containerd"),
    _containerd("containerd-shim-runc-v2"),
    _containerd("ctr"),
    Unit("payload", "payload", ".", "", ("payload",)),
)

# What other nodes run in place of containerd 1.7.
_CONTAINERD_2: Final = "github.com/containerd/containerd/v2"


def _containerd2(program: str, package: str) -> Unit:
    tags = "no_btrfs,no_devmapper,no_zfs"
    return Unit(program, "containerd2", f"{_CONTAINERD_2}/cmd/{package}", _CONTAINERD_2, (program,), tags=tags)


RUNTIME_UNITS: Final = (
    _containerd2("containerd2", "containerd"),
    _containerd2("containerd2-shim", "containerd-shim-runc-v2"),
    Unit(
        "crio",
        "crio",
        "github.com/cri-o/cri-o/cmd/crio",
        "github.com/cri-o/cri-o",
        ("crio",),
        tags="containers_image_openpgp,exclude_graphdriver_btrfs,containers_image_ostree_stub",
    ),
)

UNITS: Final = (*CLUSTER_UNITS, *NODE_UNITS, *RUNTIME_UNITS)

PROGRAMS: Final = tuple(program for unit in CLUSTER_UNITS for program in unit.programs)
NODE_PROGRAMS: Final = tuple(program for unit in NODE_UNITS for program in unit.programs)
RUNTIME_PROGRAMS: Final = tuple(program for unit in RUNTIME_UNITS for program in unit.programs)

_KUBERNETES: Final = {
    "base_env": "GPU_CONTROL_PLANE_KUBERNETES_URL",
    "base": "https://dl.k8s.io",
}

RELEASES: Final = {
    "etcd": Release(
        "GPU_CONTROL_PLANE_ETCD_URL",
        "https://github.com/etcd-io/etcd/releases/download",
        "{base}/{version}/etcd-{version}-{os}-{arch}.tar.gz",
        "{base}/{version}/SHA256SUMS",
        "etcd-{version}-{os}-{arch}/etcd",
    ),
    "helm": Release(
        "GPU_CONTROL_PLANE_HELM_URL",
        "https://get.helm.sh",
        "{base}/helm-{version}-{os}-{arch}.tar.gz",
        "{base}/helm-{version}-{os}-{arch}.tar.gz.sha256sum",
        "{os}-{arch}/helm",
    ),
} | {
    program: Release(
        **_KUBERNETES,
        file="{base}/{version}/bin/{os}/{arch}/" + program,
        checksums="{base}/{version}/bin/{os}/{arch}/" + program + ".sha256",
    )
    for program in (
        "kube-apiserver",
        "kube-controller-manager",
        "kube-scheduler",
        "kubectl",
        "kubelet",
    )
}


def unit_of(program: str) -> Unit:
    """Return the unit that builds ``program``; a name not in the catalogue is a KeyError."""
    for unit in UNITS:
        if program in unit.programs:
            return unit
    raise KeyError(program)


def units_of(programs: Iterable[str]) -> tuple[Unit, ...]:
    """Return the units that build ``programs``, each once, in the catalogue's order."""
    wanted = set(programs)
    return tuple(unit for unit in UNITS if wanted & set(unit.programs))


def required_version(go_mod: str, module: str) -> str:
    """Return the version of ``module`` that a ``go.mod`` requires."""
    found = re.search(rf"^\s*(?:require\s+)?{re.escape(module)}\s+(v\S+)", go_mod, re.MULTILINE)
    if found is None:
        raise ValueError(f"go.mod requires no {module}")
    return found.group(1)


def chosen_kubernetes() -> str:
    """Return the version of Kubernetes that the environment chooses, as ``v1.31.14``; empty where it chooses none."""
    given = os.environ.get(CHOICE, "").strip()
    if not given:
        return ""
    if not re.fullmatch(r"v?1\.\d+\.\d+", given):
        raise UserError(f"{CHOICE} is {given!r}", expected="a version such as 1.31.14", do="name a released version")
    return "v" + given.removeprefix("v")


def of_version(go_mod: str, written: str, chosen: str) -> str:
    """Return a ``go.mod`` that requires another Kubernetes, its staging modules (v0.x beside v1.x) among them."""
    direct = re.sub(r"^require \((?:\n\t\S+ \S+ // indirect)+\n\)\n", "", go_mod, flags=re.MULTILINE)
    staging = direct.replace(f"v0{written[2:]}", f"v0{chosen[2:]}")
    return staging.replace(f"{KUBERNETES} {written}", f"{KUBERNETES} {chosen}")


def content_key(unit: Unit, system: str, arch: str) -> str:
    """Hash all that decides what the unit's program does, apart from Go itself."""
    return _content_key(unit, unit.ldflags, system, arch, tuple(unit.sources.items()))


@cache
def _content_key(unit: Unit, ldflags: str, system: str, arch: str, sources: tuple[tuple[str, bytes], ...]) -> str:
    digest = hashlib.sha256()
    tags = (unit.tags,) if unit.tags else ()
    for part in (unit.name, unit.package, *unit.programs, ldflags, system, arch, *tags):
        digest.update(part.encode() + b"\0")
    for name, content in sources:
        digest.update(name.encode() + b"\0" + hashlib.sha256(content).digest())
    return digest.hexdigest()[:16]
