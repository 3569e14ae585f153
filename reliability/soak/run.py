"""`python -m reliability.soak`: a cluster of its own, churn, slopes, one table, and `soak.json`.

The cluster lies in `<folder>/soak` and is taken down whatever happens; that of `make up` in `<folder>` is not touched.
Where something is wrong the processes' logs stay in `<folder>/soak-logs`.
"""

from __future__ import annotations

import asyncio
import shutil
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reliability.kit.exclusive_lock import orderly_end, refuse_second
from reliability.kit.machine import facts
from reliability.kit.report import results, write_json
from reliability.soak import logs, verdicts, workload_plan
from reliability.soak.actors import PODS, Actors
from reliability.soak.environment import EVENT_TTL, running_environment
from reliability.soak.readings import Reader
from reliability.soak.records import is_ours
from reliability.soak.report import Check, Outcome, show
from reliability.soak.run_loop import Course, Length, Runner
from sim import controlplane
from sim.cluster import Options, bring_up
from sim.controlplane.layout import Layout
from sim.module.processes import Timers
from sim.view import LateError
from tools import programs
from tools.errors import UserError

if TYPE_CHECKING:
    from sim.controlplane import ControlPlane
    from tools.programs import Progress

LOAD_SHARE = 0.95
"""Of twice the benchmark's load, at least: less is not the load that is told."""
USUAL = Timers()
SHOWN = 20
"""Lines of one check that are told."""


def soak(folder: Path, length: Length, seed: int = 1, output: str = "text", timers: Timers = USUAL) -> int:
    """Soak and print; returns the exit status: 1 where a slope misses its limit or an error was found.

    `output`: text or json. `timers`: of the processes; tests have patience. Raises UserError where there is nothing to
    soak.
    """
    below, progress, machine, started = folder / "soak", programs.for_stream(), facts(), time.time()
    refuse_second(below, "soak")
    kept = folder / "soak-logs"
    shutil.rmtree(kept, ignore_errors=True)
    with orderly_end():
        try:
            options = Options(nodes=0, timers=timers, apiserver_flags=(f"--event-ttl={EVENT_TTL}s",))
            plane = bring_up(below, options, progress)
            seen, actors, restarts = asyncio.run(_live(plane, length, seed, progress))
            told = {name: _lines(plane, name) for name in restarts if is_ours(name)}
            outcome = _outcome(seen, actors, machine=machine, length=length, seed=seed, restarts=restarts, told=told)
            if not outcome.met:
                shutil.copytree(Layout.of(below).logs, kept)
        except LateError as late:
            raise UserError(f"the cluster did not come to rest before the churn: {late}") from late
        finally:
            controlplane.down(below)
    text = write_json(folder / "soak.json", results(started, **outcome.to_json(seen)))
    if output == "json":
        print(text, end="")
    else:
        show(outcome)
        print(f"every figure: {folder / 'soak.json'}" + ("" if outcome.met else f"; logs: {kept}"))
    return 0 if outcome.met else 1


async def _live(
    plane: ControlPlane, length: Length, seed: int, progress: Progress
) -> tuple[Course, Actors, dict[str, int]]:
    async with running_environment(plane, progress) as made, Reader(plane.dir) as reader:
        runner = Runner(made, reader, Actors(made), length, seed, progress)
        await runner.run()
        return runner.course, runner.actors, dict(reader.restarts)


def _lines(plane: ControlPlane, process: str) -> list[str]:
    return Layout.of(plane.dir).log(process).read_text(encoding="utf-8", errors="replace").splitlines()


def _outcome(
    seen: Course,
    actors: Actors,
    *,
    machine: dict[str, Any],
    length: Length,
    seed: int,
    restarts: dict[str, int],
    told: dict[str, list[str]],
) -> Outcome:
    ends = seen.judged(length.warm_up)
    planned = sum(len(workload_plan.cycle(seed, number, length.pace)) for number in range(1, seen.begun + 1))
    errors = [f"{name}: {line}" for name, lines in told.items() for line in logs.errors(lines)]
    unseen = ["not looked at: the churn did not come to its end"] if seen.broken else []
    writes = [f"{name}: {count:.0f}" for name, count in seen.quiet_writes.items() if count]
    checks = (
        Check("the churn went on to its end", [seen.broken] if seen.broken else []),
        Check("the load was twice the benchmark's", _shortfall(seen, actors)),
        Check(
            "every act but a pod's creation was taken", [one for one in actors.given_up if one.split()[0] not in PODS]
        ),
        Check("no process ended or did not answer", [f"{name}: {count}" for name, count in restarts.items() if count]),
        Check("no error in a log", errors[:SHOWN]),
        Check("at the end everything is as before the churn", unseen or seen.left),
        Check(f"no write in {length.quiet:.0f} quiet seconds", unseen or writes + seen.quiet_changes[:SHOWN]),
    )
    return Outcome(
        machine=machine,
        minutes=round(length.churn / 60, 1),
        seed=seed,
        cycles=len(seen.ends) - 1,
        judged=max(0, len(ends) - 1),
        rows=verdicts.rows(ends, seen.readings),
        checks=checks,
        done=actors.done,
        refused=actors.refused,
        facts=_facts(seen, actors, planned, told, length.warm_up),
    )


def _shortfall(seen: Course, actors: Actors) -> list[str]:
    """What was done less often than it should: on a machine that is busy with other things cycles take longer."""
    seconds = max(1.0, seen.ends[-1].at - seen.ends[0].at)
    least = LOAD_SHARE * workload_plan.LOAD / workload_plan.BENCHMARK_GAP
    rates = {verb: actors.done[verb] / seconds for verb in ("pod", "assign")}
    return [f"{verb}: {rate:.2f} a second, expected {least:.2f}" for verb, rate in rates.items() if rate < least]


def _facts(seen: Course, actors: Actors, planned: int, told: dict[str, list[str]], warm_up: float) -> dict[str, Any]:
    seconds = max(1.0, seen.ends[-1].at - seen.ends[0].at)
    pods = actors.done["pod"] + actors.done["strand"]
    last = {name: one.own for name, one in seen.ends[-1].readings.items() if one.own is not None}
    requests = {name: dict(own.requests) for name, own in last.items()}
    return {
        "acts planned": planned,
        "acts given up": len(actors.given_up),
        "cycles that took longer": len(seen.late),
        "the first of those": seen.late[:1],
        "the first of the acts": actors.given_up[:3],
        "pods a second": round(pods / seconds, 2),
        "cards assigned or taken out, a second": round(actors.done["assign"] / seconds, 2),
        "reservations that expired": round(sum(own.expired for own in last.values())),
        "an act began late by, at most, seconds": round(actors.latest, 3),
        "after the last act all was as before within, seconds": round(max(end.settled for end in seen.ends), 1),
        "longest stall of an event loop, ms": {
            name: round(1000 * max(one[name].own.stall for one in seen.readings if name in one and one[name].own))  # type: ignore[union-attr]
            for name in last
            if seen.readings
        },
        "series of metrics that came after the warm-up and stayed": {
            name: series[:SHOWN] for name, series in seen.new_series(warm_up).items()
        },
        "lists of all of a kind": {name: round(own.lists) for name, own in last.items()},
        "requests": requests,
        "warnings in logs": {name: dict(logs.warnings(lines)) for name, lines in told.items()},
    }
