"""How cards were shared and divided there, as pools."""

from __future__ import annotations

from typing import Any

import pytest
import yaml

from controllers.domain.mig import read_parted
from controllers.gpu_operator.imported import Imported
from controllers.gpu_operator.mig_parted import allocation, refusal
from controllers.gpu_operator.sharing import Sharing, sharing
from tests.data import facts
from tests.gpu_operator.given import config_map, kinds, node, of, policy, remarks

PLUGIN, MIG = "nvidia.com/device-plugin.config", "nvidia.com/mig.config"
DEFAULT = "profiles/mig-parted-config-default.yaml"
"""The layouts of NVIDIA's own configuration, by its facts."""


def shared(replicas: int = 4, how: str = "timeSlicing", **more: Any) -> str:
    """A configuration of the device plugin."""
    block = {"resources": [{"name": "nvidia.com/gpu", "replicas": replicas}], **more}
    return yaml.safe_dump({"version": "v1", "sharing": {how: block}})


def parted(**configs: Any) -> str:
    """A configuration of mig-parted."""
    return yaml.safe_dump({"version": "v1", "mig-configs": configs})


def entry(profiles: dict[str, int] | None = None, **more: Any) -> dict[str, Any]:
    """One entry of it."""
    made = {"devices": "all", "mig-enabled": profiles is not None, **more}
    return made | ({"mig-devices": profiles} if profiles is not None else {})


def pools(spec: dict[str, Any], *more: dict[str, Any]) -> dict[str, Any]:
    """The pools, by name."""
    return kinds(of(policy(driver={"enabled": False}, **spec), *more), "GPUPool")


@pytest.mark.parametrize(
    ("text", "allocation"),
    [
        ("", {"mode": "Exclusive"}),
        ("version: v1\n", {"mode": "Exclusive"}),
        (shared(4), {"mode": "TimeSlice", "timeSlice": {"maxSlicesPerDevice": 4}}),
        (shared(1), {"mode": "Exclusive"}),
        (shared(10, "mps"), {"mode": "MPS", "mps": {"clients": 10, "memory": "Equal", "threads": "Equal"}}),
    ],
)
def test_a_configuration_of_the_device_plugin_is_a_mode(text: str, allocation: dict[str, Any]) -> None:
    found = sharing(text)
    assert (found.allocation, found.refused) == (allocation, "")


@pytest.mark.parametrize(
    "text", [shared(65), shared(49, "mps"), "[", "- 1", "sharing: {timeSlicing: {resources: [{}]}}"]
)
def test_what_no_pool_can_do_is_refused(text: str) -> None:
    assert sharing(text).refused


def test_the_resource_follows_the_configuration() -> None:
    assert sharing(shared(4, renameByDefault=True)).resource == "nvidia.com/gpu.shared"
    assert sharing(shared(4)).resource == "nvidia.com/gpu"


def test_shares_of_instances_and_of_some_cards_are_remarks() -> None:
    resources = [
        {"name": "nvidia.com/mig-1g.5gb", "replicas": 2},
        {"name": "nvidia.com/gpu", "replicas": 4, "devices": [0]},
    ]
    text = yaml.safe_dump({"sharing": {"mps": {"resources": resources}, "timeSlicing": {"resources": resources}}})
    assert [key for key, _ in sharing(text).remarks] == [
        "mps", "mps.resources.nvidia.com/mig-1g.5gb", "mps.resources.nvidia.com/gpu",
    ]  # fmt: skip
    assert sharing("resources: {gpus: []}\nimex: {}\n") == Sharing(remarks=(
        ("imex", "nothing in the module does this"),
        ("resources", "names of resources are those of pools: gpu.deckhouse.io/<pool>"),
    ))  # fmt: skip


def test_a_configuration_that_is_not_there_is_refused_and_makes_no_pool_of_whole_cards() -> None:
    config = {"devicePlugin": {"config": {"name": "shares", "default": "t4"}}}
    maps = config_map("shares", a10=shared(4))
    nodes = (node("n1", {PLUGIN: "a10"}), node("n2", {PLUGIN: "gone"}))
    made = of(policy(driver={"enabled": False}, **config), maps, *nodes)
    refused = remarks(made, "Refused")
    assert "has no configuration t4. No pool" in refused["devicePlugin.config.default"]
    assert "has no configuration gone. No pool" in refused["devicePlugin.config.gone"]
    assert [*kinds(made, "GPUPool")] == ["a10"]

    config["devicePlugin"]["config"]["default"] = ""
    whole = kinds(of(policy(driver={"enabled": False}, **config), maps, *nodes), "GPUPool")["gpu"]
    others = [{"key": PLUGIN, "operator": "NotIn", "values": ["a10", "gone"]}]
    assert whole["nodeSelector"]["matchExpressions"] == others


