"""What pods of a driver are built from, beside the driver itself and what was chosen for the node. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from controllers.api.gpudriver import GPUDriver, Proxy
    from controllers.domain.driver.choice import Install

_SCRIPTS: Final = Path(__file__).parent / "scripts"


@dataclass(frozen=True, slots=True)
class Files:
    """The content of the ConfigMaps that the driver names, by their keys."""

    repositories: Mapping[str, str] = field(default_factory=dict)
    certificates: Mapping[str, str] = field(default_factory=dict)


NO_FILES: Final = Files()


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that the pods of one variant are built from."""

    driver: GPUDriver
    choice: Install
    agent_image: str
    files: Files = NO_FILES
    cluster_proxy: Proxy | None = None
    """The cluster's proxies, where it has some."""
    reboot_sentinel: bool = False
    """Whether a node that needs a reboot gets the file that kured reads."""

    @property
    def compiled(self) -> bool:
        """Whether the modules are compiled on the node."""
        return self.choice.mode == "Compiled"

    @property
    def proxy(self) -> Proxy | None:
        """The proxies of the driver's container."""
        build = self.driver.spec.build
        return build.proxy or (self.cluster_proxy if build.use_cluster_proxy else None)


@cache
def script(name: str) -> str:
    """A script of this package."""
    return (_SCRIPTS / f"{name}.sh").read_text("utf-8")
