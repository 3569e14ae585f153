"""What is found in a cluster that is not as expected, and that nothing is found in one that is."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from controllers.api import names
from controllers.api.record import adapter
from controllers.inventory.coverage.comparison.compare import compare
from controllers.inventory.coverage.comparison.records import ClusterState, Report
from controllers.inventory.reports import discovered_cards
from controllers.inventory.rule import node_feature_rule
from tests.inventory.coverage import world
from tests.inventory.coverage.world import (
    H100,
    HOST_VGA,
    NODE,
    agent_report,
    also,
    as_report,
    device,
    devices,
    good,
    inventory,
    labels,
    nfd_object,
    nfd_report,
    node,
    of_node,
    our_rule,
    reasons,
    the_only,
)  # fmt: skip
from tests.kit.reports import reported


def with_node(seen: ClusterState, **labelled: str | None) -> ClusterState:
    """The node with labels (under our prefix, `__` for a dot) changed; None removes one."""
    given = {**labels(), **{names.PREFIX + key.replace("__", ".").replace("_", "-"): v for key, v in labelled.items()}}
    return replace(seen, nodes=(node(given={key: value for key, value in given.items() if value is not None}),))


def test_a_node_as_expected_has_no_findings() -> None:
    result = compare(good(), strict=True)

    assert result.ok
    assert result.findings == result.models == ()
    assert of_node(result) == world.NodeResult(name=NODE, labels=16, cards=2)


def test_a_node_without_cards_needs_its_system_labels_alone() -> None:
    cpu = ClusterState(
        nodes=(node("cpu", given=labels(0)),), reports=(nfd_report("cpu", 0, driver=False),), rule=our_rule()
    )

    result = compare(cpu, strict=True)

    assert result.ok
    assert of_node(result, "cpu") == world.NodeResult(name="cpu", labels=5, cards=0)


def test_labels_of_others_are_nobodys_business_here() -> None:
    others = {"gpu.deckhouse.io/pool.a": "", "gpu.deckhouse.io/enabled": "false", "gpu.deckhouse.io/deploy.gfd": "x",
              "nvidia.com/gpu.count": "9", "kubernetes.io/os": "linux"}  # fmt: skip

    assert compare(replace(good(), nodes=(node(given=labels() | others),))).ok


@pytest.mark.parametrize(
    ("change", "reason", "about", "found", "expected"),
    [
        ({"device_count": "7"}, "LabelDifferent", "device-count", "7", "2"),
        ({"device_count": None}, "LabelMissing", "device-count", "no such label", "2"),
        ({"present": None}, "LabelMissing", "present", "no such label", "true"),
        ({"os__id": "debian"}, "LabelDifferent", "os.id", "debian", "ubuntu"),
        ({"device__07__vendor": "10de"}, "LabelUnexpected", "device.07.vendor", "10de", "no such label"),
        ({"driver__module__amdgpu": ""}, "LabelUnexpected", "driver.module.amdgpu", "an empty value", "no such label"),
    ],
)
def test_a_label_that_is_not_as_expected(
    change: dict[str, str | None], reason: str, about: str, found: str, expected: str
) -> None:
    result = compare(with_node(good(), **change))

    finding = the_only(of_node(result))
    assert not result.ok
    assert (finding.reason, finding.about, finding.found) == (reason, names.PREFIX + about, found)
    assert finding.expected.startswith(expected)
    assert finding.todo


def test_a_left_over_label_comes_with_the_command_that_removes_it() -> None:
    finding = the_only(of_node(compare(with_node(good(), device__07__vendor="10de"))))

    assert f"kubectl label node {NODE}, the label and a minus behind it" in finding.todo


def test_a_node_that_nfd_master_never_labelled_is_one_finding() -> None:
    result = compare(replace(good(), nodes=(node(given={"kubernetes.io/os": "linux"}),)))

    finding = the_only(of_node(result))
    assert finding.reason == "NotLabelled"
    assert finding.expected.startswith("16 of them")


def test_reports_of_one_node_are_merged_as_nfd_merges_them() -> None:
    """Cards of the second report come after those of nfd-worker's, and of an attribute its value holds."""
    second = nfd_object(NODE, [{"vendor": "10de", "device": "20b0", "class": "0302"}], driver=False)
    second["metadata"] |= {"name": "another", "namespace": "a-first-in-the-alphabet"}
    second["spec"]["features"]["attributes"] = {"kernel.version": {"elements": {"full": "7.0.0"}}}
    given = labels() | {
        "gpu.deckhouse.io/device-count": "3", "gpu.deckhouse.io/kernel.version.full": "7.0.0",
        "gpu.deckhouse.io/device.02.vendor": "10de", "gpu.deckhouse.io/device.02.device": "20b0",
        "gpu.deckhouse.io/device.02.class": "0302",
    }  # fmt: skip
    seen = good()

    result = compare(replace(seen, nodes=(node(given=given),), reports=(as_report(second), *seen.reports)))

    # The labels agree, and the agent does not name the third card.
    finding = the_only(of_node(result))
    assert (finding.reason, finding.about) == ("CountDiffers", "cards 10de:20b0")


