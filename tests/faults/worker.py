"""A worker of a campaign: one ground, plans by standard input, results by standard output, a line of JSON each.

`{"refer": workload, …}` answers `{"reference": …, "results": […]}`; `{"plan": name, "reference": file}`
answers a result. It ends when its input does, and takes its control plane down.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from sim import controlplane
from sim.errors import UserError
from tests.faults import runner
from tests.faults.ground import Dirty, Ground
from tests.faults.plans import Plan

FRESH = 2
"""Grounds that are tried for a plan before it counts as failed."""


class Worker:
    """Holds the ground, and makes a new one where the old one is beyond cleaning."""

    def __init__(self, folder: Path, wrapped: tuple[str, ...]) -> None:
        self._folder, self._wrapped = folder, wrapped
        self._ground: Ground | None = None
        self._number = 0

    async def ground(self) -> Ground:
        """The ground, up."""
        if self._ground is None:
            self._number += 1
            self._ground = Ground(self._folder / f"{os.getpid()}-{self._number}", self._wrapped)
            try:
                await self._ground.open()
            except BaseException:
                await self.close()
                raise
        return self._ground

    async def close(self) -> None:
        """Take the ground down."""
        ground, self._ground = self._ground, None
        if ground is not None:
            await ground.close()

    async def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Do what a line asks for."""
        why = ""
        for _ in range(FRESH):
            try:
                return await self._answer(await self.ground(), asked)
            except (Dirty, UserError) as error:
                why = str(error)
                sys.stderr.write(f"a new ground is made: {why}\n")
                await self.close()
            except Exception:  # noqa: BLE001 - the harness itself failed: the campaign must hear of it and go on
                why = traceback.format_exc()
                sys.stderr.write(why)
                await self.close()
        return {"plan": asked.get("plan") or f"{asked['refer']}/none/1", "outcome": "failed", "failures": [why]}

    async def _answer(self, ground: Ground, asked: dict[str, Any]) -> dict[str, Any]:
        quiet = float(asked["quiet"])
        if workload := asked.get("refer"):
            results, reference = await runner.refer(
                ground, workload, runs=asked["runs"], quiet=quiet, last=asked["last"]
            )
            return {"results": [result.as_dict() for result in results], "reference": reference}
        reference = runner.reference_of(read(Path(asked["reference"])))
        result, _ = await runner.run(ground, Plan.parse(asked["plan"]), reference, quiet=quiet)
        return result.as_dict()


def read(path: Path) -> Any:
    """A file of JSON."""
    return json.loads(path.read_text())


def left_in(folder: Path) -> list[Path]:
    """Control planes of workers that were killed."""
    return sorted(folder.glob("*/plane"))


async def serve(folder: Path, wrapped: tuple[str, ...]) -> None:
    """Answer lines until there are none."""
    for left in left_in(folder):
        await asyncio.to_thread(controlplane.down, left)
    answers, sys.stdout = sys.stdout, sys.stderr  # what is logged is no answer
    worker = Worker(folder, wrapped)
    try:
        while line := await asyncio.to_thread(sys.stdin.readline):
            answer = await worker.answer(json.loads(line))
            answers.write(json.dumps(answer) + "\n")
            answers.flush()
    finally:
        await worker.close()


def main(folder: Path, wrapped: tuple[str, ...]) -> None:
    """Serve; an interrupt ends it in order."""
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with suppress(KeyboardInterrupt):
        asyncio.run(serve(folder, wrapped))
