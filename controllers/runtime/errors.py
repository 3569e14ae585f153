"""Errors of the API server and of the process, as one class tree.

RuntimeFault
├── ApiError            the API server answered with an error
│   ├── NotFound        404
│   ├── Conflict        409 and 412: somebody else wrote first; quiet, try again
│   │   └── AlreadyExists   409 on create
│   ├── Gone            410: the resourceVersion is too old; list again
│   ├── Forbidden       401, 403
│   ├── Invalid         400, 413, 422: the request is wrong; trying again will not help
│   ├── EvictionRefused an eviction: not now, says a budget of the pod's, or who looks after it
│   └── Busy            429, 503, 504: later, after `retry_after` seconds
├── Unreachable         no answer: refused, reset, timed out
├── LostLeadership      somebody else may lead now; no more writes
├── ClockJumped         the wall clock was set; what was noted by it is wrong
├── Retry               the reconciler wants to be called again after `after` seconds
├── ConfigurationError  no usable kubeconfig or credentials
└── Terminal            trying again will not help until an input changes
"""

from __future__ import annotations

import orjson


class RuntimeFault(Exception):
    """Root of the tree above."""


class ApiError(RuntimeFault):
    """An error answer of the API server."""

    def __init__(
        self, status: int, reason: str, message: str, retry_after: float | None = None, about: str = ""
    ) -> None:
        super().__init__(f"{status} {reason}: {message}")
        self.status = status
        self.reason = reason
        self.message = message
        self.retry_after = retry_after
        self.about = about
        """The name of the object that the answer speaks of; empty where a whole kind is missing."""


class NotFound(ApiError):
    """The object, or its kind, is not there."""


class Conflict(ApiError):
    """The object changed since it was read, or is another one of the same name."""


class AlreadyExists(Conflict):
    """An object of that name is there already."""


class Gone(ApiError):
    """The resourceVersion is no longer in the server's history."""


class Forbidden(ApiError):
    """The process's identity may not do this."""


class Invalid(ApiError):
    """The server refuses the content of the request."""


class Busy(ApiError):
    """The server asks to come back later."""


class EvictionRefused(ApiError):
    """A pod may not be evicted now, which is no sign of a server that has too much to do."""


class Unreachable(RuntimeFault):
    """No answer from the API server."""


class LostLeadership(RuntimeFault):
    """The lease could not be renewed in time."""


class ClockJumped(RuntimeFault):
    """The wall clock jumped by so many `seconds`."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"the wall clock jumped by {seconds:+.0f} s")


class Retry(RuntimeFault):
    """Call again after a while; not an error."""

    def __init__(self, after: float, why: str) -> None:
        super().__init__(why)
        self.after = after


class ConfigurationError(RuntimeFault):
    """The process cannot start with what it was given."""


class Terminal(RuntimeFault):
    """Nothing to gain by trying again before an input changes."""


_BY_STATUS: dict[int, type[ApiError]] = {
    400: Invalid,
    401: Forbidden,
    403: Forbidden,
    404: NotFound,
    409: Conflict,
    410: Gone,
    412: Conflict,
    413: Invalid,
    422: Invalid,
    429: Busy,
    503: Busy,
    504: Busy,
}


def from_answer(status: int, body: bytes, retry_after: str | None = None) -> ApiError:
    """The error that an answer with that status and body (a `Status`, if all is well) means."""
    try:
        answer = orjson.loads(body)
        reason, message = str(answer.get("reason") or "Unknown"), str(answer.get("message") or "no message")
        details = answer.get("details") or {}
        about, causes = str(details.get("name") or ""), details.get("causes") or ()
    except (ValueError, AttributeError):
        reason, message, about, causes = "Unknown", body[:200].decode(errors="replace"), "", ()
    kind = AlreadyExists if reason == "AlreadyExists" else _BY_STATUS.get(status, ApiError)
    if kind is Invalid and any(cause.get("field") == "metadata.uid" for cause in causes):
        kind = Conflict  # "field is immutable": the object of this name is another one by now
    after = float(retry_after) if retry_after and retry_after.isdigit() else None
    return kind(status, reason, message, after, about)


def no_credentials(where: object, why: object) -> ConfigurationError:
    """Say which credentials could not be used, and what to do."""
    return ConfigurationError(
        f"cannot use {where}: {' '.join(str(why).split())}. Give --kubeconfig a file that names a cluster and a user,"
        " or run in a pod with a ServiceAccount."
    )
