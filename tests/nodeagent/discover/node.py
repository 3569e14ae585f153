"""A node of a real API server, and the agent as a process of its own with a token bound to that node."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from controllers.api import names, resources
from controllers.runtime.errors import NotFound
from tests.kit.sockets import ended
from tests.kit.waiting import PATIENCE, until

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Awaitable, Callable

    from controllers.runtime.client import Client
    from sim.controlplane import ControlPlane
    from tests.nodeagent.discover.machine import Machine
    from tests.nodeagent.validate.machine import Machine as Simulated

ROOT = Path(__file__).resolve().parents[3]
PERIOD = 0.2
OWNER = "test/file"
"""Annotation of a node: the file of tests that made it."""


class Cluster:
    """The API server, as its administrator."""

    def __init__(self, client: Client, plane: ControlPlane) -> None:
        self.client, self._plane = client, plane
        self.admin = plane.kubeconfig
        """The administrator's kubeconfig."""

    async def kubeconfig(self, node: str, folder: Path, account: str = names.MANAGER_DISCOVER) -> Path:
        """Make a node where there is none, and a kubeconfig of an agent's account bound to it.

        A node is one file's: files share the API server, and one would find the other's report there.
        """
        mine = os.environ.get("PYTEST_CURRENT_TEST", "").partition("::")[0]
        try:
            made = await self.client.get(resources.NODE, node)
        except NotFound:
            metadata = {"name": node, "annotations": {OWNER: mine}}
            made = await self.client.create(resources.NODE, {"metadata": metadata}, manager="test")
        owner = orjson.loads(made)["metadata"].get("annotations", {}).get(OWNER, mine)
        assert owner == mine, f"node {node} is one of {owner}: take another name"
        bound = {"apiVersion": "v1", "kind": "Node", "name": node, "uid": orjson.loads(made)["metadata"]["uid"]}
        body = {
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenRequest",
            "spec": {"audiences": [], "expirationSeconds": 3600, "boundObjectRef": bound},
        }
        path = f"/api/v1/namespaces/{names.NAMESPACE}/serviceaccounts/{account}/token"
        token = orjson.loads(await self.client.request("POST", path, body=body))["status"]["token"]
        config = {
            "apiVersion": "v1", "kind": "Config", "current-context": "it",
            "clusters": [
                {"name": "it", "cluster": {"server": self._plane.server, "certificate-authority": str(self._plane.ca)}}
            ],
            "users": [{"name": "agent", "user": {"token": token}}],
            "contexts": [{"name": "it", "context": {"cluster": "it", "user": "agent"}}],
        }  # fmt: skip
        file = folder / f"{node}-{account}.kubeconfig"
        file.write_text(json.dumps(config))
        return file

    async def report(self, node: str) -> dict[str, Any] | None:
        """The node's NodeFeature."""
        with suppress(NotFound):
            name = names.agent_feature(node)
            found: dict[str, Any] = orjson.loads(await self.client.get(resources.NODEFEATURE, name, names.NAMESPACE))
            return found
        return None

    async def cards(self, node: str) -> dict[str, dict[str, str]] | None:
        """The cards of its report, by address."""
        found = await self.report(node)
        if found is None:
            return None
        elements = found["spec"]["features"]["instances"][names.FEATURE_DEVICE]["elements"]
        return {element["attributes"]["address"]: element["attributes"] for element in elements}

    async def attributes(self, node: str) -> dict[str, dict[str, str]]:
        """Its attribute features."""
        found = await self.report(node) or {"spec": {"features": {"attributes": {}}}}
        return {name: feature["elements"] for name, feature in found["spec"]["features"]["attributes"].items()}

    async def change(self, node: str, patch: dict[str, Any], manager: str = "somebody") -> None:
        """Write in it as another."""
        name = names.agent_feature(node)
        await self.client.merge(resources.NODEFEATURE, name, patch, manager=manager, namespace=names.NAMESPACE)

    async def delete(self, node: str) -> None:
        """Delete it."""
        path = resources.NODEFEATURE.path(names.NAMESPACE, names.agent_feature(node))
        await self.client.request("DELETE", path)

    @asynccontextmanager
    async def agent(self, node: str, kubeconfig: Path, machine: Machine, *flags: str) -> AsyncIterator[Agent]:
        """The agent of a node; ends with the block."""
        running = Agent(node, kubeconfig, machine, ("nodeagent.discover", "--scan-period", str(PERIOD), *flags))
        try:
            yield running
        finally:
            running.end()


class Agent:
    """The agent as a process."""

    def __init__(self, node: str, kubeconfig: Path, machine: Machine | Simulated, program: tuple[str, ...]) -> None:
        """Start a program, given as its module and flags."""
        self._log = kubeconfig.with_name(f"{node}-{time.monotonic_ns()}.log")
        usual = ("--kubeconfig", str(kubeconfig), "--health-port", "0")
        environment = {**os.environ, **machine.environment, "NODE_NAME": node}
        with self._log.open("wb") as out:
            command = [sys.executable, "-m", *program, *usual]
            self.process = subprocess.Popen(command, stdout=out, stderr=out, cwd=ROOT, env=environment)

    @property
    def log(self) -> str:
        """What it has logged."""
        return self._log.read_text()

    async def until(self, check: Callable[[], Awaitable[Any]], what: str) -> Any:
        """Wait until a check gives something, while the agent lives."""

        async def found() -> Any:
            answer = await check()
            assert answer or self.process.poll() is None, self.log
            return answer

        return await until(found, lambda: f"{what}\n{self.log[-3000:]}")

    async def ready(self) -> bool:
        """Whether it says that it is ready."""
        return "200 OK" in await self._get("/readyz")

    async def metric(self, name: str) -> float:
        """The sum of a metric over its labels."""
        lines = (line.rsplit(" ", 1) for line in (await self._get("/metrics")).splitlines() if line.startswith(name))
        return sum(float(value) for _, value in lines)

    async def writes(self) -> float:
        """How many writes it has made."""
        return await self.metric("gpu_writes_total")

    async def scans(self, count: int) -> None:
        """Wait for so many more scans."""
        wanted = await self.metric("gpu_discover_scans_total") + count

        async def enough() -> bool:
            return await self.metric("gpu_discover_scans_total") >= wanted

        await self.until(enough, f"{count} scans")

    async def _get(self, path: str) -> str:
        found = re.search(r'"health":"127.0.0.1:(\d+)"', self.log)
        if found is None:
            return ""
        reader, writer = await asyncio.open_connection("127.0.0.1", int(found[1]))
        writer.write(f"GET {path} HTTP/1.0\r\n\r\n".encode())
        answer = (await reader.read()).decode()
        await ended(writer)
        return answer

    def kill(self) -> None:
        """End it without a word."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(PATIENCE)

    def end(self) -> int:
        """End it in order; returns its exit status."""
        if self.process.poll() is None:
            self.process.terminate()
        return self.process.wait(PATIENCE)
