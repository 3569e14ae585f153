"""`make bench` with a tiny cluster: every figure comes out, is plausible, and nothing stays behind."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from sim import controlplane
from sim.bench import run
from sim.bench.rows import Sizes
from sim.errors import UserError

TINY = Sizes(
    nodes=5,
    rounds=1,
    tries=1,
    settle=0.2,
    patience=0.0,
    quiet=1.5,
    pool_nodes=5,
    warm_up=0.3,
    review_rounds=1,
    review_seconds=1.5,
    writing_seconds=0.1,
    repeats=3,
)


@pytest.mark.parametrize(
    ("nodes", "only", "said"), [(0, None, "at least 1"), (5, ["speed"], "coldstart, webhook, pod")]
)
def test_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], nodes: int, only: list[str] | None, said: str
) -> None:
    assert run.measure(tmp_path, nodes=nodes, only=only) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_one_that_is_up_is_left_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Path] = []

    def status(folder: Path) -> controlplane.Status:
        asked.append(folder)
        return controlplane.Status(folder, up=True)

    monkeypatch.setattr(controlplane, "status", status)
    with pytest.raises(UserError, match="is up in"):
        run.measure(tmp_path, nodes=5)
    assert asked == [tmp_path / "bench"]


@pytest.mark.cluster
def test_every_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.measure(tmp_path, nodes=5, sizes=TINY) == 0
    table = capsys.readouterr().out
    found = json.loads((tmp_path / "bench.json").read_text())
    rows = {row["row"].strip(): row for row in found["rows"]}
    raw = found["raw"]

    assert not controlplane.status(tmp_path / "bench").up
    assert [path.name for path in tmp_path.iterdir()] == ["bench.json"], "all else is gone"
    controlplane.down(tmp_path)
    assert (tmp_path / "bench.json").exists(), "it is the benchmark's, not the cluster's"

    assert {"cores", "cpu", "memory_mib", "python", "load", "kubernetes", "system"} == set(found["machine"])
    assert all("measured" in row and row["verdict"] in ("met", "missed", "info") for row in rows.values())
    assert "wall ÷ floor" in table
    coldstart(raw["coldstart"], rows)
    webhook(raw["webhook"], rows)
    pod(raw["pod"], rows)


def coldstart(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    (start,), floors = raw["starts"], raw["floors"]
    assert raw["expected_writes"] == 5 * 18
    assert start["writes"] == 90
    assert rows["writes ÷ expected writes"]["verdict"] == "met"
    assert [floor["writes"] for floor in floors] == [90, 90]
    assert all(0 < floor["cpu"] <= floor["wall"] + 0.1 for floor in floors)
    assert all(one["server_cpu"]["kube-apiserver"] > 0 for one in (start, *floors))
    assert 0 < start["caches_filled"] < start["wall"]
    ratio = start["wall"] / ((floors[0]["wall"] + floors[1]["wall"]) / 2)
    assert rows["cold start, 5 nodes × 8 cards: wall ÷ floor"]["measured"] == pytest.approx(ratio)
    assert rows["cold start, 5 nodes × 8 cards: wall ÷ floor"]["verdict"] == "info", "the budget is for 500 nodes"
    assert 0.2 < start["cpu"] < 60
    assert 30 < start["rss_mb"] < 150
    assert (start["quiet_writes"], start["quiet_changes"]) == (0, 0)
    assert raw["report_bytes"] > 10_000


def webhook(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    (decided,), (floor,) = raw["decided"], raw["floors"]
    for one in (decided, floor):
        latency = one["latency"]
        assert latency["count"] == 300
        assert 0 < latency["least"] <= latency["p50"] <= latency["p99"] <= latency["most"] < 30
        assert 0 < one["cpu_a_review"] < 0.1
    assert decided["granted"] == 300
    assert raw["written"]["granted"] == raw["written"]["latency"]["count"] == 20
    assert rows["webhook, 200 reviews/s, 40 cards: decision p99"]["measured"] == 1000 * decided["latency"]["p99"]


def pod(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    assert len(raw["ways"]) == 3
    for way in raw["ways"]:
        assert 0 < way["assigned"] < way["published"] <= way["allocatable"]
        assert 0 < way["allowed"] <= way["published"]
        assert 0 < way["pod_bound"] <= way["pod_running"]
    assert [way["first_on_node"] for way in raw["ways"]] == [True, False, False]
    longest = max(way["allowed"] for way in raw["ways"])
    assert rows["annotation → allowed list p99"]["measured"] == pytest.approx(1000 * longest)
