"""How a command gets to its cluster: by a kubeconfig and its contexts, or from within a pod."""

from __future__ import annotations

import os
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from controllers.explain.faults import UsageError
from controllers.explain.words import meant
from controllers.runtime.client import Client
from controllers.runtime.library import config
from kubectl_gpu.cluster import MANAGER, Cluster

if TYPE_CHECKING:
    import argparse
    from collections.abc import AsyncIterator

SERVICE_ACCOUNT = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")


@asynccontextmanager
async def connected(args: argparse.Namespace, connections: int = 8) -> AsyncIterator[Cluster]:
    """The cluster that the command line means, by so many connections at most; raises UsageError."""
    path = _kubeconfig(getattr(args, "kubeconfig", None))
    context = getattr(args, "context", None)
    namespace = _own_namespace() if path is None else _namespace(path, context)
    client = await Client.connect(
        path, user_agent=MANAGER, connections=connections, context=context, headers=_impersonation(args)
    )
    try:
        yield Cluster(client, getattr(args, "namespace", None) or namespace or "default")
    finally:
        await client.close()


def _impersonation(args: argparse.Namespace) -> dict[str, str]:
    """The headers, one for each group.

    The client takes a mapping, so that the groups' headers need names of their own: they differ in case, which means
    nothing in the name of a header (RFC 9110, 5.1).
    """
    user = getattr(args, "as_user", None)
    groups = [*getattr(args, "as_group_before", ()), *getattr(args, "as_group", ())]
    if groups and not user:
        raise UsageError("--as-group needs --as: a group alone is nobody.")
    named = {_spelled("impersonate-group", at): group for at, group in enumerate(groups)}
    return named | ({"Impersonate-User": user} if user is not None else {})


def _spelled(header: str, at: int) -> str:
    """One of the spellings of a header's name in capital and small letters, each number another."""
    return "".join(letter.upper() if at >> place & 1 else letter for place, letter in enumerate(header))


def _kubeconfig(given: str | None) -> Path | None:
    """The files to read, in kubectl's order; None within a pod. Several stand in one path, as in $KUBECONFIG."""
    if given is not None:
        if not Path(given).is_file():
            raise UsageError(f"There is no kubeconfig {given}.")
        return Path(given)
    listed = os.environ.get("KUBECONFIG", "")
    candidates = listed or str(Path.home() / ".kube" / "config")
    if any(Path(one).expanduser().is_file() for one in candidates.split(os.pathsep) if one):
        return Path(candidates)
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return None
    raise UsageError(f"There is no kubeconfig ({candidates}). Give --kubeconfig, or set KUBECONFIG.")


def _own_namespace() -> str | None:
    """The namespace of the pod that this runs in."""
    return SERVICE_ACCOUNT.read_text().strip() if SERVICE_ACCOUNT.exists() else None


def contexts(given: str | None) -> list[str]:
    """Names of the kubeconfig's contexts."""
    path = _kubeconfig(given)
    found = config.list_kube_config_contexts(str(path))[0] if path else []
    return [context["name"] for context in found]


def _namespace(path: Path, context: str | None) -> str | None:
    """The namespace of the context; raises UsageError where there is no such context."""
    try:
        known, current = config.list_kube_config_contexts(str(path))
    # What a file of another shape raises; connecting says it with the file's name.
    except Exception:  # noqa: BLE001
        return None
    chosen = current if context is None else next((c for c in known if c["name"] == context), None)
    if chosen is None and context is not None:
        guess = meant(context, [c["name"] for c in known])
        raise UsageError(f"There is no context {context!r} in the kubeconfig.{guess}")
    found: str | None = ((chosen or {}).get("context") or {}).get("namespace")
    return found
