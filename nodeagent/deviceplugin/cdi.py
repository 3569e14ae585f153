"""What the node's CDI specifications name, and whether its container runtime applies such names. Pure.

Specifications: github.com/cncf-tags/container-device-interface, SPEC.md. Runtimes: containerd applies what
a device plugin gives since 1.7 where `enable_cdi` is on, which is the default since 2.0; CRI-O since 1.23.
"""

from __future__ import annotations

import re
import tomllib
from typing import Any

import yaml

_RUNTIME = re.compile(r"(?P<name>[a-z-]+)://v?(?P<major>[0-9]{1,4})\.(?P<minor>[0-9]{1,4})")
_ALWAYS = {"containerd": (2, 0), "cri-o": (1, 23)}
_CONFIGURED = {"containerd": (1, 7)}


def names(text: str) -> frozenset[str]:
    """The qualified names of a specification's devices, as `nvidia.com/gpu=0`; none where it cannot be read."""
    try:
        found = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))  # noqa: S506 - a safe one
        devices = found["devices"]
        return frozenset(f"{found['kind']}={device['name']}" for device in devices)
    except (yaml.YAMLError, RecursionError, ValueError, TypeError, KeyError, AttributeError):
        return frozenset()


def applied(runtime: str, configuration: str) -> bool:
    """Whether the runtime applies CDI names.

    `runtime`: as a Node tells it (`containerd://1.7.35`); `configuration`: containerd's own file.
    """
    told = _RUNTIME.match(runtime)
    if told is None:
        return False
    version = int(told["major"]), int(told["minor"])
    if version >= _ALWAYS.get(told["name"], (10000, 0)):
        return not _switched(configuration, on=False)
    return version >= _CONFIGURED.get(told["name"], (10000, 0)) and _switched(configuration, on=True)


def _switched(configuration: str, *, on: bool) -> bool:
    """Whether the configuration says `enable_cdi` so, wherever its version keeps that."""
    try:
        return _holds(tomllib.loads(configuration), on)
    except (tomllib.TOMLDecodeError, RecursionError):
        return False


def _holds(value: Any, on: bool) -> bool:
    if not isinstance(value, dict):
        return False
    return value.get("enable_cdi") is on or any(_holds(inner, on) for inner in value.values())
