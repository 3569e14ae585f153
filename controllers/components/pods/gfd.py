"""NVIDIA's GPU feature discovery: describes the cards in labels. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from controllers.api import names
from controllers.components import podspec
from controllers.components.builder import Builder

if TYPE_CHECKING:
    from controllers.components.builder import Inputs
    from controllers.components.podspec import Json

FILE: Final = "/etc/kubernetes/node-feature-discovery/features.d/gfd"
ENVIRONMENT: Final = {
    "GFD_SLEEP_INTERVAL": "60s",
    "GFD_OUTPUT_FILE": FILE,
    "GFD_FAIL_ON_INIT_ERROR": "true",
    # By default it would write a NodeFeature itself, for which it has no rights here.
    "GFD_USE_NODE_FEATURE_API": "false",
    names.VISIBLE_DEVICES: "all",
}
# It writes the file anew every minute, changed or not, and removes it when it is stopped in order. The image has
# no base system but carries busybox, with sh and find.
FRESH: Final = f'test -n "$(find {FILE} -size +0 -mmin -{{minutes}})"'


def pod(given: Inputs) -> Json:
    """Describes the cards through a features file that NFD's worker reads; ready while the file is fresh."""
    container = {
        "name": "gfd",
        "image": given.image,
        "command": ["gpu-feature-discovery"],
        "env": [*podspec.env(ENVIRONMENT), podspec.from_field("NODE_NAME", "spec.nodeName")],
        "securityContext": podspec.root(),
        "resources": podspec.resources("10m", "64Mi", "128Mi"),
        "readinessProbe": podspec.run(FRESH.format(minutes=5), 5),
        # Ten minutes without a file: the driver hangs in one of its questions.
        "livenessProbe": podspec.run(FRESH.format(minutes=10), 60) | {"failureThreshold": 10},
        "volumeMounts": [*podspec.mounts("features"), podspec.mount("sys", "/sys", read_only=True)],
    }
    return {
        "runtimeClassName": names.RUNTIME_CLASS,
        "containers": [container],
        "volumes": podspec.volumes("features", "sys"),
    }


BUILDER: Final = Builder(pod)
