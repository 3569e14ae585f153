"""`python -m reliability.bench`: every theme in turn, one table, and `bench.json`.

Each theme brings up a control plane of its own in `<folder>/bench` and takes it down, also
when it fails or is interrupted; the cluster of `make up` in `<folder>` is not touched.
`bench.json` lies in `<folder>` itself, is replaced by each run, and survives `make down`.
"""

from __future__ import annotations

import dataclasses
import sys
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from reliability.bench import (
    admission,
    attacked,
    burst,
    change,
    churn,
    coldstart,
    console,
    drain,
    drivers,
    gangs,
    large,
    latency,
    monitoring,
    nearness,
    pools,
    queue,
    roll,
    strata,
    table,
    takeover,
    verdict,
)
from reliability.bench.rows import Result, Row, Sizes
from reliability.kit.exclusive_lock import orderly_end, refuse_second
from reliability.kit.machine import facts
from reliability.kit.report import results, write_json
from sim.controlplane.state import write_atomically
from tools import programs
from tools.errors import UserError
from tools.programs import Progress

THEMES: dict[str, Callable[[Path, Sizes, Progress], Result]] = {
    "coldstart": coldstart.measure,
    "change": change.measure,
    "large": large.measure,
    "monitoring": monitoring.measure,
    "pools": pools.measure,
    "drivers": drivers.measure,
    "roll": roll.measure,
    "drain": drain.measure,
    "strata": strata.measure,
    "takeover": takeover.measure,
    "webhook": admission.measure,
    "burst": burst.measure,
    "queue": queue.measure,
    "gangs": gangs.measure,
    "churn": churn.measure,
    "attacked": attacked.measure,
    "pod": latency.measure,
    "nearness": nearness.measure,
    "verdict": verdict.measure,
    "console": console.measure,
}
TRACE = "bench-trace.txt"
USAGE = 2


def measure(folder: Path, sizes: Sizes, only: list[str] | None = None) -> int:
    """Measure and print; returns the exit status: 0 when measured, whatever the verdicts, 2 for a usage error.

    `only`: some of the themes; all without. Raises UserError where something cannot be measured.
    """
    chosen = list(THEMES) if not only else [name for name in THEMES if name in only]
    unknown = [name for name in only or () if name not in THEMES]
    if unknown or min(sizes.nodes, sizes.large_nodes) < 1:
        wrong = f"no theme {unknown[0]!r}; there are {', '.join(THEMES)}" if unknown else "at least 1 node is measured"
        print(f"error: {wrong}", file=sys.stderr)
        return USAGE
    below = folder / "bench"
    refuse_second(below, "benchmark")
    progress, machine, started = programs.for_stream(), facts(), time.time()
    rows: list[tuple[str, Row]] = []
    raw: dict[str, Any] = {}
    with orderly_end():
        for name in chosen:
            result = _measured(folder, name, sizes, progress)
            rows += [(name, row) for row in result.rows]
            raw[name] = result.raw
    told = [{"theme": name, **row.to_json()} for name, row in rows]
    write_json(folder / "bench.json", results(started, machine=machine, rows=told, raw=raw), _plain)
    table.show([row for _, row in rows], machine)
    print(f"every figure: {folder / 'bench.json'}")
    return 0


def _measured(folder: Path, theme: str, sizes: Sizes, progress: Progress) -> Result:
    """Measure one theme; whatever ends it is told as a sentence, and a trace that helps us is kept beside it."""
    try:
        return THEMES[theme](folder / "bench", sizes, progress)
    except Exception as error:
        first: BaseException = error
        while isinstance(first, BaseExceptionGroup):
            first = first.exceptions[0]
        if isinstance(first, UserError):
            raise first from error
        folder.mkdir(parents=True, exist_ok=True)
        write_atomically(trace := folder / TRACE, "".join(traceback.format_exception(error)))
        raise UserError(
            f"the theme {theme} was not measured to its end: {type(first).__name__}: {first}",
            do=f"measure it again: python -m reliability.bench --only {theme}; {trace} says where it ended",
        ) from error


def _plain(value: object) -> Any:
    """Records as JSON values."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    raise TypeError(f"no JSON for {type(value).__name__}")
