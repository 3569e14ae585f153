"""Runs the scripts of a driver's pod by the real bash, on a made-up /run/nvidia and /sys, with stubs of programs."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Final

from controllers.domain.driver import files
from controllers.driver.pods.inputs import script

if TYPE_CHECKING:
    from collections.abc import Mapping

DIGEST: Final = "0123456789"


class Shell:
    """The inside of a driver's container."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.bin = folder / "bin"
        for made in (self.bin, folder / "run" / "nvidia", folder / "sys" / "module"):
            made.mkdir(parents=True)

    def program(self, name: str, text: str = "") -> None:
        """A stub; it notes that it was called, with its arguments."""
        file = self.bin / name
        file.write_text(f'#!/bin/bash\necho "{name} $*" >>"{self.folder}/calls"\n{text}\n')
        file.chmod(0o755)

    def calls(self) -> list[str]:
        """What was called."""
        file = self.folder / "calls"
        return file.read_text().split("\n")[:-1] if file.exists() else []

    def module(self, name: str, uses: int = 0, *, needed_by: tuple[str, ...] = ()) -> None:
        """A module that is loaded."""
        folder = self.folder / "sys" / "module" / name
        for one in needed_by:
            (folder / "holders" / one).mkdir(parents=True, exist_ok=True)
        folder.mkdir(exist_ok=True)
        (folder / "refcnt").write_text(f"{uses}\n")

    def path(self, name: str) -> Path:
        """Where a file of the host lies here."""
        return self.folder / name.removeprefix("/")

    def note(self, name: str, text: str = "") -> None:
        """A file of the host."""
        path = self.path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}\n")

    def text(self, name: str) -> str | None:
        """What is in it; None where it is not there."""
        path = self.path(name)
        return path.read_text().strip() if path.exists() else None

    def run(self, name: str, env: Mapping[str, str] = {}, by: str = "bash") -> subprocess.CompletedProcess[str]:
        """A script of the package, with the host's folders replaced by those of the test."""
        text = script(name)
        for place in (
            files.RUN,
            "/proc/",
            "/sys/module",
            "/usr/local/share/ca-certificates",
            "/host-etc",
            "/dev/termination-log",
        ):
            text = text.replace(place, f"{self.path(place)}/" if place.endswith("/") else str(self.path(place)))
        told = {"DRIVER_CONFIG_DIGEST": DIGEST, "DRIVER_MODE": "Compiled", **env}
        return subprocess.run(
            [by, "-c", text],
            env={"PATH": f"{self.bin}:{os.environ['PATH']}", **told},
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
