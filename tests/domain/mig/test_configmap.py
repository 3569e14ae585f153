"""ConfigMap `gpu-mig-layout-<node>`: what it carries, and that it can be read back."""

from __future__ import annotations

import json

import pytest

from controllers.api import names
from controllers.api.kube import Node
from controllers.api.record import adapter
from controllers.domain.mig import Division, MigCard, configmap, plan, read
from tests.domain.mig.parted import parse

NODE = adapter(Node).validate_python({"metadata": {"name": "worker-01", "uid": "u-1"}})
CARDS = [
    MigCard("0000:19:00.0", "10de", "2330", uuid="GPU-1", division=Division("1g.10gb"), ours=True),
    MigCard("0000:3b:00.0", "10de", "2330", division=Division("1g.5gb"), ours=True),
    MigCard("0000:4c:00.0", "10de", "2330", served=False, division=Division("all-3g.40gb")),
    MigCard("0000:5d:00.0", "10de", "2330", ours=True),
]


def test_it_carries_the_document_the_cards_and_the_version():
    layout = plan(CARDS)
    made = configmap(NODE, layout)

    assert made["metadata"] == {
        "labels": {"heritage": "deckhouse", "module": names.MODULE, names.LABEL_COMPONENT: "mig-manager"},
        "ownerReferences": [{"apiVersion": "v1", "kind": "Node", "name": "worker-01", "uid": "u-1"}],
    }
    assert [entry["devices"] for entry in parse(made["data"]["config.yaml"])] == [[0], [2]]
    assert made["data"]["version"] == layout.version
    cards = json.loads(made["data"]["cards.json"])
    assert cards["0000:4c:00.0"]["instances"] == {"3g.40gb": 2}
    assert {a: c["version"] for a, c in cards.items()} == {c.address: c.version for c in layout.cards}


def test_it_is_read_back_whole():
    layout = plan(CARDS)
    found = read(configmap(NODE, layout)["data"])

    assert found.cards == layout.cards
    assert found.version == layout.version


def test_a_node_without_our_cards_has_none():
    assert configmap(NODE, plan([])) is None


def test_cards_that_the_driver_does_not_serve_are_remembered_without_a_document():
    made = configmap(NODE, plan(CARDS[2:3]))

    assert made["data"]["config.yaml"] == ""
    assert [(c.address, c.layout is None) for c in read(made["data"]).cards] == [("0000:4c:00.0", False)]


GOOD = {"vendor": "10de", "device": "2330", "uuid": None, "index": 0, "ours": True, "enabled": True, "instances": {}}


@pytest.mark.parametrize(
    "cards",
    [None, "", "[]", "3", "{", '{"0000:19:00.0": 3}', '{"0000:19:00.0": {}}']
    + [json.dumps({"0000:19:00.0": GOOD | wrong}) for wrong in (
        {"index": "0"}, {"ours": "yes"}, {"vendor": 4318}, {"uuid": 7}, {"enabled": 1},
        {"instances": {"1g.10gb": "seven"}}, {"instances": None}, {"instances": [1]},
    )],
)  # fmt: skip
def test_what_a_foreign_hand_wrote_is_no_layout(cards):
    assert read({} if cards is None else {"cards.json": cards}) is None


def test_and_what_is_well_formed_is_one():
    assert read({"cards.json": json.dumps({"0000:19:00.0": GOOD})}).cards[0].ours


def test_names_of_long_nodes_are_short_and_differ():
    long = [f"{'n' * 62}.{'m' * 62}.{'o' * 62}.{'p' * 62}{end}" for end in "ab"]
    made = {names.mig_layout(node) for node in long}

    assert names.mig_layout("worker-01") == "gpu-mig-layout-worker-01"
    assert len(made) == 2
    assert max(map(len, made)) <= names.OBJECT_NAME_MAX
    # What is cut never ends in a character before the dash of the hash that a DNS name cannot have there.
    assert all(".-" not in name for name in (names.mig_layout("a." * 126 + "b"), *made))
