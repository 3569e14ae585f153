"""Pod creations during an attack, over those of a quiet moment right before.

Two replicas behind the balancer and a pool of free cards, as in `reliability.bench.burst`. Teams create a pod without
and one with a card in turn; first nobody else does anything, then one attacks (`reliability.bench.attacks`), in a
process of its own that gets what the others leave of the machine.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from controllers.api.resources import POD
from reliability.bench import attacker, stats
from reliability.bench.attacks import Plan, plans
from reliability.bench.creators import CARD, PLAIN, TEAMS
from reliability.bench.environment import Environment, running_environment
from reliability.bench.fleet import CARDS
from reliability.bench.quiet import LIMIT, Moment, others, wait_for_quiet
from reliability.bench.replicas import WebhookReplicas, webhook_replicas
from reliability.bench.rows import Result, Row, Sizes
from reliability.kit.progress import show_progress
from sim import controlplane
from sim.controlplane.layout import Layout

if TYPE_CHECKING:
    from tools.programs import Progress

TENANT = "attacker"
"""The namespace of the attacker."""
BEGUN_SECONDS = 180.0
"""An attacker has what the others leave of the machine, and is waited for until it has done everything once."""
GAP = 0.1
"""Seconds between two pairs."""


@dataclass(frozen=True, slots=True)
class Stretch:
    """Creations of the teams for some seconds; times in seconds."""

    plain: stats.Summary
    card: stats.Summary
    refused: int
    refusal: str
    """The first one's message."""
    others: float
    """Cores that others took, neither the benchmark nor the attacker."""


@dataclass(frozen=True, slots=True)
class Attacked:
    """One attack, and the quiet right before it."""

    name: str
    title: str
    quiet: Stretch
    floor: Stretch | None
    """While the same pods come and ask for no card."""
    attacked: Stretch
    did: dict[str, int]
    """The attacker's answers by status, or connections."""
    rss_mb: float
    """The most memory that a replica has had until now."""

    @property
    def alone(self) -> bool:
        """Whether nobody else used the machine."""
        return max(one.others for one in (self.quiet, self.floor, self.attacked) if one) <= LIMIT


def measure(folder: Path, sizes: Sizes, progress: Progress) -> Result:
    """Measure on a control plane in `folder`; raises UserError."""
    with running_environment(folder, progress) as made:
        return asyncio.run(_measure(made, sizes, progress))


async def _measure(made: Environment, sizes: Sizes, progress: Progress) -> Result:
    found: list[Attacked] = []
    async with webhook_replicas(made, sizes.attacked_nodes, {}, progress) as replicas:
        await replicas.creators.enrol(TENANT)
        quiet_rss = max(webhook.peak_rss_mb() for webhook in replicas.webhooks)
        for plan in plans(sizes.idle_connections):
            await wait_for_quiet(made.plane.dir, sizes.patience)
            async with show_progress(progress, f"nobody attacks, then: {plan.title}"):
                found.append(await _one(replicas, plan, sizes.attack_seconds))
    raw = {"cards": sizes.attacked_nodes * CARDS, "attacks": list(map(asdict, found)), "quiet_rss_mb": quiet_rss}
    return Result(_rows(found, quiet_rss), raw)


async def _one(replicas: WebhookReplicas, plan: Plan, seconds: float) -> Attacked:
    quiet = await _stretch(replicas, seconds)
    await replicas.clear()
    floor = (await _under(replicas, _attack(replicas, plan, plan.floor), seconds))[0] if plan.floor else None
    attacked, did = await _under(replicas, _attack(replicas, plan, plan.body), seconds)
    for webhook in replicas.webhooks:
        webhook.check()
    rss = max(webhook.peak_rss_mb() for webhook in replicas.webhooks)
    return Attacked(plan.name, plan.title, quiet, floor, attacked, did, rss)


