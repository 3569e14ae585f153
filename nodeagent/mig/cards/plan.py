"""`migApply` of each card, and which cards can be partitioned now. Pure.

A card's part of the layout has a version, and each version is tried once: it ends as Done or Failed and stays so,
whatever becomes of the card, as long as the driver stays loaded. Instances end with the driver: under another loading
of it the card is looked at again, and what it has lost is told of as Lost. Who wants a version tried again asks for
another one. Nothing is done to a card before the
cluster reads Waiting, for by that word bootstrap sends away the programs that hold the cards open.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.api.gpudevice import MIG_OVER, MIG_WORK, MigApply
from controllers.domain.mig import NodeLayout, difference, read
from controllers.domain.usage import is_unused
from nodeagent.mig.cards.records import Job, Loading

if TYPE_CHECKING:
    from collections.abc import Collection, Hashable, Iterable, Mapping

    from controllers.api.gpudevice import GPUDevice
    from controllers.api.kube import ConfigMap
    from controllers.domain.mig import CardLayout, PlannedCard
    from nodeagent.mig.cards.records import Attempt, DriverReport, NodeScan

REASON_MAX: Final = 900
ATTEMPTS: Final = 5
"""So often a card's work is begun anew after it was cut short; then it has failed."""

IN_USE: Final = "InUse"
"""A plugin offers the card, or a pod has it."""
CLIENTS: Final = "ClientsPresent"
"""Programs of ours hold the card open, and it is to be reset."""
DRIVER: Final = "DriverSilent"
"""The driver does not tell how the card is divided, or not where it counts it."""
OTHER_CARD: Final = "AnotherCard"
"""The layout speaks of a card that is not the one in this slot."""
NOT_ACKNOWLEDGED: Final = "NotTold"
"""The cluster has not read yet that work on the card is at hand."""
OBSTACLES: Final = (IN_USE, CLIENTS, DRIVER, OTHER_CARD, NOT_ACKNOWLEDGED)


def desired_layout(config: ConfigMap | None) -> NodeLayout | None:
    """How the cards are to be divided; None where the ConfigMap cannot be relied on: it is left alone then."""
    if config is None:
        return NodeLayout()
    found = read(config.data)
    return found if found is not None and found.version == config.data.get(names.MIG_VERSION) else None


def by_address(devices: Iterable[GPUDevice]) -> dict[str, GPUDevice]:
    """The cards that inventory has described, by PCI address."""
    known = ((device.status.hardware, device) for device in devices)
    return {hardware.pci.address: device for hardware, device in known if hardware is not None}


def visible(cards: Mapping[str, GPUDevice]) -> tuple[Hashable, ...]:
    """What of the cards any step here hangs on, as the cluster says it; the rest of their status changes often."""
    told = ((address, cards[address].metadata.uid, cards[address].status) for address in sorted(cards))
    return tuple(
        (address, uid, now.mig_apply, now.published is None, bool(now.allocations or now.foreign_allocations))
        for address, uid, now in told
    )


def is_settled(layout: NodeLayout, cards: Mapping[str, GPUDevice], loading: Loading | None) -> bool:
    """Whether by what the cluster says there is nothing to do or to say, so that nobody need look at the cards."""
    parts = {part.address: part for part in layout.cards if part.layout is not None}
    over = all(_is_over(parts.get(address), card.status.mig_apply) for address, card in cards.items())
    return over and not is_stale(layout, cards, loading)


def is_stale(layout: NodeLayout, cards: Mapping[str, GPUDevice], loading: Loading | None) -> bool:
    """Whether what is told of a card that has a part was seen under another loading of the driver than this one."""
    parts = {part.address: part for part in layout.cards if part.layout is not None}
    said = ((parts.get(address), card.status.mig_apply) for address, card in cards.items())
    return any(part is not None and _is_over(part, now) and _is_of_another(now, loading) for part, now in said)


def _is_of_another(now: MigApply | None, loading: Loading | None) -> bool:
    return now is not None and loading is not None and Loading(now.boot_id or "", now.driver_load or "") != loading


def _is_over(part: PlannedCard | None, now: MigApply | None) -> bool:
    if part is None:
        return now is None or now.phase in MIG_OVER
    return now is not None and now.version == part.version and now.phase in MIG_OVER


def remembered(
    attempts: Mapping[str, Attempt], layout: NodeLayout, cards: Mapping[str, GPUDevice]
) -> dict[str, Attempt]:
    """The attempts that still matter: what is told of as over, or asked for no more, is forgotten."""
    parts = {part.address for part in layout.cards if part.layout is not None}
    found = {}
    for address, attempt in attempts.items():
        now = cards[address].status.mig_apply if address in cards else None
        if address in parts and now is not None and now.phase in MIG_WORK:
            found[address] = attempt
    return found


def plan_status(
    part: PlannedCard | None, now: MigApply | None, look: NodeScan, attempt: Attempt | None
) -> MigApply | None:
    """What is to be said of a card before anything is done to it. `now`: what is said.

    A card that has no part, or is lost, is not waited for.
    """
    if part is None or part.layout is None or part.address in look.lost:
        return now if now is not None and now.phase in MIG_OVER else None
    version, told = part.version, look.cards.get(part.address)
    if now is not None and now.version == version and now.phase in MIG_OVER:
        loading = look.loading
        return _again(part, now, told, loading) if loading and _is_of_another(now, loading) else now
    begun = attempt is not None and attempt.version == version
    if not begun and told is not None and _is_same(part, told):
        if told.layout == part.layout:
            return MigApply(version=version, phase="Done")
        if why := refusal(part, told):
            return MigApply(version=version, phase="Failed", reason=why)
    applying = MigApply(version=version, phase="Applying")
    return applying if begun or now == applying else MigApply(version=version, phase="Waiting")


