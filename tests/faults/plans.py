"""What a plan is: `workload/fault/at`. One fault, at one place, in one workload; a name is all it takes to replay it.

    pool/kill-before/gpupool.3      gpupool-controller is killed before its third write reaches the server
    pool/hold/gpupool.gpudevices    what it watches of GPUDevices comes late
    pool/rbac/gpupool@2             its rights are taken away before the second thing that a person does

Plans are enumerated from a reference run: which process writes how often, which kinds it watches, and how many steps
people take.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

REFERENCE: Final = "none"
KILLS: Final = ("kill-before", "kill-after")
ANSWERS: Final = ("409", "429", "500", "504", "reset-before", "reset-after", "hang")
READS: Final = ("read-429", "read-500", "read-reset")
EVENTS: Final = ("hold", "unseen", "twice", "late", "hold-one", "unseen-one")
"""Of one kind; `-one`: of the object alone that the first of them is about, while its neighbours' arrive."""
AT_PROCESS_STEP: Final = ("rbac", "clock-forth", "clock-back", "stopped", "half-open", "stale")
AT_STEP: Final = (
    "webhook-down",
    "webhook-slow",
    "webhook-expired",
    "webhook-secret",
    "webhook-ca",
    "apiserver-killed",
    "compacted",
)
FAULTS: Final = (REFERENCE, *KILLS, *ANSWERS, *READS, *EVENTS, *AT_PROCESS_STEP, *AT_STEP)
GROUPS: Final = (
    ("references", (REFERENCE,), 0),
    ("crashes", KILLS, 0),
    ("answers to writes", ANSWERS, 7),
    ("answers to reads", READS, 3),
    ("watch events", EVENTS, 8),
    ("one process", AT_PROCESS_STEP, 6),
    ("webhook and API server", AT_STEP, 4),
)
"""What belongs together, and how many of it a campaign takes of each workload: of crashes every one."""
PROCESSES: Final = ("inventory", "bootstrap", "gpupool", "webhook")
LEADERS: Final = PROCESSES[:3]


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
        _ = plan.process, plan.number, plan.step  # what cannot be read is said here
        if plan.process not in ("", *PROCESSES):
            raise ValueError(f"{text!r}: there is no process {plan.process!r}; there are {', '.join(PROCESSES)}")
        return plan

    @property
    def process(self) -> str:
        """Whom it strikes; empty where that is not one process of the module."""
        if self.fault in AT_STEP or self.fault == REFERENCE:
            return ""
        return self.at.partition("@")[0] if self.fault in AT_PROCESS_STEP else self.at.partition(".")[0]

    @property
    def number(self) -> int:
        """Which write or read, from 1; 0 where it is about none."""
        return int(self.at.partition(".")[2]) if self.fault in (*KILLS, *ANSWERS, *READS) else 0

    @property
    def step(self) -> int:
        """Before which of people's steps, from 1; 0 where it is about none."""
        if self.fault in AT_STEP:
            return int(self.at.removeprefix("@"))
        return int(self.at.partition("@")[2]) if self.fault in AT_PROCESS_STEP else 0

    @property
    def resource(self) -> str:
        """Which kind's events; empty where it is about none."""
        return self.at.partition(".")[2] if self.fault in EVENTS else ""


@dataclass(frozen=True)
class Facts:
    """What a reference run tells about where faults can strike."""

    writes: Mapping[str, int]
    """By process."""
    reads: Mapping[str, int]
    watched: Mapping[str, Sequence[str]]
    """By process, the kinds of which it got an event."""
    steps: int


def crashes(workload: str, facts: Facts) -> Iterator[Plan]:
    """Each write of each process, before it reaches the server and after."""
    for process, count in sorted(facts.writes.items()):
        for number in range(1, count + 1):
            for fault in KILLS:
                yield Plan(workload, fault, f"{process}.{number}")


def others(workload: str, facts: Facts) -> Iterator[Plan]:
    """Every other fault: of answers, reads, events, and at each of people's steps."""
    for fault, at in (*_answers(facts), *_events(facts), *_at_steps(facts)):
        yield Plan(workload, fault, at)


def _answers(facts: Facts) -> Iterator[tuple[str, str]]:
    for counts, faults, most in ((facts.writes, ANSWERS, 3), (facts.reads, READS, 1)):
        for process, count in sorted(counts.items()):
            for place, fault in enumerate(faults):
                for number in _spread(count, place, most):
                    yield fault, f"{process}.{number}"


def _events(facts: Facts) -> Iterator[tuple[str, str]]:
    for process, kinds in sorted(facts.watched.items()):
        for kind in sorted(kinds):
            for fault in EVENTS:
                yield fault, f"{process}.{kind}"


def _at_steps(facts: Facts) -> Iterator[tuple[str, str]]:
    for place, fault in enumerate(AT_PROCESS_STEP):
        for shift, process in enumerate(LEADERS):
            for step in _spread(facts.steps, place + shift, 1):
                yield fault, f"{process}@{step}"
    for place, fault in enumerate(AT_STEP):
        for step in _spread(facts.steps, place, 1):
            yield fault, f"@{step}"


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
