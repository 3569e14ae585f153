"""A GPUDevice against its part of the node's MIG layout: whether the MIG manager has applied it. Pure.

The MIG manager acknowledges each version of a card's part in `migApply`, also where nothing had to be done: a report
of how the card is partitioned may lag, an acknowledgement of exactly this version cannot.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from controllers.api.resources import CONFIGMAP
from controllers.domain.clock import stamp_exact
from controllers.domain.eligibility import is_enabled, part_of
from controllers.domain.mig import DISABLED, NodeLayout, card_of, configmap
from controllers.runtime.plan import Apply, ref

if TYPE_CHECKING:
    from controllers.api.gpudevice import GPUDevice, MigApply
    from controllers.api.kube import ConfigMap
    from controllers.domain.mig import PlannedCard
    from controllers.gpupool.views import NodeFacts, ObservedPool


def acknowledged(part: PlannedCard, device: GPUDevice) -> MigApply | None:
    """The MIG manager's answer for exactly this version of the part; None where it has not answered yet."""
    reply = device.status.mig_apply
    return reply if reply is not None and reply.version == part.version else None


def is_done(part: PlannedCard, device: GPUDevice) -> bool:
    """Whether the card is partitioned as its part asks, by the MIG manager and by the report of its node."""
    reply, card = acknowledged(part, device), card_of(device)
    return reply is not None and reply.phase == "Done" and card is not None and card.actual == part.layout


def needs_no_mig_work(facts: NodeFacts, device: GPUDevice) -> bool:
    """Whether no work of MIG is left for a card that is to be in no pool of mode MIG.

    A part whose MIG mode is not ours to disable has to leave the layout first: until then a MIG manager may be at it.
    """
    part = part_of(facts.layout, device)
    return part is None or (part.ours and part.layout == DISABLED and is_done(part, device))


def is_whole(facts: NodeFacts, device: GPUDevice) -> bool:
    """Whether the card can be offered as a whole one: in MIG mode programs run on its instances only."""
    return needs_no_mig_work(facts, device) and not is_enabled(device)


def request_retry(view: ObservedPool, cards: dict[str, list[str]], now: float) -> tuple[Apply, ...]:
    """Writes that make MIG managers try cards again, for a person who asks. `cards`: PCI addresses by node."""
    writes = []
    for name, addresses in sorted(cards.items()):
        facts = view.facts(name)
        if facts.node is None or facts.layout is None or facts.written is None:
            continue
        # A person's word begins the count of `again` anew.
        asked = tuple(
            replace(card, asked=stamp_exact(now), boot="", again=0, used_since_failure=False)
            if card.address in addresses
            else card
            for card in facts.layout.cards
        )
        if (body := configmap(facts.node, NodeLayout(asked))) is not None:
            writes.append(replace_layout(facts.written, body))
    return tuple(writes)


def replace_layout(found: ConfigMap, body: dict[str, Any]) -> Apply:
    """A node's layout in place of exactly the one that it was made from.

    The pools of a node and the node itself write it, each as a whole: none may undo what another one has just asked.
    """
    meta = {**body["metadata"], "resourceVersion": found.metadata.resource_version}
    return Apply(ref(CONFIGMAP, found), {**body, "metadata": meta})