def test_a_card_without_a_gpudevice() -> None:
    seen = good()
    result = compare(replace(seen, devices=seen.devices[:1], inventories=(inventory(NODE, seen.devices[:1]),)))

    finding = the_only(of_node(result))
    assert (finding.reason, finding.about) == ("CardMissing", f"{NODE}-0000-18-00-0")
    assert "0000:18:00.0" in finding.expected
    assert of_node(result).cards == 1


def test_a_gpudevice_that_no_report_names() -> None:
    seen = good()
    wide = agent_report(found=[reported(0), reported(1), reported(2)])
    found = devices(NODE, wide)
    result = compare(replace(seen, devices=found, inventories=(inventory(NODE, found),)))

    finding = the_only(of_node(result))
    assert (finding.reason, finding.about) == ("CardUnexpected", f"{NODE}-0000-19-00-0")
    assert names.INVENTORY in finding.todo


def test_a_gpudevice_that_nobody_of_us_made() -> None:
    seen = good()
    strange = replace(seen.devices[0], metadata=replace(seen.devices[0].metadata, name="mine"))
    found = (*seen.devices, strange)
    result = compare(replace(seen, devices=found, inventories=(inventory(NODE, found),)))

    finding = the_only(of_node(result))
    assert (finding.reason, finding.about) == ("CardUnexpected", "mine")
    assert "kubectl delete gpudevice mine" in finding.todo


def test_an_incomplete_card_says_what_is_missing() -> None:
    said = agent_report(found=[reported(0, uuid="", memory_mib="x"), reported(1)])
    seen = good(agent=said)
    reading = discovered_cards.read(said)
    assert reading is not None
    told = "card 0000:17:00.0 lacks uuid; see the agent's log"
    first = device(NODE, reading.cards[0], told=told)
    result = compare(replace(seen, devices=(first, seen.devices[1])))

    finding = the_only(of_node(result))
    assert (finding.reason, finding.about) == ("CardIncomplete", first.name)
    assert "lacks uuid and has memory_mib='x'" in finding.found
    assert finding.todo == told
    assert of_node(result).cards == 1


def test_a_card_that_nobody_judged_yet() -> None:
    seen = good()
    bare = replace(seen.devices[0], status=replace(seen.devices[0].status, conditions=()))

    finding = the_only(of_node(compare(replace(seen, devices=(bare, seen.devices[1])))))
    assert (finding.reason, finding.found) == ("CardIncomplete", "no condition InventoryIncomplete")


def test_another_card_in_the_slot_of_the_recorded_one() -> None:
    said = agent_report(found=[reported(0, uuid="GPU-aaaaaaaa"), reported(1, device="2331")])
    result = compare(replace(good(), reports=(nfd_report(), said)))

    found = [finding for finding in of_node(result).findings if finding.reason == "CardOutdated"]
    assert [one.about for one in found] == [f"{NODE}-0000-17-00-0", f"{NODE}-0000-18-00-0"]
    assert "GPU-aaaaaaaa" in found[0].expected
    assert "10de:2330" in found[1].found


