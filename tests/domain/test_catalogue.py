"""The card catalogue: what it answers, how profiles are spelled, and that a slip in a file is told."""

from __future__ import annotations

import copy
import re
import tomllib
from collections.abc import Callable
from typing import Any

import pytest

from controllers.domain import catalogue
from controllers.domain.catalogue import VENDORS, canonical_profile, geometry, is_card, model, reading, vendor_id
from controllers.domain.catalogue.lookup import GEOMETRIES, HERE, MODELS
from controllers.domain.precision import CAPABILITIES

NVIDIA = VENDORS["10de"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [("nvidia", "10de"), ("NVIDIA", "10de"), ("10DE", "10de"), (" amd ", "1002"), ("Intel", "8086"), ("", None)]
    + [(strange, None) for strange in ("102b", "nvidia corporation", "0x10de")],
)
def test_a_vendor_is_known_by_name_or_id(text: str, expected: str | None) -> None:
    assert vendor_id(text) == expected


@pytest.mark.parametrize(
    ("vendor", "device", "class4", "expected"),
    [
        ("10de", "2330", "0302", True),
        ("10DE", "1C30", "0300", True),
        ("10de", "22a3", "0680", False),  # NVSwitch
        ("10de", "228b", "0403", False),  # the audio function of a card
        ("10de", "ffff", "0302", True),  # a model that we do not know is a card all the same
        ("1002", "74a1", "1200", True),
        ("1002", "740f", "0380", True),
        ("1002", "164e", "0300", False),  # Raphael: the display of a processor
        ("1002", "1638", "0300", False),  # Cezanne
        ("1002", "15bf", "0300", False),  # Phoenix
        ("8086", "56c0", "0380", True),
        ("8086", "0bd5", "0380", True),
        ("8086", "3e96", "0300", False),  # UHD Graphics P630 of a Xeon E
        ("8086", "3e96", "0380", False),  # the same, where the management controller is the first display
        ("102b", "0536", "0300", False),  # Matrox in a management controller
        ("1af4", "1050", "0300", False),  # virtio
    ],
)
def test_cards_are_told_from_what_looks_like_one(vendor: str, device: str, class4: str, expected: bool) -> None:
    assert is_card(vendor, device, class4) is expected


def test_a_model_is_found_in_any_case_and_nothing_is_guessed() -> None:
    found = model("10DE", "2330")

    assert found is not None
    assert found.product == "NVIDIA H100 80GB HBM3"
    assert (found.memory_mib, found.compute, found.geometry) == (81920, (9, 0), "gh100-80gb")
    assert found.mig_needs_reset is False
    assert "mig-parted" in found.source
    assert model("10de", "ffff") is None
    assert model("102b", "0536") is None
    assert geometry("gh100-80") is None


def test_a_device_id_of_several_products_names_them_all_and_says_what_they_share() -> None:
    both = model("10de", "25b6")
    assert both is not None
    assert both.product == "NVIDIA A16 or NVIDIA A2"
    assert both.memory_mib == 16384
    quadro = model("10de", "1e30")
    assert quadro is not None
    assert quadro.memory_mib is None, "24 or 48 GB: no guess"

    def product(device: str, subsystem: str) -> str:
        found = model("10de", device, subsystem)
        return found.product if found else ""

    assert product("25b6", "10de:157E") == "NVIDIA A2"
    assert product("25b6", "10de:14a9") == "NVIDIA A16"
    assert product("25b6", "10de:ffff") == "NVIDIA A16 or NVIDIA A2", "neither: no guess"
    assert product("1db8", "10de:131d") == "Tesla V100-SXM3-32GB-H"
    assert product("1db8", "10de:1234") == "Tesla V100-SXM3-32GB", "the row for all other subsystems"


@pytest.mark.parametrize(("device", "needs"), [("20b0", True), ("20b7", True), ("2330", False), ("2941", False)])
def test_only_ampere_resets_to_enter_mig_mode(device: str, needs: bool) -> None:
    found = model("10de", device)
    assert found is not None
    assert found.mig_needs_reset is needs


def test_a_card_without_mig_has_neither_geometry_nor_an_opinion_on_resets() -> None:
    for device in ("1eb8", "26b9", "2236"):
        found = model("10de", device)
        assert found is not None
        assert (found.geometry, found.mig_needs_reset) == (None, None)


def test_every_compute_capability_is_one_whose_number_formats_we_know() -> None:
    assert {found.compute for found in MODELS.values() if found.compute} <= set(CAPABILITIES)
    assert all(found.compute for found in MODELS.values() if found.vendor == NVIDIA.id)


def test_every_geometry_is_some_card_s() -> None:
    assert {found.geometry for found in MODELS.values()} - {None} == set(GEOMETRIES)


