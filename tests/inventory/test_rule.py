"""Our NodeFeatureRule, executed with Go's text/template on what NFD reports: real dumps, shapes, and anything."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from controllers.api import names
from controllers.api.kube import Node
from controllers.api.meta import ObjectMeta
from controllers.api.resources import NODEFEATURERULE
from controllers.domain.catalogue import VENDORS
from controllers.inventory.rule import expected_labels, node_feature_rule
from controllers.inventory.rule.node_feature_rule import NodeFeatureRule, ObservedRule
from controllers.runtime.plan import Apply
from sim.hardware import load
from sim.nodes import nfd
from sim.nodes.machine import machine
from tests.data import facts
from tests.inventory.nfd_rule import NfdRule, spec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

pytestmark = pytest.mark.cluster
CATALOGUE = load()

H100 = {"vendor": "10de", "device": "2330", "class": "0302"}
NVSWITCH = {"vendor": "10de", "device": "22a3", "class": "0680"}
MI300X = {"vendor": "1002", "device": "74a1", "class": "1200"}
FLEX170 = {"vendor": "8086", "device": "56c0", "class": "0380"}

# Read by eye in the dumps: what is on the bus (classes 03xx and 12xx), modules, kernel, os-release.
DUMPS: dict[str, dict[str, str]] = {
    # 16 x [10de:1db8] 0302 (V100 SXM3), 11 x [10de:1ac2] 0680 (NVSwitch); only the bus is told
    "nodefeature_derived/derived-dgx2-16xV100.yaml": {
        "present": "true",
        "device-count": "16",
        **{f"device.{n:02d}.vendor": "10de" for n in range(16)},
        **{f"device.{n:02d}.device": "1db8" for n in range(16)},
        **{f"device.{n:02d}.class": "0302" for n in range(16)},
    },
    # [1af4:1050] 0300 is the virtual machine's display, [10de:15f8] 0302 a P100
    "nodefeature_derived/derived-vm-1xP100.yaml": {
        "present": "true",
        "device-count": "1",
        "device.00.vendor": "10de",
        "device.00.device": "15f8",
        "device.00.class": "0302",
    },
    # [102b:0533] 0300, the Matrox of the management controller, and nothing else that shows anything
    "nodefeature_derived/derived-no-nvidia-node.yaml": {},
    # NFD's example: no bus, kernel 6.3.13-linuxkit, Ubuntu 22.04
    "nodefeature/nfd-examples-nodefeature.yaml": {
        "kernel.version.full": "6.3.13-linuxkit",
        "kernel.version.major": "6",
        "kernel.version.minor": "3",
        "os.id": "ubuntu",
        "os.version_id": "22.04",
    },
    # features of a vendor's own and of NFD's tests: nothing that the rule looks at
    "nodefeature/nfd-doc-customization-guide-nodefeature.yaml": {},
    "nodefeature/nfd-e2e-nodefeature-1.yaml": {},
    "nodefeature/nfd-e2e-nodefeature-2.yaml": {},
}
# Number of cards and their device id in each of the simulation's shapes; mixed-2: see below.
SHAPES = {
    "a100-sxm-8": (8, "20b0"),
    "a30-4": (4, "20b7"),
    "h100-sxm-8": (8, "2330"),
    "l40s-4": (4, "26b9"),
    "no-gpu": (0, ""),
    "t4-4": (4, "1eb8"),
}
UBUNTU = {
    "kernel.version.full": "5.15.0-160-generic",
    "kernel.version.major": "5",
    "kernel.version.minor": "15",
    "os.id": "ubuntu",
    "os.version_id": "22.04",
}
NVIDIA_DRIVER = {
    "driver.name": "nvidia",
    "driver.module.nvidia": "true",
    "driver.module.nvidia_drm": "true",
    "driver.module.nvidia_modeset": "true",
    "driver.module.nvidia_uvm": "true",
}


@pytest.fixture(scope="module")
def nfd_rule() -> Iterator[NfdRule]:
    with NfdRule() as program:
        yield program


def given_labels(program: NfdRule, *specs: dict[str, Any]) -> dict[str, str]:
    """What the rule gives, without the prefix; nothing of it is refused by NFD or by Kubernetes."""
    labels, errors = program.ask(*specs)
    assert errors == []
    for key, value in labels.items():
        assert key.startswith(names.PREFIX), key
        for part in (key.removeprefix(names.PREFIX), value):
            assert re.fullmatch("[A-Za-z0-9]([A-Za-z0-9._-]{0,61}[A-Za-z0-9])?", part), (key, value)
    return {key.removeprefix(names.PREFIX): value for key, value in labels.items()}


def expected(*specs: dict[str, Any]) -> dict[str, str]:
    """What the Python function says of the same."""

    def elements(form: str, name: str) -> list[Any]:
        return [((one["features"].get(form) or {}).get(name) or {}).get("elements") or {} for one in specs]

    def joined(form: str, name: str) -> dict[str, Any]:
        return {key: value for one in elements(form, name) for key, value in one.items()}

    pci = [element["attributes"] for one in elements("instances", "pci.device") for element in one]
    made = expected_labels.labels(
        pci,
        joined("flags", "kernel.loadedmodule"),
        joined("attributes", "kernel.version"),
        joined("attributes", "system.osrelease"),
    )
    return {key.removeprefix(names.PREFIX): value for key, value in made.items()}


def both(program: NfdRule, *specs: dict[str, Any]) -> dict[str, str]:
    found = given_labels(program, *specs)
    assert expected(*specs) == found
    return found


def seats(*cards: Mapping[str, str]) -> dict[str, str]:
    made = {f"device.{n:02d}.{key}": card[key] for n, card in enumerate(cards) for key in ("vendor", "device", "class")}
    return made | {"present": "true", "device-count": str(len(cards))}


# --- real dumps and the simulation's shapes -----------------------------------------------------------------------


def specs_of(file: str) -> list[dict[str, Any]]:
    found = [report["spec"] for node in facts.nodes(file) for report in node.reports]
    return [{"features": one.get("features") or {}} for one in found]


@pytest.mark.parametrize("file", DUMPS)
def test_the_labels_of_real_dumps(nfd_rule: NfdRule, file: str) -> None:
    specs = specs_of(file)
    assert specs
    for one in specs:
        assert both(nfd_rule, one) == DUMPS[file]


def test_no_dump_is_forgotten() -> None:
    assert {file for file in facts.dumps("nodefeature*/*.yaml") if specs_of(file)} == set(DUMPS)


def reported(shape: str, **annotations: str) -> dict[str, Any]:
    meta = ObjectMeta(name="n", annotations={"sim.gpu.deckhouse.io/shape": shape, **annotations})
    made = machine(Node(metadata=meta), None, CATALOGUE)
    return {"features": nfd.features("n", made, CATALOGUE)}


@pytest.mark.parametrize("shape", SHAPES)
def test_the_labels_of_simulated_nodes(nfd_rule: NfdRule, shape: str) -> None:
    count, device = SHAPES[shape]
    cards = seats(*[{"vendor": "10de", "device": device, "class": "0302"}] * count) if count else {}
    assert both(nfd_rule, reported(shape)) == cards | (NVIDIA_DRIVER if count else {}) | UBUNTU


def test_two_models_are_numbered_in_the_order_of_the_bus(nfd_rule: NfdRule) -> None:
    t4, a100 = ({"vendor": "10de", "device": device, "class": "0302"} for device in ("1eb8", "20f1"))
    assert both(nfd_rule, reported("mixed-2")) == seats(t4, a100) | NVIDIA_DRIVER | UBUNTU


def test_every_shape_is_looked_at() -> None:
    assert set(CATALOGUE.shapes) == {*SHAPES, "mixed-2"}


def test_without_the_driver_only_its_labels_are_missing(nfd_rule: NfdRule) -> None:
    found = both(nfd_rule, reported("t4-4", **{"sim.gpu.deckhouse.io/fault": "no-driver"}))
    assert found == seats(*[{"vendor": "10de", "device": "1eb8", "class": "0302"}] * 4) | UBUNTU


# --- what is a card ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "element",
    [
        NVSWITCH,
        {"vendor": "10de", "device": "22ba", "class": "0403"},  # the audio function of a card
        {"vendor": "10de", "device": "2330", "class": "0680"},
        {"vendor": "102b", "device": "0536", "class": "0300"},  # a management controller's display
        {"vendor": "1a03", "device": "2000", "class": "0300"},
        {"vendor": "1af4", "device": "1050", "class": "0300"},  # virtio
        {"vendor": "8086", "device": "3e92", "class": "0300"},  # UHD Graphics 630, in a processor
        {"vendor": "8086", "device": "3e92", "class": "0380"},  # the same beside a management controller
        {"vendor": "1002", "device": "1638", "class": "0300"},  # Radeon Graphics in a Ryzen
        {"vendor": "1002", "device": "ab38", "class": "0403"},
        {"vendor": "10DE", "device": "2330", "class": "0302"},
        {"vendor": "10de", "device": "2330", "class": "030200"},
        {"vendor": "10de", "device": "2330\nx=y", "class": "0302"},
        {"vendor": "10de", "device": "2330 ", "class": "0302"},
        {"vendor": "10de", "device": "", "class": "0302"},
        {"vendor": "10de", "class": "0302"},
        {"device": "2330", "class": "0302"},
        {"vendor": "10de", "device": "2330"},
        {},
    ],
)
def test_what_is_no_card_gives_no_label_and_takes_no_number(nfd_rule: NfdRule, element: dict[str, str]) -> None:
    assert both(nfd_rule, spec([element], modules=("i915", "xe", "amdgpu"))) == {}
    assert both(nfd_rule, spec([element, H100, element])) == seats(H100)


@pytest.mark.parametrize("vendor", VENDORS.values(), ids=lambda vendor: vendor.name)
def test_each_vendor_with_all_its_classes_and_integrated_displays(nfd_rule: NfdRule, vendor: Any) -> None:
    device = min(vendor.devices, default="fffe")
    cards = [{"vendor": vendor.id, "device": device, "class": kind} for kind in vendor.classes]
    displays = [*vendor.integrated, *(["7d67", "46d1", "a788"] if vendor.devices else [])]
    inside = [{"vendor": vendor.id, "device": device, "class": vendor.classes[-1]} for device in displays]
    others = [{"vendor": vendor.id, "device": "fffe", "class": kind} for kind in ("0403", "0680", "0604", "0200")]
    assert both(nfd_rule, spec([*others, *inside, *cards])) == seats(*cards)


def test_the_vendors_that_are_promised() -> None:
    assert set(VENDORS) == {"10de", "1002", "8086"}


def test_cards_of_several_vendors_are_numbered_through(nfd_rule: NfdRule) -> None:
    bus = [FLEX170, H100, NVSWITCH, MI300X, H100, FLEX170]
    assert both(nfd_rule, spec(bus)) == seats(FLEX170, H100, MI300X, H100, FLEX170)


def test_reports_of_one_node_count_together(nfd_rule: NfdRule) -> None:
    first, second = spec([H100], kernel={"full": "1", "major": "1"}), spec([MI300X], kernel={"full": "2"})
    assert both(nfd_rule, first, second) == seats(H100, MI300X) | {
        "kernel.version.full": "2",
        "kernel.version.major": "1",
    }


def test_sixteen_cards_behind_switches(nfd_rule: NfdRule) -> None:
    v100 = {"vendor": "10de", "device": "1db8", "class": "0302"}
    switch = {"vendor": "10de", "device": "1ac2", "class": "0680"}
    found = both(nfd_rule, spec([v100] * 8 + [switch] * 6 + [v100] * 8 + [switch] * 6))
    assert (found["device-count"], "device.15.class" in found, "device.16.class" in found) == ("16", True, False)


def test_all_cards_are_counted_and_a_hundred_have_labels_of_their_own(nfd_rule: NfdRule) -> None:
    found = both(nfd_rule, spec([H100] * 120))
    assert found.pop("device-count") == "120"
    assert found == {key: value for key, value in seats(*[H100] * 100).items() if key != "device-count"}


# --- drivers -----------------------------------------------------------------------------------------------------

NVIDIA = {"driver.name": "nvidia", "driver.module.nvidia": "true"}


@pytest.mark.parametrize(
    ("cards", "modules", "labels"),
    [
        ([], ("nvidia", "nvidia_uvm"), NVIDIA | {"driver.module.nvidia_uvm": "true"}),
        ([H100], ("nouveau",), {}),
        ([H100], ("nvidia_uvm",), {"driver.module.nvidia_uvm": "true"}),  # what cannot be is told as it is
        ([H100], ("nvidia", "i915", "amdgpu"), NVIDIA),
        ([], ("i915", "xe", "amdgpu"), {}),  # a laptop
        ([FLEX170], ("i915",), {"driver.name": "i915", "driver.module.i915": "true"}),
        ([FLEX170], ("xe", "i915"), {"driver.name": "xe", "driver.module.i915": "true", "driver.module.xe": "true"}),
        ([MI300X], ("amdgpu", "i915"), {"driver.name": "amdgpu", "driver.module.amdgpu": "true"}),
        ([MI300X, H100], ("amdgpu", "nvidia"), NVIDIA | {"driver.module.amdgpu": "true"}),
        ([MI300X, FLEX170], ("amdgpu", "xe"), {
            "driver.name": "amdgpu", "driver.module.amdgpu": "true", "driver.module.xe": "true",
        }),
    ],
)  # fmt: skip
def test_driver_labels(
    nfd_rule: NfdRule, cards: list[dict[str, str]], modules: tuple[str, ...], labels: dict[str, str]
) -> None:
    assert both(nfd_rule, spec(cards, modules=modules)) == (seats(*cards) if cards else {}) | labels


# --- kernel and system: a value that is no label's leaves out that label alone ---------------------------------------


@pytest.mark.parametrize(
    ("kernel", "os", "labels"),
    [
        ({"full": "6.1.0-13-cloud+", "major": "6", "minor": "1"}, {"ID": "debian"},
         {"kernel.version.major": "6", "kernel.version.minor": "1", "os.id": "debian"}),
        ({"full": "5." + "9" * 62}, {"ID": "ol", "VERSION_ID": "8.9 beta"}, {"os.id": "ol"}),
        ({"full": "a" * 63}, {"ID": "", "VERSION_ID": "9"}, {"kernel.version.full": "a" * 63, "os.version_id": "9"}),
        ({"full": "6.1\ngpu.deckhouse.io/present=true"}, {"ID": "@kernel.version.full"}, {}),
        ({"full": "6", "revision": "3", "Full": "x"}, {"id": "x", "NAME": "Debian"}, {"kernel.version.full": "6"}),
        ({"major": "{{ .x }}"}, {"ID": "déb"}, {}),
        (None, {"VERSION_ID": "12"}, {"os.version_id": "12"}),
    ],
)  # fmt: skip
def test_odd_kernels_and_systems(
    nfd_rule: NfdRule, kernel: dict[str, str] | None, os: dict[str, str], labels: dict[str, str]
) -> None:
    assert both(nfd_rule, spec(kernel=kernel, os=os)) == labels


# --- anything -------------------------------------------------------------------------------------------------------

values = st.text(max_size=70) | st.from_regex(r"\A[0-9]\.[0-9]{1,3}\.[0-9]-[a-z+]{1,60}\Z") | st.sampled_from("56")
ids = st.sampled_from(["10de", "1002", "8086", "102b", "10DE", "0x10de", "", "2330", "3e92", "1638", "56c0", "74a1"])
classes = st.sampled_from(["0300", "0302", "0380", "1200", "0403", "0680", "03", "030000", ""])
attributes = st.fixed_dictionaries({}, optional={
    "vendor": ids | values, "device": ids | values, "class": classes | values, "subsystem_vendor": values,
})  # fmt: skip
modules = st.lists(
    st.sampled_from([name for vendor in VENDORS.values() for name in vendor.modules]) | values, max_size=6
)
anything = st.builds(
    lambda cards, loaded, kernel, os: spec(cards, modules=tuple(loaded), kernel=kernel, os=os),
    st.none() | st.lists(attributes | st.sampled_from([H100, MI300X, FLEX170, NVSWITCH]), max_size=8),
    modules,
    st.none() | st.dictionaries(st.sampled_from(["full", "major", "minor", "revision"]) | values, values, max_size=5),
    st.none() | st.dictionaries(st.sampled_from(["ID", "VERSION_ID", "NAME"]) | values, values, max_size=5),
)


@settings(max_examples=300, deadline=None)
@given(st.lists(anything, min_size=1, max_size=3))
def test_go_and_python_agree_and_nothing_is_refused(nfd_rule: NfdRule, specs: list[dict[str, Any]]) -> None:
    both(nfd_rule, *specs)


# --- keeping it -----------------------------------------------------------------------------------------------------


def as_kept(**changes: Any) -> NodeFeatureRule:
    body = node_feature_rule.manifest()
    meta = ObjectMeta(name=names.NODE_FEATURE_RULE, labels={**body["metadata"]["labels"], "theirs": "stays"})
    return NodeFeatureRule(**{"metadata": meta, "spec": body["spec"], **changes})


def test_an_absent_rule_is_made_and_then_left_alone() -> None:
    made = node_feature_rule.plan(ObservedRule(None))
    (action,) = made.actions
    assert isinstance(action, Apply)
    assert (action.ref.resource, action.ref.name, action.ref.uid) == (NODEFEATURERULE, "deckhouse-gpu-kernel-os", None)
    assert action.body == node_feature_rule.manifest()
    assert made.requeue_after is None
    assert node_feature_rule.plan(ObservedRule(as_kept())).actions == ()


@pytest.mark.parametrize(
    "changes",
    [
        {"spec": {}},
        {"spec": {"rules": []}},
        {"spec": {"rules": [*node_feature_rule.manifest()["spec"]["rules"], {"name": "theirs"}]}},
        {"spec": {"rules": node_feature_rule.manifest()["spec"]["rules"][1:]}},
        {"metadata": ObjectMeta(name=names.NODE_FEATURE_RULE, labels={"app.kubernetes.io/name": "theirs"})},
    ],
)
def test_a_foreign_edit_is_put_back(changes: dict[str, Any]) -> None:
    assert (
        node_feature_rule.plan(ObservedRule(as_kept(**changes))).actions
        == node_feature_rule.plan(ObservedRule(None)).actions
    )


def test_one_that_is_being_deleted_is_waited_for() -> None:
    leaving = ObjectMeta(name=names.NODE_FEATURE_RULE, deletion_timestamp="2026-01-01T00:00:00Z")
    assert node_feature_rule.plan(ObservedRule(as_kept(metadata=leaving))).actions == ()


def test_without_nfd_nothing_is_written_and_it_is_looked_for_again() -> None:
    waiting = node_feature_rule.plan(ObservedRule(None, served=False))
    assert waiting.actions == ()
    assert waiting.requeue_after == node_feature_rule.WITHOUT_NFD


def test_names_of_rules_are_unique_and_the_object_is_small() -> None:
    rules = node_feature_rule.manifest()["spec"]["rules"]
    assert len({entry["name"] for entry in rules}) == len(rules)
    assert len(yaml.safe_dump(rules)) < 20_000