def test_the_agent_and_nfd_count_differently() -> None:
    fewer = good(agent=agent_report(found=[reported(0)]))
    finding = the_only(of_node(compare(fewer)))
    assert (finding.reason, finding.found, finding.expected) == (
        "CountDiffers", "1 in the agent's report", "2, as NFD sees",
    )  # fmt: skip
    assert "the log of the agent" in finding.todo

    more = good(agent=agent_report(found=[reported(0), reported(1), reported(2)]))
    finding = the_only(of_node(compare(more)))
    assert (finding.reason, finding.found) == ("CountDiffers", "3 in the agent's report")
    assert "nfd-worker" in finding.todo


@pytest.mark.parametrize(("functions", "fine"), [(1, True), (9, True), (17, True), (18, False)])
def test_virtual_functions_are_not_missed_as_cards(functions: int, fine: bool) -> None:
    """One A2 is seen 17 times with its 16 virtual functions, and none of them tells that it is one."""
    a2 = {"vendor": "10de", "device": "25b6", "class": "0302", "subsystem_vendor": "10de", "subsystem_device": "157e"}
    elements = [{**a2, "sriov_totalvfs": "16"}, *([a2] * (functions - 1))]
    one = {"device": "25b6", "product": "NVIDIA A2", "memory_mib": "15356", "compute_major": "8", "compute_minor": "6",
           "mig_capable": "false", "mig_mode": "", "mig_profiles": ""}  # fmt: skip
    seen = good(agent=agent_report(found=[reported(0, **one), reported(0, address="0000:17:00.4", sriov="vf", **one)]))
    given = labels(0) | world.labels_of(elements)
    seen = replace(seen, nodes=(node(given=given),), reports=(as_report(nfd_object(NODE, elements)), seen.reports[1]))

    assert reasons(of_node(compare(seen))) == ([] if fine else ["CountDiffers"])


def test_a_node_without_the_agents_report() -> None:
    seen = good()
    silent = replace(seen, reports=seen.reports[:1], devices=(), inventories=())

    finding = the_only(of_node(compare(silent)))
    assert (finding.reason, finding.about) == ("NoAgentReport", f"NodeFeature {names.NAMESPACE}/gpu-{NODE}")
    assert "2 × 10de:2330" in finding.expected
    assert f"app={names.DISCOVER_DAEMONSET}" in finding.todo


def test_an_agent_that_does_not_speak_of_cards() -> None:
    seen = good()
    mute = as_report(world.report(NODE, None))

    finding = the_only(of_node(compare(replace(seen, reports=(seen.reports[0], mute)))))
    assert (finding.reason, finding.found) == ("NoAgentReport", "no feature gpu.device")


def test_the_agent_cannot_come_where_the_label_is_missing() -> None:
    seen = good()
    silent = replace(with_node(seen, present=None), reports=seen.reports[:1], devices=(), inventories=())

    finding = next(one for one in of_node(compare(silent)).findings if one.reason == "NoAgentReport")
    assert "gpu.deckhouse.io/present=true, which this one lacks" in finding.todo


def test_a_report_from_before_the_last_boot() -> None:
    seen = replace(good(), nodes=(node(boot="another"),))

    finding = the_only(of_node(compare(seen)))
    assert finding.reason == "ReportOutdated"
    assert world.BOOT in finding.found
    assert "another" in finding.expected


def test_a_reported_card_without_an_address() -> None:
    said = agent_report(found=[reported(0), reported(1), reported(2, address="")])

    finding = the_only(of_node(compare(good(agent=said))))
    assert finding.reason == "CardsUnreadable"
    assert "1 reported card has no address" in finding.found


