"""YAML of the host: what is none is one error, whoever wrote it, and no reader of it ends."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from nodeagent.deviceplugin.devices import cdi as names_of
from nodeagent.host.yamltext import NotYAMLError, parse
from nodeagent.validate.checks import cdi

BROKEN = (
    "kind: [",
    "\0",
    "2020-13-45",
    "9" * 5000,
    "!!bool x",
    "!!int ''",
    "!!float x",
    "!!timestamp x",
    "!!python/object/apply:os.getpid []",
    "? [a]\n: b",
    "[" * 5000,
)
TAGS = ("bool", "int", "float", "timestamp", "binary", "set", "omap", "pairs", "map", "seq", "null")


@pytest.mark.parametrize("text", BROKEN, ids=lambda text: text[:20])
def test_what_is_no_yaml_is_one_error(text: str) -> None:
    with pytest.raises(NotYAMLError):
        parse(text)
    assert cdi.read({"nvidia.yaml": text}).broken == ("nvidia.yaml",)
    assert not names_of.names(text)


@pytest.mark.parametrize(
    ("text", "says"),
    [("", None), ("# nothing\n", None), ("a: 1", {"a": 1}), ('{"a": [true]}', {"a": [True]}), ("word", "word")],
)
def test_yaml_and_json_are_plain_values(text: str, says: object) -> None:
    assert parse(text) == says


@given(st.one_of(st.text(), st.builds("!!{} {}".format, st.sampled_from(TAGS), st.text(max_size=20))))
def test_no_text_raises_anything_else(text: str) -> None:
    with contextlib.suppress(NotYAMLError):
        parse(text)


@pytest.mark.parametrize("text", ["word", "[1]", "kind: x", "kind: x\ndevices: 7", "kind: x\ndevices: [7, {}]"])
def test_a_specification_that_is_none_names_no_device(text: str) -> None:
    assert not names_of.names(text)
