"""Applies what a cluster gets: the CRDs, and what Helm renders from the repository's templates.

Nothing here knows what is in the chart: RBAC, webhook configurations and policies have one
source, `templates/`. Everything is server-side applied with kubectl, so that a warning of
the API server is shown and kept, and a second run changes nothing.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from controllers.api import names
from controllers.api.conversions import LATEST
from controllers.api.resources import MODULECONFIG
from tools.errors import UserError
from tools.programs import catalog

ROOT = Path(__file__).resolve().parents[2]
CRD_FOLDERS = (ROOT / "sim" / "crds", ROOT / "crds")
RELEASE = "gpu-control-plane"
OURSELVES = {"gpuControlPlane.controllers.deploy": "false"}
"""The supervisor runs the four processes. Pods of their Deployments would be KWOK's, which run nothing."""
TIMEOUT = 180
WARNING = "Warning:"


@dataclass(frozen=True, slots=True)
class Tools:
    """The programs that applying needs, and the cluster they talk to."""

    kubectl: Path
    helm: Path
    kubeconfig: Path
    warnings: list[str] = field(default_factory=list)
    """What the API server warned of, each once."""

    def run(self, *argv: str, stdin: str | None = None) -> str:
        """Run kubectl; returns what it printed. Raises UserError with its own words.

        Warnings of the API server go to standard error and into `warnings`.
        """
        done = _run([str(self.kubectl), "--kubeconfig", str(self.kubeconfig), *argv], stdin)
        for line in done.stderr.splitlines():
            if line.startswith(WARNING) and line not in self.warnings:
                self.warnings.append(line)
                print(line, file=sys.stderr)
        if done.returncode != 0:
            raise UserError(f"kubectl {' '.join(argv)} failed: {done.stderr.strip()}")
        return done.stdout


def _run(command: list[str], stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    try:
        return subprocess.run(command, input=stdin, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    except subprocess.TimeoutExpired:
        raise UserError(f"{Path(command[0]).name} did not end in {TIMEOUT} s: {' '.join(command)}") from None


def install_crds(tools: Tools) -> None:
    """The module's CRDs, and those of NFD and Deckhouse that a bare cluster lacks."""
    apply_crds(tools, *(path for folder in CRD_FOLDERS for path in sorted(folder.glob("*.yaml"))))


def apply_crds(tools: Tools, *files: Path) -> None:
    """The CRDs of these files, without those in Russian; returns when the API server serves them."""
    tools.run("apply", "--server-side", *(f"--filename={path}" for path in files if "doc-ru-" not in path.name))
    # kubectl takes one that has no conditions yet for an error, and does not wait.
    for come in ("jsonpath={.status.conditions}", "condition=Established"):
        tools.run("wait", f"--for={come}", "crd", "--all", "--timeout=120s")


def render(tools: Tools, values: dict[str, str]) -> str:
    """What Helm makes of the chart, without the programs of its hooks, which nobody would run."""
    settings = [f"--set={key}={value}" for key, value in (OURSELVES | values).items()]
    # Built from its module Helm takes itself for an old Kubernetes: say which one this is.
    version = catalog.unit_of("kube-apiserver").version
    done = _run([str(tools.helm), "template", RELEASE, str(ROOT), "--no-hooks", f"--kube-version={version}", *settings])
    if done.returncode != 0:
        raise UserError(f"helm template failed: {done.stderr.strip()}")
    return done.stdout


def install_chart(tools: Tools, values: dict[str, str]) -> None:
    """Render the chart and apply it; the namespace first, since the rest lives in it."""
    manifests = render(tools, values)
    make_namespace(tools)
    tools.run("apply", "--server-side", "--force-conflicts", "--filename=-", stdin=manifests)


def apply_settings(tools: Tools, settings: Mapping[str, Any]) -> None:
    """The module's ModuleConfig, which Deckhouse makes values of the chart of: both are to say the same."""
    spec = {"enabled": True, "version": LATEST, "settings": settings}
    kind = {"apiVersion": MODULECONFIG.api_version, "kind": MODULECONFIG.kind}
    config = json.dumps({**kind, "metadata": {"name": names.MODULE}, "spec": spec})
    tools.run("apply", "--server-side", "--filename=-", stdin=config)


def make_namespace(tools: Tools) -> None:
    """The module's namespace, which Deckhouse or Helm would make."""
    namespace = f"apiVersion: v1\nkind: Namespace\nmetadata:\n  name: {names.NAMESPACE}\n"
    tools.run("apply", "--server-side", "--filename=-", stdin=namespace)
