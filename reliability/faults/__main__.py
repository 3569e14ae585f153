"""`python -m reliability.faults`: run one plan, list plans, or run a campaign.

python -m reliability.faults run pool/rbac/gpupool@2             one plan, with its references where they are missing
python -m reliability.faults list [words…]                       plans of a campaign (names that contain all words)
python -m reliability.faults campaign [--only REGEX] [--most N]  every crash, a share of the rest; goes on where it was
python -m reliability.faults campaign --all                      really all of them
python -m reliability.faults report                              what is known about this code
"""

from __future__ import annotations

import argparse
import asyncio
import re
import signal
import sys
import time
from pathlib import Path

from reliability.faults import outcomes, plans, references, report, worker
from reliability.faults.campaign import QUIET, Campaign, all_workloads, workers_for_machine, workloads_of
from reliability.faults.plans import Plan
from reliability.faults.regressions import REGRESSIONS
from reliability.faults.worker_process import ROOT

FOLDER = ROOT / ".run" / "faults"


def main() -> int:
    """Do what the arguments say; the status is `outcomes.status`."""
    args = _parser().parse_args()
    if args.verb == "worker":
        worker.main(args.folder, tuple(args.wrap))
        return 0
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # workers take their control planes down
    args.folder.mkdir(parents=True, exist_ok=True)
    made = _campaign_of(args)
    made.load()
    if args.verb == "run":
        chosen = [Plan.parse(name) for name in args.plans]
        for plan in chosen:
            made.results.pop(str(plan), None)
        asyncio.run(_run(made, chosen))
        workloads = {plan.workload for plan in chosen}
        references = {name for name in made.results if Plan.parse(name).fault == plans.REFERENCE}
        names = {str(plan) for plan in chosen} | {n for n in references if Plan.parse(n).workload in workloads}
        return _said(made, names, [str(plan) for plan in chosen if plan.fault != plans.REFERENCE])
    if args.verb == "campaign":
        asyncio.run(_campaign(made, args.only, args.most, everything=args.all))
    if args.verb == "list":
        for plan in made.every_plan(all_workloads()):
            if all(word in str(plan) for word in args.words):
                _tell(str(plan))
        return 0
    return _said(made, set(made.results), made.planned)


def _campaign_of(args: argparse.Namespace) -> Campaign:
    """Results of single plans are asked otherwise than a campaign's: they count for themselves."""
    single = args.verb == "run" or (args.verb == "list" and args.single)
    made = Campaign(
        args.folder,
        args.workers,
        args.quiet or QUIET["smoke" if single else "campaign"],
        args.wrap,
        tell=_tell,
        last=0.0 if single else QUIET["long"],
    )
    made.deadline = time.monotonic() + 60 * args.minutes
    return made


async def _run(made: Campaign, chosen: list[Plan]) -> None:
    await made.refer(sorted({plan.workload for plan in chosen}))
    await made.run([plan for plan in chosen if plan.fault != plans.REFERENCE])
    await made.dismiss()


async def _campaign(made: Campaign, only: str, most: int, *, everything: bool) -> None:
    workloads = workloads_of(only)
    await made.refer(workloads, runs=references.MOST)  # what two have in common may be luck: hundreds of plans go by it
    kept = [plan for plan in REGRESSIONS if plan.workload in workloads]
    found = dict.fromkeys([*made.every_plan(workloads, sampled=not everything), *kept])
    every = [plan for plan in found if re.search(only, str(plan))]
    chosen = plans.pruned(every, most)
    made.planned = [str(plan) for plan in chosen]
    await made.run(chosen)
    await made.dismiss()


def _said(made: Campaign, names: set[str], planned: list[str]) -> int:
    chosen = [result for name, result in made.results.items() if name in names]
    masked = made.masked({Plan.parse(result["plan"]).workload for result in chosen})
    text = report.text(chosen, made.code, planned, masked)
    (made.folder / "report.txt").write_text(text + "\n")
    _tell(text)
    return outcomes.status(chosen, planned)


def _tell(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m reliability.faults", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--folder", type=Path, default=FOLDER, help="results, references, logs (default: %(default)s)")
    parser.add_argument("--workers", type=int, default=workers_for_machine(), help="control planes at once")
    parser.add_argument(
        "--quiet",
        type=float,
        default=0.0,
        help="seconds without a write in the end (default: 8 in a campaign, else 3)",
    )
    parser.add_argument("--minutes", type=float, default=1e6, help="begin no plan after so long")
    parser.add_argument("--wrap", action="append", default=[], help="start processes through this, instead of -m")
    verbs = parser.add_subparsers(dest="verb", required=True)
    one = verbs.add_parser("run", help="run plans")
    one.add_argument("plans", nargs="+", metavar="workload/fault/at")
    several = verbs.add_parser("campaign", help="run all plans")
    several.add_argument("--only", default="", help="plans whose names match this expression")
    several.add_argument("--all", action="store_true", help="every place of every fault: several times as many")
    several.add_argument("--most", type=int, default=1_000_000, help="so many plans, evenly out of all")
    listed = verbs.add_parser("list", help="list plans")
    listed.add_argument("words", nargs="*")
    listed.add_argument("--single", action="store_true", help="over references that `run` made")
    verbs.add_parser("report", help="what is known about this code")
    inner = verbs.add_parser("worker")
    inner.add_argument("--folder", type=Path, required=True)
    inner.add_argument("--wrap", action="append", default=[])
    return parser


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)  # what was found so far is kept, and the next campaign goes on from there
