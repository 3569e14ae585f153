"""Applies what a cluster gets: the CRDs, and what Helm renders from the repository's templates.

Nothing here knows what is in the chart: RBAC, webhook configurations and policies have one
source, `templates/`. Everything is server-side applied with kubectl, so that a warning of
the API server is seen, and a second run changes nothing.
"""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path

from sim.errors import UserError

ROOT = Path(__file__).resolve().parents[2]
CRD_FOLDERS = (ROOT / "sim" / "crds", ROOT / "crds")
RELEASE = "gpu-control-plane"
TIMEOUT = 120


@dataclass(frozen=True, slots=True)
class Tools:
    """The programs that applying needs, and the cluster they talk to."""

    kubectl: Path
    helm: Path
    kubeconfig: Path

    def run(self, *argv: str, stdin: str | None = None) -> str:
        """Run kubectl; returns what it printed. Raises UserError with its own words."""
        command = [str(self.kubectl), "--kubeconfig", str(self.kubeconfig), *argv]
        done = subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT, check=False)
        if done.returncode != 0:
            raise UserError(f"kubectl {' '.join(argv)} failed: {done.stderr.strip()}")
        return done.stdout


def install_crds(tools: Tools) -> None:
    """The module's CRDs, and those of NFD and Deckhouse that a bare cluster lacks."""
    files = [str(path) for folder in CRD_FOLDERS for path in sorted(folder.glob("*.yaml"))]
    tools.run("apply", "--server-side", *(f"--filename={path}" for path in files if "doc-ru-" not in path))
    tools.run("wait", "--for=condition=Established", "crd", "--all", "--timeout=30s")


def render(tools: Tools, values: dict[str, str]) -> str:
    """What Helm makes of the chart."""
    settings = [f"--set={key}={value}" for key, value in values.items()]
    # Built from its module Helm takes itself for an old Kubernetes: say which one this is.
    command = [str(tools.helm), "template", RELEASE, str(ROOT), "--kube-version=1.34.4", *settings]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.returncode != 0:
        raise UserError(f"helm template failed: {done.stderr.strip()}")
    return done.stdout


def install_chart(tools: Tools, values: dict[str, str]) -> None:
    """Render the chart and apply it; the namespace first, since the rest lives in it."""
    manifests = render(tools, values)
    namespace = "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: d8-gpu-operator\n"
    tools.run("apply", "--server-side", "--filename=-", stdin=namespace)
    tools.run("apply", "--server-side", "--force-conflicts", "--filename=-", stdin=manifests)
