"""What the keeper asks of a container runtime, whatever its kind."""

from __future__ import annotations

import tomllib
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, ClassVar, Final

from nodeagent.toolkit import inside
from nodeagent.toolkit.config import effective
from nodeagent.toolkit.config.sources import ByHand, Refused
from nodeagent.toolkit.cri import Runtime, RuntimeUnavailable
from nodeagent.toolkit.host import Host, Server

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from pathlib import Path

    from nodeagent.toolkit.config.plan import Plan
    from nodeagent.toolkit.disk import WayBack

PRINT_SECONDS: Final = 30.0


@dataclass(frozen=True, slots=True)
class Kind(Host, ABC):
    """A host whose pods are made by a runtime of one kind."""

    name: ClassVar[str] = ""
    """As people call it."""

    @property
    def runtime(self) -> Runtime:
        """The runtime behind the socket, over CRI."""
        return Runtime(self.at(self.socket))

    def listening(self, program: str) -> Server:
        """Who listens at the socket, where its program's name begins so; raises Refused."""
        found = self.listener(self.socket)
        if not PurePosixPath(found.program).name.startswith(program):
            raise ByHand(f"{found.program} serves {self.socket}, and not {self.name}; configure it by hand")
        return found

    def release(self, server: Server, name: str) -> tuple[int, int]:
        """The version that it tells over CRI: major, minor; raises ByHand where it tells another name."""
        found = self.runtime.version(name)
        if found is None:
            raise ByHand(f"{server.program} does not say over CRI that it is {self.name}; configure it by hand")
        return found

    def parsed(self, text: str) -> dict[str, Any]:
        """The configuration that its program prints, as tables; raises Refused."""
        try:
            return tomllib.loads(text)
        except (tomllib.TOMLDecodeError, RecursionError):
            raise Refused(f"what {self.name} prints of its configuration is not TOML") from None

    def demand_ours_alone(
        self, before: Mapping[str, Any], after: Mapping[str, Any], is_ours: Callable[[tuple[str, ...]], bool]
    ) -> None:
        """Raise Refused where two of its configurations differ in more than what is ours."""
        more = [path for path in effective.differences(before, after) if not is_ours(path)]
        if more:
            # Names of settings, never their values.
            told = ", ".join(sorted({".".join(path[:4]) for path in more})[:3])
            raise Refused(f"{self.name} would read other settings than ours otherwise: {told}")

    def demand_handlers(self, done: Plan, known: Mapping[str, str], *, cdi: bool = True) -> None:
        """Raise Refused where a plan's handlers are not among those of a configuration, or CDI is not on in it."""
        if lacking := [*missing(done, known), *(["CDI"] if done.cdi and not cdi else [])]:
            raise Refused(f"{self.name} would not see {', '.join(lacking)}: another file hides it")

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


def missing(done: Plan, known: Mapping[str, str]) -> list[str]:
    """Names of a plan's handlers that run another program, or none, where these handlers are known."""
    return [one.name for one in done.handlers if known.get(one.name) != one.program]


def printed(root: Path, command: list[str], wrong: str = "cannot read its own configuration") -> str:
    """What a runtime's program prints of its configuration; raises Refused where it fails, RuntimeUnavailable.

    `wrong`: what its failure means.
    """
    try:
        text = inside.run(root, command, PRINT_SECONDS)
    except TimeoutError as error:
        raise RuntimeUnavailable(str(error)) from None  # a node that is busy has refused nothing
    if text is None:
        name = PurePosixPath(command[0]).name
        raise Refused(f"{name} {wrong}: run `{' '.join(command)}` on the node to see why")
    return text