def test_each_configuration_has_the_nodes_with_its_label_and_the_default_all_others() -> None:
    config = {"devicePlugin": {"config": {"name": "shares", "default": "t4"}}}
    made = pools(config, config_map("shares", t4=shared(4), **{"A100-40GB": shared(8), "whole": "version: v1\n"}))
    assert {name: spec["allocation"]["mode"] for name, spec in made.items()} == {
        "gpu": "TimeSlice", "a100-40gb": "TimeSlice", "whole": "Exclusive",
    }  # fmt: skip
    others = [{"key": PLUGIN, "operator": "NotIn", "values": ["A100-40GB", "whole"]}]
    assert made["gpu"]["nodeSelector"] == {"matchExpressions": others}
    own = [{"key": PLUGIN, "operator": "In", "values": ["A100-40GB"]}]
    assert made["a100-40gb"]["nodeSelector"] == {"matchExpressions": own}


def test_where_nodes_are_known_only_what_they_carry_is_a_pool() -> None:
    config = {"devicePlugin": {"config": {"name": "shares", "default": "t4"}}}
    shares = config_map("shares", t4=shared(4), a100=shared(8), idle=shared(2))
    made = pools(config, shares, node("n1", {PLUGIN: "a100"}), node("n2", {}))
    assert {*made} == {"gpu", "a100"}


@pytest.mark.parametrize(
    ("entries", "expected"),
    [
        ([entry({"1g.10gb": 7})], {"custom": {"mode": "MIG", "migProfile": "1g.10gb"}}),
        ([entry({"1g.10gb.me": 1})], {"custom": {"mode": "MIG", "migProfile": "1g.10gb+me"}}),
        ([entry({"1g.10gb": 5})],
         {"custom": {"mode": "MIG", "migLayout": [{"profile": "1g.10gb", "count": 5}]}}),
        ([entry({"1g.10gb": 5, "2g.20gb": 1, "3g.40gb": 0})],
         {"custom": {"mode": "MIG",
                     "migLayout": [{"profile": "1g.10gb", "count": 5}, {"profile": "2g.20gb", "count": 1}]}}),
        ([entry(devices=[0]), entry({"3g.40gb": 2}, devices=[1, 2])],
         {"custom-whole": {"mode": "Exclusive"}, "custom-3g-40gb": {"mode": "MIG", "migProfile": "3g.40gb"}}),
        ([entry({"1c.3g.20gb": 2})], {}),
        ([entry({})], {}),
    ],
)  # fmt: skip
def test_a_configuration_of_mig_parted_is_pools(entries: list[Any], expected: dict[str, Any]) -> None:
    config = {"migManager": {"config": {"name": "parted", "default": "all-disabled"}}}
    whole = parted(custom=entries, **{"all-disabled": [entry()]})
    made = pools(config, config_map("parted", **{"config.yaml": whole}))
    assert {name: spec["allocation"] for name, spec in made.items() if name != "gpu"} == expected
    others = [{"key": MIG, "operator": "NotIn", "values": ["custom"]}]
    assert made["gpu"]["nodeSelector"]["matchExpressions"] == others


def test_cards_are_chosen_by_model_and_by_place() -> None:
    one = entry({"1g.10gb": 7}, **{"device-filter": ["0x233010DE", "0x20B210de"], "devices": [0, 3]})
    config = {"migManager": {"config": {"name": "parted"}}}
    made = pools(config, config_map("parted", **{"config.yaml": parted(custom=[one])}))
    include = {"pciIDs": ["10de:20b2", "10de:2330"], "indexes": ["0", "3"]}
    assert made["custom"]["deviceSelector"] == {"include": include}


def test_models_that_come_to_the_same_are_one_pool() -> None:
    entries = [
        entry({"1g.10gb": 7}, **{"device-filter": ["0x233010DE"]}),
        entry({"1g.10gb": 4}, **{"device-filter": ["0x20B010DE"]}),
    ]
    made = pools({"migManager": {"config": {"name": "parted"}}},
                 config_map("parted", **{"config.yaml": parted(all=entries)}))  # fmt: skip
    assert made["all"]["deviceSelector"] == {"include": {"pciIDs": ["10de:20b0", "10de:2330"]}}
    assert made["all"]["allocation"] == {"mode": "MIG", "migProfile": "1g.10gb"}


def test_nvidias_own_configuration_is_read_for_the_nodes_that_carry_its_names() -> None:
    configs = {
        name: [entry(one["instances"], **{"device-filter": [f"0x{pci.upper()}10DE" for pci in one.get("devices", ())]})
               for one in entries]
        for name, entries in facts.read(DEFAULT)["layouts"].items()
        if all("instances" in one for one in entries)
    }  # fmt: skip
    built_in = config_map("default-mig-parted-config", **{"config.yaml": parted(**configs)})
    made = of(policy(driver={"enabled": False}), built_in, node("n1", {MIG: "all-1g.10gb"}),
              node("n2", {MIG: "all-balanced"}), node("n3", {MIG: "all-disabled"}))  # fmt: skip
    specs = kinds(made, "GPUPool")
    assert specs["all-1g-10gb"]["allocation"] == {"mode": "MIG", "migProfile": "1g.10gb"}
    balanced = [name for name in specs if name.startswith("all-balanced")]
    assert len(balanced) == len({str(specs[name]["allocation"]) for name in balanced}) > 1
    assert {*specs} == {"gpu", "all-1g-10gb", *balanced}
    assert all(len(name) <= 40 and "." not in name for name in specs)


