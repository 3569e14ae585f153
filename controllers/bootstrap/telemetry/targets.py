"""Where the nodes' DCGM exporters answer: the URLs that are scraped."""

from __future__ import annotations

import argparse
import string
from typing import TYPE_CHECKING, Final

from controllers.components.pods.dcgm_exporter import EXPORTER_PORT

if TYPE_CHECKING:
    from collections.abc import Callable

    from controllers.bootstrap.world import World

EXPORTER_URL: Final = f"http://{{host}}:{EXPORTER_PORT}/metrics"
"""The template of the module's own exporters."""


def exporter_urls(world: World, is_monitored: Callable[[str], bool], template: str) -> dict[str, str]:
    """Where each monitored node's exporter answers; an IPv6 address stands in brackets."""
    return {
        node: template.format(node=node, host=f"[{address}]" if ":" in address else address)
        for node, address in world.exporters()
        if is_monitored(node)
    }


def exporter_url(text: str) -> str:
    """A template of an exporter's address, from the command line; raises ArgumentTypeError."""
    try:
        fields = {name for _, name, _, _ in string.Formatter().parse(text) if name is not None}
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no template: {error}") from error
    if not fields or fields - {"host", "node"} or not text.startswith(("http://", "https://")):
        raise argparse.ArgumentTypeError(f"{text!r}: expected an http URL with {{host}} or {{node}} in it")
    return text
