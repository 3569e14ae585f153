"""What is worked out for a node, and when what was worked out before is forgotten."""

from __future__ import annotations

from controllers.api import names, resources
from controllers.driver.pods import build
from tests.driver.world import Cluster


def test_no_pods_are_made_up_for_nodes_that_are_in_service(monkeypatch) -> None:  # type: ignore[no-untyped-def]
    made = Cluster()
    made.node()
    made.driver()
    made.settle()
    calls = []
    monkeypatch.setattr(build, "check_pod", lambda *args, **_: calls.append(args))
    made.drop(resources.DAEMONSET, next(key for kind, key in made.objects if kind == "DaemonSet"))
    monkeypatch.setattr(build, "daemonset", lambda *args, **_: calls.append(args))

    seen = made.view().node("n1")
    assert seen.target is not None
    assert calls == []
    assert names.DRIVER_VARIANT in (seen.node.metadata.labels if seen.node is not None else {})
