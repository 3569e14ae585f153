"""The text that people read: 80 columns, short for what is fine, and what to do for what is not."""

from __future__ import annotations

from dataclasses import replace

import orjson
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from controllers.api.record import to_json
from controllers.inventory.coverage import __main__ as command
from controllers.inventory.coverage.comparison.compare import compare
from controllers.inventory.coverage.comparison.result import Issue, NodeResult, Result
from controllers.inventory.coverage.comparison.text import WIDTH, render
from tests.inventory.coverage.world import NODE, also, good, labels, node


def finding(reason: str = "LabelDifferent", about: str = "gpu.deckhouse.io/present", *, note: bool = False) -> Issue:
    return Issue(reason=reason, about=about, found="one", expected="two", todo="do this", note=note)


def test_a_node_that_is_fine_takes_a_line() -> None:
    assert render(compare(good())).splitlines() == [
        "ok    gpu-01  2 cards, 16 labels",
        "",
        "1 node: 1 as expected, 0 not; 2 cards on record as reported",
        "",
        "All is as expected.",
    ]


def test_findings_of_one_kind_share_their_remedy() -> None:
    found = tuple(finding(about=f"gpu.deckhouse.io/device.{n:02}.vendor") for n in range(3))
    text = render(Result(ok=False, nodes=(NodeResult(name="a", labels=1, cards=1, findings=found),)))

    assert text.count("do this") == text.count("      LabelDifferent\n") == 1
    assert text.count("one; expected two") == 3
    assert "FAIL  a  1 card, 1 label; 3 findings" in text
    assert "3 × LabelDifferent on a" in text


def test_of_many_findings_the_first_are_shown_and_all_are_counted() -> None:
    found = tuple(finding(about=f"label-{n:03}") for n in range(50))
    text = render(Result(ok=False, nodes=(NodeResult(name="a", findings=found),)))

    assert "label-011" in text
    assert "label-012" not in text
    assert "and 38 more (-o json has all)" in text
    assert "50 × LabelDifferent on a" in text


def test_of_many_nodes_the_first_are_named_and_the_others_counted() -> None:
    nodes = tuple(NodeResult(name=f"gpu-{n:02}", findings=(finding(),)) for n in range(15))
    text = " ".join(render(Result(ok=False, nodes=nodes)).split())

    assert "15 × LabelDifferent on gpu-00, gpu-01," in text
    assert "gpu-10, gpu-11 and 3 more" in text


def test_a_command_is_copied_in_one_piece() -> None:
    seen = good()
    text = render(compare(replace(seen, reports=seen.reports[:1], devices=(), inventories=())))

    assert "    kubectl -n d8-gpu-operator get pods -l app=gpu-nodeagent-discover -o wide" in text.splitlines()


def test_a_note_is_no_failure() -> None:
    text = render(Result(ok=True, nodes=(NodeResult(name="a", findings=(finding(note=True),)),)))

    assert text.startswith("note  a")
    assert "1 node: 1 as expected, 0 not" in text


def test_what_is_not_printable_does_not_reach_the_terminal() -> None:
    text = render(Result(ok=False, findings=(finding(about="a\x1b[31mb"),)))

    assert "\x1b" not in text


@given(st.lists(st.text("abc -./:", max_size=300), min_size=4, max_size=4))
def test_no_line_is_wider_than_a_terminal_but_for_a_single_word(words: list[str]) -> None:
    one = Issue(reason="Some", about=words[0], found=words[1], expected=words[2], todo=words[3])

    for line in render(Result(ok=False, nodes=(NodeResult(name="a", findings=(one,)),))).splitlines():
        assert len(line) <= WIDTH or len(line.split()) <= 2, line


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_programs_get_everything(output: str) -> None:
    seen = also(good(), replace(good("gpu-02"), nodes=(node("gpu-02", given=labels(1)),)))
    result = compare(seen)
    text = command.OUTPUTS[output](result)
    read = orjson.loads(text) if output == "json" else yaml.safe_load(text)

    assert read == to_json(result)
    assert read["ok"] is False
    assert read["nodes"][0] == {"name": NODE, "labels": 16, "cards": 2, "findings": []}
    assert {one["reason"] for one in read["nodes"][1]["findings"]} == {"LabelDifferent", "LabelMissing"}
    assert set(read["nodes"][1]["findings"][0]) == {"reason", "about", "found", "expected", "todo", "note"}
