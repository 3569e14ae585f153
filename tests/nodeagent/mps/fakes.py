"""Cards and daemons of MPS in memory, for the supervisor; and the files of a real pool's folder."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from nodeagent.host import mpsfiles
from nodeagent.host.mpsfiles import DaemonState, WantedDaemon
from nodeagent.mps.programs import DEFAULT, CardFacts, Failed
from nodeagent.mps.supervisor import Supervisor

CARD = "GPU-0"
FOUR = WantedDaemon("v4", 4, "Equal", "Equal")
TWO = WantedDaemon("v2", 2, "8Gi", "30%")
READY_FOUR = DaemonState("Ready", "v4", None, FOUR, runs=True)
READY_TWO = DaemonState("Ready", "v2", None, TWO, runs=True)


@dataclass
class FakeDaemon:
    """A daemon that ends when it is told to, or killed."""

    node: FakeNode
    uuid: str
    how: str | None = None

    def ended(self) -> str | None:
        return self.how

    def end(self) -> None:
        self.node.may("end")
        self.how = self.how or "ended with status 0"
        self.node.said.append(f"end {self.uuid}")


@dataclass
class FakeNode:
    """What the programs do, and in which order they were asked."""

    modes: dict[str, str] = field(default_factory=dict)
    daemons: dict[str, FakeDaemon] = field(default_factory=dict)
    said: list[str] = field(default_factory=list)
    breaks: set[str] = field(default_factory=set)
    """What fails: facts, mode, start, answer, ask, end."""
    threads: dict[str, str] = field(default_factory=dict)
    memory: dict[str, str] = field(default_factory=dict)
    on_start: Callable[[str], object] = lambda _uuid: None
    """What else happens while a daemon of a card is started."""

    def facts(self, uuid: str) -> CardFacts:
        self.may("facts")
        return CardFacts(self.modes.get(uuid, DEFAULT), 16000)

    def set_mode(self, uuid: str, mode: str) -> None:
        self.said.append(f"{mode} {uuid}")
        self.may("mode")
        if "lies" not in self.breaks:
            self.modes[uuid] = mode

    def start(self, uuid: str, folder: Path) -> FakeDaemon:
        self.may("start")
        self.said.append(f"start {uuid}")
        (folder / mpsfiles.PIPE).mkdir(parents=True, exist_ok=True)
        self.daemons[uuid] = FakeDaemon(self, uuid)
        self.on_start(uuid)
        return self.daemons[uuid]

    def until_answers(self, _daemon: object, _folder: Path) -> None:
        self.may("answer")

    def ask(self, folder: Path, command: str) -> str:
        self.may("ask")
        verb, *rest = command.split()
        if verb == "set_default_active_thread_percentage":
            self.threads[folder.name] = f"{float(rest[0])}\n"
        if verb.startswith("set_"):
            self.said.append(command)
        if verb == "set_default_device_pinned_mem_limit":
            mib = int(rest[1].removesuffix("M"))
            self.memory[folder.name] = f"{mib // 1024}G\n" if mib >= 1024 else f"{mib}M\n"
        return (self.memory if "mem_limit" in verb else self.threads).get(folder.name, "")

    def may(self, what: str) -> None:
        if what in self.breaks:
            raise Failed(f"{what} does not work")


@dataclass
class Role:
    """The role of one pool, life after life."""

    folder: Path
    node: FakeNode = field(default_factory=FakeNode)
    now: float = 0.0

    def __post_init__(self) -> None:
        self.supervisor = self.born()

    def born(self) -> Supervisor:
        """A new life: whatever ran under the former one is gone."""
        self.supervisor = Supervisor(self.folder, self.node, lambda: self.now)
        return self.supervisor

    def wants(self, **cards: WantedDaemon) -> None:
        mpsfiles.write_wanted(self.folder, {uuid.replace("_", "-"): one for uuid, one in cards.items()})

    def rounds(self, count: int = 1, pause: float = 0.0) -> None:
        for _ in range(count):
            self.now += pause
            self.supervisor.round()

    def state(self, uuid: str = CARD) -> DaemonState | None:
        """What the plugin reads."""
        return mpsfiles.read_state(self.folder).cards.get(uuid)
