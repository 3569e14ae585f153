"""The API server's refusals as sentences for whoever typed the command. Pure."""

from __future__ import annotations

import re

from controllers.api import names
from controllers.runtime.errors import ApiError, Forbidden, NotFound, RuntimeFault, Unreachable

_RBAC = re.compile(
    r'User "(?P<user>[^"]*)" cannot (?P<verb>\S+) resource "(?P<resource>[^"]*)" in API group "(?P<group>[^"]*)"'
    r'(?: in the namespace "(?P<namespace>[^"]*)")?'
)
_WEBHOOK = re.compile(
    rf'admission webhook "[^"]*\.{re.escape(names.GROUP)}" denied the request: (?P<why>.*)', re.DOTALL
)
UNAUTHORIZED = 401


class UsageError(Exception):
    """Something that whoever typed the command can mend; the text is the sentence that says so."""


def refusal(message: str) -> str | None:
    """What one of our webhooks said, out of the API server's words around it; None where it was none of them."""
    found = _WEBHOOK.search(message)
    return found["why"] if found else None


def is_refusal(error: RuntimeFault | None) -> bool:
    """Whether one of our webhooks said no; not where somebody else did, or nobody answered."""
    return isinstance(error, ApiError) and refusal(error.message) is not None


def describe_fault(error: RuntimeFault) -> str:
    """What went wrong, and what to do."""
    if isinstance(error, ApiError) and (why := refusal(error.message)) is not None:
        return why
    if isinstance(error, Forbidden):
        return _forbidden(error)
    if isinstance(error, NotFound) and not error.about:
        return (
            f"This cluster does not know such objects ({error.message}). Is the module {names.MODULE} installed?"
            f" kubectl get crd gpudevices.{names.GROUP}"
        )
    if isinstance(error, Unreachable):
        return f"The API server does not answer ({error}). Try kubectl cluster-info, or name another --context."
    return error.message if isinstance(error, ApiError) else str(error)


def _forbidden(error: Forbidden) -> str:
    if error.status == UNAUTHORIZED:
        return "The cluster does not accept your credentials (401). Log in again, or name another --context."
    found = _RBAC.search(error.message)
    if found is None:
        return f"You are not allowed to do this: {error.message}"
    verb, namespace = found["verb"], found["namespace"]
    what = f"{found['resource']}.{found['group']}" if found["group"] else found["resource"]
    where = f"in namespace {namespace}" if namespace else "in the whole cluster"
    role = f"role --namespace={namespace}" if namespace else "clusterrole"
    return (
        f"{found['user']} may not {verb} {what} {where}. Ask an administrator for that right:"
        f" kubectl create {role} gpu-{verb} --verb={verb} --resource={what}, bound to you"
    )
