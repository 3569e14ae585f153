"""What becomes of a plan that failed or says nothing: what cannot be chance stays, the rest is run once more. Pure.

Results are mappings as they are written to a file; `certain` says how many of the failures, the first ones, cannot be
chance. A run says nothing where its fault struck nothing, and where it wrote or took more than its references on a
machine that gave it less time (`not judged`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

PASSED, FAILED, ONCE, NOT_REACHED, NOT_JUDGED = "passed", "failed", "1 of 2", "not reached", "not judged"
OUTCOMES = (PASSED, ONCE, FAILED, NOT_REACHED, NOT_JUDGED)
MUTE = (NOT_REACHED, NOT_JUDGED)
"""Outcomes of runs that say nothing."""
ROUNDS = 3
"""Times that what is in doubt is run again: a first run that says nothing, or a second one, is followed by another."""
NOT_REACHED_MOST = 0.02
"""Share of the plans that were run that may find nothing to strike."""
ONCE_MOST = 0.1
"""Share of them that may differ in one run of two: more are no chance."""


def is_doubtful(result: Mapping[str, Any]) -> bool:
    """Whether it is to be run once more."""
    by_chance = result["outcome"] in MUTE or (result["outcome"] == FAILED and not result.get("certain"))
    return by_chance and "attempts" not in result


def together(first: Mapping[str, Any], second: Mapping[str, Any]) -> dict[str, Any]:
    """One result out of two of a plan: `1 of 2` where the first failure was doubtful and did not come again.

    Where the first run says nothing, only the second one counts, and may itself be in doubt. Where it failed and the
    second one is not judged it stays in doubt for one more run; if that is not judged either, what depends on the
    machine is not judged, and the rest was seen once.
    """
    attempts = [{key: one.get(key) for key in ("outcome", "failures", "struck", "seconds")} for one in (first, second)]
    if first["outcome"] in MUTE:
        return {**second, "attempts": attempts} if second["outcome"] in MUTE else dict(second)
    if second["outcome"] == NOT_JUDGED and not first.get("certain"):
        if not first.get("once_more"):
            return {**first, "once_more": True}
        if set(first["failures"]) <= set(first.get("paced", ())):
            return {**second, "attempts": attempts}
    certain = int(first.get("certain", 0)) + int(second.get("certain", 0))
    outcome = ONCE if second["outcome"] in (PASSED, NOT_JUDGED) and not certain else FAILED
    failures = [
        f"{which} run: {sentence}" for which, one in (("1st", first), ("2nd", second)) for sentence in one["failures"]
    ]
    return {**second, "outcome": outcome, "failures": failures, "certain": certain, "attempts": attempts}


def amended(result: Mapping[str, Any], sentences: Iterable[str], *, certain: bool) -> dict[str, Any]:
    """With what showed of it later, when it was wiped away."""
    told = list(sentences)
    failures = [*told, *result["failures"]] if certain else [*result["failures"], *told]
    more = len(told) if certain else 0
    return {**result, "outcome": FAILED, "failures": failures, "certain": int(result.get("certain", 0)) + more}


def counts(results: Iterable[Mapping[str, Any]], planned: Iterable[str]) -> tuple[int, int, int]:
    """How many plans were planned, run, and not reached by their fault: references are no plans."""
    names, run = set(planned), _run(results, planned)
    return len(names), len(run), sum(result["outcome"] == NOT_REACHED for result in run)


def is_control_wanted(result: Mapping[str, Any]) -> bool:
    """Whether it is in doubt by what depends on the machine: its references are to be of the time of its next run."""
    return is_doubtful(result) and bool(result.get("paced"))


def unjudged(results: Iterable[Mapping[str, Any]], planned: Iterable[str]) -> int:
    """How many plans were not judged by how often they wrote and how long they took."""
    return sum(result["outcome"] == NOT_JUDGED for result in _run(results, planned))


def _run(results: Iterable[Mapping[str, Any]], planned: Iterable[str]) -> list[Mapping[str, Any]]:
    names = set(planned)
    return [result for name, result in {str(one["plan"]): one for one in results}.items() if name in names]


def excess(results: Iterable[Mapping[str, Any]], planned: Iterable[str]) -> list[str]:
    """Of what may come by chance, what came too often, in sentences."""
    run, found = _run(results, planned), []
    for outcome, most, single, what in (
        (NOT_REACHED, NOT_REACHED_MOST, 0, "too many plans struck nothing"),
        (ONCE, ONCE_MOST, 1, "too many plans failed one run of two"),
    ):
        count = sum(result["outcome"] == outcome for result in run)
        if count > max(most * len(run), single):
            found.append(f"{what}: {count} of {len(run)}, {most:.0%} are allowed")
    return found


def status(results: Iterable[Mapping[str, Any]], planned: Iterable[str]) -> int:
    """Of the program: 1 where a plan failed, or too much came by chance, 3 where some were not run, else 0."""
    every, chosen = list(results), list(planned)
    wanted, run, _ = counts(every, chosen)
    if any(result["outcome"] == FAILED for result in every) or excess(every, chosen):
        return 1
    return 3 if run < wanted else 0
