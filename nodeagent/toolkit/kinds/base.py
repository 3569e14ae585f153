"""What the keeper asks of a container runtime, whatever its kind."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar

from nodeagent.toolkit import inside
from nodeagent.toolkit.config.sources import Refused
from nodeagent.toolkit.cri import Runtime, RuntimeUnavailable
from nodeagent.toolkit.host import Host, Server

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from nodeagent.toolkit.config.plan import Plan
    from nodeagent.toolkit.disk import WayBack


@dataclass(frozen=True, slots=True)
class Kind(Host, ABC):
    """A host whose pods are made by a runtime of one kind."""

    name: ClassVar[str] = ""
    """As people call it."""

    @property
    def runtime(self) -> Runtime:
        """The runtime behind the socket, over CRI."""
        return Runtime(self.at(self.socket))

    @abstractmethod
    def server(self) -> Server:
        """The process that is configured; raises Refused."""

    @abstractmethod
    def serves(self) -> bool:
        """Whether it answers, and is of this kind; raises RuntimeUnavailable."""

    @abstractmethod
    def observe(self) -> tuple[Server, Any]:
        """Everything that a plan depends on; raises Refused, RuntimeUnavailable, OSError."""

    @abstractmethod
    def files(self) -> Any:
        """What there is of files where no runtime answers: enough to take ours away. Raises OSError, Refused."""

    @abstractmethod
    def install(self, node: Any) -> Plan:
        """The changes that make the handlers known; raises Refused."""

    @abstractmethod
    def removal(self, node: Any) -> Plan:
        """The changes that take away all that is ours; raises Refused."""

    @abstractmethod
    def prove(self, server: Server, node: Any, done: Plan, back: WayBack) -> None:
        """Raise Refused where the changed files would change more than what is ours, or not enough."""

    @abstractmethod
    def runs_with(self, done: Plan) -> bool:
        """Whether the running process has the plan's handlers; raises RuntimeUnavailable."""

    @abstractmethod
    def programs(self) -> Mapping[str, str]:
        """The program of each handler that the running process has, by name; raises RuntimeUnavailable."""

    @abstractmethod
    def fingerprint(self) -> tuple[object, ...]:
        """Changes when another process serves, or a file that was read, or may be, is another. Raises Refused."""

    def making(self) -> int:
        """How many containers are created and not started; raises RuntimeUnavailable."""
        return self.runtime.making()

    def reload(self, server: Server, done: Plan) -> bool:  # noqa: ARG002
        """Have the process read its files without a restart; whether it then runs with the plan."""
        return False

    def why_not_restarted(self, server: Server) -> str:
        """Why the module does not restart it: then a person has to. Empty where the module may."""
        if server.is_supervised:
            return ""
        return f"nothing would start {self.name} (process {server.pid}) again once it has ended: restart it by hand"


def printed(root: Path, command: list[str], seconds: float) -> str:
    """What a runtime's program prints of its configuration; raises Refused where it fails, RuntimeUnavailable."""
    try:
        text = inside.run(root, command, seconds)
    except TimeoutError as error:
        raise RuntimeUnavailable(str(error)) from None  # a node that is busy has refused nothing
    if text is None:
        name = PurePosixPath(command[0]).name
        raise Refused(f"{name} cannot read its own configuration: run `{' '.join(command)}` on the node to see why")
    return text
