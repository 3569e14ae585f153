"""The laws of mode MPS: the pool of the laws of Maintenance begins in it, and the nodes play the control daemons.

That no card leaves its pool with a daemon, or for good while somebody is there to end it, is asserted where cards are
written (`tests/gpupool/world.py`); all other laws are those of Maintenance.
"""

from __future__ import annotations

from hypothesis import HealthCheck, settings
from hypothesis.stateful import initialize

from tests.gpupool.test_maintenance_laws import CARDS, Maintenance


class Daemons(Maintenance):
    """One pool over two nodes whose cards have control daemons."""

    @initialize()
    def start(self) -> None:
        super().start()
        self.change({"mode": "MPS", "mps": {"clients": 2}})
        self.cluster.settle()
        self.webhook_catches_up()
        assert all("mps" in self.cluster.objects["GPUDevice", card]["status"] for card in CARDS)


Daemons.TestCase.settings = settings(
    max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=list(HealthCheck)
)
TestDaemons = Daemons.TestCase
