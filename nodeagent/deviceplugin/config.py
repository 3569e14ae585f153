"""The pool's ConfigMaps, cut down to this node as they are read: a list of a thousand cards is not kept.

What is cut away does not count as a change either, so other nodes' cards come and go without waking us.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, cast

from pydantic import AfterValidator

from controllers.api import names
from controllers.api.kube import ConfigMap
from controllers.api.resources import CONFIGMAP
from controllers.runtime.reflector import Scope

if TYPE_CHECKING:
    from controllers.runtime.process import Process
    from controllers.runtime.store import Store


def of_node(config: ConfigMap, node: str) -> ConfigMap:
    """A ConfigMap with the node's own lines alone; those of `a-b` begin like those of `a`, and stay with them."""
    lines = config.data.get(names.ALLOWED_DEVICES, "").splitlines()
    mine = "\n".join(line for line in lines if line.lstrip().startswith(f"{node}-"))
    data = {names.ALLOWED_DEVICES: mine}
    if names.PLUGIN_SETTINGS in config.data:
        data[names.PLUGIN_SETTINGS] = config.data[names.PLUGIN_SETTINGS]
    return replace(config, data=data)


def follow(process: Process, pool: str, node: str) -> Store[ConfigMap]:
    """The cache of the pool's ConfigMaps."""
    record = cast("type[ConfigMap]", Annotated[ConfigMap, AfterValidator(lambda config: of_node(config, node))])
    scope = Scope(namespace=names.NAMESPACE, labels=f"{names.LABEL_POOL}={pool}")
    return process.reflect(CONFIGMAP, record, scope=scope)