def test_every_layout_of_nvidias_fills_a_card_or_is_a_mixed_one() -> None:
    for name, entries in facts.read(DEFAULT)["layouts"].items():
        found = read_parted(parted(**{name: [entry(one.get("instances") or {}) for one in entries]})).layouts
        assert [each.name for each in found] == [name] * len(entries)
        assert all(refusal(each) or {"migProfile", "migLayout"} & {*allocation(each)} for each in found)


def test_pods_ask_for_other_resources_and_who_must_choose_is_told() -> None:
    config = {"migManager": {"config": {"name": "parted"}}, "mig": {"strategy": "mixed"}}
    whole = parted(small=[entry({"1g.10gb": 7})], mixed=[entry({"1g.10gb": 2, "3g.40gb": 1})])
    made = of(policy(driver={"enabled": False}, **config), config_map("parted", **{"config.yaml": whole}))
    assert made.resources == [
        ("nvidia.com/gpu", "gpu.deckhouse.io/gpu"),
        ("nvidia.com/mig-1g.10gb", "gpu.deckhouse.io/mixed.1g.10gb"),
        ("nvidia.com/mig-3g.40gb", "gpu.deckhouse.io/mixed.3g.40gb"),
        ("nvidia.com/mig-1g.10gb", "gpu.deckhouse.io/small"),
    ]
    assert "gpu.deckhouse.io/small" in remarks(made, "ToDo")["nvidia.com/mig-1g.10gb"]


@pytest.mark.parametrize(
    ("spec", "kind", "path"),
    [
        ({"devicePlugin": {"config": {"name": "gone"}}}, "ToDo", "devicePlugin.config.name"),
        ({"devicePlugin": {"enabled": False}}, "ToDo", "devicePlugin.enabled"),
        ({"migManager": {"config": {"name": "gone"}}}, "ToDo", "migManager.config.name"),
        ({"migManager": {"config": {"name": "bad"}}}, "Refused", "migManager.config.name"),
        ({"migManager": {"config": {"name": "parted", "default": "x"}}}, "ToDo", "migManager.config.default"),
        ({"migManager": {"config": {"name": "parted", "default": "none"}}}, "Refused", "migManager.config.name"),
    ],
)
def test_what_cannot_be_made_has_a_remark(spec: dict[str, Any], kind: str, path: str) -> None:
    maps = (config_map("bad", **{"config.yaml": "mig-configs: 3"}),
            config_map("parted", **{"config.yaml": parted(x=[entry({"1g.10gb": 7})])}))  # fmt: skip
    assert path in remarks(of(policy(driver={"enabled": False}, **spec), *maps), kind)


@pytest.mark.parametrize("text", ["", "3", "{", "mig-configs: 3"])
def test_no_configuration_of_mig_parted_is_said_to_be_none(text: str) -> None:
    said = remarks(with_parted(text), "Refused")["migManager.config.name"]
    assert "it is no configuration of mig-parted's" in said


@pytest.mark.parametrize(
    "bad",
    [
        3,
        {"devices": "all"},
        entry({"1g.10gb": 7}, **{"device-filter": "x"}),
        entry({"1g.10gb": 7}, devices=3),
        entry({"1c.3g.20gb": 2}),
        {"devices": "all", "mig-enabled": True, "mig-devices": [1]},
    ],
)
def test_an_entry_that_cannot_be_read_keeps_no_other_back(bad: Any) -> None:
    made = with_parted(parted(a=[bad], b=[entry({"1g.10gb": 7})]))
    assert "mig-configs.a[0]" in remarks(made, "Refused")["migManager.config.a"]
    assert {*kinds(made, "GPUPool")} == {"gpu", "b"}


def test_what_nobody_knows_in_it_is_named() -> None:
    made = with_parted(parted(b=[entry({"1g.10gb": 7}, hooks=[])]))
    assert "mig-configs.b[0].hooks: not known" in remarks(made, "Unknown")["migManager.config.name"]
    assert "b" in kinds(made, "GPUPool")


def with_parted(text: str) -> Imported:
    """The import of a ClusterPolicy whose ConfigMap has this configuration of mig-parted's."""
    config = {"migManager": {"config": {"name": "parted"}}}
    return of(policy(driver={"enabled": False}, **config), config_map("parted", **{"config.yaml": text}))
