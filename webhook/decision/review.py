"""AdmissionReviews: bytes in, one of three outcomes; verdicts in, bytes out. Pure.

Whatever arrives gets a proper answer. Without a uid nobody can be answered in the protocol:
that is `NotAReview`, an HTTP error with a sentence. With one, everything else is answered
under it: `Unreadable` is refused, `OutOfScope` (no creation of a pod) goes on untouched.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any, Final

import orjson
from pydantic import ValidationError

from controllers.api import bounds
from controllers.api.record import adapter
from webhook.decision.records import AdmissionPod, ReviewRequest, UserInfo
from webhook.decision.verdict import INVALID, Denied

API_VERSION: Final = "admission.k8s.io/v1"
KIND: Final = "AdmissionReview"
BODY_MAX: Final = 8 << 20
UID_MAX: Final = 1024
_PLACEMENT: Final = ("nodeSelector", "affinity", "tolerations", "topologySpreadConstraints")
_ABOUT_NODES: Final = f"{', '.join(_PLACEMENT[:-1])} and {_PLACEMENT[-1]}"
_request, _pod = adapter(ReviewRequest), adapter(AdmissionPod)


class NotAReview(ValueError):
    """The body is no AdmissionReview that could be answered; the text says what it is."""


@dataclass(frozen=True, slots=True)
class Request:
    """A pod that somebody creates."""

    uid: str
    namespace: str
    dry_run: bool
    user: UserInfo
    raw: dict[str, Any]
    pod: AdmissionPod

    @property
    def pod_name(self) -> str:
        """The pod's name, or its generateName with `*`: the name may not be chosen yet."""
        meta = self.pod.metadata
        return (meta.name or f"{meta.generate_name or ''}*")[:254]


@dataclass(frozen=True, slots=True)
class Unreadable:
    """A review with a uid whose content makes no sense."""

    uid: str
    why: Denied


@dataclass(frozen=True, slots=True)
class OutOfScope:
    """A review of something that this webhook does not validate."""

    uid: str
    what: str


def parse(body: bytes) -> Request | Unreadable | OutOfScope:
    """Read a review; raises NotAReview."""
    uid, content = envelope(body)
    try:
        request = _request.validate_python(content)
    except ValidationError as error:
        return unreadable(uid, "the request", error)
    resource = "/".join(filter(None, (request.resource.group, request.resource.resource, request.sub_resource)))
    if request.operation != "CREATE" or resource != "pods":
        return OutOfScope(uid, f"{request.operation or 'no operation'} of {resource or 'nothing'}"[:200])
    if not isinstance(request.object, dict):
        found = f"request.object is {type(request.object).__name__}, expected the pod that is created"
        return Unreadable(uid, Denied(INVALID, f"{found}; send an AdmissionReview as the API server does"))
    if (too_much := _too_much(request.object)) is not None:
        return Unreadable(uid, Denied(INVALID, f"{too_much}; name fewer nodes, or select them by a label"))
    try:
        pod = _pod.validate_python(request.object)
    except ValidationError as error:
        return unreadable(uid, "the pod", error)
    namespace = request.namespace or pod.metadata.namespace or ""
    return Request(uid, namespace, bool(request.dry_run), request.user_info, request.object, pod)


def _too_much(pod: dict[str, Any]) -> str | None:
    """Why what the pod says about its nodes is not read, which takes ten times as long as this; None where it is."""
    spec = pod.get("spec")
    parts = [spec[part] for part in _PLACEMENT if part in spec] if isinstance(spec, dict) else []
    try:
        sent = sum(len(orjson.dumps(part)) for part in parts)
    except orjson.JSONEncodeError as error:
        return f"the pod's {_ABOUT_NODES} cannot be read: {error}"
    if sent <= bounds.JSON_MAX:
        return None
    return (
        f"the pod's {_ABOUT_NODES} have {sent} bytes of JSON; where cards are asked for {bounds.JSON_MAX} are allowed"
    )


def envelope(body: bytes) -> tuple[str, dict[str, Any]]:
    """The uid of a review, and its request as JSON; raises NotAReview."""
    try:
        review = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise NotAReview(f"the body ({len(body)} bytes) is not JSON: {error}; expected an {KIND}") from error
    content = review.get("request") if isinstance(review, dict) else None
    uid = content.get("uid") if isinstance(content, dict) else None
    if not isinstance(content, dict) or not isinstance(uid, str) or not 0 < len(uid) <= UID_MAX:
        raise NotAReview(f"the body is JSON, but no {KIND} with a request.uid; expected {API_VERSION} {KIND}")
    return uid, content


def unreadable(uid: str, what: str, error: ValidationError) -> Unreadable:
    """What is answered where a part of a review is not what the API server sends."""
    first = error.errors(include_url=False)[0]
    place = ".".join(map(str, first["loc"]))[:200] or "it"
    found = repr(first["input"])[:80] if isinstance(first["input"], (str, int, float, type(None))) else "something else"
    sentence = (
        f"{what} cannot be read: {place}: {first['msg']}, found {found}"
        f" ({error.error_count()} such in all); send it as the API server does"
    )
    return Unreadable(uid, Denied(INVALID, sentence))


def allow(
    uid: str,
    patch: tuple[dict[str, Any], ...] = (),
    *,
    warnings: tuple[str, ...] = (),
    audit: dict[str, str] | None = None,
) -> bytes:
    """The answer that lets the object pass, changed by a JSON patch."""
    response: dict[str, Any] = {"uid": uid, "allowed": True}
    if patch:
        response |= {"patchType": "JSONPatch", "patch": base64.b64encode(orjson.dumps(patch)).decode()}
    if warnings:
        response["warnings"] = list(warnings)
    return _answer(response, audit)


def deny(uid: str, why: Denied, *, audit: dict[str, str] | None = None) -> bytes:
    """The answer that refuses the object with a sentence for its creator."""
    status: dict[str, Any] = {
        "status": "Failure",
        "code": why.http_status,
        "reason": why.status_reason,
        "message": why.message,
    }
    if why.retry_after is not None:
        status["details"] = {"retryAfterSeconds": why.retry_after}
    return _answer({"uid": uid, "allowed": False, "status": status}, audit)


def _answer(response: dict[str, Any], audit: dict[str, str] | None) -> bytes:
    if audit:
        response["auditAnnotations"] = audit
    return orjson.dumps({"apiVersion": API_VERSION, "kind": KIND, "response": response})
