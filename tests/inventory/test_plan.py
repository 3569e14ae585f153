"""What is recorded of a node, case by case."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names, resources
from controllers.api.settings import parse_settings
from controllers.domain.clock import stamp
from controllers.runtime.plan import Apply, Delete, EmitEvent, Ref
from tests.inventory.world import NODE, Cluster
from tests.kit.conditions import find, message, put, state_of
from tests.kit.manifests import body
from tests.kit.objects import BOOT, allocation, card, condition, pool_ref, reservation
from tests.kit.reports import on_the_bus, reported

FIRST, SECOND = f"{NODE}-0000-17-00-0", f"{NODE}-0000-18-00-0"
IN_POOL = {"status": {"poolRef": body(pool_ref("a"))}}
RESERVED = {"status": {"reservations": [body(reservation())]}}
ALLOCATED = {"status": {"allocations": [body(allocation())]}}


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    made.node()
    made.report([reported(0), reported(1)])
    return made


@pytest.fixture
def known(cluster: Cluster) -> Cluster:
    cluster.settle()
    return cluster


def notes(actions: tuple[Any, ...]) -> list[str]:
    return [action.reason for action in actions if isinstance(action, EmitEvent)]


def test_a_new_node_costs_two_writes_an_object_and_one_event(cluster: Cluster) -> None:
    made = cluster.step()

    assert [(a.ref.name, a.subresource) for a in made.writes if isinstance(a, Apply)] == [
        (FIRST, None), (FIRST, "status"), (SECOND, None), (SECOND, "status"), (NODE, None), (NODE, "status"),
    ]  # fmt: skip
    assert notes(made.actions) == [names.EVENT_DEVICE_DETECTED]
    assert cluster.step().writes == ()


def test_a_card_is_recorded_as_the_design_says(known: Cluster) -> None:
    device = known.device()

    assert device["metadata"]["labels"] == {
        names.LABEL_NODE: NODE,
        names.LABEL_VENDOR: "nvidia",
        names.LABEL_PRODUCT: "NVIDIA-H100-80GB-HBM3",
        names.LABEL_FAMILY: "hopper",
    }
    status = device["status"]
    assert (status["nodeName"], status["inventoryID"], status["managed"]) == (NODE, f"{NODE}-0000:17:00.0", True)
    assert {c["type"]: c["status"] for c in status["conditions"]} == {
        "ManagedDisabled": "False", "InventoryIncomplete": "False", "Ignored": "False",
    }  # fmt: skip
    assert set(status) == {"nodeName", "inventoryID", "managed", "hardware", "conditions"}
    assert known.inventory()["spec"] == {"nodeName": NODE}
    assert [d["name"] for d in known.inventory()["status"]["hw"]["devices"]] == [FIRST, SECOND]


def test_status_is_written_only_to_the_object_that_was_seen(known: Cluster) -> None:
    known.node(**{names.LABEL_ENABLED: "false"})

    for action in known.plan().writes:
        assert isinstance(action, Apply)
        assert action.ref.uid


def test_a_node_without_cards_is_left_alone() -> None:
    cluster = Cluster()
    cluster.node()
    assert cluster.plan().actions == ()
    assert cluster.plan().requeue_after is None
    cluster.report([])
    assert cluster.plan().actions == ()


def test_a_node_that_nfd_sees_cards_in_and_the_agent_does_not_is_told(cluster: Cluster) -> None:
    cluster.silence()
    cluster.node(**{names.LABEL_PRESENT: "true"})
    cluster.settle()

    assert cluster.devices() == {}
    assert cluster.inventory()["status"]["hw"] == {"present": True, "devices": []}
    assert state_of(cluster.inventory(), "InventoryIncomplete") == ("True", "NoReport")
    assert "NodeFeature d8-gpu-operator/gpu-worker-01 is not there" in message(
        cluster.inventory(), "InventoryIncomplete"
    )


def test_a_node_that_has_just_joined_is_no_news_until_its_agent_has_spoken() -> None:
    cluster = Cluster()
    cluster.node(**{names.LABEL_PRESENT: "true"})
    assert notes(cluster.step().actions) == []

    cluster.report([reported(0)])
    assert notes(cluster.step().actions) == [names.EVENT_INVENTORY_CONDITION, names.EVENT_DEVICE_DETECTED]


def test_nfd_and_the_agent_that_disagree_are_told(cluster: Cluster) -> None:
    cluster.node(**{names.LABEL_PRESENT: "true"})
    cluster.report([])
    cluster.settle()

    assert state_of(cluster.inventory(), "InventoryIncomplete") == ("True", "CardsIncomplete")
    assert "no card is reported, but label gpu.deckhouse.io/present=true is set" in message(
        cluster.inventory(), "InventoryIncomplete"
    )


def test_a_record_that_somebody_else_made_is_not_ours(known: Cluster) -> None:
    status = {"nodeName": NODE}
    for name in ("other-0000-17-00-0", "by-hand"):
        known.put(resources.GPUDEVICE, {"metadata": {"name": name}, "status": status})

    assert known.plan().writes == ()


@pytest.mark.parametrize(
    ("label", "by_default", "managed", "reason"),
    [
        (None, True, True, "ManagedByDefault"),
        (None, False, False, "NotManaged"),
        ("true", False, True, "NodeLabel"),
        ("false", True, False, "NodeLabel"),
        ("perhaps", True, True, "ManagedByDefault"),
        ("perhaps", False, False, "NotManaged"),
    ],
)
def test_managed_is_by_label_then_by_default(
    cluster: Cluster, label: str | None, by_default: bool, managed: bool, reason: str
) -> None:
    cluster.settings = parse_settings({"managedNodes": {"labelKey": "example.com/gpu", "enabledByDefault": by_default}})
    cluster.node(**({"example.com/gpu": label} if label else {}))
    cluster.settle()

    assert cluster.device()["status"]["managed"] is managed
    for obj in (cluster.device(), cluster.inventory()):
        assert state_of(obj, "ManagedDisabled") == ("False" if managed else "True", reason)
        assert ("perhaps" in message(obj, "ManagedDisabled")) == (label == "perhaps")


@pytest.mark.parametrize("place", ["labels", "annotations"])
def test_a_card_is_ignored_by_label_or_annotation(known: Cluster, place: str) -> None:
    known.merge("GPUDevice", FIRST, {"metadata": {place: {names.LABEL_IGNORE: "true"}}})
    known.settle()
    assert state_of(known.device(), "Ignored") == ("True", "IgnoreRequested")
    assert state_of(known.device(SECOND), "Ignored") == ("False", "NotIgnored")

    known.merge("GPUDevice", FIRST, {"metadata": {place: {names.LABEL_IGNORE: "false"}}})
    known.settle()
    assert state_of(known.device(), "Ignored") == ("False", "NotIgnored")


RADEON = {
    "vendor": "1002", "device": "6758", "class": "0300", "driver": "radeon", "uuid": "", "product": "",
    "memory_mib": "", "compute_major": "", "compute_minor": "", "mig_capable": "", "mig_mode": "", "mig_profiles": "",
}  # fmt: skip


def test_a_card_of_a_vendor_that_is_not_served_is_told_on_the_card_and_keeps_its_node_complete(
    cluster: Cluster,
) -> None:
    cluster.report([reported(0, **RADEON), reported(1)])
    made = cluster.step()

    assert state_of(cluster.device(), "InventoryIncomplete") == ("True", names.REASON_VENDOR_NOT_SERVED)
    assert "card 0000:17:00.0 is of amd" in message(cluster.device(), "InventoryIncomplete")
    assert state_of(cluster.device(SECOND), "InventoryIncomplete") == ("False", "Complete")
    assert state_of(cluster.inventory(), "InventoryIncomplete") == ("False", "Complete")
    assert "1 is set aside" in message(cluster.inventory(), "InventoryIncomplete")
    assert notes(made.actions) == [names.EVENT_DEVICE_DETECTED]


def test_a_card_that_is_ignored_does_not_make_its_node_incomplete(cluster: Cluster) -> None:
    cluster.report([reported(0, uuid=""), reported(1)])
    cluster.settle()
    assert state_of(cluster.inventory(), "InventoryIncomplete") == ("True", "CardsIncomplete")

    cluster.merge("GPUDevice", FIRST, {"metadata": {"labels": {names.LABEL_IGNORE: "true"}}})
    cluster.settle()
    assert state_of(cluster.device(), "InventoryIncomplete") == ("True", "AttributesMissing")
    assert state_of(cluster.inventory(), "InventoryIncomplete") == ("False", "Complete")


def test_an_incomplete_card_is_told_on_the_card_and_the_node_and_its_neighbour_goes_on(cluster: Cluster) -> None:
    cluster.report([reported(0, uuid=""), reported(1), reported(2, address="")])
    made = cluster.step()

    assert state_of(cluster.device(), "InventoryIncomplete") == ("True", "AttributesMissing")
    assert message(cluster.device(), "InventoryIncomplete").startswith(
        "card 0000:17:00.0 lacks uuid (gpu.device of NodeFeature d8-gpu-operator/gpu-worker-01)"
    )
    assert state_of(cluster.device(SECOND), "InventoryIncomplete") == ("False", "Complete")
    assert state_of(cluster.inventory(), "InventoryIncomplete") == ("True", "CardsIncomplete")
    told = message(cluster.inventory(), "InventoryIncomplete")
    assert "1 reported card has no address" in told
    assert "0000:17:00.0 lacks uuid" in told
    assert notes(made.actions) == [names.EVENT_INVENTORY_CONDITION, names.EVENT_DEVICE_DETECTED]


def test_what_a_report_no_longer_tells_is_remembered(known: Cluster) -> None:
    before = known.device()["status"]["hardware"]
    bare = {key: value for key, value in reported(0).items() if key in ("address", "vendor", "device", "class")}
    known.report([bare, reported(1)], driver="")
    known.settle()

    assert known.device()["status"]["hardware"] == before
    assert known.device()["metadata"]["labels"][names.LABEL_PRODUCT] == "NVIDIA-H100-80GB-HBM3"


@pytest.mark.parametrize("change", [{"uuid": "GPU-99999999-0000-0000-0000-000000000000"}, {"device": "20b0"}])
@pytest.mark.parametrize("pooled", [True, False])
def test_another_card_in_the_slot_is_another_object(known: Cluster, change: dict[str, str], pooled: bool) -> None:
    if pooled:
        known.merge("GPUDevice", FIRST, IN_POOL)
    uid = known.device()["metadata"]["uid"]
    known.report([reported(0, **change), reported(1)])

    (delete,) = [a for a in known.plan().writes if isinstance(a, Delete)]
    assert (delete.ref.name, delete.ref.uid, delete.absent) == (FIRST, uid, ())
    assert delete.resource_version == known.device()["metadata"]["resourceVersion"]
    known.settle()
    assert known.device()["metadata"]["uid"] != uid
    assert "poolRef" not in known.device()["status"]


def test_another_card_is_noticed_across_a_reboot_that_reports_before_the_driver(known: Cluster) -> None:
    uid = known.device()["metadata"]["uid"]
    bare = {key: value for key, value in reported(0).items() if key in ("address", "vendor", "device", "class")}
    known.report([bare, reported(1)], driver="")
    known.settle()
    known.report([reported(0, uuid="GPU-99999999-0000-0000-0000-000000000000"), reported(1)])
    known.settle()

    assert known.device()["metadata"]["uid"] != uid


def test_what_was_said_of_a_card_without_a_uuid_is_not_taken_for_the_one_that_has_one() -> None:
    cluster = Cluster()
    cluster.node()
    cluster.report([{**reported(0), "uuid": "GPU is lost"}])
    cluster.settle()
    cluster.report([{**reported(0), "memory_mib": ""}])

    assert cluster.settle() == 1
    assert "memoryMiB" not in cluster.device()["status"]["hardware"]
    incomplete = find(cluster.device(), "InventoryIncomplete")
    assert incomplete is not None
    assert (incomplete["status"], "lacks memory_mib" in incomplete["message"]) == ("True", True)


def test_a_card_that_a_fresh_report_does_not_name_goes(known: Cluster) -> None:
    known.report([reported(1)])
    made = known.step()

    assert list(known.devices()) == [SECOND]
    assert notes(made.actions) == [names.EVENT_DEVICE_REMOVED]
    assert [d["address"] for d in known.inventory()["status"]["hw"]["devices"]] == ["0000:18:00.0"]


def test_how_long_a_card_has_been_lost_is_counted_whatever_was_incomplete_before(known: Cluster) -> None:
    """Its driver was away for an hour when the slot was reset: its pool waits for it as for any other."""
    known.merge("GPUDevice", FIRST, IN_POOL)
    with known.edit("GPUDevice", FIRST) as stored:
        put(stored, condition("InventoryIncomplete", reason="AttributesMissing"))
    known.now += 3600
    known.report([reported(1)])
    known.settle()

    lost = find(known.device(), "InventoryIncomplete")
    assert lost is not None
    assert (lost["reason"], lost["lastTransitionTime"]) == (names.REASON_CARD_LOST, stamp(known.now))


@pytest.mark.parametrize("use", [IN_POOL, RESERVED, ALLOCATED], ids=["pool", "promise", "pod"])
def test_a_card_that_is_gone_while_it_is_of_use_stays_and_is_marked(known: Cluster, use: dict[str, Any]) -> None:
    known.merge("GPUDevice", FIRST, use)
    known.report([reported(1)])
    known.settle()
    assert state_of(known.device(), "InventoryIncomplete") == ("True", names.REASON_CARD_LOST)
    assert state_of(known.inventory(), "InventoryIncomplete") == ("True", "CardsIncomplete")
    assert known.device()["status"]["hardware"]["uuid"]
    lost = find(known.device(), "InventoryIncomplete")
    assert lost is not None
    assert known.device()["status"]["lostSince"] == lost["lastTransitionTime"]

    known.report([reported(0), reported(1)])
    known.settle()
    assert state_of(known.device(), "InventoryIncomplete") == ("False", "Complete")
    assert "lostSince" not in known.device()["status"]


def test_since_when_a_card_is_lost_is_taken_over_from_a_version_that_did_not_say_it(known: Cluster) -> None:
    known.merge("GPUDevice", FIRST, IN_POOL)
    known.report([reported(1)])
    known.settle()
    since = known.device()["status"]["lostSince"]
    with known.edit("GPUDevice", FIRST) as stored:
        del stored["status"]["lostSince"]
    known.now += 3600
    known.settle()

    lost = find(known.device(), "InventoryIncomplete")
    assert lost is not None
    assert (known.device()["status"]["lostSince"], lost["lastTransitionTime"]) == (since, since)


def test_a_lost_card_that_leaves_its_pool_goes(known: Cluster) -> None:
    known.merge("GPUDevice", FIRST, IN_POOL)
    known.report([reported(1)])
    known.settle()
    status = known.device()["status"]
    del status["poolRef"]
    known.settle()

    assert list(known.devices()) == [SECOND]


@pytest.mark.parametrize("cards", [[reported(1), reported(2, address="?")], [reported(1)]])
def test_a_report_that_is_stale_or_names_not_every_card_removes_none(
    known: Cluster, cards: list[dict[str, str]]
) -> None:
    known.report(cards, boot="another-boot" if len(cards) == 1 else "")
    known.settle()

    assert list(known.devices()) == [FIRST, SECOND]
    assert state_of(known.device(), "InventoryIncomplete") == ("True", "AwaitingReport")


def test_a_node_that_is_not_ready_loses_no_card(known: Cluster) -> None:
    known.node(ready=False)
    known.report([reported(1)])
    known.settle()
    assert state_of(known.device(), "InventoryIncomplete") == ("True", "AwaitingReport")

    known.node()
    known.settle()
    assert list(known.devices()) == [SECOND]


def test_a_report_from_before_the_last_start_is_called_outdated_once(known: Cluster) -> None:
    before = known.device()
    known.node(boot="the-next-boot", **{names.LABEL_PRESENT: "true"})
    made = known.step()

    assert notes(made.actions) == [names.EVENT_INVENTORY_OUTDATED]
    assert state_of(known.inventory(), "InventoryIncomplete") == ("True", "ReportOutdated")
    assert "is from before node worker-01 was started last" in message(known.inventory(), "InventoryIncomplete")
    assert known.device() == before
    assert known.step().actions == ()
    known.node(boot="the-one-after", **{names.LABEL_PRESENT: "true"})
    assert notes(known.step().actions) == [], "it is outdated as before"
    known.node(boot="the-next-boot", **{names.LABEL_PRESENT: "true"})

    known.report([reported(0), reported(1)], boot="the-next-boot")
    assert notes(known.step().actions) == [names.EVENT_INVENTORY_CONDITION]
    assert state_of(known.inventory(), "InventoryIncomplete") == ("False", "Complete")


def test_a_card_that_was_moved_to_another_slot_is_lost_there_and_new_here(known: Cluster) -> None:
    known.merge("GPUDevice", FIRST, IN_POOL)
    moved = reported(5)["address"]
    known.report([reported(0, address=moved), reported(1)])
    known.settle()

    assert state_of(known.device(), "InventoryIncomplete") == ("True", names.REASON_CARD_LOST)
    assert f"its uuid is that of {NODE}-{moved} now" in message(known.device(), "InventoryIncomplete")
    assert "poolRef" not in known.device(f"{NODE}-0000-1c-00-0")["status"]


def test_a_card_that_is_another_nodes_now_is_found_there(known: Cluster) -> None:
    uuid = known.device()["status"]["hardware"]["uuid"]
    known.add(card("worker-02", 0x3B, hardware={"uuid": uuid}))
    assert known.plan().writes == ()  # what another node says takes no card away here

    known.merge("GPUDevice", FIRST, IN_POOL)
    known.report([reported(1)])
    known.settle()
    assert "its uuid is that of worker-02-0000:3b:00.0 now" in message(known.device(), "InventoryIncomplete")


def test_a_node_whose_name_is_used_again_by_another_machine_starts_unapproved(known: Cluster) -> None:
    uids = {name: device["metadata"]["uid"] for name, device in known.devices().items()}
    known.merge("GPUDevice", FIRST, IN_POOL)
    known.drop(resources.NODE, NODE)
    known.node(boot="of-the-other-machine")
    known.settle()
    assert {name: device["metadata"]["uid"] for name, device in known.devices().items()} == uids  # nobody has reported

    other = [reported(0, uuid="GPU-77777777-0000-0000-0000-000000000000"), reported(4)]
    known.report(other, boot="of-the-other-machine")
    known.settle()
    assert sorted(known.devices()) == [FIRST, f"{NODE}-0000-1b-00-0"]
    assert known.device()["metadata"]["uid"] != uids[FIRST]
    assert "poolRef" not in known.device()["status"]


def test_what_nfd_sees_and_the_agent_does_not_name_is_told(known: Cluster) -> None:
    known.node(**{names.LABEL_PRESENT: "true"})
    known.bus([*on_the_bus(3), *on_the_bus(4, device="22a3", class_="0680"), *on_the_bus(1, device="20b5")])
    known.settle()

    assert state_of(known.inventory(), "InventoryIncomplete") == ("True", "CardsIncomplete")
    told = message(known.inventory(), "InventoryIncomplete")
    assert "NFD sees 3 of 10de:2330 and the report names 2" in told
    assert "NFD sees 1 of 10de:20b5 and the report names none" in told
    assert "22a3" not in told
    assert state_of(known.device(), "InventoryIncomplete") == ("False", "Complete")


def test_virtual_functions_that_nfd_counts_are_no_missing_cards(known: Cluster) -> None:
    known.node(**{names.LABEL_PRESENT: "true"})
    known.settle()
    known.bus([*on_the_bus(2, sriov_totalvfs="16"), *on_the_bus(16)])

    assert known.plan().writes == ()


def test_nfd_alone_makes_no_gpu_node() -> None:
    """Anybody may write a NodeFeature into a namespace of theirs."""
    cluster = Cluster()
    cluster.node()
    cluster.bus(on_the_bus(8))

    assert cluster.plan().actions == ()


def test_a_known_node_that_nfd_does_not_label_any_more_is_told(known: Cluster) -> None:
    known.bus(on_the_bus(2))
    known.settle()

    assert state_of(known.inventory(), "InventoryIncomplete") == ("True", "NotLabelled")
    told = message(known.inventory(), "InventoryIncomplete")
    assert "NFD sees cards in node worker-01 (2 of 10de:2330), but label gpu.deckhouse.io/present=true" in told
    assert names.NODE_FEATURE_RULE in told
    assert list(known.devices()) == [FIRST, SECOND]


@pytest.mark.parametrize("rebooted", [True, False])
def test_cards_whose_agent_went_with_the_last_of_them_go(known: Cluster, rebooted: bool) -> None:
    """NFD takes the label when no card is left; the agent leaves before it could say so, and its report stays."""
    known.merge("GPUDevice", FIRST, IN_POOL)
    known.node(boot="the-next-boot" if rebooted else BOOT)
    known.bus([])
    known.settle()

    assert list(known.devices()) == [FIRST]
    assert state_of(known.device(), "InventoryIncomplete") == ("True", names.REASON_CARD_LOST)
    assert state_of(known.inventory(), "InventoryIncomplete") == ("True", "CardsIncomplete")


def test_a_value_that_is_on_record_is_not_missing(known: Cluster) -> None:
    """The driver's library went silent under running pods: the same card, by its uuid, is as known as before."""
    silent = {"memory_mib": "", "compute_major": "", "compute_minor": "", "mig_capable": "", "nvlink_peers": ""}
    known.report([reported(0, **silent), reported(1, **silent, uuid="")])
    known.settle()

    assert state_of(known.device(), "InventoryIncomplete") == ("False", "Complete")
    assert known.device()["status"]["hardware"]["memoryMiB"] == 81559
    assert state_of(known.device(SECOND), "InventoryIncomplete") == ("True", "AttributesMissing")


