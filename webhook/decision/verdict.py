"""The verdict on a pod: denied, allowed without cards, placed, or queued. Pure data.

`Denied` carries what the creator reads: a stable error code, then a sentence with
what was found, what was expected and what to do. Temporary and lasting refusals have the
codes that quota and validation have, so that no client takes them for success or retries blindly.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from controllers.api import names

if TYPE_CHECKING:
    from controllers.domain.placement.choice import Placement
    from controllers.domain.request import PoolRequest

FORBIDDEN, UNPROCESSABLE, UNAVAILABLE = 403, 422, 503
INVALID: Final = "Invalid"
NOT_READY: Final = "NotReady"
UNWRITTEN: Final = "ReservationNotWritten"
FAULT: Final = "InternalError"
MESSAGE_MAX = 2000

_MEANING: Final[dict[str, tuple[int, str]]] = {
    names.POOL_NOT_FOUND: (UNPROCESSABLE, "Invalid"),
    names.MIXED_POOL_REQUEST: (UNPROCESSABLE, "Invalid"),
    INVALID: (UNPROCESSABLE, "Invalid"),
    names.ACCESS_DENIED: (FORBIDDEN, "Forbidden"),
    names.NOT_RESERVED: (FORBIDDEN, "Forbidden"),
    names.POOL_IN_MAINTENANCE: (FORBIDDEN, "Forbidden"),
    names.POOL_MISCONFIGURED: (FORBIDDEN, "Forbidden"),
    names.INSUFFICIENT_CAPACITY: (FORBIDDEN, "Forbidden"),
    names.UNKNOWN_POOL: (UNPROCESSABLE, "Invalid"),
    names.DEVICE_NOT_IN_SELECTOR: (UNPROCESSABLE, "Invalid"),
    names.DEVICE_BUSY: (FORBIDDEN, "Forbidden"),
    names.DEVICE_NOT_READY: (FORBIDDEN, "Forbidden"),
    names.INVALID_MIG_PROFILE: (UNPROCESSABLE, "Invalid"),
    NOT_READY: (UNAVAILABLE, "ServiceUnavailable"),
    UNWRITTEN: (UNAVAILABLE, "ServiceUnavailable"),
    FAULT: (500, "InternalError"),
}


@dataclass(frozen=True, slots=True)
class Denied:
    """The pod is refused."""

    error_code: str
    detail: str

    @property
    def message(self) -> str:
        """What the creator reads."""
        text = f"{self.error_code}: {self.detail}"
        return text if len(text) <= MESSAGE_MAX else text[: MESSAGE_MAX - 1] + "…"

    @property
    def http_status(self) -> int:
        """The HTTP status of the refusal."""
        return _MEANING[self.error_code][0]

    @property
    def status_reason(self) -> str:
        """Kubernetes' machine-readable reason."""
        return _MEANING[self.error_code][1]

    @property
    def retry_after(self) -> int | None:
        """Seconds after which the same request may pass without anybody doing anything."""
        return 1 if self.http_status == UNAVAILABLE else None


@dataclass(frozen=True, slots=True)
class AllowedWithoutCards:
    """The pod reserves nothing and goes on; `patch` takes away marks that are not its to set."""

    patch: tuple[dict[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Placed:
    """The pod gets these cards, once they are reserved."""

    wanted: PoolRequest
    request_id: str
    placement: Placement
    patch: tuple[dict[str, Any], ...]


@dataclass(frozen=True, slots=True)
class Queued:
    """The pod waits behind our scheduling gate."""

    wanted: PoolRequest
    request_id: str
    patch: tuple[dict[str, Any], ...]
    shortage: str = ""
    """Why the pool has no cards for it now, where that is why it waits."""

    @property
    def warnings(self) -> tuple[str, ...]:
        """What whoever creates the pod by hand reads."""
        if not self.shortage:
            return ()
        pool = self.wanted.pool
        return (
            f"the pod waits for {self.wanted.units} of GPUPool {pool}: {self.shortage}. See kubectl gpu queue {pool}",
        )


Verdict = Denied | AllowedWithoutCards | Placed | Queued
