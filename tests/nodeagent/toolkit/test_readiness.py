"""The toolkit's pod is ready where its node's runtime knows the handlers, and nowhere else: that halts a roll-out."""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING

from controllers.api.runtime_state import (
    AWAITING_NODE,
    AWAITING_RESTART,
    AWAITING_TURN,
    BY_HAND,
    READY,
    SETTLED,
    STATES,
)
from nodeagent.toolkit.state import State
from sim.module.install import ROOT
from tests.kit.waiting import PATIENCE
from tests.nodeagent.toolkit.programs import installed

if TYPE_CHECKING:
    from pathlib import Path


def test_a_node_on_which_something_stands_in_the_way_is_not_done() -> None:
    assert set(SETTLED) == {READY, BY_HAND}
    assert set(STATES) > set(SETTLED)


def test_waiting_is_ready_where_the_process_serves_and_failing_never_is() -> None:
    ready = {phase for phase in STATES if State(phase, serves=True).is_ready}
    assert ready == {READY, BY_HAND, AWAITING_TURN, AWAITING_RESTART, AWAITING_NODE}
    assert {phase for phase in STATES if State(phase).is_ready} == {READY, BY_HAND}


def test_a_pod_whose_runtime_cannot_be_told_is_alive_and_not_ready(tmp_path: Path) -> None:
    installed(tmp_path)
    log = tmp_path / "log"
    command = [sys.executable, "-m", "nodeagent", "toolkit", "--root", str(tmp_path), "--node=x", "--health-port=0"]
    with log.open("wb") as out:
        child = subprocess.Popen(command, stdout=out, stderr=out, cwd=ROOT)
    try:
        end = time.monotonic() + PATIENCE
        while '"state":"Refused"' not in log.read_text():
            assert child.poll() is None, log.read_text()
            assert time.monotonic() < end, log.read_text()
            time.sleep(0.05)
        found = re.search(r'"health":"127.0.0.1:(\d+)"', log.read_text())
        assert found is not None
        assert (asked(int(found[1]), "/healthz"), asked(int(found[1]), "/readyz")) == (200, 503)
    finally:
        child.terminate()
        assert child.wait(PATIENCE) == 0


def asked(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=PATIENCE)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()
