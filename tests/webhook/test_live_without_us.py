"""What goes on with every process of ours down."""

from __future__ import annotations

import orjson
import pytest

from controllers.api import names
from controllers.api.resources import GPUDEVICE, GPUPOOL
from tests.webhook.fleet import Fleet, free_card, in_pool, module_config, workload
from tests.webhook.plane import Api, Plane

pytestmark = pytest.mark.cluster
FINALIZED = {"metadata": {"finalizers": [names.FINALIZER_POOL]}}


async def test_with_every_process_down_only_assignments_and_mig_wait(plane: Plane, api: Api) -> None:
    fleet, namespace = Fleet(plane, api, "", []), await api.namespace(plane.unique("team"))
    pool = await fleet.pool("alone")
    card = await free_card(api, plane.unique("alone"), 0)
    await fleet.status(card, **in_pool(pool))
    plain = workload("Deployment", pool, namespace)
    plain["spec"]["replicas"] = 0
    for done in (
        fleet.kubectl("annotate", "gpudevice", card, f"{names.RETURN}=true"),
        fleet.kubectl("label", "gpudevice", card, f"{names.LABEL_IGNORE}=true"),
        fleet.kubectl("patch", "gpupool", pool, "--type=merge", "-p", '{"spec":{"allocation":{"mode":"TimeSlice"}}}'),
        fleet.apply(plain),
        fleet.apply(module_config(logLevel="Debug"), "--dry-run=server"),
        fleet.apply(module_config(enabled=False, logLevel="Loud"), "--dry-run=server"),
        fleet.kubectl("patch", "gpupool", pool, "--type=merge", "-p", orjson.dumps(FINALIZED).decode()),
        fleet.kubectl("delete", "gpupool", pool, "--wait=false"),
        fleet.kubectl("patch", "gpupool", pool, "--type=merge", "-p", '{"metadata":{"finalizers":null}}'),
    ):
        assert done.returncode == 0, done.stderr
    assert not await api.exists(GPUPOOL.path(name=pool))
    done = fleet.assign(card, pool)
    assert 'failed calling webhook "gpudevices.gpu.deckhouse.io"' in done.stderr
    mig = {"mode": "MIG", "migProfile": "1g.5gb"}
    kind = {"apiVersion": GPUPOOL.api_version, "kind": GPUPOOL.kind}
    done = fleet.apply({**kind, "metadata": {"name": plane.unique("mig")}, "spec": {"allocation": mig}})
    assert 'failed calling webhook "gpupools.gpu.deckhouse.io"' in done.stderr
    await api.client.request("DELETE", GPUDEVICE.path(name=card))
