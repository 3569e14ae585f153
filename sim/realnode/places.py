"""Where everything of a real node lies; paths only, no I/O.

All of it is below one folder, but for what kubelet and containerd give no choice of: device plugins meet kubelet in
`/var/lib/kubelet/device-plugins` whatever its root is, and shims of containerd listen in `/run/containerd/s`.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Final

PLUGINS: Final = Path("/var/lib/kubelet/device-plugins")
"""Where kubelet listens for device plugins."""
POD_RESOURCES: Final = PLUGINS.with_name("pod-resources")
"""Where pods look for kubelet's PodResources; `Places.pod_resources` is where this kubelet has it."""
SOCKET_MAX: Final = 100
"""Characters that the path of a socket may have: the kernel takes 107, and containerd adds `.ttrpc`."""


@dataclass(frozen=True, slots=True)
class Places:
    """The paths of the node in `root`, which is absolute."""

    root: Path

    @property
    def absent(self) -> Path:
        """A list of folders that the machine did not have before the node."""
        return self.root / "absent"

    @property
    def socket(self) -> Path:
        """Where the container runtime listens."""
        return self.root / "runtime.sock"

    @property
    def containerd(self) -> Path:
        """The folder of containerd's data; its configuration is beside it."""
        return self.root / "containerd"

    @property
    def containerd_config(self) -> Path:
        """The configuration of containerd."""
        return self.root / "containerd.toml"

    @property
    def crio(self) -> Path:
        """The folder of CRI-O's data and of its configuration."""
        return self.root / "crio"

    @property
    def groups(self) -> Path:
        """A list of the control groups that the machine had before CRI-O."""
        return self.root / "groups"

    @property
    def programs(self) -> Path:
        """Copies of programs that are to be found in PATH by other names than they are kept by."""
        return self.root / "programs"

    @property
    def cni(self) -> Path:
        """The configuration of the pods' network."""
        return self.root / "cni"

    @property
    def addresses(self) -> Path:
        """The addresses that pods have been given."""
        return self.root / "addresses"

    @property
    def image(self) -> Path:
        """The images' archive."""
        return self.root / "images.tar"

    @property
    def kubelet(self) -> Path:
        """The root folder of kubelet."""
        return self.root / "kubelet"

    @property
    def kubelet_config(self) -> Path:
        """The configuration of kubelet."""
        return self.root / "kubelet.yaml"

    @property
    def kubeconfig(self) -> Path:
        """By which kubelet reaches the API server."""
        return self.root / "kubelet.kubeconfig"

    @property
    def pod_resources(self) -> Path:
        """Where kubelet tells which container has which device."""
        return self.kubelet / "pod-resources" / "kubelet.sock"

    @property
    def pod_logs(self) -> Path:
        """What containers write."""
        return self.root / "pod-logs"

    @property
    def cards(self) -> Path:
        """The machine that its programs see: sysfs, procfs, the driver's files."""
        return self.root / "cards"

    @property
    def nvml(self) -> Path:
        """What the cards' driver library says."""
        return self.root / "nvml.conf"

    @property
    def devices(self) -> Path:
        """The cards' device nodes."""
        return self.root / "dev"

    @property
    def cdi(self) -> Path:
        """The specifications by which a container runtime gives cards to containers."""
        return self.root / "cdi"
