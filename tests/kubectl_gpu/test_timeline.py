"""The time line of a card: tenancies, faults and who had the card when one came."""

from __future__ import annotations

from typing import Any

from controllers.api.gpudevice import GPUDevice
from controllers.api.record import adapter
from controllers.explain.table import rendered
from controllers.explain.timeline import COLUMNS, as_json, entries, row
from tests.kit.manifests import body
from tests.kit.objects import allocation

DEVICE: dict[str, Any] = {
    "metadata": {"name": "n1-0000-00-00-0"},
    "status": {
        "poolRef": {"name": "b", "resource": "gpu.deckhouse.io/b"},
        "allocations": [body(allocation("now", "uid-now", namespace="team"))],
        "faultEnd": "ByHand",
        "history": [
            {
                "pool": "a",
                "namespace": "team",
                "pod": name,
                "uid": f"uid-{name}",
                "since": f"2026-01-0{day}T00:00:00Z",
                "until": f"2026-01-0{day}T12:00:00Z",
                "ended": ended,
            }
            for day, name, ended in ((1, "first", "Finished"), (2, "second", "Failed"))
        ],
        "conditions": [
            {
                "type": kind,
                "status": status,
                "reason": reason,
                "message": "Xid 79",
                "lastTransitionTime": at,
            }
            for kind, status, reason, at in (
                ("Ignored", "True", "ByLabel", "2026-01-02T11:00:00Z"),
                ("Faulted", "False", "Healthy", "2026-01-03T00:00:00Z"),
                ("Configured", "True", "Offered", "2026-01-02T11:00:00Z"),
            )
        ],
    },
}


def card(**status: object) -> GPUDevice:
    return adapter(GPUDevice).validate_python(DEVICE | {"status": {**DEVICE["status"], **status}})


def test_the_time_line_is_in_order_and_says_who_had_the_card() -> None:
    found = entries(card(), {"uid-now": "2026-01-04T00:00:00Z"})
    assert [(each.what, each.pods, each.pool) for each in found] == [
        ("Finished", ("team/first",), "a"),
        ("Failed", ("team/second",), "a"),
        ("Ignored (ByLabel)", ("team/second",), "a"),
        ("Faulted ended (ByHand)", (), ""),
        ("Serving", ("team/now",), "b"),
    ]
    assert [(each.since, each.until) for each in found[2:]] == [
        ("2026-01-02T11:00:00Z", None),
        ("2026-01-03T00:00:00Z", "2026-01-03T00:00:00Z"),
        ("2026-01-04T00:00:00Z", None),
    ]


def test_a_fault_that_never_was_has_not_ended() -> None:
    assert all("Faulted" not in each.what for each in entries(card(faultEnd=None), {}))


def test_the_table_and_what_programs_get() -> None:
    found = entries(card(), {})
    lines = rendered(COLUMNS, map(row, found), wide=False, headers=True, paint=lambda text, _: text)
    assert lines[0].split() == ["FROM", "TO", "WHAT", "POD", "POOL"]
    assert lines[-1].split() == ["?", "now", "Serving", "team/now", "b"]
    assert lines[-2].split() == ["2026-01-03T00:00:00Z", "Faulted", "ended", "(ByHand)"]
    told = as_json(card(), found)
    assert told["card"] == "n1-0000-00-00-0"
    assert {entry["kind"] for entry in told["timeline"]} == {"Tenancy", "Condition"}
    assert {"kind": "Tenancy", "what": "Serving", "since": None, "until": None, "pods": ["team/now"], "pool": "b",
            "message": None} in told["timeline"]  # fmt: skip


def test_a_card_of_which_nothing_is_known_has_none() -> None:
    assert entries(GPUDevice(), {}) == []
