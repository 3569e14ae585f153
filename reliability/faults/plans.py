"""What a plan is: `workload/fault/at`. One fault, at one place, in one workload; a name is all it takes to replay it.

    pool/kill-before/gpupool:create:daemonsets:d8-gpu-operator:gpu-device-plugin-train#1
                                    gpupool-controller is killed before that request reaches the API server
    pool/500/webhook:patch:gpudevices:base-1-0000-3b-00-0:status#2
                                    the second such request is answered 500
    pool/hold/gpupool:gpudevices#3  what it watches of GPUDevices comes late, from the third event on
    pool/unseen-one/gpupool:pods:DELETED:team:one#1
                                    of that pod nothing is seen from its deletion on, until all pods are listed anew
    pool/rbac/gpupool@2             its rights are taken away before the second thing that a person does

A request is named by verb, object and how often that was asked before, since many run at once: a bare number would be
another object's in each run. Plans are enumerated from what the reference runs of a workload had in common (`Facts`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

REFERENCE: Final = "none"
KILLS: Final = ("kill-before", "kill-after")
ANSWERS: Final = (
    *("409", "429", "500", "504", "500-after", "504-after", "reset-before", "reset-after"),
    *("slow", "hang", "hang-after"),
)
"""`-after`: carried out, and then answered so; the others come in place of the API server."""
READS: Final = ("read-429", "read-500", "read-reset")
EVENTS: Final = ("hold", "unseen", "twice", "late")
"""Of one kind, from the n-th on."""
ONE: Final = ("hold-one", "unseen-one")
"""Of one object, from one event on, while its neighbours' arrive."""
WATCHES: Final = ("watch-410", "watch-429", "watch-500")
"""Watches of one kind end at the n-th event, and are refused when they are opened again."""
LEASES: Final = ("takeover", "overtaken", "lease-deleted", "lease-500", "lease-lost")
"""Of processes of which one leads."""
AT_PROCESS_STEP: Final = (
    *("rbac", "clock-forth", "clock-back", "stopped", "half-open", "stale", "stale-start"),
    *LEASES,
)
MENDED: Final = ("webhook-expired", "webhook-secret", "webhook-ca")
"""What the webhook itself puts right, whether or not it is asked for a review meanwhile."""
REVIEWED: Final = ("webhook-down", "webhook-slow", "twin")
"""They strike where people's step asks the webhook."""
AT_STEP: Final = (*REVIEWED, *MENDED, "apiserver-killed", "compacted")
REQUESTS: Final = (*KILLS, *ANSWERS, *READS)
FAULTS: Final = (REFERENCE, *REQUESTS, *EVENTS, *ONE, *WATCHES, *AT_PROCESS_STEP, *AT_STEP)
GROUPS: Final = (
    ("references", (REFERENCE,), 0),
    ("crashes", KILLS, 0),
    ("answers to writes", ANSWERS, 4),
    ("answers to reads", READS, 1),
    ("watch events", EVENTS, 2),
    ("events of one object", ONE, 2),
    ("watch requests", WATCHES, 1),
    ("one process", AT_PROCESS_STEP, 3),
    ("webhook and API server", AT_STEP, 2),
)
"""What belongs together, and how many of it a campaign takes of each workload: of crashes one at each write."""
PROCESSES: Final = ("inventory", "bootstrap", "gpupool", "driver", "webhook")
LEADERS: Final = PROCESSES[:4]


@dataclass(frozen=True, order=True)
class Plan:
    """One fault at one place of one workload."""

    workload: str
    fault: str
    at: str

    def __str__(self) -> str:
        return f"{self.workload}/{self.fault}/{self.at}"

    @classmethod
    def parse(cls, text: str) -> Plan:
        """Read a name; raises ValueError that says what is wrong with it."""
        parts = text.split("/")
        if len(parts) != 3:
            raise ValueError(f"{text!r}: a plan is workload/fault/at")
        plan = cls(*parts)
        if plan.fault not in FAULTS:
            raise ValueError(f"{text!r}: there is no fault {plan.fault!r}; there are {', '.join(FAULTS)}")
        if plan.process not in ("", *PROCESSES):
            raise ValueError(f"{text!r}: there is no process {plan.process!r}; there are {', '.join(PROCESSES)}")
        _ = plan.number, plan.step  # what cannot be read is said here
        return plan

    @property
    def process(self) -> str:
        """Whom it strikes; empty where that is not one process of the module."""
        if self.fault in (*AT_STEP, REFERENCE):
            return ""
        return self.at.partition("@" if self.fault in AT_PROCESS_STEP else ":")[0]

    @property
    def thing(self) -> str:
        """The request or the events that it strikes, as `Tap` spells them; empty where it is about none."""
        return self.at.partition(":")[2] if self.fault in (*REQUESTS, *EVENTS, *ONE, *WATCHES) else ""

    @property
    def number(self) -> int:
        """Which of those that are spelled alike, from 1; 0 where it is about none."""
        return int(self.thing.rpartition("#")[2]) if self.thing else 0

    @property
    def step(self) -> int:
        """Before which of people's steps, from 1; 0 where it is about none."""
        return int(self.at.partition("@")[2]) if self.fault in (*AT_STEP, *AT_PROCESS_STEP) else 0

    @property
    def resource(self) -> str:
        """Which kind's events; empty where it is about none."""
        about_events = self.fault in (*EVENTS, *ONE, *WATCHES)
        return self.thing.rpartition("#")[0].partition(":")[0] if about_events else ""


