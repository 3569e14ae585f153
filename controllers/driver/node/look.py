"""How the containers of a pod that looks at a node have ended, and what that comes to. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, cast

from pydantic import ValidationError

from controllers.api.driver_look import DONE, TEXT_MAX, Look, Prepared
from controllers.api.reasons import driver_blocked
from controllers.api.record import adapter
from controllers.domain.driver.holders import process_names
from controllers.driver.node.fitness import assess
from controllers.driver.node.verdict import GOOD, PENDING, Verdict
from controllers.driver.node.waiting import not_started
from controllers.driver.pods.container_names import LOOK
from controllers.driver.pods.sidecars import check_images

if TYPE_CHECKING:
    from collections.abc import Collection

    from controllers.api.gpudriver import GPUDriverSpec
    from controllers.api.reasons.typed import Reason
    from controllers.domain.driver.choice import Install
    from controllers.driver.records import ContainerStatus, Pod, Terminated

WORDS: Final = frozenset(word for row in driver_blocked.ROWS for word in row.reasons.split())


def blocked_word(said: str) -> Reason:
    """A word of a program on the node, as a reason: one of another version may say what no row is about."""
    return cast("Reason", said) if said in WORDS else "PreflightFailed"


def verdict(pod: Pod, target: Install, spec: GPUDriverSpec, node: str, *, serves: bool = False) -> Verdict:
    """What the check pod has found out by now. `serves`: as of `fitness.Case`."""
    images = check_images(spec, target)
    for name, image in images.items():
        one = pod.container(name)
        if one is not None and (refused := _not_started(one, image, target, node)) is not None:
            return refused
    ends = {name: _end(pod, name) for name in (*images, LOOK)}
    failed = next((one for one in ends.values() if one is not None and one.exit_code != DONE), None)
    if failed is not None:
        return _failed(failed, node)
    look = ends[LOOK]
    if look is None or None in ends.values():
        return _ended_early(pod, node)
    try:
        return assess(adapter(Look).validate_json(look.message), target, spec, node, serves=serves)
    except ValidationError:
        return _failed(look, node)


def released(pod: Pod, drivers: Collection[str], node: str, *, by_pods: bool = False) -> Verdict:
    """Whether nobody but the pods of drivers holds the driver open, by a pod that has looked. `drivers`: their uids.

    `by_pods`: whether processes of the host may.
    """
    ended = _end(pod, LOOK)
    if ended is None:
        return _ended_early(pod, node)
    if ended.exit_code != DONE:
        return _failed(ended, node)
    try:
        found = adapter(Look).validate_json(ended.message)
    except ValidationError:
        return _failed(ended, node)
    holders = tuple(one for one in found.holders if one.pod_uid not in drivers and (one.pod_uid or not by_pods))
    if not holders:
        return GOOD
    message = f"the driver of node {node} is held open by {process_names(holders)}: end them"
    return Verdict(reason="DevicesHeld", message=message)


def _end(pod: Pod, name: str) -> Terminated | None:
    """How a container ended; None where it has not, or is not there yet."""
    found = pod.container(name)
    return found.state.terminated if found is not None else None


def _failed(ended: Terminated, node: str) -> Verdict:
    """A container of the check pod that says what is in the way, or just ended badly."""
    try:
        said = adapter(Prepared).validate_json(ended.message)
        return Verdict(reason=blocked_word(said.reason), message=f"node {node}: {said.message}")
    except ValidationError:
        text = ended.message[-TEXT_MAX:] or ended.reason or f"exit code {ended.exit_code}"
        return Verdict(reason="PreflightFailed", message=f"the check of node {node} failed: {text}")


def _not_started(container: ContainerStatus, image: str, target: Install, node: str) -> Verdict | None:
    """A verdict where kubelet does not get the image, or what its container needs; None where nothing says so."""
    found = not_started(container)
    if found is None:
        return None
    match found.kind:
        case "SecretMissing":
            return Verdict(
                reason="SecretMissing", message=f"node {node} cannot start the driver's image: {found.message}"
            )
        case "NotMade":
            return Verdict(reason="PreflightFailed", message=f"node {node} cannot start {image}: {found.message}")
        case "PullFailed":
            return Verdict(reason="PullFailed", message=f"node {node} cannot pull {image}: {found.message}")
    do = "name a version that has one, or an image in spec.image.overrides"
    if image != target.image:
        do = "name another image or version where the driver names that one"
    message = f"node {node} finds no image {image} in its registry: {do}"
    return Verdict(reason="ImageMissing", message=message, image_missing=image == target.image)


def _ended_early(pod: Pod, node: str) -> Verdict:
    """A pod that ended without a word of its own: kubelet refused it, or its deadline passed."""
    if not pod.finished:
        return PENDING
    why = pod.status.reason or pod.status.phase
    return Verdict(reason="PreflightFailed", message=f"the check pod {pod.name} on node {node} ended ({why})")
