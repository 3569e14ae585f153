"""Configurations of nvidia-mig-parted become layouts; what cannot be read is named."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from controllers.domain.mig import CardLayout, Division, MigCard, divide, document, plan, read_parted
from controllers.domain.mig.parted_config import PartedLayout
from tests.data import facts


def spec(*entries: object, name: str = "x", **more: object) -> str:
    return yaml.safe_dump({"version": "v1", "mig-configs": {name: list(entries)}} | more)


def test_entries_of_a_configuration_stay_together():
    told = spec(
        {"devices": [0, 1], "mig-enabled": False},
        {"devices": [2], "mig-enabled": True, "mig-devices": {"1g.10gb": 2, "3g.40gb": 1}},
        {"devices": "all", "device-filter": ["0x20B210DE", "0x233010DE"], "mig-enabled": True, "mig-devices": {}},
        name="custom",
    )

    found = read_parted(told)

    assert found.problems == ()
    assert found.layouts == (
        PartedLayout("custom", (0, 1), (), False),
        PartedLayout("custom", (2,), (), True, {"1g.10gb": 2, "3g.40gb": 1}),
        PartedLayout("custom", "all", ("10de:20b2", "10de:2330"), True),
    )
    assert [each.division for each in found.layouts] == [
        None,
        Division(instances=(("1g.10gb", 2), ("3g.40gb", 1))),
        None,
    ]


def test_one_filter_may_be_a_text_or_a_number_and_profiles_are_spelled_in_any_way():
    entry = {"devices": "all", "device-filter": "0x2330_10DE", "mig-enabled": True, "mig-devices": {"1g.10gb.me": 1}}
    (one,) = read_parted(spec(entry)).layouts
    (two,) = read_parted(spec(entry | {"device-filter": 0x233010DE})).layouts

    assert one.device_filter == two.device_filter == ("10de:2330",)
    assert one.profiles == {"1g.10gb+me": 1}


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("{", "no YAML"),
        ("- 1", "no mig-configs"),
        ("x" * ((1 << 20) + 1), "a ConfigMap holds"),
        (yaml.safe_dump({"version": "v2", "mig-configs": {}}), "version is 'v2'"),
        (spec("nonsense"), "mig-configs.x[0]: a mapping is expected"),
        (spec({"devices": "some", "mig-enabled": True}), "devices is 'some'"),
        (spec({"devices": [-1], "mig-enabled": True}), "devices is [-1]"),
        (spec({"devices": "all"}), "mig-enabled is None"),
        (spec({"devices": "all", "mig-enabled": True, "mig-devices": ["1g"]}), "mig-devices is ['1g']"),
        (
            spec({"devices": "all", "mig-enabled": True, "mig-devices": {"1c.3g.20gb": 1}}),
            "'1c.3g.20gb' is no MIG profile",
        ),
        (spec({"devices": "all", "mig-enabled": True, "mig-devices": {"1g.10gb": True}}), "1g.10gb is True"),
        (spec({"devices": "all", "mig-enabled": True, "device-filter": "A100"}), "device-filter is 'A100'"),
        (spec({"devices": "all", "mig-enabled": True, "device-filter": 1 << 40}), "four digits each"),
    ],
)
def test_what_cannot_be_read_is_named_and_left_out(text, said):
    found = read_parted(text)
    assert found.layouts == ()
    assert any(said in str(problem) for problem in found.problems), found.problems
    # An entry lacks in its configuration; else the file is no configuration, or says nothing.
    assert {each.left_out for each in found.problems} == ({"x"} if "mig-configs:\n  x:" in text else {""})
    assert found.is_readable == ("mig-configs:" in text)


def test_an_unknown_key_is_named_and_the_rest_is_read():
    found = read_parted(spec({"devices": "all", "mig-enabled": False, "hooks": {}}, other=1))
    assert len(found.layouts) == 1
    assert [*map(str, found.problems)] == ["other: not known", "mig-configs.x[0].hooks: not known"]
    assert {each.left_out for each in found.problems} == {""}


def test_the_layouts_that_nvidia_ships_are_read_and_fit_a_card():
    """Facts of mig-parted's own configuration: each of its layouts has a card of the catalogue that takes it."""
    shipped = facts.read("profiles/mig-parted-config-default.yaml")["layouts"]
    assert shipped
    for name, entries in shipped.items():
        for entry in entries if isinstance(entries, list) else [entries]:
            counts = entry.get("instances", entry)
            if not isinstance(counts, dict) or not counts:
                continue
            told = spec({"devices": "all", "mig-enabled": True, "mig-devices": counts}, name=name)
            (one,) = read_parted(told).layouts
            assert one.profiles == counts


@given(st.dictionaries(st.sampled_from(["1g.10gb", "1g.10gb+me", "2g.20gb", "3g.40gb"]), st.integers(1, 2), min_size=1))
def test_what_we_write_for_a_mixed_layout_is_read_back(counts):
    division = Division(instances=tuple(sorted(counts.items())))
    card = MigCard("0000:19:00.0", "10de", "2330", uuid="GPU-1", division=division)
    made = document(plan([card]))
    if not isinstance(divide(card, division), CardLayout):
        assert made is None
        return
    (one,) = read_parted(yaml.safe_dump(made)).layouts
    assert (one.devices, one.device_filter, one.division) == ((0,), ("10de:2330",), division)


def test_aliases_which_make_much_of_few_words_are_not_read():
    """Six levels of eight make two megabytes of a message out of 300 characters."""
    levels = "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 8)}]\n" for n in range(1, 6))
    found = read_parted(f"a0: &a0 [x]\n{levels}mig-configs: {{all: *a5}}\n")
    assert not found.is_readable
    (problem,) = found.problems
    assert "YAML aliases" in str(problem)
    assert len(str(problem)) < 200
