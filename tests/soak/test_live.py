"""A soak of one short cycle on a real control plane: everything is read, everything comes back, nothing stays up."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from controllers.api import names
from reliability.soak import run, run_loop, workload_plan
from reliability.soak.records import is_ours
from reliability.soak.run_loop import Length
from reliability.soak.workload_plan import Pace
from sim import controlplane
from sim.module.processes import Timers

SHORT = Length(15.0, Pace(cycle=15.0, rest=5.0, rounds=1), least_warm_up=0.0, quiet=2.0, period=1.0)
PATIENT = Timers(lease_duration=120.0, renew_deadline=90.0, retry_period=2.0)
"""No lease is lost on a machine on which other tests run."""
OURS = (names.INVENTORY, names.BOOTSTRAP, names.POOL_CONTROLLER, names.WEBHOOK, f"{names.WEBHOOK}-2")


@pytest.mark.cluster
@pytest.mark.more("a soak of one cycle: a minute, and a verdict about rates")
def test_a_cycle(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_loop, "REST_SECONDS", 2.0)
    status = run.soak(tmp_path, SHORT, output="json", timers=PATIENT)
    said = json.loads(capsys.readouterr().out)
    found = json.loads((tmp_path / "soak.json").read_text())
    assert said == found
    assert not controlplane.status(tmp_path / "soak").up
    checks = {check["check"]: check["found"] for check in found["checks"]}
    assert checks["the churn went on to its end"] == []
    assert checks["no process ended or did not answer"] == []
    assert checks["no error in a log"] == []
    assert status == (0 if found["met"] else 1)

    planned = workload_plan.cycle(1, 1, SHORT.pace)
    assert sum(found["done"].values()) + found["facts"]["acts given up"] == len(planned)
    assert found["done"]["join"] == found["done"]["leave"] == 2
    begin, end = found["ends"]
    assert {name for name in end["readings"] if is_ours(name)} == set(OURS)
    for name in OURS:
        one = end["readings"][name]
        assert one["own"]["tasks"] > 5
        assert one["own"]["requests"]["GET 200"] > 0
        assert one["descriptors"] > 10
        assert 20 < one["anonymous"] < one["rss"] < 200
        assert len([at_once for at_once in found["readings"] if name in at_once]) >= 5
    assert begin["stored"]["Node"] == end["stored"]["Node"] == 6
    assert begin["stored"]["GPUDevice"] == end["stored"]["GPUDevice"] == 48
    assert end["stored"]["Event"] > 0
