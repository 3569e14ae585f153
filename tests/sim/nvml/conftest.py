"""Machines to ask."""

import pytest

from sim.hardware import load
from sim.nvml import Config
from tests.sim.nvml import client
from tests.tools.lacking import lacking

CATALOGUE = load()


@pytest.fixture(scope="session", autouse=True)
def compiler():
    if why := lacking("cc"):
        pytest.skip(f"the fake driver library cannot be built: {why}")


@pytest.fixture
def shape():
    """A machine with NVSwitches and MIG."""
    return CATALOGUE.shape("h100-sxm-8")


@pytest.fixture
def ask(tmp_path):
    """Asks a client's code of a configuration."""

    def asked(config, code, **options):
        text = config if isinstance(config, str) else config.text()
        path = tmp_path / "cards.conf"
        path.write_text(text)
        return client.run(path, code, **options)

    return asked


@pytest.fixture
def told(ask):
    """Only what the client found; it must have been quiet."""

    def answer(config, code, **options):
        out, errors = ask(config, code, **options)
        assert errors == ""
        return out

    return answer


@pytest.fixture
def h100(shape):
    return Config.of(shape, "gpu-1")
