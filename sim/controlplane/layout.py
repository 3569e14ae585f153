"""Where everything of one control plane lies below its directory; paths only, no I/O."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of the control plane in ``root``, which is absolute."""

    root: Path

    @classmethod
    def of(cls, folder: Path | str) -> Layout:
        """Return the layout of ``folder``; links are resolved, so one folder is one layout."""
        return cls(Path(folder).resolve())

    @property
    def state(self) -> Path:
        """What the supervisor runs, written by it alone."""
        return self.root / "state.json"

    @property
    def facts(self) -> Path:
        """Server, ports and files of a control plane that came up."""
        return self.root / "controlplane.json"

    @property
    def module(self) -> Path:
        """That the module came up on it too, to the last node; who brings it up writes it."""
        return self.root / "module.json"

    @property
    def processes(self) -> Path:
        """The descriptions that the supervisor follows."""
        return self.root / "processes"

    @property
    def logs(self) -> Path:
        """One log for each process."""
        return self.root / "logs"

    @property
    def pki(self) -> Path:
        """Certificates, keys, and the kubeconfigs of the components."""
        return self.root / "pki"

    @property
    def etcd(self) -> Path:
        """The data of etcd."""
        return self.root / "etcd"

    @property
    def bin(self) -> Path:
        """Links to programs for a person."""
        return self.root / "bin"

    @property
    def containers(self) -> Path:
        """The image of the containers, where the programs run in such."""
        return self.root / "containers"

    @property
    def kubeconfig(self) -> Path:
        """The administrator's kubeconfig."""
        return self.root / "kubeconfig"

    @property
    def ca(self) -> Path:
        """The certificate authority of everything here."""
        return self.pki / "ca.crt"

    def log(self, process: str) -> Path:
        """Return the log of ``process``."""
        return self.logs / f"{process}.log"

    def spec(self, process: str) -> Path:
        """Return the description of ``process``."""
        return self.processes / f"{process}.json"

    def cert(self, name: str) -> tuple[Path, Path]:
        """Return the files of a certificate and its key."""
        return self.pki / f"{name}.crt", self.pki / f"{name}.key"

    def owned(self) -> tuple[Path, ...]:
        """Return all that ``down`` removes; anything else in the folder is somebody else's."""
        return (
            self.state,
            self.facts,
            self.module,
            self.processes,
            self.logs,
            self.pki,
            self.etcd,
            self.bin,
            self.containers,
            self.kubeconfig,
        )