def test_everything_has_a_source() -> None:
    assert all(model.source for model in MODELS.values())
    assert all(geometry.source for geometry in GEOMETRIES.values())


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1g.5gb", "1g.5gb"),
        ("1g.5gb+me", "1g.5gb+me"),
        ("1g.10gb.me", "1g.10gb+me"),
        (" 1G.10GB+ME ", "1g.10gb+me"),
        ("1g.24gb+gfx", "1g.24gb+gfx"),
        ("1g.24gb.gfx", "1g.24gb+gfx"),
        ("1g.24gb+me.all", "1g.24gb+me.all"),
        ("1g.24gb.me.all", "1g.24gb+me.all"),
        ("1g.24gb-me", "1g.24gb-me"),
        ("7g.186gb", "7g.186gb"),
        ("all-2g.20gb", "2g.20gb"),
        ("all-1g.5gb.me", "1g.5gb+me"),
        ("all-1g.24gb-me", "1g.24gb-me"),
    ]
    + [(strange, None) for strange in ("", "1g", "0g.5gb", "1g.5gb+", "1g.5gb+xyz", "1g.5gb-gfx", "1g.24gb-me.all")]
    + [(strange, None) for strange in ("1c.3g.20gb", "all-balanced", "1g.5gb,1g.5gb", "mig-1g.5gb", "1g.5gb+me+me")],
)
def test_profiles_are_spelled_in_one_way(text: str, expected: str | None) -> None:
    assert canonical_profile(text) == expected


def test_the_geometries_use_that_spelling() -> None:
    for found in GEOMETRIES.values():
        assert [canonical_profile(name) for name in found.profiles] == list(found.profiles)
        assert all(profile.name == name for name, profile in found.profiles.items())


def test_a_wheel_carries_the_data() -> None:
    packed = tomllib.loads((HERE.parents[2] / "pyproject.toml").read_text())["tool"]["setuptools"]["package-data"]

    assert packed[catalogue.__name__] == ["*.toml"]
    assert {path.stem for path in HERE.glob("*.toml")} == {"drivers", "images", "mig", "vendors"} | {
        v.name for v in VENDORS.values()
    }


def tables(name: str) -> dict[str, Any]:
    return tomllib.loads((HERE / f"{name}.toml").read_text())


def read_models(raw: dict[str, Any]) -> object:
    return reading.models("nvidia.toml", raw, NVIDIA, GEOMETRIES)


def family(raw: dict[str, Any], chip: str = "GA100") -> dict[str, Any]:
    found: dict[str, Any] = next(entry for entry in raw["families"] if entry["chip"] == chip)
    return found


def setting(*path: str, **values: Any) -> Callable[[dict[str, Any]], None]:
    """A change of the table at that path."""

    def change(raw: dict[str, Any]) -> None:
        for key in path:
            raw = raw[key]
        raw.update(values)

    return change


VENDOR_SLIPS = {
    "an id in upper case": (setting("amd", id="1002A"), "amd: id: '1002A'"),
    "one id for two": (setting("intel", id="1002"), "intel: id 1002 is amd's too"),
    "a class of six digits": (setting("nvidia", classes=["030200"]), "nvidia: classes: '030200'"),
    "no class": (setting("nvidia", classes=[]), "nvidia: a vendor needs classes"),
    "a device twice": (setting("amd", integrated=["164e", "164e"]), "amd: integrated: 164e is there twice"),
    "a misspelt key": (setting("amd", module="amdgpu"), "amd: unknown key module"),
    "modules missing": (lambda raw: raw["intel"].pop("modules"), "intel: modules is missing"),
    "a word for a list": (setting("amd", modules="amdgpu"), "amd: modules: expected list, found 'amdgpu'"),
}


@pytest.mark.parametrize(("change", "told"), VENDOR_SLIPS.values(), ids=VENDOR_SLIPS)
def test_a_slip_in_the_vendors_is_told(change: Callable[[dict[str, Any]], None], told: str) -> None:
    raw = tables("vendors")
    reading.vendors("vendors.toml", copy.deepcopy(raw))
    change(raw)
    with pytest.raises(ValueError, match=re.escape(f"vendors.toml: {told}")):
        reading.vendors("vendors.toml", raw)


