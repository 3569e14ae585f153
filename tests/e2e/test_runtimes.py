"""A card reaches a container with each container runtime; containerd 1.7 with CDI is `test_node.py`'s.

The plugin is told `auto`, and the node has the CDI specification: whether containers get their cards by it is what the
plugin finds out of the runtime that the Node tells of.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import orjson
import pytest

from controllers.api import resources
from nodeagent.host.system import container_runtime
from sim.realnode.cards import variable
from sim.realnode.node import Setup
from sim.realnode.runtimes import Containerd, Crio, Runtime
from tests.e2e.admin import Admin, process_of
from tests.e2e.bed import NODE

pytestmark = [pytest.mark.e2e, pytest.mark.slow("a real node for each runtime")]


@dataclass(frozen=True)
class Case:
    version: str
    """How the runtime's version begins as kubelet tells it."""
    runtime: Runtime
    cdi: bool


CASES = (
    Case("containerd://1.6.", Containerd("1.6"), cdi=False),
    Case("containerd://2.", Containerd("2"), cdi=True),
    Case("cri-o://1.", Crio(), cdi=True),
)


@pytest.fixture(scope="module", params=CASES, ids=lambda case: case.version)
def case(request: pytest.FixtureRequest) -> Case:
    found: Case = request.param
    return found


@pytest.fixture(scope="module")
def setup(case: Case) -> Setup:
    return Setup(case.runtime)


async def test_a_card_reaches_the_container_that_was_promised_it(
    admin: Admin, case: Case, in_dev: None, tmp_path: Path
):
    node = orjson.loads(await admin.client.get(resources.NODE, NODE))
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith(case.version)
    await admin.start("plain", 1, 2, strategy="auto")
    await admin.offers("plain", 2)
    await admin.run("one", "plain")
    await admin.run("other", "plain")
    held = {}
    for name in ("one", "other"):
        marked, [held[name]] = await admin.shown(name)
        minor = int(held[name].removeprefix("nvidia"))
        by_environment = (await admin.said(name))["env"].get("NVIDIA_VISIBLE_DEVICES")
        expected = ({variable(minor): admin.uuid(minor)}, "void") if case.cdi else ({}, admin.uuid(minor))
        assert (marked, by_environment) == expected
    assert set(held.values()) == {"nvidia1", "nvidia2"}

    container, _ = await admin.container("one")
    kind, _, identity = container.partition("://")
    (tmp_path / "self").symlink_to(process_of(identity))
    assert container_runtime(tmp_path) == kind, "as the agent finds it in a pod of its own"

    await admin.end("plain")
