"""A real CRI-O in a root of its own, with conmon and runc beside it."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from nodeagent.toolkit.config import crio
from nodeagent.toolkit.kinds.crio import Crio
from sim.realnode.needs import CRIO_HELPERS
from tests.e2e.realcontainerd import RealContainerd

if TYPE_CHECKING:
    from collections.abc import Mapping

CONFIG = """# the node's own; ask Olga
[crio]
storage_driver = "vfs"
[crio.runtime]
cgroup_manager = "cgroupfs"
disable_hostport_mapping = true
default_runtime = "runc"
apparmor_profile = "unconfined"
pinns_path = "/usr/bin/conmon"  # no pod is started here: it has to be there, and is not run
[crio.runtime.runtimes.runc]
runtime_path = "/usr/bin/runc"
runtime_type = "oci"
monitor_path = "/usr/bin/conmon"
monitor_cgroup = "pod"
[crio.image]
global_auth_file = "/etc/crio/registry.json"
"""
FILES = {
    crio.MAIN: CONFIG,
    "/etc/crio/registry.json": '{"auths": {"registry.example.com": {"auth": "czNjcmV0"}}}\n',
    "/etc/containers/policy.json": '{"default": [{"type": "insecureAcceptAnything"}]}\n',
}
PACKAGED = {f"{crio.DROP_INS}/10-log.conf": '[crio.runtime]\nlog_level = "info"\n'}
"""A drop-in as packages bring one: CRI-O reloads only a folder of drop-ins that it has found at its start."""


class RealCrio(RealContainerd):
    """Starts, is started again, and ends with the test."""

    called: ClassVar[str] = "crio"
    main: ClassVar[str] = crio.MAIN
    kind_of: ClassVar[type[Crio]] = Crio  # type: ignore[assignment]
    socket: ClassVar[str] = "/run/crio/crio.sock"

    def __init__(self, root: Path, program: Path, files: Mapping[str, str], *, toolkit: bool = True) -> None:
        """`files` beside those that it needs."""
        for name in CRIO_HELPERS:
            found = Path(shutil.which(name) or "")
            target = root / "usr/bin" / name
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(found, target)
        # Seen from outside alone, where no procfs is mounted: a host's root, as a pod has it, comes with its own.
        known = Path("/proc/sys/kernel/cap_last_cap")
        (place := root / str(known).lstrip("/")).parent.mkdir(parents=True)
        place.write_text(known.read_text())
        super().__init__(root, program, FILES | dict(files), toolkit=toolkit)

    def libraries(self, program: Path) -> None:
        """Its own, and those of its helpers."""
        for one in (program, *(Path(shutil.which(name) or "") for name in CRIO_HELPERS)):
            super().libraries(one)

    def arguments(self) -> str:
        """It reads its usual files."""
        return ""

    def configuration(self) -> str:
        """What stands in its file and its drop-ins."""
        return "".join(path.read_text() for path in (self.config, *self.at(crio.DROP_INS).glob("*.conf")))
