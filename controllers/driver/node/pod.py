"""What a driver's pod on a node comes to: it serves, it is at work, or it has failed, and whose fault that is. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from pydantic import ValidationError

from controllers.api.driver_look import DONE, NODE, Prepared
from controllers.api.reasons import driver_failed
from controllers.api.record import adapter
from controllers.driver.node.waiting import not_started
from controllers.driver.pods.container_names import PREPARE

if TYPE_CHECKING:
    from controllers.api.reasons.typed import Reason
    from controllers.domain.driver.states import Fault
    from controllers.driver.records import ContainerStatus, Pod, Terminated

TRIES: Final = 2
"""Ends of one of the driver's containers after which it has failed: one may be chance."""
TEXT_MAX: Final = 512
REASONS: Final[dict[str, Reason | None]] = {
    "ImageMissing": "PullFailed",
    "PullFailed": "PullFailed",
    "SecretMissing": "SecretMissing",
    "NotMade": None,
}
"""Reasons by why a container does not start; none of them is the revision's fault yet."""
OF_REVISION: Final = frozenset(word for row in driver_failed.REVISION for word in row.reasons.split())
"""Reasons that speak against the revision."""
WORDS: Final = frozenset(word for row in driver_failed.ROWS for word in row.reasons.split())
SPOKEN: Final[tuple[tuple[str, Reason], ...]] = (
    ("No space left on device", "DiskFull"),
    ("Unknown symbol", "UnknownSymbol"),
    ("Could not resolve Linux kernel version", "HeadersMissing"),
    ("Could not resolve host", "RepositoryUnreachable"),
    ("Temporary failure resolving", "RepositoryUnreachable"),
    ("Failed to fetch", "RepositoryUnreachable"),
    ("Cannot download", "RepositoryUnreachable"),
    ("could not insert", "ModuleLoad"),
    ("Unable to load the kernel module", "ModuleLoad"),
    ("Unable to build", "BuildFailed"),
)
"""What the last lines of NVIDIA's programs and of those that they call say, and what that means; the first counts."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """How far a driver's pod is."""

    serves: bool = False
    """It is Ready."""
    reason: Reason | None = None
    """What is in the way; None where nothing is."""
    message: str = ""
    fault: Fault | None = None
    """Whose fault it is; None where it may yet pass."""

    def at_limit(self, late: Reason, message: str) -> Outcome:
        """What it comes to once time is up: what is in the way, and where nothing is, that reason and that message."""
        reason = self.reason or late
        return Outcome(reason=reason, message=self.message or message, fault=self.fault or fault_of(reason))


def fault_of(reason: Reason) -> Fault:
    """Whose fault a failure is by its reason."""
    return "revision" if reason in OF_REVISION else "node"


def failed_word(said: str) -> Reason:
    """A word of a program on the node, as a reason: one of another version may say what no row is about."""
    return cast("Reason", said) if said in WORDS else "DriverPodFailed"


def outcome(pod: Pod | None) -> Outcome:
    """What the pod comes to; None is a pod that is not there yet."""
    if pod is None:
        return Outcome()
    if pod.ready:
        return Outcome(serves=True)
    containers = (*pod.status.init_container_statuses, *pod.status.container_statuses)
    for one in containers:
        if (found := _not_started(one)) is not None:
            return found
    for one in containers:
        if (ended := _last_end(one)) is not None and ended.exit_code != DONE:
            return _refused(ended) if one.name == PREPARE else _container_failed(one, ended)
    return Outcome()


def _not_started(container: ContainerStatus) -> Outcome | None:
    """What kubelet cannot get and the container needs: its image, or a Secret that went after the look at the node.

    Of a container that the runtime refuses to make nothing says whose fault it is: time has to pass, and the message
    is then told.
    """
    found = not_started(container)
    if found is None:
        return None
    return Outcome(reason=REASONS[found.kind], message=f"container {container.name}: {found.message}")


def _last_end(container: ContainerStatus) -> Terminated | None:
    """How the container ended last; None where it runs for the first time."""
    return container.state.terminated or container.last_state.terminated


def _refused(ended: Terminated) -> Outcome:
    """What `nodeagent driver prepare` says; its exit code says whose fault it is."""
    fault: Fault | None = "node" if ended.exit_code == NODE else None
    try:
        said = adapter(Prepared).validate_json(ended.message)
    except ValidationError:
        text = ended.message[-TEXT_MAX:] or ended.reason or f"exit code {ended.exit_code}"
        return Outcome(
            reason="DriverPodFailed", message=f"the way for the driver could not be cleared: {text}", fault=fault
        )
    return Outcome(reason=failed_word(said.reason), message=said.message, fault=fault)


def _container_failed(container: ContainerStatus, ended: Terminated) -> Outcome:
    text = ended.message[-TEXT_MAX:].strip() or ended.reason
    found: list[Reason] = [word for part, word in SPOKEN if part in ended.message]
    reason = found[0] if found else "DriverPodFailed"
    ends = container.restart_count + (container.state.terminated is not None)
    message = f"container {container.name} ended with exit code {ended.exit_code}, {ends} times: {text}"
    return Outcome(reason=reason, message=message, fault=fault_of(reason) if ends >= TRIES else None)
