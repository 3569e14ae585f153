"""The CRD's pattern of a MIG profile and the catalogue's parser know the same spellings."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import yaml
from hypothesis import example, given
from hypothesis import strategies as st
from pydantic import ValidationError

from controllers.api.gpupool import MIG_PROFILE, AllocationSpec
from controllers.api.record import adapter
from controllers.domain.catalogue import canonical_profile
from controllers.domain.catalogue.lookup import GEOMETRIES

CRD = Path(__file__).resolve().parents[2] / "crds" / "gpupool.yaml"
PARTS = ("all-", "mig-", "1", "0", "7", "c.", "g.", "5", "24", "gb", "+", ".", "-", "me", "me.all", ".all", "gfx", " ")
NAMES = sorted({name for cut in GEOMETRIES.values() for name in cut.profiles})


def accepts(text: str) -> bool:
    """Whether the API server takes it: Go's pattern finds, and `$` is the end of the text."""
    return re.search(MIG_PROFILE.replace("$", r"\Z"), text) is not None


@given(st.lists(st.sampled_from(PARTS), max_size=9).map("".join) | st.text("1c.g0gb+-maelfx", max_size=14))
@example("1g.24gb-me")
@example("1c.3g.20gb")
@example("all-1g.24gb.me.all")
@example("1g.10gb\n")
def test_they_agree_on_what_is_a_profile(text: str) -> None:
    assert accepts(text) == (text == text.strip() and canonical_profile(text) is not None)


@given(st.from_regex(MIG_PROFILE.replace("$", r"\Z")))
def test_what_the_pattern_takes_is_understood(text: str) -> None:
    assert canonical_profile(text) is not None


@given(st.text())
def test_and_nothing_else_is(text: str) -> None:
    assert accepts(text) <= (canonical_profile(text) is not None)


@pytest.mark.parametrize("name", NAMES)
def test_every_profile_of_the_catalogue_can_be_asked_for_in_every_spelling(name: str) -> None:
    for spelled in {name, name.replace("+", "."), f"all-{name}", f"all-{name.replace('+', '.')}"}:
        assert accepts(spelled)
        assert canonical_profile(spelled) == name


@pytest.mark.parametrize(
    "text", ["1c.3g.20gb", "0g.5gb", "01g.5gb", "1G.5GB", "all-balanced", "1g.5gb-gfx", "1g.٥gb", ""]
)
def test_what_is_no_profile_is_refused(text: str) -> None:
    assert not accepts(text)
    with pytest.raises(ValidationError):
        adapter(AllocationSpec).validate_python({"mode": "MIG", "migProfile": text})


def test_the_generated_crd_has_the_pattern() -> None:
    schema = yaml.safe_load(CRD.read_text())["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    spec = schema["properties"]["spec"]["properties"]["allocation"]["properties"]["migProfile"]

    assert spec["pattern"] == MIG_PROFILE
