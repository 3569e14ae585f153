"""The ground that the first two themes stand on: etcd, an API server, our chart; no controllers, no nodes.

What would run beside costs time on a small machine, and nothing that is measured needs it.
The latency theme takes a whole cluster from `sim.cluster` instead.
"""

from __future__ import annotations

import asyncio
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from controllers.api import names, resources
from controllers.api.conversions import LATEST
from controllers.runtime.client import Client
from controllers.runtime.errors import AlreadyExists
from sim import controlplane
from sim.controlplane import ControlPlane
from sim.controlplane.ports import free_ports
from sim.module.identities import kubeconfig_for
from sim.module.install import Tools, install_chart, install_crds
from tools import programs

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator

    from tools.programs import Progress

AT_ONCE = 16
MANAGER = "bench"
TICK = 1.0


@dataclass(frozen=True)
class Bed:
    """A control plane with the module's CRDs, RBAC, policies and webhook configuration."""

    plane: ControlPlane
    tools: Tools
    webhook_port: int

    @cached_property
    def identities(self) -> Path:
        """Where kubeconfigs of ServiceAccounts go; removed with the control plane."""
        return self.plane.dir / "pki" / "identities"

    def kubeconfig(self, account: str) -> Path:
        """The kubeconfig of a ServiceAccount of the module, made anew."""
        return kubeconfig_for(self.plane, self.tools, account, self.identities)


@contextmanager
def bed(folder: Path, progress: Progress) -> Iterator[Bed]:
    """Bring it up, and take it down whatever happens."""
    helm = programs.ensure(["helm"], progress=progress)["helm"]
    try:
        plane = controlplane.up(
            folder, with_controller_manager=False, with_scheduler=False, with_kwok=False, progress=progress
        )
        tools, (port,) = Tools(plane.kubectl, helm, plane.kubeconfig), free_ports(1)
        with progress.task("installing the module's CRDs, RBAC, webhook and policies"):
            install_crds(tools)
            install_chart(tools, {"gpuControlPlane.webhook.url": f"https://127.0.0.1:{port}"})
            # Cards are assigned here while no webhook serves, and a refusal of its absence is no figure.
            tools.run("delete", "validatingwebhookconfiguration", names.WEBHOOK_CONFIGURATION)
        yield Bed(plane, tools, port)
    finally:
        controlplane.down(folder)


@asynccontextmanager
async def shown(
    progress: Progress, title: str, done: Callable[[], int] = lambda: 0, total: int | None = None
) -> AsyncIterator[None]:
    """Show work that is awaited inside."""
    with progress.task(title) as task:

        async def tick() -> None:
            while True:
                task.update(done(), total)
                await asyncio.sleep(TICK)

        ticker = asyncio.create_task(tick())
        try:
            yield
        finally:
            ticker.cancel()
            with suppress(asyncio.CancelledError):
                await ticker


async def each(items: Iterable[Any], work: Callable[[Any], Awaitable[None]], at_once: int = AT_ONCE) -> None:
    """Do the same with all items, several at a time; the first error ends it."""
    queue = iter(items)

    async def worker() -> None:
        for item in queue:
            await work(item)

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(worker())


async def configure(client: Client, settings: dict[str, Any]) -> None:
    """Give the module its settings."""
    kind = {"apiVersion": resources.MODULECONFIG.api_version, "kind": resources.MODULECONFIG.kind}
    body = {**kind, "metadata": {"name": names.MODULE}, "spec": {"version": LATEST, "settings": settings}}
    await client.create(resources.MODULECONFIG, body, manager=MANAGER)


async def create_namespace(client: Client, name: str) -> None:
    """Create a namespace where it is not there."""
    with suppress(AlreadyExists):
        await client.create(resources.NAMESPACE, {"metadata": {"name": name}}, manager=MANAGER)
