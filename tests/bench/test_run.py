"""`make bench` with a tiny cluster: every figure comes out, is plausible, and nothing stays behind."""

from __future__ import annotations

import json
from collections import defaultdict
from pathlib import Path
from statistics import mean, median
from typing import Any

import pytest

from controllers.runtime.errors import Busy
from reliability.bench import run
from reliability.bench.__main__ import main
from reliability.bench.quiet import LIMIT
from reliability.bench.rows import Result, Sizes
from sim import controlplane
from tools.errors import UserError

TINY = Sizes(
    nodes=5,
    rounds=1,
    tries=1,
    settle=0.2,
    patience=0.0,
    quiet=1.0,
    changes_a_second=10.0,
    change_seconds=0.4,
    large_nodes=7,
    large_quiet=1.0,
    monitored_nodes=9,
    monitored_seconds=2.0,
    last_repeats=2,
    pooled_nodes=8,
    pools=4,
    annotations_a_second=10.0,
    annotations=4,
    burst_cards=12,
    plugin_patience=15.0,
    pool_nodes=5,
    warm_up=0.3,
    review_rounds=1,
    review_seconds=1.5,
    writing_seconds=0.1,
    creation_pairs=4,
    series_pods=8,
    series_rounds=1,
    creators=4,
    burst_pods=40,
    queue_cards=8,
    queue_burst=24,
    queue_freed=3,
    queue_pause=0.1,
    queue_waiting=20,
    queue_quiet=2.0,
    gangs=6,
    gang_cards=12,
    gang_kills=2,
    batch=4,
    driver_nodes=6,
    driver_first=1,
    roll_nodes=4,
    roll_pools=2,
    roll_percent=50,
    roll_soak=1,
    roll_stay=(1.0, 3.0),
    drain_nodes=4,
    drain_pools=1,
    drain_percent=50,
    drain_pods=16,
    drain_replicas=4,
    drain_allowed=1,
    strata_nodes=3,
    strata_quiet=1.0,
    takeover_nodes=4,
    takeover_stay=(1.0, 3.0),
    driver_unserved=1,
    driver_quiet=1.0,
    driver_objects=4,
    churn_nodes=1,
    churn_seconds=30.0,
    churn_warm_up=4.0,
    churn_job=2.0,
    attacked_nodes=6,
    idle_connections=60,
    attack_seconds=1.0,
    repeats=3,
    nearness_pods=600,
    verdict_nodes=20,
    console_nodes=4,
    console_viewers=3,
    console_changes_a_second=10.0,
    console_changes=6,
    console_quiet=2.0,
    gap=0.5,
)


@pytest.mark.parametrize(
    ("sizes", "only", "said"),
    [
        (Sizes(0), None, "at least 1"),
        (Sizes(5, large_nodes=0), None, "at least 1"),
        (Sizes(5), ["speed"], "webhook, burst, queue, gangs, churn, attacked, pod, nearness, verdict, console"),
    ],
)
def test_wrong_usage(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], sizes: Sizes, only: list[str] | None, said: str
) -> None:
    assert run.measure(tmp_path, sizes, only) == 2
    assert said in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (Busy(429, "TooManyRequests", "storage is (re)initializing", 1.0), "Busy: 429 TooManyRequests: storage is"),
        (ExceptionGroup("workers", [ExceptionGroup("one", [OSError("no space left")])]), "OSError: no space left"),
        (ExceptionGroup("workers", [UserError("a pod was refused", do="look")]), "a pod was refused"),
        (ZeroDivisionError("division by zero"), "ZeroDivisionError: division by zero"),
    ],
)
def test_whatever_ends_a_theme_is_told_in_a_sentence(
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    error: Exception,
    said: str,
) -> None:
    def broken(*_: object) -> Result:
        raise error

    monkeypatch.setitem(run.THEMES, "large", broken)
    assert main(["--dir", str(tmp_path), "--only", "large"]) == 1
    told = capsys.readouterr().err
    assert said in told
    assert "Traceback" not in told
    kept = tmp_path / run.TRACE
    if isinstance(error, ExceptionGroup) and error.subgroup(UserError):
        assert not kept.exists(), "a sentence of ours says it all"
    else:
        assert str(kept) in told
        assert "in broken" in kept.read_text()


