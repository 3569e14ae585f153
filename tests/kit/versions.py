"""What tests know of the version of Kubernetes that they run on: `make versions` runs some of them on several."""

from __future__ import annotations

import re
from typing import Final

import pytest

from tools.programs.catalog import unit_of


def minor() -> int:
    """The second number of the API server's version: 34 of v1.34.4."""
    found = re.match(r"v1\.(\d+)\.", unit_of("kube-apiserver").version)
    assert found is not None
    return int(found[1])


HAS_RESIZE: Final = minor() in (33, 34)
"""Whether `pods/resize` may bring a card: before it is not served by default, and since 1.35 Kubernetes refuses it."""
resizes = pytest.mark.skipif(not HAS_RESIZE, reason="only Kubernetes 1.33 and 1.34 bring cards by pods/resize")
HAS_POD_RESOURCES: Final = minor() >= 34
"""Whether `spec.resources` of a pod is read by default; before it is dropped."""
CHECKS_LABEL_VALUES: Final = minor() >= 33
"""Whether a value of a pod's node affinity must be one that a label can have; before, such a term matches nothing."""
