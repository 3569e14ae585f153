"""Each description of the CRDs and settings has a Russian text, and each Russian text a field."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from controllers.api.components import COMPONENTS
from tests.docs.site import CYRILLIC, ROOT
from tools.docs import russian
from tools.docs.russian import CATALOGUE, CRDS, catalogue, described, translated
from tools.errors import UserError

KEYS = {"description", "properties", "items", "additionalProperties"}


def schemas(folder: str, name: str) -> tuple[Any, Any]:
    """The schema of a file and that of its Russian one."""
    read = [yaml.safe_load((ROOT / folder / f"{one}{name}.yaml").read_text("utf-8")) for one in ("", "doc-ru-")]
    if folder == "openapi":
        return read[0], read[1]
    (english,), (translation,) = (one["spec"]["versions"] for one in read)
    assert english["name"] == translation["name"]
    return english["schema"]["openAPIV3Schema"], translation["schema"]["openAPIV3Schema"]


FILES = [*(("crds", name) for name in CRDS), ("openapi", "config-values")]


@pytest.mark.parametrize(("folder", "name"), FILES)
def test_every_described_field_has_a_russian_text_and_no_other_has(folder: str, name: str) -> None:
    english, translation = (dict(described(one)) for one in schemas(folder, name))

    assert english.keys() - translation.keys() == set()
    assert translation.keys() - english.keys() == set()


@pytest.mark.parametrize(("folder", "name"), FILES)
def test_a_russian_text_is_russian(folder: str, name: str) -> None:
    _, translation = schemas(folder, name)

    assert {at: words for at, words in described(translation) if not CYRILLIC.search(words)} == {}


@pytest.mark.parametrize(("folder", "name"), FILES)
def test_a_russian_file_has_nothing_but_descriptions(folder: str, name: str) -> None:
    def strangers(schema: Any, at: str) -> list[str]:
        found = [f"{at}.{key}" for key in schema.keys() - KEYS]
        for key, child in (schema.get("properties") or {}).items():
            found += strangers(child, f"{at}.{key}")
        for key in ("items", "additionalProperties"):
            found += strangers(schema[key], at) if key in schema else []
        return found

    assert strangers(schemas(folder, name)[1], name) == []


def test_every_crd_has_a_russian_file() -> None:
    crds = {path.stem for path in (ROOT / "crds").glob("gpu*.yaml")}

    assert crds == set(CRDS)
    assert {path.stem for path in (ROOT / "crds").glob("doc-ru-*.yaml")} == {f"doc-ru-{name}" for name in crds}


def test_the_files_are_what_the_catalogue_makes() -> None:
    stale = [path.name for path, wanted in russian.pages(ROOT).items() if path.read_text("utf-8") != wanted]

    assert stale == [], "run `make generate`"


def test_the_catalogue_has_no_sentence_that_nothing_says() -> None:
    said = {words for folder, name in FILES for _, words in described(schemas(folder, name)[0])}

    assert catalogue().keys() - said == set()
    own = sum(line.startswith('"') for line in CATALOGUE.read_text("utf-8").splitlines())
    assert len(catalogue()) == own + len(COMPONENTS)


def test_a_description_without_russian_is_named() -> None:
    with pytest.raises(UserError, match="descriptions without Russian: A new field"):
        translated({"properties": {"new": {"description": "A new field."}}}, {})


@pytest.mark.parametrize("path", sorted(ROOT.glob("crds/gpu*.yaml")), ids=lambda path: path.stem)
def test_every_field_of_a_crd_is_described(path: Path) -> None:
    """`kubectl explain` and the site are complete; entries of a list of words have the list's own description."""

    def bare(schema: Any, at: str) -> list[str]:
        found = []
        for name, child in (schema.get("properties") or {}).items():
            if at or name in {"spec", "status"}:
                found += [] if "description" in child else [f"{at}.{name}"]
                found += bare(child, f"{at}.{name}")
        return found + (bare(schema["items"], f"{at}[]") if isinstance(schema.get("items"), dict) else [])

    (version,) = yaml.safe_load(path.read_text("utf-8"))["spec"]["versions"]
    assert bare(version["schema"]["openAPIV3Schema"], "") == []
