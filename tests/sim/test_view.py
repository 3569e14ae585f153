"""Whose a field is, by the API server's own record."""

from __future__ import annotations

import pytest

from controllers.api import names, resources
from sim.view import LateError, View, owners

FIELDS = [
    {"manager": "kubectl", "fieldsV1": {"f:metadata": {"f:annotations": {".": {}, "f:a/b": {}}}}},
    {
        "manager": "gpupool",
        "fieldsV1": {"f:status": {"f:conditions": {'k:{"type":"Ready"}': {".": {}, "f:status": {}}}, "f:poolRef": {}}},
    },
    {"manager": "plugin", "fieldsV1": {"f:status": {"f:conditions": {'k:{"type":"Other"}': {}}}}},
    {"manager": "old"},
]


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (["status"], ["gpupool", "plugin"]),
        (["status", "poolRef"], ["gpupool"]),
        (["status", "poolRef", "name"], []),
        (["status", "conditions", "type=Ready"], ["gpupool"]),
        (["status", "conditions", "type=Other", "status"], []),
        (["metadata", "annotations", "a/b"], ["kubectl"]),
        (["spec"], []),
    ],
)
def test_owners_of_a_field(path: list[str], expected: list[str]) -> None:
    assert owners(FIELDS, *path) == expected


@pytest.mark.cluster
async def test_what_was_written_is_found_in_the_past_and_what_was_not_is_late(view: View) -> None:
    await view.until(lambda: len(view.devices) > 0, 60, lambda: "no card")
    card = next(iter(view.devices)).name
    assert await view.owners(resources.GPUDEVICE, card, "status", "hardware") == [names.MANAGER_INVENTORY]
    before = view.devices.observed
    for value in ("here", None):
        body = {"metadata": {"annotations": {"test/mark": value}}}
        await view.client.merge(resources.GPUDEVICE, card, body, manager="passer-by")
    assert await view.owners(resources.GPUDEVICE, card, "metadata", "annotations", "test/mark") == []

    mark = ("metadata", "annotations", "test/mark")
    await view.wrote("passer-by", resources.GPUDEVICE, *mark, since=before, objects=1, seconds=5)
    with pytest.raises(LateError, match=r"expected nobody to write metadata\.annotations\.test/mark of 1"):
        await view.wrote("nobody", resources.GPUDEVICE, *mark, since=before, objects=1, seconds=0.5)
