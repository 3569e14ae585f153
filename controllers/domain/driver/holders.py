"""Processes that have a driver's devices open, as messages name them. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from controllers.domain.wording import listed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from controllers.api.driver_look import Holder


def process_name(command: str, pid: int, pod_uid: str | None) -> str:
    """One of them: its name, its number on the host, and the uid of its pod where it has one."""
    return f"{command} ({pid}{f', pod {pod_uid}' if pod_uid else ''})"


def process_names(holders: Iterable[Holder]) -> str:
    """All of them in one text."""
    return listed(process_name(one.command, one.pid, one.pod_uid) for one in holders)
