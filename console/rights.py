"""What a viewer may read, and objects without what they may not. Pure.

Names of pods stand in others' objects, too: who has a card, who waits for it, what a condition says. They are taken out
here, before a page sees the objects, so that no page can forget it.
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
    from collections.abc import Callable

T = TypeVar("T")
POD: Final = re.compile(r"(?<![\w./-])(?P<namespace>[a-z0-9](?:[a-z0-9-]*[a-z0-9])?)/(?P<pod>[a-z0-9][a-z0-9.*-]*)")
"""A pod as messages name it: `namespace/pod`."""
PAGE: Final = ".md"
"""What ends the only other names with a slash in messages: pages of the documentation."""
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


def redacted(obj: T, may_read: Callable[[str], bool], salt: bytes) -> T:
    """The object with other words for the names of pods of other namespaces, and without them in its texts.

    How many there are can still be counted; uids and ids of requests stay, which name nobody. The object itself is
    returned where there is nothing to hide. `salt`: of this run alone, so that nobody finds a name by trying.
    """
    status = getattr(obj, "status", None)
    made = _hidden(status, may_read, salt)
    return obj if made is status else replace(obj, status=made)  # type: ignore[type-var]


def namespaces_of(obj: object) -> set[str]:
    """Namespaces of the pods that an object's status names."""
    status = getattr(obj, "status", None)
    if status is None or not is_dataclass(status):
        return set()
    lists = (getattr(status, each.name) for each in fields(status))
    named = (entry for found in lists if isinstance(found, tuple) for entry in found if hasattr(entry, "pod"))
    return {entry.namespace for entry in named if getattr(entry, "namespace", "")}


def _hidden(value: Any, may_read: Callable[[str], bool], salt: bytes) -> Any:
    """A value of a status, however deep it lies: the same object where nothing of it is hidden."""
    if isinstance(value, str):
        return guarded(value, may_read)
    if isinstance(value, tuple):
        made = tuple(_hidden(each, may_read, salt) for each in value)
        return made if any(new is not old for new, old in zip(made, value, strict=True)) else value
    if isinstance(value, Mapping):
        found = {key: _hidden(each, may_read, salt) for key, each in value.items()}
        return found if any(found[key] is not each for key, each in value.items()) else value
    if is_dataclass(value) and not isinstance(value, type):
        return _record(value, may_read, salt)
    return value


def _record(value: Any, may_read: Callable[[str], bool], salt: bytes) -> Any:
    if isinstance(value, FACTS):
        return value
    names = _names(value.__class__)
    if "pod" in names and "namespace" in names:
        return value if may_read(value.namespace) else _nameless(value, salt)
    changed = {
        name: made for name in names if (made := _hidden(old := getattr(value, name), may_read, salt)) is not old
    }
    return replace(value, **changed) if changed else value


@cache
def _names(record: type[Any]) -> tuple[str, ...]:
    """Names of a record's fields, which take longer to be asked for than to be looked at."""
    return tuple(each.name for each in fields(record))


def _nameless(value: Any, salt: bytes) -> Any:
    """The record about some pod: the same one for the same pod, or nobody could count them."""
    which = hashlib.blake2b(f"{value.namespace}/{value.pod}".encode(), key=salt, digest_size=4).hexdigest()
    names = {"namespace": HIDDEN, "pod": which} | ({"container": which} if hasattr(value, "container") else {})
    return replace(value, **names)


def guarded(text: str, may_read: Callable[[str], bool]) -> str:
    """A message without the names of pods of namespaces that may not be read."""
    if "/" not in text:
        return text

    def spoken(found: re.Match[str]) -> str:
        return found[0] if found["pod"].endswith(PAGE) or may_read(found["namespace"]) else ANOTHER

    made = POD.sub(spoken, text)
    return text if made == text else made
