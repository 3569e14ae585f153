"""What the API server refuses in a GPUDriver: patterns of texts, and rules in CEL with the sentence for its author.

They are for the API server alone: an object that was stored before a rule came can still be read.
"""

from __future__ import annotations

from typing import Final

from controllers.api.image_reference import DIGEST, PATH, TAG
from controllers.api.record import rules

VERSION: Final = "^[0-9]{3,4}([.][0-9]+){0,2}$"
"""A whole version such as 580.178.04, or a branch such as 580, which only precompiled images know."""
MAYBE_NAME: Final = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*)?$"
"""Name of a Secret or a ConfigMap, or nothing."""
REPOSITORY: Final = f"^{PATH}$"
IMAGE_NAME: Final = "^[a-z0-9]+([._-]+[a-z0-9]+)*(/[a-z0-9]+([._-]+[a-z0-9]+)*)*$"
REFERENCE: Final = f"^{PATH}(:{TAG}(@{DIGEST})?|@{DIGEST})$"
"""An image with its tag or its digest."""
SIDECAR_IMAGE: Final = f"^({PATH}(@{DIGEST})?)?$"
SIDECAR_VERSION: Final = "^[A-Za-z0-9_.-]*$"
SYSTEM: Final = "^[a-z0-9]([a-z0-9._-]*[a-z0-9])?$"
KERNEL: Final = "^[A-Za-z0-9._+~*-]+$"
PCI_ID: Final = "^[0-9a-f]{4}:[0-9a-f]{4}$"
PROXY: Final = "^https?://[^ ]+$"
WORD: Final = "^[^ \\t\\r\\n]+$"
"""What stands in one word of a command."""
QUANTITY: Final = "^([0-9]+([.][0-9]*)?|[.][0-9]+)([KMGTPE]i|[mkMGTPE])?$"
MODULES: Final = ("nvidia", "nvidia-uvm", "nvidia-modeset", "nvidia-peermem")
"""Modules whose parameters NVIDIA's images take."""
RESOURCES: Final = ("cpu", "memory", "ephemeral-storage")
UPSTREAM: Final = "nvcr.io/nvidia"
"""Where NVIDIA publishes driver images; a vGPU guest's driver is not there."""

WAVE_RULES: Final = rules(
    (
        "self.size() > 0 && self.isSorted() && self.all(w, self.exists_one(x, x == w)) && self.max() == 100",
        "waves are shares that grow, and the last is 100, such as [10, 30, 100]",
    )
)
WINDOW_RULES: Final = rules(
    (
        "self.from < self.to",
        "a window ends later than it begins, on the same day in UTC: make one across midnight of two, such as "
        "22:00 to 23:59 and 00:00 to 04:00",
    )
)
SIDECAR_RULES: Final = rules(
    (
        "!self.enabled || (self.image != '' && (self.image.contains('@') || self.version != ''))",
        "where it is enabled it needs an image and a version, or an image with its digest",
    )
)
MODULE_RULES: Final = rules(
    (
        f"self.all(module, module in {list(MODULES)})",
        f"parameters are given to {', '.join(MODULES)}; no other module takes any",
    ),
    (
        "self.all(module, self[module].all(name, name.matches('^[A-Za-z0-9_]+$')))",
        "a parameter's name has letters, digits and underscores, such as NVreg_RestrictProfilingToAdminUsers",
    ),
)
FABRIC_RULES: Final = rules(
    (
        "self.all(name, name.matches('^[A-Z][A-Z0-9_]*$'))",
        "a setting of the fabric manager has capitals, digits and underscores, such as LOG_LEVEL",
    )
)
RESOURCE_RULES: Final = rules(
    (f"self.all(name, name in {list(RESOURCES)})", f"quantities are of {', '.join(RESOURCES)}"),
)
OVERRIDE_RULES: Final = rules(
    (
        "self.all(one, self.exists_one(other, other.system == one.system && other.kernel == one.kernel))",
        "two overrides are for the same system and kernel: the second would never be taken",
    )
)
DRIVER_RULES: Final = rules(
    (
        "self.spec.mode != 'Compiled' || self.spec.version.contains('.')",
        "spec.version is a branch, and mode Compiled needs a whole version such as 580.178.04: write one, or set "
        "spec.mode to Precompiled or Auto",
    ),
    (
        "self.spec.flavour != 'Proprietary' || !has(self.spec.gds) || !self.spec.gds.enabled",
        "spec.gds needs the open modules: set spec.flavour to Open or Auto, or spec.gds.enabled to false",
    ),
    (
        "self.spec.type == 'VGPUGuest' || !has(self.spec.licensing) || self.spec.licensing.secretName == ''",
        "spec.licensing is for a vGPU guest: set spec.type to VGPUGuest, or leave the licence out",
    ),
    (
        "self.spec.type != 'VGPUGuest' || (has(self.spec.image) && (self.spec.image.repository != "
        f"'{UPSTREAM}' || (has(self.spec.image.overrides) && self.spec.image.overrides.size() > 0)))",
        f"a vGPU guest's driver is not in {UPSTREAM}: set spec.image.repository to where yours is, or name it in "
        "spec.image.overrides",
    ),
)
