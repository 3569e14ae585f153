"""The common frame of the node agent's roles: flags, and a process with the node's own NodeFeature."""

from __future__ import annotations

import os
import re
from typing import TYPE_CHECKING

from controllers.api import names, resources
from controllers.api.nodefeature import NodeFeature
from controllers.runtime.errors import ConfigurationError
from controllers.runtime.reflector import Scope

if TYPE_CHECKING:
    import argparse
    from collections.abc import Awaitable, Callable

    from controllers.runtime.process import Process
    from controllers.runtime.store import Store


def add_node(parser: argparse.ArgumentParser, once: str) -> None:
    """The flags that say which node this is, and those of a single look; `once`: what that one does."""
    node = os.environ.get("NODE_NAME", "")
    parser.add_argument("--node", default=node, help="name of this node (default: NODE_NAME)")
    parser.add_argument("--once", action="store_true", help=once)
    parser.add_argument(
        "-o", "--output", choices=("text", "json", "yaml"), default="text", help="form of what --once prints"
    )


STALL_INTERVAL = 0.5
"""Seconds between two measurements of the event loop; oftener, they would be most of what a program costs at rest."""


def add_pool(parser: argparse.ArgumentParser, about: str) -> None:
    """The flags of a role that serves one pool on one node; `about`: what the pool is to it."""
    parser.add_argument("--pool", type=pool, required=True, help=about)
    node = os.environ.get("NODE_NAME", "")
    parser.add_argument("--node", default=node, help="name of this node (default: NODE_NAME)")


def need_node(process: Process) -> str:
    """The node's name; raises ConfigurationError where nobody says which node this is."""
    if not process.args.node:
        raise ConfigurationError("which node is this? Set NODE_NAME, or give --node")
    return str(process.args.node)


def pool(text: str) -> str:
    """A pool's name; the function's name stands in argparse's complaint."""
    if re.fullmatch("[a-z0-9]([-a-z0-9]*[a-z0-9])?", text) is None or len(text) > names.POOL_NAME_MAX:
        raise ValueError(text)
    return text


def own_report(process: Process) -> Store[NodeFeature]:
    """The cache of the node's own report alone; raises ConfigurationError where nobody says which node this is."""
    node = process.args.node
    if not node:
        raise ConfigurationError("which node is this? Set NODE_NAME, or give --node; --once needs neither")
    only = Scope(namespace=names.NAMESPACE, fields=f"metadata.name={names.agent_feature(node)}")
    return process.reflect(resources.NODEFEATURE, NodeFeature, scope=only)


async def live(process: Process, publish: Callable[[], Awaitable[None]], close: Callable[[], Awaitable[None]]) -> None:
    """Publish until the process is told to end, then close: no reader of the driver is left behind."""
    try:
        await process.run(publish, lease=None, namespace=names.NAMESPACE)
    finally:
        await close()
