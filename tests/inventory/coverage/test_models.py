"""Models that the catalogue does not know: the entry offered for them is one that the catalogue reads."""

from __future__ import annotations

import tomllib
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from controllers.domain.catalogue import VENDORS, reading
from controllers.domain.catalogue.lookup import GEOMETRIES
from controllers.domain.catalogue.model import Model
from controllers.inventory.coverage.comparison.compare import compare
from controllers.inventory.coverage.comparison.records import ClusterState
from controllers.inventory.coverage.comparison.result import ModelResult
from tests.inventory.coverage.world import (
    NODE,
    agent_report,
    also,
    as_report,
    good,
    labels_of,
    nfd_object,
    node,
    our_rule,
)
from tests.kit.reports import reported

ROOT = Path(__file__).resolve().parents[3]
NEW = {"device": "2fff", "product": 'NVIDIA "X" \\ 900', "memory_mib": "183359", "compute_major": "13",
       "compute_minor": "1", "mig_profiles": "1g.23gb,1g.23gb+me,2g.45gb,7g.180gb"}  # fmt: skip


def with_cards(*found: dict[str, str], name: str = NODE) -> ClusterState:
    """A good node with these cards."""
    elements = [{key: one[key] for key in ("vendor", "device", "class")} for one in found]
    said = agent_report(name, list(found))
    seen = good(name, said)
    given = {key: value for key, value in seen.nodes[0].metadata.labels.items() if ".device." not in key}
    given = {k: v for k, v in given.items() if not k.startswith("gpu.deckhouse.io/device.")} | labels_of(elements)
    return replace(seen, nodes=(node(name, given=given),), reports=(as_report(nfd_object(name, elements)), said))


def the_model(seen: ClusterState) -> ModelResult:
    (found,) = compare(seen).models
    return found


def pasted(file: str, entry: str) -> dict[Any, Model]:
    """The models of a file of the catalogue with the entry at its end."""
    (vendor,) = [one for one in VENDORS.values() if file.endswith(f"/{one.name}.toml")]
    tables = tomllib.loads(f"{(ROOT / file).read_text()}\n{entry}\n")
    return dict(reading.models(file, tables, vendor, GEOMETRIES))


def test_known_models_are_not_mentioned() -> None:
    assert compare(with_cards(reported(0), reported(1))).models == ()


def test_an_unknown_model_comes_with_an_entry_that_the_catalogue_reads() -> None:
    seen = also(with_cards(reported(0, **NEW), reported(1, **NEW)), with_cards(reported(0, **NEW), name="gpu-02"))
    result = compare(seen)
    found = the_model(seen)

    assert result.ok
    assert not compare(seen, strict=True).ok
    assert (found.problem, found.vendor, found.device, found.count) == ("Unknown", "10de", "2fff", 3)
    assert found.nodes == (NODE, "gpu-02")
    assert found.products == ('NVIDIA "X" \\ 900',)
    assert (found.memory_mib, found.compute) == ((183359,), ("13.1",))
    assert found.mig_profiles == ("1g.23gb", "1g.23gb+me", "2g.45gb", "7g.180gb")
    assert found.file == "controllers/domain/catalogue/nvidia.toml"
    model = pasted(found.file, found.entry)["10de", "2fff", ""]
    assert (model.product, model.memory_mib, model.compute) == ('NVIDIA "X" \\ 900', 180 * 1024, (13, 1))
    assert "2g.45gb" in found.entry
    assert "mig_needs_reset" in found.entry
    assert all(len(line) <= 80 for line in found.entry.splitlines() if not line.startswith("  {"))


def test_without_a_driver_the_entry_says_what_is_to_be_filled_in() -> None:
    bare = reported(0, device="2fff", product="", memory_mib="", uuid="", compute_major="", compute_minor="",
                mig_capable="", mig_mode="", mig_profiles="")  # fmt: skip
    seen = with_cards(bare)
    found = the_model(replace(seen, reports=(seen.reports[0], agent_report(found=[bare], driver=""))))

    assert found.products == ()
    assert "MIG" not in found.entry
    model = pasted(found.file, found.entry)["10de", "2fff", ""]
    assert (model.product, model.memory_mib, model.compute) == ("FILL IN", None, None)


def test_without_an_agent_the_models_that_nfd_sees_are_judged() -> None:
    elements = [{"vendor": "1002", "device": "74ff", "class": "1200"}] * 2
    given = labels_of(elements, driver=False)
    seen = ClusterState(nodes=(node(given=given),), reports=(as_report(nfd_object(NODE, elements)),), rule=our_rule())
    found = the_model(seen)

    assert (found.problem, found.vendor, found.device, found.count) == ("Unknown", "1002", "74ff", 2)
    assert ("1002", "74ff", "") in pasted(found.file, found.entry)


def test_a_vendor_that_nobody_knows_comes_with_an_entry_for_the_vendors() -> None:
    strange = reported(0, vendor="1d94", device="62b7", driver="hycu", product="BW100")
    found = the_model(with_cards(reported(1), strange))

    assert found.file == "controllers/domain/catalogue/vendors.toml"
    vendors = reading.vendors("vendors.toml", tomllib.loads(f"{(ROOT / found.file).read_text()}\n{found.entry}\n"))
    assert vendors["1d94"].modules == ("hycu",)
    assert vendors["1d94"].classes == ("0302",)


@pytest.mark.parametrize(
    ("change", "difference"),
    [
        ({"product": "NVIDIA A100"}, "product NVIDIA A100; the catalogue says NVIDIA H100 80GB HBM3"),
        ({"compute_major": "8"}, "compute capability 8.0; the catalogue says 9.0"),
        ({"memory_mib": "40960"}, "memory 40960 MiB; the catalogue says 81920 MiB, nominal"),
        ({"memory_mib": "81921"}, "memory 81921 MiB; the catalogue says 81920 MiB, nominal"),
    ],
)
def test_a_card_that_contradicts_the_catalogue(change: dict[str, str], difference: str) -> None:
    found = the_model(with_cards(reported(0, **change)))

    assert (found.problem, found.differences, found.entry) == ("Contradicts", (difference,), "")


@pytest.mark.parametrize("product", ["H100 80GB HBM3", "nvidia h100 80gb hbm3"])
def test_an_older_drivers_spelling_is_no_contradiction(product: str) -> None:
    assert compare(with_cards(reported(0, product=product))).models == ()


@pytest.mark.parametrize(
    ("subsystem", "product", "problems"),
    [("157e", "NVIDIA A2", []), ("157e", "NVIDIA A16", ["Contradicts"]), ("", "NVIDIA A16", []), ("", "NVIDIA A2", [])],
)
def test_of_several_products_the_subsystem_tells_which(subsystem: str, product: str, problems: list[str]) -> None:
    one = reported(0, device="25b6", product=product, memory_mib="15356", compute_major="8", compute_minor="6",
               mig_capable="false", mig_mode="", mig_profiles="",
               subsystem_vendor="0x10de" if subsystem else "", subsystem_device=subsystem)  # fmt: skip

    assert [found.problem for found in compare(with_cards(one)).models] == problems


def test_profiles_without_a_placement_are_told() -> None:
    without = reported(0, device="20b3", product="NVIDIA A100-SXM-64GB", memory_mib="65536", compute_major="8")
    found = the_model(with_cards(without))
    assert (found.problem, found.entry) == ("Incomplete", "")
    assert "1g.10gb, 7g.80gb" in found.differences[0]

    new = the_model(with_cards(reported(0, mig_profiles="1g.10gb,9g.99gb")))
    assert (new.problem, "9g.99gb" in new.differences[0]) == ("Incomplete", True)