@dataclass(frozen=True)
class Facts:
    """What reference runs tell about where faults can strike; each by process, as `Tap` spells it, in order."""

    writes: Mapping[str, Sequence[str]]
    reads: Mapping[str, Sequence[str]]
    watched: Mapping[str, Mapping[str, int]]
    """By process and kind, how many events it got."""
    steps: int
    events: Mapping[str, Sequence[str]]
    reviewed: Sequence[int] = ()
    """The steps of people in which the webhook was asked."""


def shared(every: Sequence[Facts]) -> Facts:
    """What all runs have in common: a place that only one of them had may not come again."""
    first = every[0]

    def in_all(of: str) -> dict[str, list[str]]:
        runs = [getattr(one, of) for one in every]
        found = {
            process: [name for name in names if all(name in run.get(process, ()) for run in runs)]
            for process, names in runs[0].items()
        }
        return {process: names for process, names in found.items() if names}

    watched = {
        process: {kind: min(one.watched.get(process, {}).get(kind, 0) for one in every) for kind in kinds}
        for process, kinds in first.watched.items()
    }
    return Facts(
        writes=in_all("writes"),
        reads=in_all("reads"),
        watched={process: {k: n for k, n in kinds.items() if n} for process, kinds in watched.items()},
        steps=min(one.steps for one in every),
        events=in_all("events"),
        reviewed=[step for step in first.reviewed if all(step in one.reviewed for one in every)],
    )


def crashes(workload: str, facts: Facts) -> Iterator[Plan]:
    """Each write of each process, before it reaches the server and after."""
    for process, writes in sorted(facts.writes.items()):
        for write in writes:
            for fault in KILLS:
                yield Plan(workload, fault, f"{process}:{write}")


def crashes_once(workload: str, facts: Facts, turn: int) -> Iterator[Plan]:
    """Each write once: before and after in turns, the other way about for another `turn`."""
    for number, plan in enumerate(crashes(workload, facts)):
        if number % 2 == (number // 2 + turn) % 2:
            yield plan


def others(workload: str, facts: Facts) -> Iterator[Plan]:
    """Every other fault: of answers, reads, events, and at people's steps."""
    for fault, at in (*_answers(facts), *_kinds(facts), *_objects(facts), *_processes(facts), *_steps(facts)):
        yield Plan(workload, fault, at)


def _answers(facts: Facts) -> Iterator[tuple[str, str]]:
    for requests, faults, most in ((facts.writes, ANSWERS, 3), (facts.reads, READS, 1)):
        for process, names in sorted(requests.items()):
            for place, fault in enumerate(faults):
                for number in _spread(len(names), place, most):
                    yield fault, f"{process}:{names[number - 1]}"


def _kinds(facts: Facts) -> Iterator[tuple[str, str]]:
    for process, kinds in sorted(facts.watched.items()):
        for kind, count in sorted(kinds.items()):
            for place, fault in enumerate((*EVENTS, *WATCHES)):
                # The first always: it is what all that follows stands on.
                for number in sorted({1, *_spread(count, place, 1)} if fault in EVENTS else _spread(count, place, 1)):
                    yield fault, f"{process}:{kind}#{number}"


def _objects(facts: Facts) -> Iterator[tuple[str, str]]:
    for process, events in sorted(facts.events.items()):
        for fault in ONE:
            for event in events:
                yield fault, f"{process}:{event}"


def _processes(facts: Facts) -> Iterator[tuple[str, str]]:
    for place, fault in enumerate(AT_PROCESS_STEP):
        for shift, process in enumerate(LEADERS if fault in LEASES else PROCESSES):
            # The webhook does nothing but what it is asked for.
            steps = range(1, facts.steps + 1) if process in LEADERS else facts.reviewed
            for number in _spread(len(steps), place + shift, 1):
                yield fault, f"{process}@{steps[number - 1]}"


def _steps(facts: Facts) -> Iterator[tuple[str, str]]:
    for place, fault in enumerate(AT_STEP):
        steps = facts.reviewed if fault in REVIEWED else range(1, facts.steps + 1)
        for number in _spread(len(steps), place, 1 if fault == "twin" else 2):
            yield fault, f"@{steps[number - 1]}"


def _spread(count: int, shift: int, most: int) -> list[int]:
    """A few numbers of 1…count, others for other faults."""
    if count <= 0:
        return []
    pace = max(1, count // most)
    return sorted({(shift + pace * turn) % count + 1 for turn in range(min(most, count))})


def sampled(workload: str, facts: Facts, turn: int) -> Iterator[Plan]:
    """Of other faults than crashes so many of each group as `GROUPS` says, others for another `turn`."""
    every = list(others(workload, facts))
    for _, faults, most in GROUPS:
        group = sorted(
            (plan for plan in every if plan.fault in faults), key=lambda plan: (faults.index(plan.fault), plan)
        )
        yield from pruned([*group[turn % max(1, len(group)) :], *group[: turn % max(1, len(group))]], most)


def pruned(plans: Iterable[Plan], most: int) -> list[Plan]:
    """So many plans, evenly out of a longer list."""
    every = list(plans)
    return every if len(every) <= most else [every[len(every) * turn // most] for turn in range(most)]
