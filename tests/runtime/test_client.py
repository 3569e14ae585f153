"""A client that cannot be made leaves nothing behind."""

from __future__ import annotations

import gc
from pathlib import Path

import pytest
import yaml

from controllers.runtime.client import Client
from controllers.runtime.errors import ConfigurationError


async def test_an_address_that_cannot_be_read_opens_nothing(tmp_path: Path) -> None:
    """What is left open is said by the collector of garbage, and then this test fails."""
    config = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "a", "cluster": {"server": "https://[::1"}}],
        "users": [{"name": "a", "user": {"token": "t"}}],
        "contexts": [{"name": "a", "context": {"cluster": "a", "user": "a"}}],
        "current-context": "a",
    }
    path = tmp_path / "kubeconfig"
    path.write_text(yaml.safe_dump(config))
    with pytest.raises(ConfigurationError):
        await Client.connect(path, user_agent="test")
    gc.collect()
