"""The module as a Helm release on the real node: its processes are pods there, from the image that users get."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

from controllers.api import names
from sim import controlplane
from sim.module.install import RELEASE, ROOT
from sim.realnode.node import Setup
from sim.realnode.sweep import NAMESPACE as CONTAINERS
from tests.e2e.bed import Bed
from tools import programs
from tools.errors import UserError
from tools.images import archive
from tools.images.build import TAGS
from tools.programs import Progress

HELM_SECONDS = 300
"""A busy machine gets its time; at rest each verb takes a tenth of it."""
FOREIGN_CRDS = ("nodefeatures", "nodefeaturerules")
"""NFD's: what the cluster has before the module comes."""
IMAGE = TAGS["control-plane"]
NEXT_IMAGE = "registry.local/gpu-control-plane/controllers:next"
"""The same image by another name: what a new version is to a Deployment."""
WEBHOOK_PORT = 4254
PROCESSES = (names.INVENTORY, names.BOOTSTRAP, names.POOL_CONTROLLER, names.WEBHOOK)


class ReleaseBed(Bed):
    """A bare control plane with NFD's CRDs, and a node that has the module's image; Helm does the rest."""

    def __init__(self, folder: Path, progress: Progress) -> None:
        image = archive.ensure("control-plane", progress)
        paths = programs.ensure((*programs.PROGRAMS, *programs.NODE_PROGRAMS), progress=progress)
        plane = controlplane.up(folder, progress=progress)
        super().__init__(plane, paths["helm"], Setup(archives=(image,)), progress)
        self._ctr = paths["ctr"]
        files = (ROOT / "sim" / "crds" / f"{name}.yaml" for name in FOREIGN_CRDS)
        self.tools.run("apply", "--server-side", *(f"--filename={file}" for file in files))

    def values(self, image: str = IMAGE) -> dict[str, Any]:
        """What an administrator says where Services are not routed, as here: the API server and we on loopback."""
        controllers = {"image": image, "hostNetwork": True, "apiServer": self.address}
        webhook = {"url": f"https://127.0.0.1:{WEBHOOK_PORT}"}
        return {"gpuControlPlane": {"controllers": controllers, "webhook": webhook}}

    @property
    def address(self) -> dict[str, str]:
        """Of the API server."""
        host, _, port = self.plane.server.removeprefix("https://").partition(":")
        return {"host": host, "port": port}

    def helm(self, *argv: str, values: dict[str, Any] | None = None) -> str:
        """Run Helm and wait for what it waits for; returns what it printed."""
        home = self.plane.dir / "helm"
        home.mkdir(exist_ok=True)
        command = [str(self.tools.helm), *argv, f"--namespace={names.NAMESPACE}"]
        if values is not None:
            file = home / "values.json"
            file.write_text(json.dumps(values))
            command.append(f"--values={file}")
        env = os.environ | {"KUBECONFIG": str(self.plane.kubeconfig), "HOME": str(home)}
        done = subprocess.run(command, capture_output=True, text=True, timeout=HELM_SECONDS, env=env, check=False)
        if done.returncode:
            raise UserError(f"helm {argv[0]} failed: {done.stderr.strip()}\n{self.troubles()}")
        return done.stdout

    def install(self) -> None:
        """From nothing; returns when every process is ready."""
        flags = ("--create-namespace", "--wait", f"--timeout={HELM_SECONDS - 10}s")
        self.helm("install", RELEASE, str(ROOT), *flags, values=self.values())
        self._rolled_out()

    def upgrade(self) -> None:
        """To an image of another name; returns when every process is of it and ready."""
        ctr = [str(self._ctr), f"--address={self.node.places.socket}", f"--namespace={CONTAINERS}"]
        subprocess.run([*ctr, "images", "tag", "--force", IMAGE, NEXT_IMAGE], check=True, capture_output=True)
        flags = ("--wait", f"--timeout={HELM_SECONDS - 10}s")
        self.helm("upgrade", RELEASE, str(ROOT), *flags, values=self.values(NEXT_IMAGE))
        self._rolled_out()

    def _rolled_out(self) -> None:
        """A single replica on its node's network may be unavailable, and so Helm does not wait for it."""
        deployments = (f"deployment/{name}" for name in PROCESSES)
        try:
            for one in deployments:
                self.tools.run("rollout", "status", one, f"--namespace={names.NAMESPACE}", f"--timeout={HELM_SECONDS}s")
        except UserError as error:
            raise UserError(f"{error}\n{self.troubles()}") from error

    def uninstall(self) -> None:
        """And wait until all is gone."""
        self.helm("uninstall", RELEASE, "--wait", f"--timeout={HELM_SECONDS - 10}s")

    def get(self, *argv: str) -> list[Any]:
        """Objects, by kubectl get."""
        found = json.loads(self.tools.run("get", *argv, "--output=json"))
        return list(found["items"]) if "items" in found else [found]

    def everything(self) -> dict[str, Any]:
        """Every object of the cluster but events and leases of nodes, by kind, namespace and name."""
        kinds = self.tools.run("api-resources", "--verbs=list", "--output=name").split()
        wanted = [kind for kind in kinds if not kind.startswith("events") and kind != "componentstatuses"]
        return {
            "/".join((obj["kind"], obj["metadata"].get("namespace", ""), obj["metadata"]["name"])): obj
            for obj in self.get(",".join(wanted), "--all-namespaces")
        }

    def troubles(self) -> str:
        """What pods of the module are like, and the ends of their logs."""
        told = [self.tools.run("get", "pods", "--all-namespaces", "--output=wide")]
        for log in sorted(self.node.places.pod_logs.glob(f"{names.NAMESPACE}_*/*/*.log")):
            told += [str(log.parent), *log.read_text(errors="replace").splitlines()[-8:]]
        return "\n".join(told)
