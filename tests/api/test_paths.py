"""Paths of objects: a name, wherever it is from, is one part of them."""

from __future__ import annotations

import pytest

from controllers.api import resources


@pytest.mark.parametrize(("name", "part"), [
    ("train", "train"), ("a.b-c", "a.b-c"), ("system:nodes", "system:nodes"),
    ("m#", "m%23"), ("m?dryRun=All", "m%3FdryRun%3DAll"), ("../secrets", "..%2Fsecrets"), ("50%", "50%25"),
])  # fmt: skip
def test_a_name_ends_no_path(name: str, part: str) -> None:
    assert resources.GPUPOOL.path(None, name) == f"/apis/gpu.deckhouse.io/v1alpha1/gpupools/{part}"
    assert resources.POD.path(name, "x", "status") == f"/api/v1/namespaces/{part}/pods/x/status"
