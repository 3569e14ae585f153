"""Patches of rows: whoever applies them has what the console has."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from console.channel import Channel
from console.patch import merge_patch, rows_patch
from tests.console.clusters import Page, merged

CELLS = st.recursive(
    st.booleans() | st.integers(-3, 3) | st.text("ab<", max_size=3) | st.lists(st.integers(0, 2), max_size=2),
    lambda each: st.dictionaries(st.sampled_from("xyz"), each, max_size=3),
    max_leaves=6,
)
ROW = st.dictionaries(st.sampled_from("abc"), CELLS, max_size=3)
ROWS = st.lists(st.tuples(st.sampled_from("123456"), ROW), unique_by=lambda pair: pair[0], max_size=6).map(dict)


@given(ROW, ROW)
def test_a_patch_makes_the_new_row_of_the_old_one(old: dict[str, Any], new: dict[str, Any]) -> None:
    assert merged(old, merge_patch(old, new)) == new


@given(st.lists(ROWS, min_size=1, max_size=5), st.integers(0, 4))
def test_a_reader_of_any_age_comes_to_the_same_rows_in_the_same_order(states: list[Any], left: int) -> None:
    channel, page = Channel(), Page()
    for number, rows in enumerate(states):
        channel.take(rows)
        if number <= left:  # then it is away, and comes again
            _read(channel, page)
    _read(channel, page)
    assert page.rows == states[-1]
    assert page.order == list(states[-1])
    assert channel.since(page.ident) == b""


def _read(channel: Channel, page: Page) -> None:
    for block in channel.since(page.ident).split(b"\n\n"):
        if block:
            page.take(block)


def test_equal_rows_are_no_news() -> None:
    rows = {"a": {"x": 1}, "b": {"x": {"y": [1]}}}
    assert rows_patch(rows, {"a": {"x": 1}, "b": {"x": {"y": [1]}}}) is None
    assert rows_patch(rows, dict(reversed(rows.items()))) == {"rows": {}, "order": ["b", "a"]}
    assert rows_patch(rows, {"b": {"x": {"y": [2]}}}) == {"rows": {"a": None, "b": {"x": {"y": [2]}}}}


def test_who_reads_too_slowly_gets_all_rows_anew() -> None:
    channel = Channel()
    channel.take({"a": {"n": 0}})
    slow = channel.position
    for number in range(1, 400):
        channel.take({"a": {"n": number}})
    assert channel.since(slow).startswith(b"id: ")
    assert b"event: snapshot" in channel.since(slow)
    assert channel.since("another-5") == channel.snapshot()
    assert channel.since(f"{channel.position.split('-')[0]}-9999") == channel.snapshot()


def test_a_page_that_fails_keeps_its_rows_and_says_so_once() -> None:
    channel = Channel()
    channel.take({"a": {"n": 0}})
    assert channel.fail("It failed.")
    assert not channel.fail("It failed.")
    assert b'"failure":"It failed."' in channel.snapshot()
    assert channel.take({"a": {"n": 0}})
    assert b"failure" not in channel.snapshot()


def test_an_id_that_no_event_had_gives_all_rows() -> None:
    channel = Channel()
    channel.take({"a": {"n": 1}})
    epoch = channel.position.partition("-")[0]
    for number in ("²", "9" * 5000, "", "-1", "7"):
        assert b"event: snapshot" in channel.since(f"{epoch}-{number}")
