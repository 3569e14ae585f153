"""Bad input, by the thousand: no crash, no guess, and a bad card blocks itself and not its neighbours."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError

from controllers.api import names, resources
from controllers.api.nodefeature import NodeFeature
from controllers.api.record import adapter
from controllers.runtime.plan import Delete
from controllers.runtime.reflector import Reflector
from controllers.runtime.store import Store
from tests.inventory.backing import Heard
from tests.inventory.oddities import ALMOST, elements, near_shapes, node_labels, texts
from tests.inventory.world import NODE, Cluster
from tests.kit.objects import BOOT
from tests.kit.reports import on_the_bus, report, reported
from tests.tools import structural

if TYPE_CHECKING:
    from collections.abc import Iterable

SETTINGS = settings(max_examples=150, deadline=None)


class Wire(Cluster):
    """The cluster, its objects decoded from bytes as the reflector does: what does not decode is left out."""

    def shown(self, name: str, record: type[Any], key: str, obj: dict[str, Any]) -> Any:  # noqa: ARG002 - whatever its key
        try:
            return adapter(record).validate_json(json.dumps(obj))
        except ValidationError:
            assert name == "features", f"what we wrote ourselves cannot be read: {obj}"
            return None

    def check(self) -> None:
        """Everything that the planner wrote could have been stored, and it is at rest."""
        for (kind, _), obj in self.objects.items():
            if kind in ("GPUDevice", "GPUNodeInventory"):
                assert structural.problems(kind.lower(), obj) == []
        assert self.plan().actions == ()


def told(cards: Iterable[dict[str, str]], driver: str = "580.65.06") -> Wire:
    """A node whose agent says this, after the inventory has come to rest."""
    cluster = Wire()
    cluster.node(**{names.LABEL_PRESENT: "true"})
    cluster.report(list(cards), driver=driver)
    assert cluster.settle() <= 1
    return cluster


def incomplete(device: dict[str, Any]) -> str:
    return next(c["status"] for c in device["status"]["conditions"] if c["type"] == "InventoryIncomplete")


@SETTINGS
@given(near_shapes)
def test_a_report_of_any_shape_is_read_or_left_out(raw: dict[str, Any]) -> None:
    cluster = Wire()
    cluster.node()
    cluster.put(resources.NODEFEATURE, raw)

    cluster.settle()

    cluster.check()


@SETTINGS
@given(near_shapes)
def test_what_cannot_be_decoded_is_counted_and_its_neighbours_are_read(raw: dict[str, Any]) -> None:
    raw = {**raw, "metadata": {**raw["metadata"], "resourceVersion": "7"}}
    good = {**report("worker-02", [reported(0)]), "spec": {}}
    good["metadata"] |= {"resourceVersion": "8"}
    reflector: Reflector[NodeFeature] = Reflector(
        None,  # nothing is asked of the server here
        resources.NODEFEATURE,
        NodeFeature,
        Store("NodeFeature"),
    )
    body = json.dumps({"metadata": {"resourceVersion": "9"}, "items": [raw, good]}).encode()
    unreadable: set[str] = set()
    _, read = reflector._decoder.page(body, unreadable)
    key = f"{names.NAMESPACE}/{names.agent_feature(NODE)}"

    assert [one.node for one in read][-1:] == ["worker-02"]
    assert {one.key for one in read} | unreadable == {key, f"{names.NAMESPACE}/{names.agent_feature('worker-02')}"}

    line = json.dumps({"type": "ADDED", "object": raw}).encode()
    assert reflector._event_seen(line, "1") == "7"
    assert (key in reflector._decoder.unreadable) == (key in unreadable) == (reflector.store.get(key) is None)


@SETTINGS
@given(elements, st.sampled_from(["580.65.06", ""]), node_labels)
def test_whatever_a_report_says_is_stored_and_nothing_is_guessed(
    cards: list[dict[str, str]], driver: str, labels: dict[str, str]
) -> None:
    cluster, heard = Wire(), Heard()
    cluster.node(**labels)
    cluster.report(cards, driver=driver)
    heard.report(cards)
    heard.labels(labels)

    assert cluster.settle() <= 1

    cluster.check()
    heard.check(cluster.devices().values())


@SETTINGS
@given(elements, st.lists(st.integers(4, 9), unique=True, min_size=1, max_size=3))
def test_a_bad_card_changes_nothing_about_its_complete_neighbours(bad: list[dict[str, str]], good: list[int]) -> None:
    complete = [reported(number) for number in good]
    alone = told(complete).devices()
    # The same address twice is a contradiction about that card itself: see test_cards.
    addresses = {one["address"] for one in complete}
    together = told([*bad[:3], *complete, *bad[3:]]).devices()

    for name, device in alone.items():
        assert device["status"]["hardware"]["pci"]["address"] in addresses
        assert incomplete(device) == incomplete(together[name]) == "False"
        assert together[name]["status"]["hardware"] == device["status"]["hardware"]
        assert together[name]["metadata"]["labels"] == device["metadata"]["labels"]


@pytest.mark.parametrize(("key", "text"), ALMOST, ids=lambda word: f"{word:.30}")
def test_one_word_that_is_almost_right_is_never_made_right(key: str, text: str) -> None:
    cards = [{**reported(0), key: text}, reported(5)]
    cluster, heard = told(cards), Heard()
    heard.report(cards)

    cluster.check()
    heard.check(cluster.devices().values())
    assert len(json.dumps([*cluster.objects.values()])) < 20_000 + sum(map(len, cards[0].values()))


@SETTINGS
@given(
    st.lists(st.sampled_from(["2330", "2330", "2330", "20b0", "??"]), min_size=1, max_size=4),
    st.sampled_from([0, 0, 0, 1, -1]),
    st.sampled_from(["GB H100", "GB H100", "A100", ""]),
    st.sampled_from(["GB-H100", "GB-H100-SHARED", "GB-H100-MIG-1g.10gb", "GB-H100-MIG-1g.10gb-SHARED"]),
)
def test_gfd_fills_in_only_what_can_be_true_of_each_card(models: list[str], off: int, told: str, product: str) -> None:
    prefix = f"{names.GFD_PREFIX}gpu."
    cluster = Wire()
    cluster.node(**{f"{prefix}count": str(len(models) + off), f"{prefix}product": product, f"{prefix}memory": "81559"})
    cluster.report([reported(number, device=model, product=told, memory_mib="") for number, model in enumerate(models)])
    cluster.settle()
    known = [device["status"].get("hardware", {}) for device in cluster.devices().values()]
    alike = set(models) in ({"2330"}, {"20b0"}) and off == 0
    true_of_each = alike and told == "GB H100" and "-MIG-" not in product

    assert {hardware.get("product") for hardware in known if hardware} <= {told or None}
    assert {hardware.get("memoryMiB") for hardware in known} == {81559 if true_of_each else None}


happenings = st.one_of(
    st.tuples(st.just("report"), elements, st.sampled_from([BOOT, "", "another"]), st.sampled_from(["580.65.06", ""])),
    st.tuples(st.just("raw"), near_shapes),
    st.tuples(st.just("labels"), node_labels),
    st.tuples(st.just("bus"), st.lists(st.dictionaries(st.sampled_from(["class", "vendor", "device"]), texts))),
    st.tuples(st.just("cards on the bus"), st.integers(0, 3)),
    st.tuples(st.just("silence")),
    st.tuples(st.just("not ready")),
    st.tuples(st.just("later")),
)


def happen(cluster: Wire, heard: Heard, what: tuple[Any, ...]) -> None:
    match what:
        case ("report", cards, boot, driver):
            cluster.report(cards, boot=boot, driver=driver)
            heard.report(cards)
        case ("raw", raw):
            cluster.put(resources.NODEFEATURE, raw)
            heard.raw(raw)
        case ("labels", labels):
            cluster.node(**labels)
            heard.labels(labels)
        case ("bus", functions):
            cluster.bus(functions)
        case ("cards on the bus", count):
            cluster.bus(on_the_bus(count))
        case ("silence",):
            cluster.silence()
        case ("not ready",):
            cluster.node(ready=False)
        case ("later",):
            cluster.now += 10


@SETTINGS
@given(st.lists(happenings, min_size=2, max_size=8))
def test_a_history_of_bad_reports_comes_to_rest_and_nothing_is_made_up(history: list[tuple[Any, ...]]) -> None:
    cluster, heard = Wire(), Heard()
    cluster.node()
    for what in history:
        happen(cluster, heard, what)
        # A card that was exchanged is deleted in one pass and made anew in the next.
        exchanged = any(isinstance(action, Delete) for action in cluster.plan().actions)

        assert cluster.settle() <= (2 if exchanged else 1)

        cluster.check()
        heard.check(cluster.devices().values())


def test_thousands_of_cards_are_cut_and_said() -> None:
    cluster = told(reported(0, address=f"{number:05x}:00:00.0", product="x" * 120) for number in range(5000))

    cluster.check()
    assert len(cluster.devices()) == names.CARDS_MAX
    conditions = cluster.inventory()["status"]["conditions"]
    message = next(one["message"] for one in conditions if one["type"] == "InventoryIncomplete")
    assert "5000 cards are reported" in message


def test_a_report_with_200_kb_in_each_attribute_is_told_in_few_words() -> None:
    cluster = told(
        [dict.fromkeys(reported(0), "x" * 200000), {**dict.fromkeys(reported(0), "\x00"), "address": "0:0:0.0"}]
    )
    cluster.check()
    assert cluster.devices() == {}
    huge = told([{**dict.fromkeys(reported(0), "y" * 200_000), "address": "0000:17:00.0"}, reported(1)])
    huge.check()

    assert [incomplete(device) for device in huge.devices().values()] == ["True", "False"]
    assert len(json.dumps(huge.inventory())) < 5000