def test_links_that_a_speaking_driver_does_not_tell_are_gone(cluster: Cluster) -> None:
    cluster.report([reported(0, nvlink_peers="0000:18:00.0"), reported(1)])
    cluster.settle()
    cluster.report([reported(0), reported(1)])
    cluster.settle()

    assert "nvlink" not in cluster.device()["status"]["hardware"]


def test_a_card_that_shares_the_processors_memory_needs_none(cluster: Cluster) -> None:
    cluster.report([reported(0, device="2e12", product="NVIDIA GB10", memory_mib="")])
    cluster.settle()

    assert state_of(cluster.device(), "InventoryIncomplete") == ("False", "Complete")


@pytest.mark.parametrize("silent", [True, False])
def test_when_the_agent_is_gone_its_cards_stay_as_they_were(known: Cluster, silent: bool) -> None:
    before = known.device()
    if silent:
        known.silence()
    else:
        known.report(None)
    known.settle()

    assert known.device() == before
    assert state_of(known.inventory(), "InventoryIncomplete") == ("True", "NoReport")


def test_without_nfd_nothing_is_removed_and_the_node_says_what_to_install(known: Cluster) -> None:
    known.silence()
    known.nfd = False
    known.settle()

    assert list(known.devices()) == [FIRST, SECOND]
    assert state_of(known.inventory(), "PrerequisiteNotMet") == ("True", "NodeFeatureNotServed")
    assert "install Node Feature Discovery" in message(known.inventory(), "PrerequisiteNotMet")


