"""What panels say of known series, by promtool; and that what is rightly empty is a list of panels that there are."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
import yaml

from controllers.api.record import adapter
from sim.nodes import statemetrics
from sim.nodes.pods import Pod
from tests.monitoring.cases import held
from tests.monitoring.test_alerts import needs_promtool, promtool
from tests.monitoring.test_live import EMPTY, FALLBACK, QUERIES, filled

if TYPE_CHECKING:
    from pathlib import Path

RESOURCE = "gpu_deckhouse_io_p"


def pod(name: str, phase: str, cards: int) -> Pod:
    """A pod as the simulated kubelet has it, on one node."""
    container = {"name": "c", "image": "i", "resources": {"limits": {"gpu.deckhouse.io/p": str(cards)}}}
    return adapter(Pod).validate_python(
        {
            "metadata": {"name": name, "namespace": f"of-{phase.lower()}", "uid": f"u-{name}"},
            "spec": {"nodeName": "n", "containers": [container]},
            "status": {"phase": phase},
        }
    )


def page() -> dict[str, str]:
    """What the simulator's kube-state-metrics says of pods of all phases, and the pool's resource."""
    pods = [pod("a", "Running", 1), pod("b", "Pending", 2), pod("c", "Succeeded", 4), pod("d", "Failed", 8)]
    lines = [line for line in statemetrics.text((), pods).splitlines() if not line.startswith("#")]
    series = {key: held(float(value)) for key, _, value in (line.rpartition(" ") for line in lines)}
    return {**series, f'gpupool_info{{pool="p",resource="{RESOURCE}"}}': held(1)}


def test_kube_state_metrics_tells_limits_of_pods_that_have_ended() -> None:
    told = [key for key in page() if key.startswith("kube_pod_container_resource_limits")]
    assert len(told) == 4


@needs_promtool
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("Pods with cards", {"{}": 1}),
        ("Pods that wait", {"{}": 1}),
        ("Slots asked for", {"{}": 3}),
        ("Namespaces", {"{}": 2}),
        ("Slots by namespace", {'{namespace="of-running"}': 1, '{namespace="of-pending"}': 2}),
        ("Slots by pool", {'{pool="p"}': 3}),
        (
            "Pods",
            {
                '{namespace="of-running",pod="a",node="n",pool="p"}': 1,
                '{namespace="of-pending",pod="b",node="n",pool="p"}': 2,
            },
        ),
    ],
)
def test_a_pod_that_has_ended_has_no_cards(where: str, expected: dict[str, int], tmp_path: Path) -> None:
    asked = {
        "expr": filled(QUERIES[f"workloads: {where} A"]),
        "eval_time": "5m",
        "exp_samples": [{"labels": labels, "value": value} for labels, value in expected.items()],
    }
    series = [{"series": key, "values": values} for key, values in page().items()]
    test = {"interval": "1m", "input_series": series, "promql_expr_test": [asked]}
    path = tmp_path / "test.yaml"
    path.write_text(yaml.safe_dump({"evaluation_interval": "1m", "tests": [test]}))
    done = promtool("test", "rules", str(path))
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_panel_that_may_be_empty_is_there_and_has_a_fallback() -> None:
    assert {where for where in EMPTY if where not in QUERIES or not FALLBACK.search(QUERIES[where])} == set()


def test_no_fallback_hides_an_expression_from_the_live_test() -> None:
    assert {where for where, expr in QUERIES.items() if " or " in filled(expr)} == set()
