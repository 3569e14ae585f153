"""Containers of rendered objects, started as processes under their own identity."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from tests.kit.waiting import PATIENCE
from tests.templates import harness

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

LAUNCHER = harness.ROOT / "tests" / "templates" / "as_in_pod.py"


def the_container(workload: dict[str, Any]) -> dict[str, Any]:
    """The only container of a Deployment or a Job."""
    (container,) = workload["spec"]["template"]["spec"]["containers"]
    return dict(container)


def at_this_server(kube: harness.Kube) -> tuple[str, str]:
    """Values that tell the chart's pods where the API server is."""
    host, _, port = kube.server.removeprefix("https://").partition(":")
    base = "gpuControlPlane.controllers.apiServer"
    return f"{base}.host={host}", f"{base}.port={port}"


@contextlib.contextmanager
def running(
    kube: harness.Kube, folder: Path, container: dict[str, Any], account: str, namespace: str = harness.NAMESPACE
) -> Iterator[tuple[subprocess.Popen[bytes], Path]]:
    """The container's program as a process, with its environment alone and its account's token; and its log."""
    folder.mkdir()
    (folder / "token").write_text(kube.token_for(account, namespace=namespace))
    shutil.copy(kube.ca, folder / "ca.crt")
    command: list[str] = [*container["command"], *container["args"]]
    interpreter, *rest = command
    assert interpreter == "python3"
    env = {item["name"]: item["value"] for item in container["env"]}
    assert env.keys().isdisjoint(os.environ), "the test's own environment says nothing"
    log = folder / "log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [sys.executable, str(LAUNCHER), str(folder), *rest],
            env={**env, "PYTHONPATH": str(harness.ROOT)}, cwd=folder, stdout=out, stderr=out,
        )  # fmt: skip
        try:
            yield process, log
        finally:
            process.terminate()
            process.wait(PATIENCE)