def test_a_node_that_nfd_does_not_see() -> None:
    seen = good()
    blind = replace(seen, reports=seen.reports[1:])
    bare = ClusterState(nodes=(node("cpu", given={}),), rule=our_rule())

    assert the_only(of_node(compare(blind))).reason == "NotSeenByNFD"
    assert not compare(blind).ok
    assert the_only(of_node(compare(bare), "cpu")).note
    assert compare(bare).ok
    assert not compare(bare, strict=True).ok


def test_a_node_whose_own_record_is_missing_or_another() -> None:
    seen = good()
    assert the_only(of_node(compare(replace(seen, inventories=())))).reason == "InventoryMissing"

    other = replace(seen, inventories=(inventory(NODE, seen.devices[:1]),))
    assert the_only(of_node(compare(other))).reason == "InventoryDifferent"


def test_what_is_left_of_a_node_that_is_gone() -> None:
    seen = good()
    finding = the_only(of_node(compare(replace(seen, nodes=()))))
    assert (finding.reason, finding.found) == ("NodeGone", "no such node, 2 GPUDevices and a GPUNodeInventory")

    reports = compare(replace(seen, nodes=(), devices=(), inventories=()))
    assert the_only(of_node(reports)).reason == "ReportLeftOver"
    assert reports.ok


def test_nfd_absent_is_told_once_and_blames_no_node() -> None:
    seen = replace(good(), reports=(), nfd=False, rules=False, rule=None)
    result = compare(seen)

    assert not result.ok
    assert reasons(result) == ["NFDNotServed"]
    assert "NodeFeature and NodeFeatureRule" in the_only(result).found
    assert of_node(result).findings == ()


def test_the_rule_absent() -> None:
    result = compare(replace(good(), rule=None))

    assert reasons(result) == ["RuleAbsent"]
    assert not result.ok
    assert names.INVENTORY in the_only(result).todo


@pytest.mark.parametrize(
    ("rules", "found"),
    [
        ([], "without: "),
        ("nonsense", "without: "),
        ([None, 7], "without: "),
        (node_feature_rule.manifest()["spec"]["rules"][1:], "without: deckhouse.gpu.cards"),
        ([*node_feature_rule.manifest()["spec"]["rules"], {"name": "mine"}], "added: mine"),
        (
            [{"name": "deckhouse.gpu.cards"}, *node_feature_rule.manifest()["spec"]["rules"][1:]],
            "changed: deckhouse.gpu.cards",
        ),
        (node_feature_rule.manifest()["spec"]["rules"][::-1], "the same rules, in another order"),
    ],
)
def test_the_rule_changed(rules: Any, found: str) -> None:
    result = compare(replace(good(), rule=our_rule(rules=rules)))

    assert the_only(result).reason == "RuleChanged"
    assert the_only(result).found.startswith(found)


def test_an_unreadable_object_is_told() -> None:
    result = compare(replace(good(), unreadable=(("NodeFeature a/b", "spec: Input should be an object"),)))

    assert (the_only(result).reason, the_only(result).about) == ("Unreadable", "NodeFeature a/b")


def test_only_the_nodes_that_were_asked_for() -> None:
    seen = also(good(), replace(good("gpu-02"), nodes=(node("gpu-02", given={}),)))

    assert [one.name for one in compare(seen).nodes] == [NODE, "gpu-02"]
    assert not compare(seen).ok
    assert compare(replace(seen, only=frozenset({NODE}))).ok


def test_a_display_of_the_host_is_no_card() -> None:
    elements = [HOST_VGA, {**HOST_VGA, "vendor": "8086", "device": "3e92", "class": "0380"}, H100, H100]
    seen = good()

    assert compare(replace(seen, reports=(as_report(nfd_object(NODE, elements)), seen.reports[1]))).ok


def test_unknown_fields_of_a_report_are_dropped() -> None:
    obj = nfd_object(NODE, [H100])
    obj["spec"]["features"]["flags"]["cpu.cpuid"] = {"elements": {"AVX": {}}}

    assert not hasattr(adapter(Report).validate_python(obj).spec.features.flags, "cpu.cpuid")
