"""Every real dump comes to what a person expects of it (the golden table)."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from controllers.inventory.reports import gfd
from tests.data import facts
from tests.golden import outcome, table
from tests.golden.given import given
from tests.golden.memory import OneNode, settled
from tests.tools import structural

if TYPE_CHECKING:
    from tests.data.told import Told
    from tests.golden.table import Expected, Join

EXPECTED = table.expectations()
JOINS = table.joins()


def told_by(expected: Expected) -> list[Told]:
    """The nodes of a dump for which an expectation holds."""
    found = [given(told, expected.given) for told in facts.nodes(expected.file)]
    return [told for told in found if not expected.node or told.name == expected.node]


def test_every_dump_is_in_the_table_once_or_says_nothing_of_cards() -> None:
    listed = [*{expected.file for expected in EXPECTED}, *table.nothing()]

    assert sorted(listed) == facts.of_nodes()
    assert [dump for dump in table.nothing() if facts.nodes(dump)] == []


@pytest.mark.parametrize("file", sorted({expected.file for expected in EXPECTED}))
def test_every_node_of_a_dump_is_expected_once(file: str) -> None:
    rows = [expected for expected in EXPECTED if expected.file == file]

    assert sum(len(told_by(expected)) for expected in rows) == len(facts.nodes(file))
    assert [len(told_by(expected)) for expected in rows] == [expected.nodes for expected in rows]


@pytest.mark.parametrize("expected", EXPECTED, ids=lambda expected: expected.id)
def test_a_dump_comes_to_what_a_person_expects(expected: Expected) -> None:
    for told in told_by(expected):
        cluster = settled(told, labelled=expected.labelled)

        assert outcome.rows(cluster.devices().values(), cluster.name) == expected.rows
        check_node(cluster.summary, expected)
        for device in cluster.devices().values():
            assert structural.problems("gpudevice", device) == []


@pytest.mark.parametrize("expected", [e for e in EXPECTED if e.gfd is not None], ids=lambda expected: expected.id)
def test_gfd_labels_tell_of_whole_cards_only(expected: Expected) -> None:
    for told in told_by(expected):
        found = gfd.read(told.labels)
        words = {
            "count": found.count,
            "product": found.product,
            "memory_mib": found.memory_mib,
            "compute": f"{found.capability.major}.{found.capability.minor}" if found.capability else None,
        }

        assert {key: word for key, word in words.items() if word is not None} == expected.gfd


@pytest.mark.parametrize("join", JOINS, ids=lambda join: f"{join.cards} + {join.labels or join.nfd}")
def test_cards_of_one_dump_with_the_labels_of_another(join: Join) -> None:
    base = next(expected for expected in EXPECTED if expected.file == join.cards)
    expected = replace(
        base,
        each={**base.each, **join.adds},
        incomplete=join.incomplete,
        says=join.says,
        # What the labels change is the same for all cards of the node.
        cards={address: {**own, **join.adds} for address, own in base.cards.items()},
    )
    cluster = settled(joined(told_by(base)[0], join), labelled=True)

    assert outcome.rows(cluster.devices().values(), cluster.name) == expected.rows
    message = check_node(cluster.summary, expected)
    assert not join.not_says or join.not_says not in message


def joined(told: Told, join: Join) -> Told:
    """The cards' node with the labels, or NFD's report, of the other dump."""
    if join.nfd:
        return replace(told, reports=facts.nodes(join.nfd)[0].reports)
    labels = next(other.labels for other in facts.nodes(join.labels) if other.name == join.labels_of)
    return replace(told, labels=labels)


def check_node(summary: dict[str, Any] | None, expected: Expected) -> str:
    """Compare the node's own object; returns the message of InventoryIncomplete."""
    if not expected.gpu_node:
        assert summary is None
        return ""
    assert summary is not None
    incomplete = outcome.condition(summary, "InventoryIncomplete")
    found = {
        "incomplete": incomplete["reason"] if incomplete["status"] == "True" else incomplete["status"],
        "present": summary["status"]["hw"]["present"],
        "cards": [device["address"] for device in summary["status"]["hw"]["devices"]],
    }
    assert found == {
        "incomplete": expected.incomplete or "False",
        "present": expected.present,
        "cards": sorted(expected.rows),
    }
    assert all(word in incomplete["message"] for word in expected.says), incomplete["message"]
    for kind in ("ManagedDisabled", "PrerequisiteNotMet"):
        assert outcome.condition(summary, kind)["status"] == "False"
    return str(incomplete["message"])


def test_a_fact_that_the_dump_tells_cannot_be_given() -> None:
    told = facts.nodes("nvidia_smi/k8s-test-infra-hardware-qx-a100.xml")[0]

    with pytest.raises(AssertionError, match="tells the class itself"):
        given(told, {"class": "0302"})
    assert OneNode("no-card").settle() == 0