A100, THIRDS = "ga100-40gb", ("ga100-40gb", "profiles", "3g.20gb")
MIG_SLIPS = {
    "a placement outside": (setting(*THIRDS, starts=[0, 5]), f"{A100}: 3g.20gb: does not lie inside 7 compute"),
    "more compute than there is": (setting(A100, compute_slices=6), f"{A100}: 1g.5gb: instances is 7, but 6 fit"),
    "too many instances": (setting(*THIRDS, instances=3), f"{A100}: 3g.20gb: instances is 3, but 2 fit"),
    "too few instances": (setting(*THIRDS, instances=1), f"{A100}: 3g.20gb: instances is 1, but 2 fit"),
    "starts too close": (setting(*THIRDS, starts=[0, 3]), f"{A100}: 3g.20gb: instances is 2, but 1 fit"),
    "a start twice": (setting(*THIRDS, starts=[0, 0]), f"{A100}: 3g.20gb: starts: 0 is there twice"),
    "starts out of order": (setting(*THIRDS, starts=[4, 0]), f"{A100}: 3g.20gb: starts: [4, 0] does not rise"),
    "no start": (setting(*THIRDS, starts=[]), f"{A100}: 3g.20gb: starts: []"),
    "a start below zero": (setting(*THIRDS, starts=[-4, 0]), f"{A100}: 3g.20gb: starts: [-4, 0]"),
    "two sets of media": (setting(A100, "profiles", "2g.10gb", media=True), "2g.10gb: instances is 3, but 1 fit"),
    "a name that says otherwise": (setting(*THIRDS, compute=2), f"{A100}: 3g.20gb: the name says 3 compute slices"),
    "true for a number": (setting(*THIRDS, memory=True), f"{A100}: 3g.20gb: memory: expected int, found True"),
    "nothing": (setting(*THIRDS, mib=0), f"{A100}: 3g.20gb: mib: 0 is not a number from 1 on"),
    "a misspelt key": (setting(*THIRDS, start=[0]), f"{A100}: 3g.20gb: unknown key start"),
    "no profile's name": (setting(A100, profiles={"3g.20gb.me": {}}), f"{A100}: 3g.20gb.me: no profile's name"),
    "no profiles": (setting(A100, profiles={}), f"{A100}: a geometry needs profiles"),
    "no source": (setting(A100, source=""), f"{A100}: source: ''"),
}


@pytest.mark.parametrize(("change", "told"), MIG_SLIPS.values(), ids=MIG_SLIPS)
def test_a_slip_in_a_geometry_is_told(change: Callable[[dict[str, Any]], None], told: str) -> None:
    raw = tables("mig")
    reading.geometries("mig.toml", copy.deepcopy(raw))
    change(raw)
    with pytest.raises(ValueError, match=r"^mig\.toml: .*" + re.escape(told)):
        reading.geometries("mig.toml", raw)


def card_changed(**values: Any) -> Callable[[dict[str, Any]], None]:
    return lambda raw: family(raw)["cards"][0].update(values)


CARD_SLIPS = {
    "an id with a prefix": (card_changed(id="0x20B0"), "GA100: 0x20B0: id: '0x20B0'"),
    "an id in upper case": (card_changed(id="20B0"), "GA100: 20B0: id: '20B0'"),
    "an id twice": (card_changed(id="20b1"), "GA100: device 20b1 is there twice"),
    "an id in two families": (card_changed(id="2330"), "GH100: device 2330 is there twice"),
    "a subsystem without its vendor": (card_changed(subsystem=["134f"]), "GA100: 20b0: subsystem: '134f'"),
    "no product": (card_changed(product=""), "GA100: 20b0: product: ''"),
    "no such geometry": (card_changed(geometry="ga100-41gb"), "GA100: 20b0: geometry 'ga100-41gb' is not"),
    "no such source": (card_changed(source=["hearsay"]), "GA100: 20b0: source hearsay is not in [sources]"),
    "a size as a text": (card_changed(gib="40"), "GA100: 20b0: gib: expected int, found '40'"),
    "a misspelt key": (card_changed(memory=40), "GA100: 20b0: unknown key memory"),
    "a capability that is none": (lambda raw: family(raw).update(compute="8"), "GA100: compute: '8'"),
    "nobody says about resets": (lambda raw: family(raw).pop("mig_needs_reset"), "GA100: 20b0: has a geometry, but"),
    "no source at all": (lambda raw: family(raw).pop("source"), "GA100: source is missing"),
    "a source of nothing": (lambda raw: raw["sources"].update(hearsay="a friend"), "sources: hearsay is named by no"),
}


@pytest.mark.parametrize(("change", "told"), CARD_SLIPS.values(), ids=CARD_SLIPS)
def test_a_slip_in_a_card_is_told(change: Callable[[dict[str, Any]], None], told: str) -> None:
    raw = tables("nvidia")
    read_models(copy.deepcopy(raw))
    change(raw)
    with pytest.raises(ValueError, match=re.escape(f"nvidia.toml: {told}")):
        read_models(raw)


def test_a_display_of_a_processor_is_no_card_of_the_catalogue() -> None:
    raw = tables("amd")
    raw["families"][0]["cards"][0]["id"] = "164e"

    with pytest.raises(ValueError, match="device 164e is amd's integrated display"):
        reading.models("amd.toml", raw, VENDORS["1002"], GEOMETRIES)
