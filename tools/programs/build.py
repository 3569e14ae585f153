"""Builds one unit with Go and shows what is being compiled.

Interrupted at any moment it resumes: Go keeps each compiled package in its own build
cache, so the next run compiles what is missing and nothing corrupt can appear here,
because the result is installed by one rename (see :mod:`tools.programs.cache`).
"""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tools.errors import UserError
from tools.programs.cache import Cache
from tools.programs.catalog import Unit, content_key
from tools.programs.golang import Go, build_env, host_platform
from tools.programs.progress import Progress, Task

_POLL = 0.5
_TAIL = 25


@dataclass(frozen=True, slots=True)
class Build:
    """One build of a unit into the cache, by the holder of the unit's lock."""

    unit: Unit
    go: Go
    cache: Cache
    lock_fd: int
    progress: Progress

    def run(self, title: str) -> Path:
        """Build and return the cache's entry; UserError with the log's end where Go fails."""
        self._log.write_bytes(b"")
        self._lay_out()
        with self.progress.task(title) as task:
            total = self._count_packages(task)

            def show() -> None:
                packages = compiled(self._log.read_text(errors="replace"))
                detail = packages[-1] if packages else "reading Go's build cache"
                task.update(len(packages), total, detail)

            def fill(folder: Path) -> None:
                self._compile(folder, show)

            key = content_key(self.unit, *host_platform())
            return self.cache.install(self.unit.name, key, self.go.version, fill)

    @property
    def _log(self) -> Path:
        return self.cache.log(self.unit.name)

    @property
    def _reading(self) -> list[str]:
        """What decides which files of which modules are read."""
        return [
            f"-mod={'mod' if self.unit.chosen else 'readonly'}",
            *([f"-tags={self.unit.tags}"] if self.unit.tags else []),
        ]

    @property
    def _folder(self) -> Path:
        """Where Go works: the module as it is here, or one made of it for a version that a person chose."""
        return (
            self.cache.root / "modules" / f"{self.unit.module}-{self.unit.chosen}"
            if self.unit.chosen
            else self.unit.folder
        )

    def _lay_out(self) -> None:
        """Make the module of a chosen version; what Go has found out about it before stays."""
        if not self.unit.chosen:
            return
        self._folder.mkdir(parents=True, exist_ok=True)
        for name, content in self.unit.sources.items():
            if name != "go.mod" or not (self._folder / name).exists():
                (self._folder / name).write_bytes(content)

    def _compile(self, folder: Path, show: Callable[[], None]) -> None:
        first, *others = self.unit.programs
        flags = ["-v", "-trimpath", "-buildvcs=false", *self._reading]
        output = ["-ldflags", self.unit.ldflags, "-o", str(folder / first)]
        self._go(["build", *flags, *output, self.unit.package], show)
        for other in others:
            # One binary that is several programs by the name it is called under.
            (folder / other).symlink_to(first)

    def _count_packages(self, task: Task) -> int | None:
        """Return how many packages the unit has; downloads the modules that are missing."""
        listing = self._log.with_suffix(".packages")
        with listing.open("wb") as stdout:
            self._go(
                ["list", *self._reading, "-deps", self.unit.package],
                lambda: task.update(detail="fetching modules"),
                stdout=stdout.fileno(),
            )
        return len(listing.read_bytes().splitlines()) or None

    def _go(self, arguments: Sequence[str], show: Callable[[], None], stdout: int = subprocess.DEVNULL) -> None:
        """Run Go with its messages appended to the log, calling ``show`` while it works."""
        with self._log.open("ab") as stderr:
            process = subprocess.Popen(
                [str(self.go.command), *arguments],
                cwd=self._folder,
                env=build_env(),
                stdin=subprocess.DEVNULL,
                stdout=stdout,
                stderr=stderr,
                pass_fds=(self.lock_fd,),
            )
        try:
            while process.poll() is None:
                show()
                with suppress(subprocess.TimeoutExpired):
                    process.wait(_POLL)
        except BaseException:
            process.terminate()  # an interrupted caller leaves no compiler behind
            process.wait()
            raise
        if process.returncode:
            raise self._failed(f"`go {arguments[0]}` exited with {process.returncode}")

    def _failed(self, what: str) -> UserError:
        tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-_TAIL:])
        return UserError(
            f"building {self.unit.name} failed: {what}. The end of {self._log}:\n{tail}",
            expected=f"Go to build {self.unit.package} in {self._folder}",
            do="see the messages above; without a network, all modules must be in Go's module cache."
            " What was compiled is kept: run the same command again",
        )


def compiled(log: str) -> list[str]:
    """Return the packages that ``go build -v`` named; its other messages hold spaces."""
    return [line for line in log.splitlines() if line and " " not in line]
