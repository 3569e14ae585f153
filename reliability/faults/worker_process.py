"""A worker process of a campaign, with a control plane of its own, asked line by line."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from reliability.faults.processes import PACE
from reliability.faults.worker import failed

if TYPE_CHECKING:
    from asyncio.subprocess import Process
    from collections.abc import Sequence

ROOT: Final = Path(__file__).resolve().parents[2]
REFER_SECONDS: Final = 3600.0 * PACE
PLAN_SECONDS: Final = 1200.0 * PACE
"""After which a worker that has not answered is taken for hung: an environment is tried twice, each of a plan's parts
has a limit of its own that is much shorter."""
END_SECONDS: Final = 120.0
"""For taking a control plane down."""
LINE_MAX: Final = 64 << 20
"""Bytes of an answer: a reference has every leaf of a cluster."""


class WorkerProcess:
    """One worker; started when first asked, and again where it died."""

    def __init__(self, folder: Path, wrapped: Sequence[str]) -> None:
        self._folder, self._wrapped = folder, wrapped
        self._process: Process | None = None

    @property
    def log(self) -> Path:
        """What the worker said beside its answers."""
        return self._folder.with_suffix(".log")

    async def ask(self, task: dict[str, Any]) -> dict[str, Any]:
        """Its answer to a task; a failed one where it died over it, or hangs: then it is ended."""
        if self._process is None or self._process.returncode is not None:
            self._process = await self._start()
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(json.dumps(task).encode() + b"\n")
        await process.stdin.drain()
        limit = REFER_SECONDS if "refer" in task else PLAN_SECONDS
        try:
            async with asyncio.timeout(limit):
                if line := await process.stdout.readline():
                    answer: dict[str, Any] = json.loads(line)
                    return answer
        except TimeoutError:
            await self.end(now=True)
            return failed(task, f"the worker did not answer within {limit:.0f} s; see {self.log}")
        await process.wait()
        return failed(task, f"the worker ended; see {self.log}")

    async def end(self, *, now: bool = False) -> None:
        """End it in order: it takes its control plane down. `now`: in the middle of a plan, too."""
        process, self._process = self._process, None
        if process is None or process.returncode is not None:
            return
        assert process.stdin is not None
        if now:
            process.terminate()
        process.stdin.close()
        try:
            async with asyncio.timeout(END_SECONDS):
                await process.wait()
        except TimeoutError:
            process.kill()  # what it leaves is taken down by the next worker in its folder
            await process.wait()

    async def _start(self) -> Process:
        argv = [sys.executable, "-m", "reliability.faults", "worker", "--folder", str(self._folder)]
        with self.log.open("ab") as log:
            return await asyncio.create_subprocess_exec(
                *argv,
                *(f"--wrap={word}" for word in self._wrapped),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                limit=LINE_MAX,
                start_new_session=True,  # an interrupt at the terminal is for the campaign, which ends it in order
            )
