"""What the cold start is made of: nodes of real size, and exactly the writes that record them."""

from __future__ import annotations

import orjson

from controllers.api.resources import GPUDEVICE, GPUNODEINVENTORY
from reliability.bench.fleet import CARDS, fleet, writes
from reliability.bench.reviews import review
from webhook.decision.review import Request, parse


def test_reports_have_real_size_and_name_their_node() -> None:
    first, second = fleet(2)
    assert first.name != second.name
    for member in (first, second):
        assert len(orjson.dumps(member.nfd)) >= 10_000
        # Stored, with managedFields, it is more than 10 kB; tests/bench/test_run.py looks.
        assert len(orjson.dumps(member.report)) >= 8_000
        assert "annotations" not in member.node["metadata"], "nobody may play this node"


def test_a_node_is_recorded_by_an_apply_and_a_status_for_each_card_and_for_itself() -> None:
    (member,) = fleet(1)
    made = writes(member, 0.0)
    kinds = [(write.resource, write.status) for write in made]
    assert kinds == [(GPUDEVICE, False), (GPUDEVICE, True)] * CARDS + [
        (GPUNODEINVENTORY, False),
        (GPUNODEINVENTORY, True),
    ]
    assert len({write.path for write in made}) == len(made)
    cards = [write.body["status"]["hardware"]["uuid"] for write in made if write.resource is GPUDEVICE and write.status]
    assert len(set(cards)) == CARDS


def test_reviews_are_what_the_webhook_reads() -> None:
    parsed = parse(review(7, "team", "pool", dry_run=True))
    assert isinstance(parsed, Request)
    assert (parsed.namespace, parsed.dry_run, parsed.pod_name) == ("team", True, "train-6d5f4c8b7d-*")
    assert len(review(7, "team", "pool", dry_run=False)) > 2600
