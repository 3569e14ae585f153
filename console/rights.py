"""What a viewer may read, and objects without what they may not. Pure.

Names of pods stand in others' objects, too: who has a card, who waits for it, what a condition says. `Sight` takes them
out by `redacted` before a page sees the objects, so that no page can forget it: that is the guarantee. A page finds
only the stand-ins of such pods, and counts them or puts words in their place.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final, TypeVar

from controllers.api.gpudevice import DeviceHealth, Hardware

if TYPE_CHECKING:
    from collections.abc import Callable, Container

T = TypeVar("T")
TOKEN: Final = re.compile(r"[A-Za-z0-9./*-]+")
"""A run of what names, paths and fractions consist of; one class of characters, so that no text takes long."""
LABEL: Final = re.compile(r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?")
"""A namespace."""
POD_BEFORE: Final = re.compile(r"\b[Pp]od $")
"""After this stands a pod, also one of a namespace that nothing else names any more."""
FACTS: Final = (Hardware, DeviceHealth)
"""What machines tell of a card, which is most of it and names no pod: not looked through, for 8,000 cards."""
ANOTHER: Final = "a pod of another namespace"
HIDDEN: Final = "hidden-namespace"
"""Stands for the namespace of a pod that may not be read. Who may read all sees a real one of this name."""


@dataclass(frozen=True, slots=True)
class Rights:
    """What somebody may list; equal for all who see the same."""

    kinds: frozenset[str]
    """Kinds without a namespace, such as `GPUDevice`."""
    namespaces: frozenset[str] | None
    """Of which namespaces pods may be read, out of those that have some; None: of all."""
    confirms: bool = field(default=False, compare=False)
    """Whether cards may be assigned; changes nothing about what is seen."""

    def may_read(self, namespace: str) -> bool:
        """Whether pods of a namespace may be read; of `HIDDEN` no."""
        return self.namespaces is None or (namespace != HIDDEN and namespace in self.namespaces)


@dataclass(frozen=True, slots=True)
class _Hiding:
    """What is hidden, and how."""

    may_read: Callable[[str], bool]
    known: Container[str]
    salt: bytes


def redacted(obj: T, may_read: Callable[[str], bool], salt: bytes, known: Container[str]) -> T:
    """The object with stand-ins for the names of pods of other namespaces, and without them in its texts.

    How many there are can still be counted; uids and ids of requests stay, which name nobody. The object itself is
    returned where there is nothing to hide. `salt`: of this run alone, so that nobody finds a name by trying. `known`:
    namespaces that have pods or had some; texts are looked through for pods of these.
    """
    status = getattr(obj, "status", None)
    made = _hidden(status, _Hiding(may_read, known, salt))
    return obj if made is status else replace(obj, status=made)  # type: ignore[type-var]


def namespaces_of(obj: object) -> set[str]:
    """Namespaces of the pods that an object's status names."""
    status = getattr(obj, "status", None)
    if status is None or not is_dataclass(status):
        return set()
    lists = (getattr(status, each.name) for each in fields(status))
    named = (entry for found in lists if isinstance(found, tuple) for entry in found if hasattr(entry, "pod"))
    return {entry.namespace for entry in named if getattr(entry, "namespace", "")}


def _hidden(value: Any, how: _Hiding) -> Any:
    """A value of a status, however deep it lies: the same object where nothing of it is hidden."""
    if isinstance(value, str):
        return guarded(value, how.may_read, how.known)
    if isinstance(value, tuple):
        made = tuple(_hidden(each, how) for each in value)
        return made if any(new is not old for new, old in zip(made, value, strict=True)) else value
    if isinstance(value, Mapping):
        found = {key: _hidden(each, how) for key, each in value.items()}
        return found if any(found[key] is not each for key, each in value.items()) else value
    if is_dataclass(value) and not isinstance(value, type):
        return _record(value, how)
    return value


def _record(value: Any, how: _Hiding) -> Any:
    if isinstance(value, FACTS):
        return value
    names = fields_of(value.__class__)
    if "pod" in names and "namespace" in names:
        return value if how.may_read(value.namespace) else _nameless(value, how.salt)
    changed = {name: made for name in names if (made := _hidden(old := getattr(value, name), how)) is not old}
    return replace(value, **changed) if changed else value


@cache
def fields_of(record: type[Any]) -> tuple[str, ...]:
    """Names of a record's fields, which take longer to be asked for than to be looked at."""
    return tuple(each.name for each in fields(record))


def _nameless(value: Any, salt: bytes) -> Any:
    """The record about some pod: the same one for the same pod, or nobody could count them."""
    which = hashlib.blake2b(f"{value.namespace}/{value.pod}".encode(), key=salt, digest_size=4).hexdigest()
    names = {"namespace": HIDDEN, "pod": which} | ({"container": which} if hasattr(value, "container") else {})
    return replace(value, **names)


def guarded(text: str, may_read: Callable[[str], bool], known: Container[str]) -> str:
    """A message without the names of pods of namespaces that may not be read: `namespace/pod`, wherever it stands.

    Left alone is what only looks like one, such as `0/60 nodes`, `amd64/arm64` or a path: before the slash must stand
    one of the `known` namespaces, or before all the word pod.
    """
    if "/" not in text:
        return text

    def spoken(found: re.Match[str]) -> str:
        whole = found[0]
        if "/" not in whole:
            return whole
        *lefts, _ = whole.split("/")
        if not any(_hides(left, may_read, known) for left in lefts):
            is_pod = LABEL.fullmatch(lefts[0]) and POD_BEFORE.search(text, max(0, found.start() - 8), found.start())
            if not is_pod or may_read(lefts[0]):
                return whole
        return ANOTHER + whole[len(whole.rstrip(".")) :]  # a full stop is the sentence's

    made = TOKEN.sub(spoken, text)
    return text if made == text else made


def _hides(left: str, may_read: Callable[[str], bool], known: Container[str]) -> bool:
    """Whether a namespace that may not be read stands before a slash, alone or after a full stop without a space."""
    labels = {left, left.rpartition(".")[2].strip("-")}
    return any(label in known and not may_read(label) for label in labels)