def test_everything_of_a_node_goes_with_it_once_that_is_confirmed(known: Cluster) -> None:
    known.drop(resources.NODE, NODE)
    made = known.step()

    assert [action.ref.name for action in made.writes if isinstance(action, Delete)] == [FIRST, SECOND, NODE]
    for action in made.writes:
        assert isinstance(action, Delete)
        assert action.absent == (Ref(resources.NODE, NODE),)
        assert action.ref.uid
        assert action.resource_version
    assert known.devices() == {}
    assert known.plan().actions == ()


def test_a_node_whose_last_card_was_taken_out_is_no_gpu_node_any_more(known: Cluster) -> None:
    gate = names.deploy_label("gfd")
    known.node(**{gate: "true"})
    known.report([])
    known.settle()
    assert known.devices() == {}
    assert known.inventory()["status"]["hw"] == {"present": False, "devices": []}  # by this bootstrap closes its gates
    assert state_of(known.inventory(), "InventoryIncomplete") == ("False", "Complete")

    known.node()
    known.settle()
    assert ("GPUNodeInventory", NODE) not in known.objects
    assert known.plan().actions == ()


def test_without_nfd_a_node_without_known_cards_keeps_its_summary(known: Cluster) -> None:
    known.node(**{names.LABEL_PRESENT: "true"})
    known.report([])
    known.settle()
    known.silence()
    known.node()
    known.nfd = False
    known.settle()

    assert state_of(known.inventory(), "InventoryIncomplete") == ("Unknown", "NodeFeatureNotServed")
    assert state_of(known.inventory(), "PrerequisiteNotMet") == ("True", "NodeFeatureNotServed")


