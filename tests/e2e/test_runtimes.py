"""A card reaches a container with each container runtime; containerd 1.7 with CDI is `test_node.py`'s.

The plugin is told `auto`, and the node has the CDI specification: whether containers get their cards by it is what the
plugin finds out of the runtime that the Node tells of.
"""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from controllers.api import resources
from nodeagent.host.system import container_runtime
from sim.realnode.cards import variable
from sim.realnode.node import Setup
from sim.realnode.runtimes import Containerd, Crio
from tests.e2e.admin import Admin, process_of
from tests.e2e.bed import NODE

pytestmark = [pytest.mark.e2e, pytest.mark.slow("a real node for each runtime")]
RUNTIMES = {
    "containerd://1.6.": Containerd("1.6"),
    "containerd://2.": Containerd("2"),
    "cri-o://1.": Crio(),
}
WITH_CDI = tuple(version for version in RUNTIMES if version != "containerd://1.6.")


@pytest.fixture(scope="module", params=RUNTIMES)
def version(request: pytest.FixtureRequest) -> str:
    """How the runtime's version begins as kubelet tells it."""
    return str(request.param)


@pytest.fixture(scope="module")
def setup(version: str) -> Setup:
    return Setup(RUNTIMES[version])


async def test_a_card_reaches_the_container_that_was_promised_it(
    admin: Admin, version: str, in_dev: None, tmp_path: Path
):
    node = orjson.loads(await admin.client.get(resources.NODE, NODE))
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith(version)
    await admin.start("plain", 1, 2, strategy="auto")
    await admin.offers("plain", 2)
    await admin.run("one", "plain")
    await admin.run("other", "plain")
    held = {}
    for name in ("one", "other"):
        marked, [held[name]] = await admin.shown(name)
        minor = int(held[name].removeprefix("nvidia"))
        by_variable = {variable(minor): admin.uuid(minor)}
        assert marked == (by_variable if version in WITH_CDI else {})
        if version not in WITH_CDI:
            assert (await admin.said(name))["env"]["NVIDIA_VISIBLE_DEVICES"] == admin.uuid(minor)
    assert set(held.values()) == {"nvidia1", "nvidia2"}

    container, _ = await admin.container("one")
    kind, _, identity = container.partition("://")
    (tmp_path / "self").symlink_to(process_of(identity))
    assert container_runtime(tmp_path) == kind, "as the agent finds it in a pod of its own"

    await admin.end("plain")
