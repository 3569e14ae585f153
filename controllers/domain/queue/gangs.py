"""Gangs in a queue: which pods belong together, and whether all of them are there. Pure."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from controllers.api.gangs import KEYS, KNOWN, NAME_MAX, OURS, SIZE_MAX, GangKeys
from controllers.domain.wording import short

if TYPE_CHECKING:
    from controllers.api.meta import ObjectMeta

_NAME: Final = re.compile("[a-z0-9]([-a-z0-9.]*[a-z0-9])?")
_SIZE: Final = re.compile("[0-9]{1,9}", re.ASCII)


@dataclass(frozen=True, slots=True)
class Gang:
    """What a pod says of the gang that it belongs to."""

    name: str
    """Within its namespace."""
    size: int
    """Pods of the gang, at least 2: they get cards all at once, or none does."""


def gang_of(meta: ObjectMeta) -> Gang | None:
    """The gang of a pod; None of one that stands alone.

    Raises ValueError with what is wrong, where the pod has annotations of ours that make no gang. What others wrote
    badly is theirs to tell, and no gang.
    """
    if KEYS.isdisjoint(meta.annotations) and KEYS.isdisjoint(meta.labels):
        return None  # nearly all
    for keys in KNOWN:
        parts, size = [_value(meta, key) for key in keys.name], _value(meta, keys.size)
        if all(part is None for part in parts) and (size is None or keys is not OURS):
            continue
        wrong = _first_error(keys, parts, size)
        if wrong is None:
            found = Gang("-".join(part or "" for part in parts), int(size or 1))
            return found if found.size > 1 else None
        if keys is OURS:
            raise ValueError(wrong)
    return None


def may_be_of_gang(meta: ObjectMeta) -> bool:
    """Whether a pod that is being created belongs to a gang, or will, by what others write on it after we were asked.

    LeaderWorkerSet's own webhook, which comes after ours, says in which group a leader is.
    """
    return any(
        _value(meta, keys.size) not in (None, "1") and any(_value(meta, key) is not None for key in keys.name)
        for keys in KNOWN
    )


def _value(meta: ObjectMeta, key: str) -> str | None:
    found = meta.annotations.get(key)
    return found if found is not None else meta.labels.get(key)


def _first_error(keys: GangKeys, parts: list[str | None], size: str | None) -> str | None:
    for key, part in zip(keys.name, parts, strict=True):
        if part is None or len(part) > NAME_MAX or not _NAME.fullmatch(part):
            return f"{key} is {_shown(part)}; expected at most {NAME_MAX} lower-case letters, digits and dashes"
    if size is None or not _SIZE.fullmatch(size) or not 1 <= int(size) <= SIZE_MAX:
        return f"{keys.size} is {_shown(size)}; expected the number of the gang's pods, 1 to {SIZE_MAX}, as a text"
    return None


def _shown(value: str | None) -> str:
    return "not set" if value is None else repr(short(value))