def test_a_labelled_node_without_cards_keeps_its_summary(known: Cluster) -> None:
    known.node(**{names.LABEL_PRESENT: "true"})
    known.report([])
    known.settle()

    assert state_of(known.inventory(), "InventoryIncomplete") == ("True", "CardsIncomplete")


def test_a_node_that_was_made_anew_keeps_its_cards(known: Cluster) -> None:
    before = {name: device["metadata"]["uid"] for name, device in known.devices().items()}
    known.drop(resources.NODE, NODE)
    known.node()
    known.settle()

    assert {name: device["metadata"]["uid"] for name, device in known.devices().items()} == before


def test_an_object_that_is_being_deleted_is_left_alone(known: Cluster) -> None:
    for kind, key in (("GPUDevice", FIRST), ("GPUNodeInventory", NODE)):
        known.merge(kind, key, {"metadata": {"deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]}})
    known.node(**{names.LABEL_ENABLED: "false"})

    assert {action.ref.name for action in known.plan().writes if isinstance(action, Apply)} == {SECOND}
    known.report([])
    assert {action.ref.name for action in known.plan().writes if isinstance(action, Delete)} == {SECOND}


def test_labels_that_others_made_of_ours_are_mended_and_theirs_stay(known: Cluster) -> None:
    labels = {names.LABEL_PRODUCT: "wrong", names.LABEL_FAMILY: "wrong", "example.com/own": "stays"}
    known.merge("GPUDevice", FIRST, {"metadata": {"labels": labels}})
    known.report([reported(0, compute_major="99"), reported(1)])
    known.settle()

    assert known.device()["metadata"]["labels"] == {
        names.LABEL_NODE: NODE,
        names.LABEL_VENDOR: "nvidia",
        names.LABEL_PRODUCT: "NVIDIA-H100-80GB-HBM3",
        "example.com/own": "stays",
    }


def test_a_label_of_ours_that_we_never_set_is_removed(cluster: Cluster) -> None:
    cluster.report([reported(0, compute_major="99"), reported(1)])
    cluster.settle()
    cluster.merge("GPUDevice", FIRST, {"metadata": {"labels": {names.LABEL_FAMILY: "hopper"}}})
    cluster.settle()

    assert names.LABEL_FAMILY not in cluster.device()["metadata"]["labels"]


def test_another_nodes_report_of_the_same_name_is_not_believed(cluster: Cluster) -> None:
    cluster.merge(
        "NodeFeature", f"{names.NAMESPACE}/gpu-{NODE}", {"metadata": {"labels": {names.NFD_NODE_NAME: "other"}}}
    )

    assert cluster.plan().actions == ()


def test_time_alone_writes_nothing(known: Cluster) -> None:
    known.now += 86_400

    assert known.plan().actions == ()
    assert known.plan().requeue_after == known.settings.inventory.resync_period
