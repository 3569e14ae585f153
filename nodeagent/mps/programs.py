"""The programs of MPS and of compute modes: NVIDIA's control daemon, and `nvidia-smi`.

They come from the driver with NVIDIA's runtime (capabilities compute and utility). Each question has a deadline, and is
asked in a session of its own, so that it can be killed whole. A daemon runs in the foreground, as a child of this
process: its end is seen at once.
"""

from __future__ import annotations

import os
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, Protocol

from nodeagent.host.mpsfiles import LOG, PIPE
from nodeagent.host.output import TEXT_MAX, one_line
from nodeagent.mps.limits import THREADS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

DEFAULT: Final = "Default"
EXCLUSIVE: Final = "Exclusive_Process"
FLAGS: Final = {DEFAULT: "DEFAULT", EXCLUSIVE: "EXCLUSIVE_PROCESS"}
"""Compute modes, as nvidia-smi tells them and as it takes them."""
SERVER_SECONDS = 10
"""For servers to end when a daemon quits: nobody uses the card by then."""
KILL_SECONDS = 5.0
ASK_AGAIN = 0.1
"""Seconds between two questions to a daemon that was just started: it makes its pipes first."""


class Failed(Exception):
    """A program did not do what it was asked; says why."""


@dataclass(frozen=True, slots=True)
class CardFacts:
    """What nvidia-smi says of a card."""

    mode: str
    memory_mib: int


class Daemon(Protocol):
    """A control daemon that was started."""

    def ended(self) -> str | None:
        """How it ended, in words; None while it runs."""

    def end(self) -> None:
        """Have it end, by force where it does not by itself; returns when it has, and raises Failed else."""


class Tools(Protocol):
    """What the supervisor does to cards and daemons of the node; all raise Failed."""

    def facts(self, uuid: str) -> CardFacts:
        """Compute mode and memory of a card."""

    def set_mode(self, uuid: str, mode: str) -> None:
        """Set a card's compute mode."""

    def start(self, uuid: str, folder: Path) -> Daemon:
        """Start a daemon for one card, with its pipes and its log in that folder."""

    def until_answers(self, daemon: Daemon, folder: Path) -> None:
        """Wait until a daemon that was just started answers; one that does not is not ended by this."""

    def ask(self, folder: Path, command: str) -> str:
        """What the daemon answers to a command."""


class Programs:
    """NVIDIA's programs, each run as a process."""

    def __init__(self, control: str, smi: str, deadline: float) -> None:
        """Prepare; `deadline`: seconds that one question may take."""
        self._control, self._smi, self._deadline = control, smi, deadline

    def facts(self, uuid: str) -> CardFacts:
        """See `Tools`."""
        fields = "--query-gpu=compute_mode,memory.total"
        text = self._run([self._smi, "-i", uuid, fields, "--format=csv,noheader,nounits"])
        mode, _, memory = text.strip().partition(",")
        if not memory.strip().isdigit():
            raise Failed(f"nvidia-smi tells of {uuid} what cannot be read: {text[:TEXT_MAX]!r}")
        return CardFacts(mode.strip(), int(memory))

    def set_mode(self, uuid: str, mode: str) -> None:
        """See `Tools`."""
        self._run([self._smi, "-i", uuid, "-c", FLAGS[mode]])

    def start(self, uuid: str, folder: Path) -> Daemon:
        """See `Tools`."""
        try:
            for name in (PIPE, LOG):
                (folder / name).mkdir(parents=True, exist_ok=True)
            (folder / PIPE).chmod(0o1777)  # containers of any user make their own ends in it
            child = subprocess.Popen(
                [self._control, "-f"],
                stdin=subprocess.DEVNULL,
                env=environment(os.environ, folder) | {"CUDA_VISIBLE_DEVICES": uuid},
                start_new_session=True,
            )
        except OSError as error:
            raise Failed(f"{self._control} cannot be started: {error.strerror or error}") from error
        return _Child(child, lambda: self._quit(folder))

    def until_answers(self, daemon: Daemon, folder: Path) -> None:
        """See `Tools`."""
        until = time.monotonic() + self._deadline
        while True:
            try:
                self.ask(folder, THREADS)
            except Failed as error:
                if (how := daemon.ended()) is not None or time.monotonic() >= until:
                    log = f"its log is {folder / LOG}/control.log on the node"
                    raise Failed(f"the control daemon {how or f'does not answer ({error})'}; {log}") from None
            else:
                return
            time.sleep(ASK_AGAIN)

    def ask(self, folder: Path, command: str) -> str:
        """See `Tools`."""
        return self._run([self._control], given=command + "\n", env=environment(os.environ, folder))

    def _quit(self, folder: Path) -> None:
        try:
            self.ask(folder, f"quit -t {SERVER_SECONDS}")
        except Failed:
            return  # it is killed then

    def _run(self, command: Sequence[str], *, given: str = "", env: Mapping[str, str] | None = None) -> str:
        try:
            child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                env=env,
                start_new_session=True,
                encoding="utf-8",
                errors="replace",
            )
        except OSError as error:
            raise Failed(f"{command[0]} cannot be started: {error.strerror or error}") from error
        try:
            output, _ = child.communicate(given, self._deadline)
        except subprocess.TimeoutExpired:
            _kill(child)
            raise Failed(f"{command[0]} did not end in {self._deadline:g} s and was killed") from None
        if child.returncode != 0:
            raise Failed(f"{command[0]}: {one_line(output) or f'status {child.returncode}'}")
        return output


@dataclass
class _Child:
    """A daemon that is a child of this process."""

    child: subprocess.Popen[bytes]
    quits: Callable[[], None]

    def ended(self) -> str | None:
        """See `Daemon`."""
        status = self.child.poll()
        if status is None:
            return None
        return f"ended by signal {-status}" if status < 0 else f"ended with status {status}"

    def end(self) -> None:
        """See `Daemon`."""
        if self.child.poll() is None:
            self.quits()
        try:
            self.child.wait(SERVER_SECONDS)
        except subprocess.TimeoutExpired:
            _kill(self.child)
        _kill_group(self.child.pid)  # servers that it left behind


def environment(inherited: Mapping[str, str], folder: Path) -> dict[str, str]:
    """What the control program gets: nothing of MPS that it inherited, and where the card's daemon is."""
    kept = {name: value for name, value in inherited.items() if not name.startswith("CUDA_")}
    return kept | {"CUDA_MPS_PIPE_DIRECTORY": str(folder / PIPE), "CUDA_MPS_LOG_DIRECTORY": str(folder / LOG)}


def _kill(child: subprocess.Popen[bytes] | subprocess.Popen[str]) -> None:
    _kill_group(child.pid)
    try:
        child.wait(KILL_SECONDS)
    except subprocess.TimeoutExpired:
        raise Failed("a program was killed and does not end: a call into the driver does not return") from None


def _kill_group(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except ProcessLookupError:
        return
