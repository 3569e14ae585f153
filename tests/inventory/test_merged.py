"""What NVML told the node's validator completes what discover tells, while both are about the same."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from controllers.api import conditions as kinds
from controllers.api import names, resources, validation
from controllers.inventory.reports import merged
from controllers.inventory.reports.discovered_cards import DiscoveredCard, read
from tests.inventory.world import Cluster
from tests.kit.objects import BOOT
from tests.kit.reports import read_report, report, reported

DRIVER = "580.65.06"
BY_NVML = ("memory_mib", "compute_major", "compute_minor", "mig_capable", "mig_mode", "mig_profiles")


def seen(number: int, **changes: str) -> dict[str, str]:
    """A card as discover tells it without NVML."""
    return reported(number, **dict.fromkeys(BY_NVML, ""), **changes)


def by_nvml(number: int, boot_id: str = BOOT, version: str = DRIVER, **changes: str) -> dict[str, str]:
    """The same card in `gpu.nvml`."""
    whole = reported(number, nvlink_peers="0000:18:00.0", **changes)
    keys = ("address", "uuid", "product", *BY_NVML, "mig_instances", "nvlink_peers")
    card = {key: whole[key] for key in keys if key in whole}
    about = {"boot_id": boot_id, "version": version, "load": changes.get("load", "")}
    return {key: value for key, value in {**card, **about}.items() if value}


def both(
    cards: list[dict[str, str]], elements: list[dict[str, str]] | None, *, load: str = "", **more: str
) -> dict[str, Any]:
    """A report that discover and the validator wrote; `load`: which loading of the driver discover saw."""
    made = report("w", cards, **more)
    if load:
        made["spec"]["features"]["attributes"][names.FEATURE_DRIVER]["elements"][validation.LOAD] = load
    if elements is not None:
        each = [{"attributes": attributes} for attributes in elements]
        made["spec"]["features"]["instances"][names.FEATURE_NVML] = {"elements": each}
    return made


def only(made: dict[str, Any]) -> DiscoveredCard:
    found = read(read_report(made))
    assert found is not None
    (card,) = found.cards
    return card


def test_a_card_is_whole_once_the_validator_has_told_of_it() -> None:
    before = only(both([seen(0)], None))
    assert before.problem == "0000:17:00.0 lacks memory_mib"
    assert before.hardware is not None
    assert before.hardware.mig is None

    after = only(both([seen(0)], [by_nvml(1), by_nvml(0)]))
    assert after.problem == ""
    assert after == only(report("w", [reported(0, nvlink_peers="0000:18:00.0")]))


@pytest.mark.parametrize(
    "other",
    [
        by_nvml(0, boot_id="another"), by_nvml(0, boot_id=""), by_nvml(0, version="570.1"), by_nvml(0, version=""),
        by_nvml(0, uuid="GPU-another-card"), by_nvml(1), by_nvml(0, address="nowhere"),
    ],
    ids=["another boot", "no boot", "another driver", "no driver", "another card", "another address", "no address"],
)  # fmt: skip
def test_what_is_about_something_else_does_not_count(other: dict[str, str]) -> None:
    assert only(both([seen(0)], [other])) == only(both([seen(0)], None))


@pytest.mark.parametrize(("by_discover", "by_validator"), [("7", "7"), ("", "7"), ("7", "")])
def test_words_about_an_earlier_loading_of_the_same_driver_do_not_count(by_discover: str, by_validator: str) -> None:
    """Instances end with it, in the same boot and under the same version; who tells no loading cannot be compared."""
    divided = {"mig_mode": "enabled", "mig_instances": "1g.10gb=7"}
    now = both([seen(0)], [by_nvml(0, load=by_validator, **divided)], load=by_discover)
    found = only(now).hardware
    assert found is not None
    assert found.mig is not None
    assert (len(found.mig.types), found.mig.boot_id, found.mig.driver_load) == (1, BOOT, "7")
    stale = both([seen(0)], [by_nvml(0, load="6", **divided)], load="7")
    assert only(stale) == only(both([seen(0)], None))


def test_what_discover_asked_nvml_itself_is_of_the_loading_that_it_saw() -> None:
    found = only(both([reported(0)], [by_nvml(0)], load="7")).hardware
    assert found is not None
    assert found.mig is not None
    assert (found.mig.boot_id, found.mig.driver_load) == (BOOT, "7")


@pytest.mark.parametrize("load", ["", "two words", "x" * 65])
def test_a_loading_that_is_no_word_is_as_one_that_nobody_tells(load: str) -> None:
    found = only(both([seen(0)], [by_nvml(0)], load=load))
    assert found.hardware is not None
    assert found.hardware.mig is not None
    assert (found.problem, found.hardware.mig.driver_load) == ("", None)


def test_a_card_of_which_it_speaks_twice_is_not_believed() -> None:
    assert only(both([seen(0)], [by_nvml(0), by_nvml(0, mig_mode="enabled")])) == only(both([seen(0)], None))


def test_nothing_counts_while_no_driver_is_loaded() -> None:
    without = dict.fromkeys(("uuid", "product", "driver"), "")
    assert only(both([seen(0, **without)], [by_nvml(0, version="")], driver="")).hardware == (
        only(both([seen(0, **without)], None, driver="")).hardware
    )


def test_a_uuid_that_only_nvml_knows_is_taken_from_it() -> None:
    found = only(both([seen(0, uuid="")], [by_nvml(0)])).hardware
    assert found is not None
    assert found.uuid == "GPU-00000000-0000-0000-0000-000000000000"


def test_what_discover_asked_nvml_itself_counts_and_groups_are_not_mixed() -> None:
    """Its own word has no instances: those of the validator are of another moment."""
    own = reported(0, mig_mode="enabled", memory_mib="", nvlink_peers="")
    told_of = by_nvml(0, mig_mode="enabled", mig_instances="1g.10gb=7", memory_mib="81559")
    found = only(both([own], [told_of])).hardware
    assert found is not None
    assert found.mig is not None
    assert (found.mig.enabled, found.mig.types, found.nvlink) == (True, (), None)
    assert found.memory_mib == 81559


words = st.sampled_from(["", " ", "1", "true", "enabled", "1g.10gb=7", "0000:17:00.0", BOOT, DRIVER, "x" * 5000])
keys = st.sampled_from([*(name for group in merged.GROUPS for name in group), "address", "boot_id", "version"])
anything = st.dictionaries(keys, words)


@given(anything, anything)
def test_discovers_own_words_are_never_changed(card: dict[str, str], other: dict[str, str]) -> None:
    made = merged.merge_attributes(card, other)
    assert all(made[key] == value for key, value in card.items() if value.strip())
    for group in merged.GROUPS:
        own, theirs = ({key: each[key] for key in group if key in each} for each in (card, other))
        assert {key: made[key] for key in group if key in made} in (own, own | theirs)


@given(st.lists(anything, max_size=80))
def test_no_shape_of_the_feature_breaks_the_reader(elements: list[dict[str, str]]) -> None:
    found = read(read_report(both([seen(0)], elements)))
    assert found is not None
    assert len(merged.validator_attributes(read_report(both([seen(0)], elements)))) <= names.CARDS_MAX


# --- what is recorded ------------------------------------------------------------------------


def put(cluster: Cluster, elements: list[dict[str, str]] | None, **more: str) -> None:
    made = both([seen(0)], elements, **more)
    made["metadata"] |= {"name": names.agent_feature("worker-01"), "labels": {names.NFD_NODE_NAME: "worker-01"}}
    cluster.put(resources.NODEFEATURE, made)
    cluster.settle()


def test_mig_and_memory_are_recorded_and_outlive_a_boot_until_they_are_told_anew() -> None:
    cluster = Cluster()
    cluster.node(**{names.LABEL_PRESENT: "true"})
    put(cluster, None)
    device = cluster.device()
    (incomplete,) = [c for c in device["status"]["conditions"] if c["type"] == kinds.INVENTORY_INCOMPLETE]
    assert (incomplete["status"], incomplete["reason"]) == ("True", "AttributesMissing")
    assert "the validator asks NVML" in incomplete["message"]

    put(cluster, [by_nvml(0)])
    hardware = cluster.device()["status"]["hardware"]
    assert (hardware["mig"]["enabled"], hardware["memoryMiB"]) == (False, 81559)
    assert hardware["nvlink"]["peers"] == ["0000:18:00.0"]
    (incomplete,) = [c for c in cluster.device()["status"]["conditions"] if c["type"] == kinds.INVENTORY_INCOMPLETE]
    assert incomplete["status"] == "False"

    cluster.node(boot="second", **{names.LABEL_PRESENT: "true"})
    put(cluster, [by_nvml(0, mig_mode="enabled")], boot="second")  # of the boot before
    assert cluster.device()["status"]["hardware"] == hardware
    put(cluster, [by_nvml(0, boot_id="second", mig_mode="enabled")], boot="second")
    assert cluster.device()["status"]["hardware"]["mig"]["enabled"] is True


def test_how_a_card_is_divided_is_recorded_with_the_loading_of_the_driver_that_told_it() -> None:
    """gpupool judges by both together: the loading alone could come before what was seen under it."""
    cluster = Cluster()
    cluster.node(**{names.LABEL_PRESENT: "true"})
    put(cluster, [by_nvml(0, load="6", mig_mode="enabled")], load="6")
    first = cluster.device()["status"]["hardware"]["mig"]
    assert (first["enabled"], first["bootID"], first["driverLoad"]) == (True, BOOT, "6")
    put(cluster, [by_nvml(0, load="6", mig_mode="enabled")], load="7")  # the validator has yet to speak
    assert cluster.device()["status"]["hardware"]["mig"] == first
    put(cluster, [by_nvml(0, load="7")], load="7")
    now = cluster.device()["status"]["hardware"]["mig"]
    assert (now["enabled"], now["driverLoad"]) == (False, "7")