async def _under(replicas: WebhookReplicas, attack: attacker.Attack, seconds: float) -> tuple[Stretch, dict[str, int]]:
    """The creations while one attacks, and what that one did."""
    folder, process = replicas.environment.plane.dir, attacker.process(attack)
    await asyncio.to_thread(controlplane.add_process, folder, process)
    try:
        await asyncio.to_thread(controlplane.wait_ready, folder, process.name, BEGUN_SECONDS)
        seen = await _stretch(replicas, seconds)
    finally:
        await asyncio.to_thread(controlplane.remove_process, folder, process.name)
        await asyncio.to_thread(Path(attack.began).unlink, missing_ok=True)
    await replicas.clear()  # not before it has ended: it would take them again
    return seen, attacker.did(Layout.of(folder).log(process.name))


def _attack(replicas: WebhookReplicas, plan: Plan, content: bytes) -> attacker.Attack:
    """The attack with its addresses; its body and its sign of life lie with the control plane's identities."""
    folder = replicas.environment.identities
    body, began = folder / f"{plan.name}.json", folder / f"{plan.name}.began"
    body.write_bytes(content)
    made = attacker.Attack(str(began), plan.at_once, plan.a_second, body=str(body))
    if plan.at == "connections":
        return replace(made, ports=tuple(replicas.ports))
    if plan.at == "webhook":
        urls = tuple(f"https://{attacker.HOST}:{port}/mutate-pods" for port in replicas.ports)
        return replace(made, urls=urls, headers=attacker.JSON)
    url = f"{replicas.environment.plane.server}{POD.path(TENANT)}{plan.query}"
    return replace(made, urls=(url,), headers=replicas.creators.headers(TENANT))


async def _stretch(replicas: WebhookReplicas, seconds: float) -> Stretch:
    """Pods of the teams, one without and one with a card in turn."""
    folder, plain, card, refusals = replicas.environment.plane.dir, list[float](), list[float](), list[str]()
    moment, end = Moment.now(folder), time.monotonic() + seconds
    while not plain or time.monotonic() < end:
        for resource, took in ((PLAIN, plain), (CARD, card)):
            made = await replicas.creators.create(TEAMS[len(plain) % len(TEAMS)], resource)
            took.append(made.seconds)
            if not made.pod:
                refusals.append(made.refusal)
        await asyncio.sleep(GAP)
    disturbed = others(moment, Moment.now(folder))
    return Stretch(stats.summary(plain), stats.summary(card), len(refusals), next(iter(refusals), ""), disturbed)


def _rows(found: list[Attacked], quiet_rss: float) -> tuple[Row, ...]:
    rows: list[Row] = []
    for one in found:
        seen, base = one.attacked, one.floor or one.quiet
        over = "while the same ask for no card" if one.floor else "quiet"
        did = ", ".join(f"{count:,} × {what}" for what, count in sorted(one.did.items()))
        ms = f"{1000 * base.card.p50:.0f} → {1000 * seen.card.p50:.0f} ms"
        title = f"attack: {one.title}: other pods, p50 ÷ {over}"
        rows.append(Row(title, seen.plain.p50 / base.plain.p50, at_most=2, judged=one.alone))
        title = f"  other teams' pods with a card, p50 ÷ {over}"
        rows.append(Row(title, seen.card.p50 / base.card.p50, at_most=2, judged=one.alone, note=ms))
        if one.floor is not None:
            ms = f"{1000 * one.quiet.card.p50:.0f} → {1000 * seen.card.p50:.0f} ms"
            rows += [
                Row("  other pods, p50 ÷ quiet", seen.plain.p50 / one.quiet.plain.p50),
                Row("  other teams' pods with a card, p50 ÷ quiet", seen.card.p50 / one.quiet.card.p50, note=ms),
            ]
        rows.append(Row("  pods of others that were refused", seen.refused, digits=0, exactly=0, note=did))
    rss = max(one.rss_mb for one in found)
    rows.append(Row("peak RSS of a replica, after all attacks", rss, "MB", 0, note=f"quiet: {quiet_rss:.0f} MB"))
    return tuple(rows)
