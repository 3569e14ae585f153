"""Completion: names from the cluster for argcomplete, its scripts for the shells, and kubectl's own protocol.

kubectl calls `kubectl_complete-gpu <words…>` and reads candidates, one a line with its
description after a tab, then `:<directive>`: what its own `__complete` prints.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

from controllers.api import names, resources

if TYPE_CHECKING:
    import argparse
    from collections.abc import Mapping, Sequence

SHELLS = ("bash", "zsh", "fish")
PATIENCE = 3.0
"""Seconds that somebody who pressed TAB waits at most."""
NO_FILES = 4
"""cobra's ShellCompDirectiveNoFileComp: names of files are no candidates."""
SEPARATOR = "\013"
PROGRAM = "kubectl-gpu"


def _listed(
    parsed_args: argparse.Namespace,
    resource: resources.Resource,
    *,
    namespaced: bool = False,
    labels: str | None = None,
    fields: Mapping[str, str] | None = None,
) -> list[str]:
    """Names of objects; none where the cluster does not say: a completion is no place for an error."""

    async def ask() -> list[str]:
        from controllers.api.meta import KubeObject
        from kubectl_gpu.connecting import connected

        async with asyncio.timeout(PATIENCE), connected(parsed_args) as cluster:
            namespace = cluster.namespace if namespaced else None
            found = await cluster.list(resource, KubeObject, namespace=namespace, labels=labels, fields=fields)
            return [each.obj.name for each in found]

    try:
        return asyncio.run(ask())
    except Exception:  # noqa: BLE001 - whatever it was, TAB offers nothing
        return []


def cards(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """GPUDevices."""
    return _listed(parsed_args, resources.GPUDEVICE)


def nodes(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Nodes with cards."""
    return _listed(parsed_args, resources.GPUNODEINVENTORY)


def pools(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """GPUPools."""
    return _listed(parsed_args, resources.GPUPOOL)


ACTIONS = ("status", "pause", "resume", "retry", "hand-over")
"""Of `driver`."""


def drivers(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """What may follow `driver`: its actions and GPUDrivers; after actions on nodes those."""
    words = getattr(parsed_args, "words", None) or []
    if words[:1] in (["retry"], ["hand-over"]):
        return nodes(parsed_args)
    return [*([] if words else ACTIONS), *_listed(parsed_args, resources.GPUDRIVER)]


def namespaces(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Namespaces."""
    return _listed(parsed_args, resources.NAMESPACE)


def waiting(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Pods that a pool admitted, and that are on no node."""
    return _listed(parsed_args, resources.POD, namespaced=True, labels=names.LABEL_POOL, fields={"spec.nodeName": ""})


def contexts(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """Contexts of the kubeconfig."""
    from kubectl_gpu.connecting import contexts as of_file

    try:
        return of_file(getattr(parsed_args, "kubeconfig", None))
    except Exception:  # noqa: BLE001 - as above
        return []


def explained(parsed_args: argparse.Namespace, **_: Any) -> list[str]:
    """What can be explained: objects of the kind that was typed."""
    kind = getattr(parsed_args, "kind", None)
    if kind == "pod":
        return _listed(parsed_args, resources.POD, namespaced=True, labels=names.LABEL_POOL)
    known = {"card": cards, "node": nodes, "pool": pools}
    return known[kind](parsed_args) if kind in known else []


def script(shell: str) -> str:
    """What a shell sources."""
    from argcomplete.shell_integration import shellcode

    made: str = shellcode([PROGRAM], shell=shell)
    return made


def candidates(words: Sequence[str]) -> list[str]:
    """What may stand for the last word, after the others; asked as argcomplete's own scripts ask.

    Once in a process: it leaves the question in the environment.
    """
    from argcomplete.finders import CompletionFinder

    from kubectl_gpu.parser import build

    *whole, last = words or [""]
    line = shlex.join([PROGRAM, *whole]) + f" {last}"
    os.environ |= {"_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": SEPARATOR, "_ARGCOMPLETE_COMP_WORDBREAKS": ""}
    os.environ |= {"COMP_LINE": line, "COMP_POINT": str(len(line))}
    answer = io.StringIO()
    with contextlib.suppress(_DoneError):
        CompletionFinder()(build(), exit_method=_done, output_stream=answer, always_complete_options=False)
    found = answer.getvalue().split(SEPARATOR)
    return [text.strip() for text in found if text.strip()]


class _DoneError(BaseException):
    """argcomplete has written what it found, and would end the process."""


def _done(_: int = 0) -> None:
    raise _DoneError


def run() -> None:
    """`kubectl_complete-gpu`."""
    words = sys.argv[1:]
    found = candidates(words)
    sys.stdout.write("".join(f"{text}\n" for text in found) + f":{NO_FILES}\n")
