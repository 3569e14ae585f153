"""Docker's `daemon.json`: NVIDIA's handlers and CDI merged into it as text, and taken out to the byte. Pure.

JSON has no comments, so ours are known otherwise: a handler by its program in our folder and nothing beside it (GPU
Operator's has arguments), and what we made around it, or switched on, by two spaces after its colon. People write two
spaces, too: so they are a mark only in a file with a handler of ours, and a file in which that would take away what
somebody else wrote is refused before it is written.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from posixpath import dirname, join
from typing import TYPE_CHECKING, Any, Final

from nodeagent.toolkit.config.effective import Handler
from nodeagent.toolkit.config.marks import Unforeseen
from nodeagent.toolkit.config.plan import FOLDER, HANDLERS, Change, Plan, Refused, of_nvidia

if TYPE_CHECKING:
    from collections.abc import Mapping

MAIN: Final = "/etc/docker/daemon.json"
CDI_FROM: Final = 25
"""The first major release of Docker that knows CDI."""
_SPACE: Final = " \t\r\n"
_MARK: Final = ":  "
_ABSENT: Final = "\n"
"""Begins a file that was not there."""
_EMPTY: Final = " "
"""Begins a file that was there, and empty."""


@dataclass(frozen=True, slots=True)
class DockerNode:
    """What is known of a node whose runtime is Docker."""

    release: tuple[int, int]
    """Docker's own version: major, minor."""
    content: bytes | None
    """Its configuration file; None where it is not there."""
    handlers: Mapping[str, str]
    """The program of each handler that the daemon runs with, by name."""
    cdi: bool
    """Whether the daemon resolves CDI names."""
    main: str = MAIN
    flags: frozenset[str] = frozenset()
    """Names of settings that its command line has already: a file may not have them too."""


@dataclass(frozen=True, slots=True)
class _Member:
    """A member of an object in a text."""

    key: str
    start: int
    """Where its key begins."""
    value: int
    """Where its value begins."""
    end: int
    """Past its value."""


def install(node: DockerNode) -> Plan:
    """Make the handlers and CDI known; raises Refused."""
    content = _text(node)
    if foreign := _foreign(content, node.handlers):
        return Plan(remove(node).changes, foreign=of_nvidia(foreign))
    if node.release[0] < CDI_FROM:
        told = f"Docker {node.release[0]}.{node.release[1]} knows no CDI"
        raise Refused(f"{told}, by which containers get their cards: upgrade it to {CDI_FROM} or newer")
    handlers = tuple(Handler(name, join(FOLDER, file), kind="") for name, file in HANDLERS.items())
    cdi = not node.cdi or _switches_cdi(content)
    if clash := node.flags & {"runtimes", *(("features",) if cdi else ())}:
        told = ", ".join(sorted(clash))
        raise Refused(f"dockerd has {told} on its command line, and refuses a file with that: move it to {node.main}")
    try:
        text = edited(content, {one.name: one.program for one in handlers}, cdi=cdi)
    except Unforeseen as error:
        raise Refused(f"{node.main} is left as it is: {error}") from None
    after = text.encode()
    changes = (Change(node.main, node.content, after),) if after != node.content else ()
    return Plan(changes, handlers, cdi=cdi)


def remove(node: DockerNode) -> Plan:
    """Take ours out; raises Refused where the node's default handler is one of ours."""
    content = _text(node)
    if content is None:
        return Plan()
    try:
        parsed = parse(content)
        text = stripped(content)
    except Unforeseen:
        return Plan()
    default = parsed.get("default-runtime")
    if text != content and default in HANDLERS and dirname(_handlers_in(content).get(str(default), "")) == FOLDER:
        raise Refused(f"{default} is Docker's default-runtime, and would be gone: name another, such as runc")
    after = None if text is None else text.encode()
    return Plan((Change(node.main, node.content, after),) if after != node.content else ())


def parse(text: str) -> dict[str, Any]:
    """The parsed text; raises Unforeseen. What the parser says is kept back: it may quote a line with a password."""
    try:
        found = json.loads(text, object_pairs_hook=_distinct) if text.strip() else {}
    except (ValueError, RecursionError):
        raise Unforeseen("it is not JSON") from None
    if not isinstance(found, dict):
        raise Unforeseen("it is no JSON object")
    return found


def edited(text: str | None, handlers: Mapping[str, str], *, cdi: bool) -> str:
    """The text with the handlers, and with CDI where it is asked for; raises Unforeseen. None: there is no file."""
    clean = None if text is None else stripped(text)
    made = clean or ""
    before = parse(made)
    if not made.strip():
        if made:
            raise Unforeseen("it is blank")
        made = f"{_ABSENT if clean is None else _EMPTY}{{}}\n"
    entries = [f'{json.dumps(name)}: {{"path": {json.dumps(path)}}}' for name, path in handlers.items()]
    made = _within(made, "runtimes", entries)
    if cdi:
        features = before.get("features", {})
        if isinstance(features, dict) and features.get("cdi") is False:
            raise Unforeseen("features.cdi is false there, so somebody has switched CDI off: take it out of the file")
        if not (isinstance(features, dict) and features.get("cdi") is True):
            made = _within(made, "features", [f'"cdi"{_MARK}true'])
    wanted = {**before, "runtimes": {**before.get("runtimes", {}), **{k: {"path": v} for k, v in handlers.items()}}}
    if cdi:
        wanted["features"] = {**before.get("features", {}), "cdi": True}
    if parse(made) != wanted:
        raise Unforeseen("it is written in a form that cannot be added to; add the handlers by hand")
    if stripped(made) != clean:
        raise Unforeseen("runtimes, features or cdi has two spaces after its colon, which is our own mark: write one")
    return made