def _again(part: PlannedCard, now: MigApply, told: DriverReport | None, loading: Loading) -> MigApply:
    """What is to be said of a card on which the work ended under another loading of the driver."""
    if told is None or told.layout is None or not _is_same(part, told):
        return now  # nobody knows yet what the driver has left of it
    if told.layout == part.layout:
        # With its loading, or what was said while nobody knew one would seem to be said already.
        return MigApply(version=now.version, phase="Done", boot_id=loading.boot, driver_load=loading.driver or None)
    if now.boot_id == loading.boot and not (now.driver_load and loading.driver):
        return replace(now, driver_load=loading.driver or None)  # of one of the two nobody knows the loading
    before = f"; before that the work had failed: {now.reason}" if now.phase == "Failed" else ""
    why = f"DriverReloaded: the node's driver was loaded anew, and the card is {format_layout(told.layout)}{before}"
    return MigApply(version=now.version, phase="Lost", reason=why[:REASON_MAX])


def format_layout(layout: CardLayout | None) -> str:
    """How a card is divided, as a reason says it."""
    if layout is None:
        return "not told by its driver"
    if not layout.enabled:
        return "undivided"
    held = ", ".join(f"{count} of {name}" for name, count in sorted(layout.instances.items()))
    return f"divided into {held or 'nothing'}"


def refusal(part: PlannedCard, told: DriverReport) -> str:
    """Why the card cannot be divided so whatever is done; empty where it can, or nobody knows."""
    if part.layout is None or not part.layout.enabled:
        return ""
    if told.capable is False:
        return f"MIGNotSupported: the driver says that card {part.address} cannot do MIG"
    unknown = sorted(set(part.layout.instances) - set(told.profiles))
    if unknown and told.profiles:
        has = ", ".join(told.profiles)
        return f"MIGProfileNotOffered: card {part.address} does not offer {', '.join(unknown)}; it offers {has}"
    return ""


def is_clear(card: GPUDevice, part: PlannedCard) -> bool:
    """Whether nobody offers or has the card; by a read from the quorum this is what work begins on."""
    return is_unused(card) and _is_acknowledged(card, part)


def _is_acknowledged(card: GPUDevice, part: PlannedCard) -> bool:
    now = card.status.mig_apply
    return now is not None and now.version == part.version and now.phase in MIG_WORK


def jobs(
    layout: NodeLayout,
    cards: Mapping[str, GPUDevice],
    look: NodeScan,
    attempts: Mapping[str, Attempt],
    clients: Collection[str],
) -> tuple[Job, ...]:
    """The cards whose part is not done with, by address. `clients`: programs of ours that may hold cards open."""
    found = []
    for part in layout.cards:
        card = cards.get(part.address)
        if part.layout is None or card is None or part.address in look.lost:
            continue
        if not _is_over(part, card.status.mig_apply):
            found.append(_job(part, part.layout, card, look.cards.get(part.address), attempts.get(part.address)))
    return tuple(
        replace(job, blocker=CLIENTS) if not job.blocker and job.needs_reset and clients else job for job in found
    )


def still_wait(
    waits: Mapping[str, str], layout: NodeLayout, cards: Mapping[str, GPUDevice], clients: Collection[str]
) -> bool:
    """Whether those who waited (`waits`: for what, by address) still do, and nobody else came: nobody need look."""
    parts = {part.address: part for part in layout.cards if part.layout is not None}
    for address, card in cards.items():
        part = parts.get(address)
        if _is_over(part, card.status.mig_apply):
            continue
        if part is None or not _is_acknowledged(card, part):
            return False
        in_use = waits.get(address) == IN_USE and not is_clear(card, part)
        if not in_use and not (waits.get(address) == CLIENTS and is_clear(card, part) and clients):
            return False
    return True


def _job(
    part: PlannedCard, target: CardLayout, card: GPUDevice, told: DriverReport | None, attempt: Attempt | None
) -> Job:
    actual = told.layout if told is not None else None
    before = attempt.before if attempt is not None else actual if actual is not None else target
    own = attempt is not None and attempt.version == part.version
    return Job(
        part,
        card,
        target,
        before,
        begun=attempt.begun if attempt is not None and own else 0,
        failed=_failure(attempt, is_done=actual == target) if attempt is not None and own else "",
        needs_reset=actual is not None and any(_resets(part, actual, goal) for goal in (target, before)),
        blocker=_find_blocker(part, card, told),
    )


def _failure(attempt: Attempt, *, is_done: bool) -> str:
    if attempt.failed or attempt.begun < ATTEMPTS or is_done:
        return attempt.failed
    return f"Interrupted: the work was begun {attempt.begun} times and never ended"


def _resets(part: PlannedCard, actual: CardLayout, goal: CardLayout) -> bool:
    changes = difference(NodeLayout((replace(part, layout=goal),)), {part.address: actual})
    return any(change.needs_reset for change in changes)


def _find_blocker(part: PlannedCard, card: GPUDevice, told: DriverReport | None) -> str:
    if not _is_acknowledged(card, part):
        return NOT_ACKNOWLEDGED
    if not is_clear(card, part):
        return IN_USE
    if told is None or told.layout is None or told.index is None:
        return DRIVER
    return "" if _is_same(part, told) else OTHER_CARD


def _is_same(part: PlannedCard, told: DriverReport) -> bool:
    return part.uuid is None or not told.uuid or part.uuid == told.uuid
