"""Our marked block in a configuration file of somebody else: inserted, and removed to the byte. Pure.

containerd's file is edited as text, so that comments, order and every other byte stay. What would come of the edit is
parsed and compared before it is believed: a file whose form is not foreseen here is left alone, and said so.

Three things are ours: a block at the file's end, a line `enable_cdi = true` below the plugin's own header (TOML allows
no second one), and a mark before the line that said otherwise.
"""

from __future__ import annotations

import json
import re
import tomllib
from copy import deepcopy
from typing import TYPE_CHECKING, Any, Final

from nodeagent.toolkit.config.effective import table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from nodeagent.toolkit.config.effective import Handler, Scalar, Table

MODULE: Final = "gpu-control-plane"
BEGIN: Final = f"# BEGIN {MODULE}: NVIDIA's handlers, kept by the module; edits between the marks are lost"
END: Final = f"# END {MODULE}\n"
LINE: Final = f"# {MODULE}: the module's line"
WAS: Final = f"# {MODULE} put aside: "
# Said at a mark: the file did not end with a line's end, and ours begins with one.
JOINED: Final = " (the line before had no end)"
EMPTY: Final = " (the file was empty)"
CDI: Final = "enable_cdi"
_BLOCK: Final = re.compile(
    rf"(?:\n{re.escape(BEGIN + JOINED)}|^{re.escape(BEGIN)}(?:{re.escape(EMPTY)})?)\n.*?^{re.escape(END)}",
    re.MULTILINE | re.DOTALL,
)
_LINE: Final = re.compile(rf"(?:\n[^\n]*{re.escape(LINE + JOINED)}\n|^[^\n]*{re.escape(LINE)}\n)", re.MULTILINE)
_WAS: Final = re.compile(rf"^{re.escape(WAS)}", re.MULTILINE)
_HEADER: Final = re.compile(r"^[ \t]*\[.*$", re.MULTILINE)
_SWITCH: Final = re.compile(rf"^[ \t]*[\"']?{CDI}[\"']?[ \t]*=.*$", re.MULTILINE)


class Unforeseen(Exception):
    """The file cannot be edited safely; says why, and never what stands in it."""


def stripped(text: str) -> str:
    """The text without what is ours, to the byte as it was."""
    return _WAS.sub("", _LINE.sub(_left, _BLOCK.sub(_left, text)))


def _left(taken: re.Match[str]) -> str:
    """What stays of something of ours: the end of the line before, where somebody has written on since."""
    return "\n" if taken[0].startswith("\n") and taken.end() != len(taken.string) else ""


def all_ours(text: str) -> bool:
    """Whether the file is there for us alone."""
    return text.startswith(f"{BEGIN}\n") and not stripped(text)


def switches_cdi(text: str) -> bool:
    """Whether something of ours in the text switches CDI on."""
    clean = stripped(text)
    return text.count(f"{CDI} = true") > clean.count(f"{CDI} = true")


def parse(text: str) -> Table:
    """The parsed text; raises Unforeseen. What tomllib says is kept back: it may quote a line with a password."""
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        raise Unforeseen("it is not TOML") from None


def edited(text: str, plugin: str, handlers: Sequence[Handler], *, cdi: bool) -> str:
    """The text with the handlers in the plugin's table, and with CDI where it is asked for; raises Unforeseen."""
    clean = stripped(text)
    if MODULE in "".join(line for line in clean.splitlines() if line.startswith(("# BEGIN ", "# END "))):
        raise Unforeseen("it has a half of the module's marks; remove what is left of them")
    before, made = parse(clean), clean
    path = ("plugins", plugin)
    cdi = cdi and table(table(before, "plugins"), plugin).get(CDI) is not True
    header = next((found for found in _headers(clean) if _path(found[0]) == path), None) if cdi else None
    if header is not None:
        made = _switched(clean, header)
    tables = [*([(path, {CDI: True})] if cdi and header is None else []), *_tables(path, handlers)]
    if tables:
        joined = made != "" and not made.endswith("\n")
        made += f"\n{BEGIN}{JOINED}\n" if joined else f"{BEGIN}\n" if made else f"{BEGIN}{EMPTY}\n"
        made += "".join(_written(where, values) for where, values in tables) + END
    _prove(clean, made, wanted(before, plugin, handlers, cdi=cdi))
    return made