def stripped(text: str) -> str | None:
    """The text without what is ours, to the byte as it was; None where the file is there for us alone."""
    parsed = parse(text)
    ours = _ours(parsed)
    if not ours:
        return text
    made = text
    for name in ours:
        made = _without(made, ("runtimes", name), marked=False)
    made = _without(made, ("features", "cdi"), marked=True)
    for key in ("runtimes", "features"):
        if parse(made).get(key) == {}:
            made = _without(made, (key,), marked=True)
    return None if made == f"{_ABSENT}{{}}\n" else "" if made == f"{_EMPTY}{{}}\n" else made


def _ours(parsed: Mapping[str, Any]) -> list[str]:
    """The names of the handlers that are ours; without any, nothing in the file is."""
    told = parsed.get("runtimes")
    return [name for name in HANDLERS if isinstance(told, dict) and _is_ours(told.get(name))]


def _is_ours(entry: object) -> bool:
    """Whether a handler is as we write it."""
    return isinstance(entry, dict) and entry.keys() == {"path"} and dirname(str(entry["path"])) == FOLDER


def _foreign(text: str | None, running: Mapping[str, str]) -> str:
    """The program of a handler `nvidia` that is somebody else's; empty where there is none."""
    try:
        clean = stripped(text) if text is not None else None
    except Unforeseen:
        clean = text
    if found := _handlers_in(clean).get("nvidia"):
        return found
    told = running.get("nvidia", "")
    return told if dirname(told) != FOLDER else ""


def _text(node: DockerNode) -> str | None:
    try:
        return None if node.content is None else node.content.decode()
    except UnicodeDecodeError:
        raise Refused(f"{node.main} is left as it is: it is not UTF-8") from None


def _handlers_in(text: str | None) -> dict[str, str]:
    """The handlers that a text tells of; none where it is not JSON, which `edited` says."""
    try:
        runtimes = parse(text or "").get("runtimes")
    except Unforeseen:
        return {}
    entries = runtimes.items() if isinstance(runtimes, dict) else ()
    return {name: str(entry.get("path", "")) for name, entry in entries if isinstance(entry, dict)}


def _switches_cdi(text: str | None) -> bool:
    """Whether it is we who switched CDI on."""
    try:
        if text is None or not _ours(parse(text)):
            return False
    except Unforeseen:
        return False
    return (found := _find(text, ("features", "cdi"))) is not None and _marked(text, found)


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) != len(pairs):
        raise ValueError("a key is there twice")
    return made


def _within(text: str, key: str, entries: list[str]) -> str:
    """The text with the entries first in the object of that key, which is made first where it is not there."""
    found = _find(text, (key,))
    if found is None:
        return _first(text, _skip(text, 0), f'"{key}"{_MARK}{{{",".join(entries)}}}')
    if text[found.value] != "{":
        raise Unforeseen(f"{key} is no object there")
    return _first(text, found.value, ",".join(entries))


def _first(text: str, at: int, entry: str) -> str:
    """The text with an entry first in the object that begins at `at`."""
    comma = "," if _members(text, at) else ""
    return f"{text[: at + 1]}{entry}{comma}{text[at + 1 :]}"


def _without(text: str, path: tuple[str, ...], *, marked: bool) -> str:
    """The text without the member at a path, and one comma beside it; with `marked`, only where it has our mark."""
    found = _find(text, path)
    if found is None or (marked and not _marked(text, found)):
        return text
    after = _skip(text, found.end)
    if text[after] == ",":
        return text[: found.start] + text[after + 1 :]
    before = text[: found.start].rstrip(_SPACE)
    return (before[:-1] if before.endswith(",") else text[: found.start]) + text[found.end :]


def _marked(text: str, found: _Member) -> bool:
    return text[: found.value].endswith(f'"{_MARK}')


def _find(text: str, path: tuple[str, ...]) -> _Member | None:
    at, found = _skip(text, 0), None
    for key in path:
        if at >= len(text) or text[at] != "{":
            return None
        found = next((one for one in _members(text, at) if one.key == key), None)
        if found is None:
            return None
        at = found.value
    return found


def _members(text: str, at: int) -> list[_Member]:
    """The members of the object that begins at `at` in a text that is JSON."""
    made, here = list[_Member](), _skip(text, at + 1)
    while text[here] != "}":
        key, end = json.JSONDecoder().raw_decode(text, here)
        value = _skip(text, _skip(text, end) + 1)
        _, past = json.JSONDecoder().raw_decode(text, value)
        made.append(_Member(key, here, value, past))
        here = _skip(text, past)
        here = _skip(text, here + 1) if text[here] == "," else here
    return made


def _skip(text: str, at: int) -> int:
    while at < len(text) and text[at] in _SPACE:
        at += 1
    return at
