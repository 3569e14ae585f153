"""Dashboards are as Deckhouse wants them, made from their description, and ask for what is exported."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.monitoring.exported import of_others, ours
from tests.monitoring.rules import metrics_in
from tools.dashboards.__main__ import FOLDER, files

BOARDS = {path.stem: json.loads(text) for path, text in files().items()}
DEPRECATED = re.compile(r"\$?(__)?interval_(rv|sx3|sx4)|\$interval\b|\$__interval\b")
LEGACY = {"graph", "singlestat", "table-old", "heatmap-old"}
PROCESS = {"process_cpu_seconds_total", "process_resident_memory_bytes"}


def panels(board: dict[str, Any]) -> list[dict[str, Any]]:
    return [panel for panel in board["panels"] if panel["type"] != "row"]


def test_the_files_are_what_the_description_makes() -> None:
    assert {path.name: path.read_text(encoding="utf-8") for path in FOLDER.iterdir()} == {
        path.name: text for path, text in files().items()
    }, "run python -m tools.dashboards"


def test_there_is_one_for_each_who_looks() -> None:
    assert set(BOARDS) == {"overview", "node", "pool", "workloads", "control-plane", "driver"}
    assert len({board["uid"] for board in BOARDS.values()}) == len(BOARDS)


@pytest.mark.parametrize("name", BOARDS)
def test_a_dashboard_is_as_deckhouse_wants_it(name: str) -> None:
    board = BOARDS[name]
    sources = [one for one in board["templating"]["list"] if one["type"] == "datasource"]
    assert [(one["name"], one["query"]) for one in sources] == [("ds_prometheus", "prometheus")]
    for panel in panels(board):
        assert panel["type"] not in LEGACY
        assert "alert" not in panel
        asked = [panel["datasource"], *(target["datasource"] for target in panel["targets"])]
        assert {source["uid"] for source in asked} == {"$ds_prometheus"}
        assert len({target["refId"] for target in panel["targets"]}) == len(panel["targets"]) > 0
    assert not DEPRECATED.search(json.dumps(board))
    assert json.dumps(board).isascii() or not re.search("[а-яё]", json.dumps(board, ensure_ascii=False), re.IGNORECASE)


@pytest.mark.parametrize("name", BOARDS)
def test_panels_stand_beside_each_other(name: str) -> None:
    taken: set[tuple[int, int]] = set()
    for panel in BOARDS[name]["panels"]:
        place = panel["gridPos"]
        cells = {
            (x, y)
            for x in range(place["x"], place["x"] + place["w"])
            for y in range(place["y"], place["y"] + place["h"])
        }
        assert not cells & taken, panel["title"]
        assert place["x"] + place["w"] <= 24
        taken |= cells
    ids = [panel["id"] for panel in BOARDS[name]["panels"]]
    assert len(set(ids)) == len(ids)


@pytest.mark.parametrize("name", BOARDS)
def test_a_panel_asks_for_what_is_exported(name: str) -> None:
    known = ours() | of_others() | PROCESS
    for panel in panels(BOARDS[name]):
        for target in panel["targets"]:
            assert metrics_in(target["expr"]), panel["title"]
            assert metrics_in(target["expr"]) <= known, panel["title"]


@pytest.mark.parametrize("name", BOARDS)
def test_a_variable_that_is_used_is_there_and_one_that_is_there_is_used(name: str) -> None:
    board = BOARDS[name]
    defined = {one["name"] for one in board["templating"]["list"]} - {"ds_prometheus"}
    used = {word for p in panels(board) for t in p["targets"] for word in re.findall(r"\$(\w+)", t["expr"])}
    assert used - {"__rate_interval"} == defined
