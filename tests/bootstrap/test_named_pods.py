"""The exporter names the pods that have cards: it is told the pools' resources, and restarted as seldom as may be."""

from __future__ import annotations

from typing import Any

import pytest

from controllers.api import names
from controllers.api.settings import parse_settings
from controllers.components.pods import dcgm_exporter
from controllers.runtime.plan import Apply
from tests.bootstrap.world import Cluster

KEY = ("DaemonSet", f"{names.NAMESPACE}/gpu-dcgm-exporter")
OTHER = "worker-02"


@pytest.fixture
def cluster() -> Cluster:
    made = Cluster()
    settle(made)
    return made


def settle(cluster: Cluster) -> list[str]:
    """Names of the objects that the next plan writes; after it there is nothing to write."""
    made = cluster.plan_components()
    cluster.execute(made.actions, names.MANAGER_BOOTSTRAP)
    assert not cluster.plan_components().writes
    return [action.ref.name for action in made.writes if isinstance(action, Apply)]


def told(cluster: Cluster) -> str | None:
    """The variable as the exporter's containers have it."""
    (container,) = cluster.objects[KEY]["spec"]["template"]["spec"]["containers"]
    found = {one["name"]: one.get("value", "") for one in container["env"]}
    return found.get("NVIDIA_RESOURCE_NAMES")


def test_the_resources_of_all_pools_with_cards_are_told(cluster: Cluster) -> None:
    assert told(cluster) is None
    cluster.pooled("b", on=OTHER)
    cluster.pooled("a")

    assert settle(cluster) == ["gpu-dcgm-exporter"]
    assert told(cluster) == "gpu.deckhouse.io/a,gpu.deckhouse.io/b"


def test_a_pool_that_goes_restarts_no_exporter_and_is_forgotten_when_another_comes(cluster: Cluster) -> None:
    cluster.pooled("a")
    cluster.pooled("b", on=OTHER)
    settle(cluster)
    cluster.pooled(None, on=OTHER)

    assert settle(cluster) == []
    cluster.pooled("c", on=OTHER)
    assert settle(cluster) == ["gpu-dcgm-exporter"]
    assert told(cluster) == "gpu.deckhouse.io/a,gpu.deckhouse.io/c"


def test_what_the_administrator_sets_stands(cluster: Cluster) -> None:
    theirs = {"name": "NVIDIA_RESOURCE_NAMES", "value": "example.com/gpu"}
    cluster.settings = parse_settings({"bootstrap": {"dcgmExporter": {"env": [theirs]}}})
    cluster.pooled("a")
    settle(cluster)
    assert told(cluster) == "example.com/gpu"

    cluster.settings = parse_settings({})
    settle(cluster)
    assert told(cluster) == "gpu.deckhouse.io/a"


@pytest.mark.parametrize("spec", [{}, {"template": {"spec": {"containers": []}}}])
def test_a_daemonset_that_somebody_emptied_names_nothing(spec: dict[str, Any]) -> None:
    assert dcgm_exporter.named(spec) == []


def test_another_edit_is_made_good_beside_the_names(cluster: Cluster) -> None:
    cluster.pooled("a")
    settle(cluster)
    with cluster.edit(*KEY) as found:
        found["spec"]["template"]["spec"]["containers"][0]["env"] = []

    assert settle(cluster) == ["gpu-dcgm-exporter"]
    assert told(cluster) == "gpu.deckhouse.io/a"