def whole(version: int | None, plugin: str, handlers: Sequence[Handler], *, cdi: bool) -> str:
    """A file of our own; `version`: of its form, None where it is merged into another before it is read."""
    path = ("plugins", plugin)
    tables = [*([(path, {CDI: True})] if cdi else []), *_tables(path, handlers)]
    first = f"version = {version}\n" if version is not None else ""
    return f"{BEGIN}\n{first}" + "".join(_written(where, values) for where, values in tables) + END


def owned(tables: Iterable[tuple[tuple[str, ...], Table]]) -> str:
    """A file of our own with these tables, each with its place."""
    return f"{BEGIN}\n" + "".join(_written(where, values) for where, values in tables) + END


def wanted(before: Table, plugin: str, handlers: Sequence[Handler], *, cdi: bool) -> Table:
    """The tables that a parsed text is to become."""
    after = deepcopy(before)
    if cdi:
        after.setdefault("plugins", {}).setdefault(plugin, {})[CDI] = True
    for handler in handlers:
        inner = after.setdefault("plugins", {}).setdefault(plugin, {}).setdefault("containerd", {})
        inner.setdefault("runtimes", {})[handler.name] = handler.table()
    return after


def _prove(clean: str, made: str, after: Table) -> None:
    try:
        fits = parse(made) == after
    except Unforeseen:
        fits = False
    if not fits or stripped(made) != clean:
        raise Unforeseen("its tables are written in a form that cannot be added to; add the handlers by hand")


def _switched(text: str, header: re.Match[str]) -> str:
    """The text with CDI switched on in the table that begins at `header`."""
    following = next(_headers(text, header.end()), None)
    end = following.start() if following else len(text)
    for found in _SWITCH.finditer(text, header.end(), end):
        if _whole(text[: found.start()]):
            return f"{text[: found.start()]}{CDI} = true {LINE}\n{WAS}{text[found.start() :]}"
    at = text.find("\n", header.start()) + 1
    if not at:
        return f"{text}\n{CDI} = true {LINE}{JOINED}\n"
    return f"{text[:at]}{CDI} = true {LINE}\n{text[at:]}"


def _headers(text: str, start: int = 0) -> Iterator[re.Match[str]]:
    """Lines that begin a table, but for those that only look so within a string or an array of many lines."""
    return (found for found in _HEADER.finditer(text, start) if _path(found[0]) and _whole(text[: found.start()]))


def _path(line: str) -> tuple[str, ...]:
    """The table's name; empty where the line is no header."""
    try:
        inner: Any = tomllib.loads(line.rstrip("\r"))
    except (tomllib.TOMLDecodeError, RecursionError):
        return ()
    path = []
    while isinstance(inner, dict) and len(inner) == 1:
        key, inner = next(iter(inner.items()))
        path.append(key)
    return tuple(path) if inner == {} else (*path, "[]") if inner == [{}] else ()


def _whole(text: str) -> bool:
    """Whether nothing is left open at the text's end."""
    try:
        tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError):
        return False
    return True


def _tables(path: tuple[str, ...], handlers: Sequence[Handler]) -> Iterator[tuple[tuple[str, ...], Table]]:
    for handler in handlers:
        made = handler.table()
        where = (*path, "containerd", "runtimes", handler.name)
        yield where, {key: value for key, value in made.items() if key != "options"}
        yield (*where, "options"), made["options"]


def _written(path: tuple[str, ...], values: Table) -> str:
    name = ".".join(key if re.fullmatch("[A-Za-z0-9_-]+", key) else _value(key) for key in path)
    return f"[{name}]\n" + "".join(f"  {key} = {_value(value)}\n" for key, value in values.items())


def _value(value: Scalar) -> str:
    # JSON's strings, numbers, booleans and lists of strings are TOML's, but for one character that only TOML escapes.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
