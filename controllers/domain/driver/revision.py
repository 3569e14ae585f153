"""The revision of a driver: a hash over what would run on a node, not over how it comes there. Pure."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING, Any, Final

from controllers.api.gpudriver import GPUDriverSpec
from controllers.api.record import adapter
from controllers.domain.driver.variant import REVISION_LENGTH

if TYPE_CHECKING:
    from collections.abc import Mapping

NOT_CONTENT: Final = ("priority", "target", "mode", "resources", "rollout")
"""Fields of the spec that say who gets a driver, when and how. A mode that changes the image changes the variant."""


def revision(spec: GPUDriverSpec, config_maps: Mapping[str, Mapping[str, str]]) -> str:
    """Ten hexadecimal digits that change with what a node would run: the revision.

    `config_maps` has the data of those that the spec names, by name; one that is not there counts as empty. What
    stands at its default is not counted: a field that a later version of the module adds makes no new revision.
    """
    content = _pruned(adapter(GPUDriverSpec).dump_python(spec, mode="json", by_alias=True, exclude_defaults=True))
    for key in NOT_CONTENT:
        content.pop(key, None)
    for key in ("pullPolicy", "pullSecrets"):
        content.get("image", {}).pop(key, None)
    content["configMaps"] = {name: dict(config_maps.get(name, {})) for name in config_maps_of(spec)}
    text = json.dumps(_pruned(content), sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:REVISION_LENGTH]


def config_maps_of(spec: GPUDriverSpec) -> tuple[str, ...]:
    """Names of the ConfigMaps of the module's namespace whose content is part of the driver."""
    named = (spec.build.repositories.config_map, spec.build.certificates.config_map)
    return tuple(dict.fromkeys(name for name in named if name))


def _pruned(value: Any) -> Any:
    """Without tables that say nothing: `kernelModules: {nvidia: {}}` is the same as none."""
    if not isinstance(value, dict):
        return value
    kept = {key: _pruned(item) for key, item in value.items()}
    return {key: item for key, item in kept.items() if item not in ({}, None)}