@pytest.mark.cluster
@pytest.mark.more("every benchmark, once: three minutes")
def test_every_figure(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run.measure(tmp_path, TINY) == 0
    table = capsys.readouterr().out
    found = json.loads((tmp_path / "bench.json").read_text())
    rows: dict[str, dict[str, Any]] = defaultdict(dict)
    for row in found["rows"]:
        assert "measured" in row
        assert row["verdict"] in ("met", "missed", "info")
        rows[row["theme"]][row["row"].strip()] = row
    raw = found["raw"]

    assert not controlplane.status(tmp_path / "bench").up
    assert [path.name for path in tmp_path.iterdir()] == ["bench.json"], "all else is gone"
    controlplane.down(tmp_path)
    assert (tmp_path / "bench.json").exists(), "it is the benchmark's, not the cluster's"

    assert {"cores", "cpu", "memory_mib", "python", "load", "kubernetes", "system"} == set(found["machine"])
    assert "wall ÷ floor" in table
    queues = (queue, gangs, churn)
    nodes = (coldstart, change, large, monitoring, pools, drivers, roll, drain, strata, takeover)
    for theme in (*nodes, webhook, burst, *queues, attacked, pod, nearness, verdict, console):
        theme(raw[theme.__name__], rows[theme.__name__])


def coldstart(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    (start,), floors = raw["starts"], raw["floors"]
    assert raw["expected_writes"] == 5 * 18
    assert start["writes"] == 90
    assert rows["writes ÷ expected writes"]["verdict"] == "met"
    assert [floor["writes"] for floor in floors] == [90, 90]
    assert all(0 < floor["cpu"] <= floor["wall"] + 0.1 for floor in floors)
    assert all(one["server_cpu"]["kube-apiserver"] > 0 for one in (start, *floors))
    assert 0 < start["caches_filled"] < start["wall"]
    alone = [floor["wall"] for floor in floors if max(start["others"], floor["others"]) <= LIMIT]
    ratio = start["wall"] / mean(alone or [floor["wall"] for floor in floors])
    assert rows["cold start, 5 nodes × 8 cards: wall ÷ floor"]["measured"] == pytest.approx(ratio)
    assert rows["cold start, 5 nodes × 8 cards: wall ÷ floor"]["verdict"] == "info", "the budget is for 500 nodes"
    assert 0.2 < start["cpu"] < 60
    assert 30 < start["rss_mb"] < 150
    assert (start["quiet_writes"], start["quiet_changes"]) == (0, 0)
    assert raw["report_bytes"] > 10_000


def change(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    (one,), (floor,) = raw["rounds"], raw["floors"]
    for latency in (one["card"], one["summary"], floor["card"]):
        assert latency["count"] == 4
        assert 0 < latency["least"] <= latency["p50"] <= latency["p99"] <= latency["most"] < 30
    assert one["answered"]["p99"] < one["card"]["p99"]
    assert one["writes"] == one["changed"] == one["events"] == 8, "each card and each summary once, and no other card"
    assert raw["unread"]["touched"] == 4
    assert raw["unread"]["writes"] == 0
    assert raw["unread"]["reconciles"] >= 1
    assert rows["writes ÷ changed objects"]["verdict"] == "met"
    assert rows["objects changed that no change concerned"]["verdict"] == "met"
    assert rows["writes for 4 changes of what is not read"]["verdict"] == "met"
    title = "NodeFeature change → GPUDevice, 5 nodes, 10 changes/s: p99"
    assert rows[title]["measured"] == pytest.approx(1000 * one["card"]["p99"])


def large(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    start, restart = raw["start"], raw["restart"]
    assert start["writes"] == raw["expected_writes"] == 7 * 18
    assert (start["quiet_writes"], start["quiet_changes"], restart["writes"]) == (0, 0, 0)
    assert start["pages"]["NodeFeature"] == start["pages"]["GPUDevice"] == 1
    assert restart["pages"]["GPUDevice"] == 1, "56 cards, in pages of 500"
    for cached in (start["cached"], restart["cached"]):
        assert (cached["GPUDevice"], cached["GPUNodeInventory"], cached["Node"]) == (56, 7, 7)
        assert cached["NodeFeature"] == 14, "NFD's and the agents'"
    assert 0 < restart["caches_filled"] < restart["looked"] < 60
    assert 0 < start["caches_filled"] < start["wall"]
    assert all(restart[f"{what}_stall"] >= 0 for what in ("filling", "looking", "reading"))
    for judged in ("writes ÷ expected writes", "writes in 1 s without a change", "writes of the restart"):
        assert rows[judged]["verdict"] == "met"
    assert rows["peak RSS"]["verdict"] == rows["peak RSS of the restart"]["verdict"] == "info"


def monitoring(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    quiet, took = raw["quiet"], raw["ready_after"]
    assert raw["nodes"] == 9
    assert quiet["writes"] == 0
    assert quiet["seconds"] >= 2
    assert 0 <= quiet["cpu"] < 1
    assert 30 < quiet["rss_mb"] < 150
    assert set(took) == {"validator", "exporter"}
    assert all(len(series) == 2 and 0 < min(series) <= max(series) < 30 for series in took.values())
    assert min(took["exporter"]) > max(took["validator"]), "three scrapes are waited for besides"
    assert rows["writes in 2 s"]["verdict"] == "met"
    assert rows["peak RSS"]["verdict"] == "info", "the budget is for 1,000 nodes"


def pools(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    series, burst, large = raw["series"], raw["burst"], raw["large"]
    assert series["latency"]["count"] == 4
    assert 0 < series["latency"]["least"] <= series["latency"]["p99"] < 30
    assert 0 < series["floor"]["p50"] < 30
    assert (burst["cards"], burst["nodes"], burst["pools"]) == (12, 2, 2)
    assert burst["writes"]["GPUDevice"] == 12, "the card's pool, and nothing else"
    assert 2 <= burst["writes"]["GPUNodeInventory"] <= 4, "once or twice for each of two, as long as the burst takes"
    # Half of the nodes, less the first card of each of them, and the second of those that were annotated.
    assert large["cards"] == 4 * 8 - 4 - 2
    assert large["writes"]["GPUDevice"] == 3 * large["cards"], "approved, taken, and no plugin that offers it"
    assert raw["quiet_writes"] == 0
    assert rows["writes of GPUDevices for one card"]["unit"] == ""


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


def burst(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    assert raw["cards"] == 40
    assert len(raw["pairs"]) == 4
    assert all(0 < pair["plain"] < 30 and 0 < pair["card"] < 30 for pair in raw["pairs"])
    (series,) = raw["series"]
    assert series["plain"] > 0
    assert series["card"] > 0
    assert {"kube-apiserver", "gpu-admission-webhook", "gpu-admission-webhook-2"} <= set(series["cpu"])
    one = raw["burst"]
    assert one["admitted"] + bool(one["refusal"]) <= one["pods"] == 40
    assert 0 < one["took"]["p50"] <= one["wall"]
    ratio = rows["pods/s with reservation ÷ pods/s without the webhook"]
    assert ratio["measured"] == pytest.approx(series["card"] / series["plain"])
    assert ratio["budget"]["at_least"] == 0.5
    assert rows["cards promised twice"]["verdict"] == "met"


def queue(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    burst, quiet = raw["burst"], raw["quiet"]
    assert (burst["pods"], burst["plain"]["count"], burst["given"], burst["too_many"]) == (24, 24, 8, 0)
    assert 0 < burst["plain"]["p50"] <= burst["plain"]["p99"]
    assert 0 <= burst["at_once"] <= 8
    assert len(raw["freed"]) == 3
    assert all(0 < seconds < 60 for seconds in raw["freed"])
    assert (quiet["waiting"], quiet["writes"]) == (20, 0)
    assert rows["20 pods wait, nothing changes: writes"]["verdict"] == "met"
    assert rows["pods released beyond the cards"]["verdict"] == "met"


def drivers(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    fleet = raw["fleet"]
    assert (fleet["nodes"], raw["unserved"], raw["started"]) == (6, 2, 0)
    assert 1 <= fleet["at_once"] <= 6
    assert fleet["writes"] > 0
    assert fleet["quiet_writes"] == raw["resolved"]["disturbed"] == 0
    assert len(raw["first"]) == 1
    assert raw["first"][0] > 0
    assert rows["writes in 1 s without a change"]["verdict"] == "met"
    assert rows["6 bare nodes, install played 10 s, 4 at once: all in service"]["verdict"] == "info", "1,000 have one"


def roll(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    assert (raw["nodes"], raw["pools"], raw["killed"], raw["hit"]) == (4, 2, 0, 1)
    assert 1 <= raw["most"] <= 2
    assert raw["most_in_pool"] == 1
    assert raw["took"] > 0
    assert raw["pods"] > 0
    assert rows["nodes out of service at once"]["verdict"] == "met"


def drain(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    assert (raw["nodes"], raw["pods"], raw["budgets"]) == (4, 16, 4)
    assert (raw["deleted"], raw["beyond"], raw["half_drained"]) == (0, 0, 0)
    assert raw["evicted"] >= 16 * 0.5, "two nodes at once have to go, and the pods of half of them at least"
    assert 1 <= raw["most"] <= 2
    assert rows["pods that ended otherwise"]["verdict"] == "met"


def strata(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    assert (raw["nodes"], raw["rare"], raw["hit"]) == (3, 1, 1)
    assert (raw["waiting_writes"], raw["soak_writes"]) == (0, 0)
    assert min(raw["others"], raw["back"]) > 0
    assert rows["they are back in service"]["verdict"] == "info"


def takeover(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    assert (raw["nodes"], raw["stay"], len(raw["gaps"])) == (4, 2, 4), "each node goes over once"
    assert (raw["ended"], raw["taken"], raw["doubled"]) == (0, 0, 0)
    assert raw["theirs"] > raw["stay"], "pods came and went by the operator's plugin"
    assert raw["ours"] > 0, "and by the module's"
    assert 0 < min(raw["gaps"]) <= max(raw["gaps"]) < raw["took"]
    assert rows["idle cards without a resource, the longest"]["measured"] == max(raw["gaps"])
    assert rows["pods that it ended or restarted"]["verdict"] == "met"


def gangs(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    calm, killed = raw["calm"], raw["killed"]
    assert [(one["served"], one["torn"], one["kills"]) for one in (calm, killed)] == [(6, 0, 0), (6, 0, 2)]
    assert 0 < calm["took"] < killed["took"]
    assert rows["kills"]["verdict"] == "met"


def churn(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    # Nine teams bring a fifth more than their share of eight cards for half a minute, and one twice its share.
    assert 60 < raw["jobs"] < 100
    for one in (raw["queue"], raw["refuse"]):
        assert 0 < len(one["ended"]) <= len(one["began"]) <= raw["jobs"]
        assert all(one["began"][job] < ended for job, ended in one["ended"].items())
        assert len(one["samples"]) > 30
    assert 0 < rows["cards idle though a waiting pod fits, beside those that queue.hold keeps"]["measured"] < 100
    assert 0.1 <= rows["Jain's index of card time, equal weights"]["measured"] <= 1.0


def attacked(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    expected = {
        "numbers": "200",
        "connections": "opened",
        "unseen": "422",
        "terms": "422",
        "values": "422",
        "resources": "201",
    }
    assert [one["name"] for one in raw["attacks"]] == list(expected)
    assert all(one["did"].get(expected[one["name"]]) for one in raw["attacks"]), [one["did"] for one in raw["attacks"]]
    for one in raw["attacks"]:
        assert one["quiet"]["refused"] == 0, one["quiet"]["refusal"]
        # Who begins may take all of a pool as small as this one, once, for the 15 s until nobody has come.
        assert one["attacked"]["refused"] == 0 or one["name"] == "unseen", one["attacked"]["refusal"]
        assert one["quiet"]["plain"]["count"] == one["quiet"]["card"]["count"] > 0
        base, over = (one["floor"], "while the same ask for no card") if one["floor"] else (one["quiet"], "quiet")
        ratio = one["attacked"]["plain"]["p50"] / base["plain"]["p50"]
        assert rows[f"attack: {one['title']}: other pods, p50 ÷ {over}"]["measured"] == pytest.approx(ratio)
    assert 50 < raw["quiet_rss_mb"] <= raw["attacks"][-1]["rss_mb"] < 512


def pod(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    assert len(raw["ways"]) == 3
    for way in raw["ways"]:
        assert 0 < way["assigned"] < way["published"]
        # Seen by watches of other kinds, which may be some milliseconds ahead or behind.
        assert way["allowed"] > 0
        assert way["allocatable"] > 0
        assert 0 < way["pod_bound"] <= way["pod_running"]
    assert [way["first_on_node"] for way in raw["ways"]] == [True, False, False]
    longest = max(way["allowed"] for way in raw["ways"])
    assert rows["annotation → allowed list p99"]["measured"] == pytest.approx(1000 * longest)


def nearness(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    assert set(raw) == {"a100-pairs", "h100-sxm-8", "l40s-8", "v100-mesh"}
    assert all(set(by_strategy) == {"BinPack", "Spread"} for by_strategy in raw.values())
    for strategy, found in raw["a100-pairs"].items():
        assert sum(tally["asked"] for tally in found.values()) == 600
        pairs = rows[f"nearness, {strategy}, load 0.9: pods of 2 cards that miss an NVLink pair"]
        two = found["2"]
        assert pairs["measured"] == pytest.approx(100 * two["split"] / (two["asked"] - two["blocked"]))


def verdict(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    assert sum(raw["cards"].values()) == 20 * 8
    assert {"InUse", "Faulted", "NotPublished"} < set(raw["cards"])
    assert rows["one pod of the queue: a verdict for each card and node"]["measured"] == pytest.approx(
        1000 * median(raw["whole"])
    )


def console(raw: dict[str, Any], rows: dict[str, Any]) -> None:
    for latency in (raw["sent"], raw["answered"]):
        assert latency["count"] == 6 * 3, "each change at each viewer"
        assert latency["p50"] <= latency["p95"] <= latency["most"] < 30
    assert raw["floor"]["count"] == 6
    assert 0 < raw["floor"]["least"] <= raw["sent"]["p95"]
    assert len(raw["snapshots"]) == 3
    assert 0 < raw["first"] < 30
    assert raw["snapshot_bytes"] > 4 * 8 * 50
    assert raw["bytes_a_change"] > 50
    assert (raw["quiet_bytes"], raw["again"]) == (0, 0)
    assert 30 < raw["filled_mb"] <= raw["rss_mb"] < 150
    assert rows["bytes to 3 viewers in 2 s without a change"]["verdict"] == "met"
    assert rows["peak RSS of the backend"]["verdict"] == "info", "the budget is for 1,000 nodes"
    title = "console, 4 nodes × 8 cards, 3 viewers, 10 changes/s: card's change → event p95"
    assert rows[title]["measured"] == pytest.approx(1000 * raw["sent"]["p95"])
