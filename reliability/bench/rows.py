"""A row of the table: what was measured, what it may be, and the verdict. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

Verdict = Literal["met", "missed", "info"]


@dataclass(frozen=True, slots=True)
class Row:
    """One figure."""

    name: str
    value: float
    unit: str = ""
    digits: int = 2
    at_most: float | None = None
    at_least: float | None = None
    exactly: float | None = None
    judged: bool = True
    """False where the budget holds for another size than was measured: then it is shown, not judged."""
    note: str = ""

    @property
    def verdict(self) -> Verdict:
        """Whether the budget is met; `info` where there is none to judge by."""
        if not self.judged or self._bound is None:
            return "info"
        sign, bound = self._bound
        met = {"=": self.value == bound, "≤": self.value <= bound, "≥": self.value >= bound}[sign]
        return "met" if met else "missed"

    @property
    def _bound(self) -> tuple[str, float] | None:
        bounds = (("=", self.exactly), ("≤", self.at_most), ("≥", self.at_least))
        return next(((sign, bound) for sign, bound in bounds if bound is not None), None)

    @property
    def measured(self) -> str:
        """The figure for people."""
        return f"{self.value:,.{self.digits}f}{' ' if self.unit else ''}{self.unit}"

    @property
    def budget(self) -> str:
        """The budget for people."""
        if self._bound is None:
            return ""
        sign, bound = self._bound
        return f"{sign} {bound:g}{' ' if self.unit else ''}{self.unit}"

    def to_json(self) -> dict[str, Any]:
        """The row as JSON values."""
        return {
            "row": self.name,
            "measured": self.value,
            "unit": self.unit,
            "budget": {"at_most": self.at_most, "at_least": self.at_least, "exactly": self.exactly},
            "verdict": self.verdict,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Result:
    """What one theme measured."""

    rows: tuple[Row, ...]
    raw: dict[str, Any]
    """Every figure behind the rows, as JSON values; times in seconds where no unit is in the name."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much is measured; tests take less. Times in seconds."""

    nodes: int
    """Nodes with 8 cards of the cold start and of the changes."""
    rounds: int = 3
    """Cold starts, each between two floors."""
    tries: int = 2
    """So many times as many rounds are made, at most, where others disturb them."""
    settle: float = 2.0
    """Rest before something is measured."""
    patience: float = 30.0
    """So long, at most, is waited before a measurement for others to leave the machine alone."""
    quiet: float = 20.0
    """After each cold start, to see that nothing is written."""
    changes_a_second: float = 20.0
    """Reports that change, one node after the other."""
    change_seconds: float = 15.0
    """Of one series; it has no more changes than there are nodes."""
    large_nodes: int = 2000
    """Nodes with 8 cards of the large cold start."""
    large_quiet: float = 60.0
    """After it, to see that nothing is written."""
    monitored_nodes: int = 1000
    """Nodes with 8 cards whose exporters are scraped."""
    monitored_seconds: float = 120.0
    """So long is looked at them when all are ready; several scrapes of each."""
    last_repeats: int = 20
    """Nodes whose last component becomes ready while it is timed, for each kind of last component."""
    pooled_nodes: int = 1000
    """Nodes with 8 cards that the pools share."""
    pools: int = 100
    annotations_a_second: float = 5.0
    """Each costs the API server nine writes of several objects: more of them would measure the machine."""
    annotations: int = 150
    burst_cards: int = 1000
    """Cards that are annotated at once."""
    plugin_patience: float = 30.0
    """Seconds, the setting pools.pluginPatience: no plugin runs, and each card says so after them."""
    pool_nodes: int = 125
    """Nodes with 8 cards of the webhook's pool."""
    reviews_a_second: int = 200
    warm_up: float = 2.0
    review_rounds: int = 3
    review_seconds: float = 10.0
    creation_pairs: int = 100
    """Pods with and without a card, created in turn."""
    series_pods: int = 100
    """Pods of one series, whose creations a second are compared."""
    series_rounds: int = 3
    creators: int = 16
    """Pods of a series that are created at once."""
    burst_pods: int = 1000
    """Pods that are created at once, as many as there are cards."""
    queue_cards: int = 104
    """Cards for which pods wait."""
    queue_burst: int = 1000
    """Pods that are created at once."""
    queue_freed: int = 100
    """Cards that are freed one by one."""
    queue_pause: float = 0.3
    """Seconds between two of them."""
    queue_waiting: int = 2000
    queue_quiet: float = 60.0
    """Seconds in which they wait and nothing changes."""
    gangs: int = 100
    """Of four pods with a card each."""
    gang_cards: int = 50
    gang_kills: int = 20
    """Times that the controller is killed meanwhile."""
    churn_nodes: int = 5
    """Nodes with 8 cards for which more jobs come than they can take."""
    churn_seconds: float = 1800.0
    churn_warm_up: float = 120.0
    """Seconds that are not measured at the start."""
    churn_job: float = 60.0
    """Seconds that a job runs in the mean."""
    attacked_nodes: int = 50
    """Nodes with 8 cards of the pool from which others take cards while somebody attacks."""
    idle_connections: int = 1400
    """To each replica, by one who attacks."""
    attack_seconds: float = 8.0
    """Of each attack, and of the quiet before it."""
    writing_seconds: float = 4.0
    """With writes each review takes a card: at most as long as there are cards."""
    repeats: int = 30
    """Cards from annotation to a running pod."""
    nearness_pods: int = 10_000
    """Pods of each strategy whose cards are looked at."""
    verdict_nodes: int = 1000
    """Nodes with 8 cards of the pool against which one pod is explained."""
    console_nodes: int = 1000
    """Nodes with 8 cards that the console shows."""
    console_viewers: int = 20
    console_changes_a_second: float = 4.0
    console_changes: int = 240
    """Cards that change at that pace, each once."""
    console_quiet: float = 60.0
    """Seconds in which nothing changes, and nothing may be sent."""
    batch: int = 1000
    """Nodes without a driver that join at once, at most; the next come when these are in service."""
    driver_nodes: int = 60
    """Nodes without a driver that join: as many as two cores bring into service in minutes. Budgets are for 1,000."""
    driver_first: int = 5
    """Nodes without a driver that join one after another."""
    driver_unserved: int = 10
    """Nodes whose driver has no image, and as many whose kernel has none."""
    driver_quiet: float = 60.0
    """Seconds in which nothing changes."""
    driver_objects: int = 200
    """GPUDrivers over the nodes, of which every second one overlaps another."""
    roll_nodes: int = 60
    """Nodes onto which another version of a driver comes: as few for the same reason."""
    roll_pools: int = 1
    """Pools that they are in."""
    roll_percent: int = 10
    """Share of them, and of each pool, that may be out of service."""
    roll_soak: int = 10
    """Seconds for which a canary and a wave have to serve."""
    roll_stay: tuple[float, float] = (5.0, 60.0)
    """How long pods run, at least and at most."""
    drain_nodes: int = 300
    """Nodes with 8 cards that are drained for another version."""
    drain_pools: int = 10
    drain_percent: int = 10
    """Share of them, and of each pool, that may be out of service."""
    drain_pods: int = 2000
    """Pods on them, of Deployments."""
    drain_replicas: int = 20
    """Pods of one Deployment, and so of one budget."""
    drain_allowed: int = 2
    """Of these may be missing."""
    drain_timeout: float = 600.0
    """How long evictions from one node are tried."""
    strata_nodes: int = 40
    """Nodes of two kinds, of which a tenth cannot load a version."""
    strata_quiet: float = 60.0
    """Seconds in which those who wait are looked at."""
    takeover_nodes: int = 100
    """Nodes of GPU Operator that go over to the module."""
    takeover_stay: tuple[float, float] = (5.0, 20.0)
    """How long pods run meanwhile, at least and at most."""
    gap: float = 1.1
    """At least so long between two annotations: a pool's list is rewritten at most once a second."""
