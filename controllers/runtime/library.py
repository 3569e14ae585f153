"""kubernetes-asyncio, as far as it is used: credentials. The only module that imports it.

Its packages import every model of the Kubernetes API when they are loaded: 960 modules, 38 MB
in each of our processes and 0.2 s of each start. What is used needs none of them, so the two packages
are entered as bare ones and only the modules below are loaded. Should a release move one, the
import fails at once.
"""

from __future__ import annotations

import sys
from importlib.machinery import PathFinder
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

PACKAGE = "kubernetes_asyncio"


def _bare(name: str, folder: Path) -> ModuleType:
    """A package whose modules can be imported and whose own code has not run."""
    module = ModuleType(name)
    module.__path__ = [str(folder)]
    sys.modules[name] = module
    return module


def _prepare() -> None:
    spec = PathFinder.find_spec(PACKAGE)
    if PACKAGE in sys.modules or spec is None or spec.origin is None:
        return  # somebody has loaded the whole, or it is not there and the import below says so
    folder = Path(spec.origin).parent
    _bare(PACKAGE, folder)
    client: Any = _bare(f"{PACKAGE}.client", folder / "client")
    from kubernetes_asyncio.client.configuration import Configuration

    # What the package `config` takes from the package: the class, and one that we never make.
    client.Configuration, client.ApiClient = Configuration, None


_prepare()

from kubernetes_asyncio import config  # noqa: E402

if TYPE_CHECKING:
    from kubernetes_asyncio.client import Configuration
else:
    from kubernetes_asyncio.client.configuration import Configuration

__all__ = ["Configuration", "config"]
