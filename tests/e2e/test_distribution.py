"""Debian's containerd 1.6, which knows no CDI: a container gets its card by device nodes and environment.

The plugin is told `auto`, and the node has the CDI specification: what tells it not to use that is the runtime's
version, as the Node says it.
"""

from __future__ import annotations

import orjson
import pytest

from controllers.api import resources
from sim.realnode.node import Setup
from tests.e2e.admin import Admin
from tests.e2e.bed import NODE

pytestmark = pytest.mark.e2e
SETUP = Setup(debian=True)


async def test_a_runtime_without_cdi_is_seen_and_its_containers_have_their_card(admin: Admin, in_dev: None):
    node = orjson.loads(await admin.client.get(resources.NODE, NODE))
    assert node["status"]["nodeInfo"]["containerRuntimeVersion"].startswith("containerd://1.6.")
    await admin.start("plain", 1, strategy="auto")
    await admin.offers("plain", 1)
    await admin.run("classic", "plain")
    said = await admin.said("classic")
    assert said["env"]["NVIDIA_VISIBLE_DEVICES"] == admin.uuid(1)
    assert await admin.shown("classic") == ({}, ["nvidia1"])
    await admin.end("plain")
