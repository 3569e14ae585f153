"""A worker of a campaign: one environment, plans by standard input, results by standard output, as JSON lines.

`{"refer": workload, …}` answers `{"reference": …, "results": […]}`, and so does `{"control": workload, "first": n, …}`
of runs that join the others; `{"plan": name, "reference": file}` answers a
result; `{"finish": true}` wipes the last plan away. Each may have `later`: what showed of plans before, when they were
wiped away (name, sentences, whether that is certain). It ends when its input does, and takes its control plane down.
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

from reliability.faults.environment import Dirty, Environment
from reliability.faults.plans import Plan
from reliability.faults.references import control, refer, reference_of
from reliability.faults.runner import Bench, Later
from sim import controlplane
from tools.errors import UserError

FRESH = 2
"""Grounds that are tried for a plan before it counts as failed."""


class Worker:
    """Holds the environment, and makes a new one where the old one is beyond cleaning."""

    def __init__(self, folder: Path, wrapped: tuple[str, ...]) -> None:
        self._folder, self._wrapped = folder, wrapped
        self._bench: Bench | None = None
        self._number = 0

    async def bench(self) -> Bench:
        """The environment, up."""
        if self._bench is None:
            self._number += 1
            environment = Environment(self._folder / f"{os.getpid()}-{self._number}", self._wrapped)
            self._bench = Bench(environment)
            try:
                await environment.open()
            except BaseException:
                await self.close()
                raise
        return self._bench

    async def close(self) -> None:
        """Take the environment down."""
        bench, self._bench = self._bench, None
        if bench is not None:
            await bench.environment.close()

    async def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """Do what a line asks for."""
        why, later = "", list[Later]()
        for _ in range(FRESH):
            if asked.get("finish") and self._bench is None:
                break  # there is nothing to wipe any more
            try:
                bench = await self.bench()
                try:
                    return await self._answer(bench, asked) | {"later": later}
                finally:
                    later += bench.later
                    bench.later.clear()
            except (Dirty, UserError) as error:
                why = str(error)
                sys.stderr.write(f"a new ground is made: {why}\n")
                await self.close()
            except Exception:  # noqa: BLE001 - the harness itself failed: the campaign must hear of it and go on
                why = traceback.format_exc()
                sys.stderr.write(why)
                await self.close()
        return failed(asked, why) | {"later": later}

    async def _answer(self, bench: Bench, asked: dict[str, Any]) -> dict[str, Any]:
        if asked.get("finish"):
            await bench.finish()
            return {"results": []}
        quiet = float(asked["quiet"])
        if workload := asked.get("control"):
            results, beside = await control(bench, workload, quiet=quiet, first=asked["first"])
            return {"results": [result.as_dict() for result in results], "reference": beside}
        if workload := asked.get("refer"):
            results, made = await refer(bench, workload, runs=asked["runs"], quiet=quiet, last=asked["last"])
            return {"results": [result.as_dict() for result in results], "reference": made}
        reference = reference_of(read(Path(asked["reference"])))
        result, _ = await bench.run(Plan.parse(asked["plan"]), reference, quiet=quiet)
        return result.as_dict()


def failed(asked: dict[str, Any], why: str) -> dict[str, Any]:
    """The answer where there is none: the harness's trouble is no certain failure of the module."""
    if asked.get("finish"):
        return {"results": []}
    name = asked.get("plan") or f"{asked.get('refer') or asked['control']}/none/{asked.get('first', 1)}"
    return {"plan": name, "outcome": "failed", "failures": [why], "certain": 0}


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
