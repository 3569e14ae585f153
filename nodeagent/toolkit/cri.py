"""The container runtime over CRI: its version, its settings, and containers being created.

One connection for each question: they are a minute apart, and the runtime may be another by then. What it runs with is
told in `Status` with `verbose`, as containerd has done since 1.0; there is no other way to see what a process has
loaded, since `containerd config dump` prints files.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import grpc

from nodeagent.toolkit.config.effective import BINARY, SHARED_OPTIONS, table
from nodeagent.toolkit.wire import LIST_CONTAINERS, STATUS, VERSION
from nodeagent.toolkit.wire import cri_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from pathlib import Path

    from nodeagent.toolkit.config.effective import Handler

CALL_SECONDS: Final = 10.0
_MESSAGE_MAX: Final = 16 * 1024 * 1024
_OPTIONS: Final = (("grpc.max_receive_message_length", _MESSAGE_MAX), ("grpc.enable_http_proxy", 0))
_RELEASE: Final = re.compile(r"v?(\d+)\.(\d+)\.")


class RuntimeUnavailable(Exception):
    """The runtime does not answer, or not in words that are known; says why."""


@dataclass(frozen=True, slots=True)
class Runtime:
    """The runtime behind a socket."""

    socket: Path

    def release(self) -> tuple[int, int] | None:
        """The major and minor version of containerd; None where it is another. Raises RuntimeUnavailable."""
        return self.version("containerd")

    def version(self, name: str) -> tuple[int, int] | None:
        """The major and minor version of a runtime; None where it has another name. Raises RuntimeUnavailable."""
        answer = self._call(VERSION, pb.VersionRequest(version="v1"), pb.VersionResponse)
        found = _RELEASE.match(answer.runtime_version)
        if answer.runtime_name != name or found is None:
            return None
        return int(found[1]), int(found[2])

    def settings(self) -> dict[str, Any]:
        """The CRI settings that the process runs with; they may hold passwords. Raises RuntimeUnavailable."""
        answer = self._call(STATUS, pb.StatusRequest(verbose=True), pb.StatusResponse)
        try:
            told = json.loads(answer.info["config"])
        except (KeyError, ValueError):
            told = None
        if not isinstance(told, dict):
            raise RuntimeUnavailable(f"{self.socket}: Status does not tell the configuration that is in force")
        return told

    def making(self) -> int:
        """How many containers are created and not started; a restart may leave them so. Raises RuntimeUnavailable."""
        created = pb.ContainerFilter(state=pb.ContainerStateValue(state=pb.CONTAINER_CREATED))
        answer = self._call(LIST_CONTAINERS, pb.ListContainersRequest(filter=created), pb.ListContainersResponse)
        return len(answer.containers)

    def _call(self, method: str, request: Any, answer: Any) -> Any:
        with grpc.insecure_channel(f"unix:{self.socket}", options=_OPTIONS) as channel:
            call = channel.unary_unary(
                method,
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=answer.FromString,
            )
            try:
                return call(request, timeout=CALL_SECONDS)
            except grpc.RpcError as error:
                # Its details name what was asked for, and may quote a setting.
                raise RuntimeUnavailable(f"{self.socket}: {error.code().name}") from None


def in_force(settings: Mapping[str, Any], handlers: Iterable[Handler], *, cdi: bool) -> bool:
    """Whether a runtime that tells these settings runs with the handlers, and with CDI where that is asked for."""
    runtimes = table(table(settings, "containerd"), "runtimes")
    return (not cdi or settings.get("enableCDI") is True) and all(
        _is(table(runtimes, handler.name), handler) for handler in handlers
    )


def programs(settings: Mapping[str, Any]) -> dict[str, str]:
    """The program of each handler of a runtime that tells these settings; empty where it names none."""
    runtimes = table(table(settings, "containerd"), "runtimes")
    return {name: str(table(table(runtimes, name), "options").get(BINARY, "")) for name in runtimes}


def _is(told: Mapping[str, Any], handler: Handler) -> bool:
    options = {key: value for key, value in table(told, "options").items() if value}
    wanted = {BINARY: handler.program, **handler.options}
    return told.get("runtimeType") == handler.kind and all(
        options.get(key) == wanted.get(key) for key in (BINARY, *SHARED_OPTIONS)
    )
