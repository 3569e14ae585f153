"""The data's files: each says where it is from, and holds facts, in one form, and nothing else."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from tests.data import facts
from tests.data.generate.layout import text_of
from tests.data.generate.readers.table import reader
from tests.data.told import from_json, to_json

if TYPE_CHECKING:
    from collections.abc import Iterator

KEYS = {"nodes", "sysfs", "instances", "switches", "layouts", "fields", "families", "labels", "form", "definition"}
SOURCE = {
    "repository": r"[\w.-]+/[\w.-]+",
    "commit": "[0-9a-f]{12}",
    "path": r"\S.*",
    "licence": r"[A-Za-z]+-[\w.-]+|MIT",
    "lines": "[0-9]+-[0-9]+",
    "derived": ".+",
}
MUST = {"repository", "commit", "path", "licence"}
LARGEST, LONGEST, WORDS = 600_000, 80, 5


def strings(value: Any) -> Iterator[str]:
    """Every key and text in a value."""
    if isinstance(value, dict):
        for key, one in value.items():
            yield key
            yield from strings(one)
    elif isinstance(value, list):
        for one in value:
            yield from strings(one)
    elif isinstance(value, str):
        yield value


@pytest.mark.parametrize("dump", facts.dumps("*"))
def test_a_file_names_its_source_and_holds_facts_alone(dump: str) -> None:
    found = facts.read(dump)
    source = found.pop("source")
    assert MUST <= source.keys() <= SOURCE.keys()
    assert [key for key, text in source.items() if not re.fullmatch(SOURCE[key], text)] == []
    assert found
    assert found.keys() <= KEYS
    assert reader(dump) is not None, "nothing writes it"
    # A model's name has up to five words; a sentence has more.
    long = [text for text in strings(found) if len(text) > LONGEST or len(text.split(" ")) > WORDS or "\n" in text]
    assert long == []
    assert [text for text in strings(found) if "://" in text and not text.startswith("docker://")] == []


def test_files_have_the_generators_form_and_are_small() -> None:
    texts = {dump: (facts.HERE / f"{dump}.json").read_text() for dump in facts.dumps("*")}
    assert [dump for dump, text in texts.items() if text != text_of(json.loads(text))] == []
    assert len(texts) > 80
    assert sum(map(len, texts.values())) < LARGEST


def test_names_that_somebody_gave_are_not_there() -> None:
    given = {"kubernetes.io/hostname": {"node"}, "Hostname": {"node"}, "pod": {"pod", ""}}
    seen: dict[str, set[str]] = {key: set() for key in given}
    for dump in facts.dumps("*"):
        found = facts.read(dump)
        pairs = [pair for labels in found.get("labels", ()) for pair in labels]
        pairs += [pair for node in found.get("nodes", ()) for pair in node.get("labels", {}).items()]
        for key, text in pairs:
            if key in seen:
                seen[key].add(text)
    assert seen == given


def test_dumps_are_found_by_patterns() -> None:
    assert facts.dumps("topo/topo-m-2*", "pci/ghw*") == [
        "pci/ghw-sysfs-linux-amd64-accel-nvidia.txt",
        "topo/topo-m-2gpu-nvlink.txt",
        "topo/topo-m-2gpu-phb.txt",
    ]
    assert facts.dumps("nowhere/*") == []


def test_what_is_read_is_the_readers_own() -> None:
    facts.read("topo/topo-m-2gpu-phb.txt")["nodes"].clear()
    assert len(facts.nodes("topo/topo-m-2gpu-phb.txt")) == 1


def test_nodes_come_back_from_json_as_they_went() -> None:
    for dump, entry in [(name, one) for name in facts.of_nodes() for one in facts.read(name)["nodes"]]:
        first, *alike = from_json(entry, dump)
        assert len(alike) + 1 == entry.get("times", 1)
        assert len({node.name for node in (first, *alike)}) == len(alike) + 1
        kept = {key: value for key, value in entry.items() if key not in ("name", "times")}
        told = to_json(first)
        assert told.pop("dump") == dump
        told.pop("name", None)
        assert json.loads(json.dumps(told)) == kept
